//! Merge requests: reading, listing and changing them.

use super::access::{self, ReadableMergeRequest};
use super::context::RequestContext;
use super::input;
use super::merge_request_json::MergeRequestRenderer;
use super::notes::MergeRequestName;
use crate::merge_request::{MergeRequest, MergeRequestState};
use crate::store::{merge_requests as store, refs};
use directory::project::Project;
use directory::user;
use http::StatusCode;
use kit::page::Pagination;
use kit::params::{Params, Validation};
use kit::store::StoreError;
use kit::{Env, Error, Request, Response};
use serde_json::{Value, json};

/// The most merge requests of a project that a list with filters reads: those with the highest iids.
const MAX_FILTERED: usize = 20_000;

/// The parameters that decide what a list has, and its order.
const FILTERS: [&str; 10] = [
    "state",
    "scope",
    "iids",
    "source_branch",
    "target_branch",
    "author_id",
    "author_username",
    "search",
    "order_by",
    "sort",
];

/// The longest title and description, in characters, as in the reference service.
const MAX_TITLE: usize = 255;
const MAX_DESCRIPTION: usize = 1_000_000;

/// `GET /projects/:id/merge_requests`, the latest first, in pages. 1 read for each merge request of the project,
/// and some for each that is shown.
pub fn list(context: &RequestContext, project: &str, request: &Request) -> Result<Response, Error> {
    let params = request.params();
    let filter = Filter::read(&params)?;
    let checks = Validation::new(&params);
    let page = Pagination::check(&checks);
    let order_by = checks.one_of("order_by", &["created_at", "updated_at", "title"]).unwrap_or("created_at");
    let sort = checks.one_of("sort", &["asc", "desc"]).unwrap_or("desc");
    checks.finish()?;
    let project = access::project_with_merge_requests(context, project)?;
    let author_id = filter.author_id(context)?;
    let key = project.key();
    let mut found = Vec::new();
    for iid in store::list(&context.env, &key)?.iids.into_iter().rev().take(MAX_FILTERED) {
        let merge_request = store::read(&context.env, &key, iid)?;
        if let Some(merge_request) =
            merge_request.filter(|merge_request| filter.accepts(iid, merge_request, &author_id))
        {
            found.push((iid, merge_request));
        }
    }
    match order_by {
        "title" => found.sort_by(|(_, one), (_, other)| one.title.cmp(&other.title)),
        "updated_at" => found.sort_by_key(|(iid, merge_request)| (merge_request.updated, *iid)),
        _ => found.sort_by_key(|(iid, merge_request)| (merge_request.created, *iid)),
    }
    if sort == "desc" {
        found.reverse();
    }
    let total = found.len() as u64;
    let skip = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let mut renderer = MergeRequestRenderer::new(context);
    let mut json = Vec::new();
    for (iid, merge_request) in found.into_iter().skip(skip).take(page.per_page as usize) {
        json.push(renderer.render(&ReadableMergeRequest { project: project.clone(), iid, merge_request })?);
    }
    let url = format!("{}{}", context.url, context.path);
    // A query may have credentials, too, which are not repeated.
    let is_filter = |name: &str| FILTERS.contains(&name.trim_end_matches("[]"));
    let effective: Vec<(&str, &str)> = params.pairs().filter(|(name, _)| is_filter(name)).collect();
    Ok(page.describe(Response::ok(&json), &url, &effective, total))
}

/// Which merge requests a list has.
struct Filter {
    /// `None`: all.
    state: Option<MergeRequestState>,
    iids: Option<Vec<u64>>,
    source_branch: Option<String>,
    target_branch: Option<String>,
    author_id: Option<u64>,
    author_username: Option<String>,
    created_by_me: bool,
    /// In lower case.
    search: Option<String>,
}

impl Filter {
    fn read(params: &Params) -> Result<Self, Error> {
        let text = |name: &str| params.text(name).map(str::to_owned);
        let checks = Validation::new(params);
        let state = checks.one_of("state", &["opened", "closed", "locked", "merged", "all"]);
        let scope = checks.one_of("scope", &["created_by_me", "created-by-me", "all"]);
        let author_id = checks.integer("author_id").map(|id| u64::try_from(id).unwrap_or(0));
        checks.exclusive(&["author_id", "author_username"]);
        checks.finish()?;
        let iids = params.list("iids");
        Ok(Filter {
            state: state.and_then(MergeRequestState::parse),
            iids: iids.map(|iids| iids.iter().map(|iid| iid.parse().unwrap_or(0)).collect()),
            source_branch: text("source_branch"),
            target_branch: text("target_branch"),
            author_id,
            author_username: text("author_username"),
            created_by_me: scope.is_some_and(|scope| scope != "all"),
            search: text("search").map(|search| search.to_lowercase()),
        })
    }

    /// The author that is asked for; 0, which is no author, if there is no such user.
    fn author_id(&self, context: &RequestContext) -> Result<Option<u64>, StoreError> {
        if self.created_by_me {
            return Ok(Some(context.caller.user().map_or(0, |user| user.id)));
        }
        match &self.author_username {
            Some(name) => Ok(Some(user::by_username(&context.env, name)?.map_or(0, |user| user.id))),
            None => Ok(self.author_id),
        }
    }

    fn accepts(&self, iid: u64, merge_request: &MergeRequest, author_id: &Option<u64>) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let is_found = |search: &String| {
            let texts = [Some(&merge_request.title), merge_request.description.as_ref()];
            texts.into_iter().flatten().any(|text| text.to_lowercase().contains(search))
        };
        self.state.is_none_or(|state| state == merge_request.state)
            && self.iids.as_ref().is_none_or(|iids| iids.contains(&iid))
            && is(&self.source_branch, &merge_request.source_branch)
            && is(&self.target_branch, &merge_request.target_branch)
            && author_id.is_none_or(|id| merge_request.author_id == Some(id))
            && self.search.as_ref().is_none_or(is_found)
    }
}

/// `GET /projects/:id/merge_requests/:iid`. Beside the merge request, reads where its branches stand, and the
/// commits since they parted.
pub fn show(context: &RequestContext, name: MergeRequestName) -> Result<Response, Error> {
    check_iid(name.iid)?;
    let readable = access::readable_merge_request(context, name.project, name.iid)?;
    Ok(Response::ok(&MergeRequestRenderer::new(context).render_whole(&readable)?))
}

/// `PUT /projects/:id/merge_requests/:iid`: changes the title, the description and the target branch, closes or
/// reopens.
pub async fn update(context: &RequestContext, name: MergeRequestName<'_>, request: Request) -> Result<Response, Error> {
    context.caller.user_or_401()?;
    let params = input::read(request).await?;
    check_iid(name.iid)?;
    let checks = Validation::new(&params);
    let known = ["title", "description", "target_branch", "state_event"];
    if !known.iter().any(|name| params.has(name)) {
        checks.reject(format!("{} are missing, at least one parameter must be provided", known.join(", ")));
    }
    let event = checks.one_of("state_event", &["close", "reopen"]);
    checks.finish()?;
    let writable = access::writable_merge_request(context, name.project, name.iid)?;
    if !writable.may_change() {
        return Err(Error::forbidden());
    }
    let (title, description) = (params.last("title"), params.last("description"));
    check_texts(title, description)?;
    let target_branch = params.text("target_branch");
    if let Some(branch) = target_branch {
        check_branch(&context.env, &writable.readable.project, "target_branch", branch)?;
    }
    let mut readable = writable.readable;
    let not_found = || Error::message(StatusCode::NOT_FOUND, "404 Not found");
    let (env, user_id) = (&context.env, writable.user_id);
    let changed = store::update(env, &readable.project.key(), readable.iid, |present| {
        let mut new = present.ok_or_else(not_found)?;
        let before = new.clone();
        if let Some(title) = title {
            new.title = title.to_owned();
        }
        if let Some(description) = description {
            new.description = Some(description.to_owned());
        }
        if let Some(branch) = target_branch {
            new.target_branch = branch.to_owned();
        }
        if let Some(event) = event {
            new.set_open(event == "reopen", env.now, user_id);
        }
        if new != before {
            new.updated = Some(env.now);
        }
        Ok::<_, Error>(Some((Some(new.clone()), new)))
    })?;
    readable.merge_request = changed.ok_or_else(not_found)?;
    Ok(Response::ok(&MergeRequestRenderer::new(context).render_whole(&readable)?))
}

/// `POST /projects/:id/merge_requests`: 201 and the merge request.
pub async fn create(context: &RequestContext, project: &str, request: Request) -> Result<Response, Error> {
    context.caller.user_or_401()?;
    let params = input::read(request).await?;
    let checks = Validation::new(&params);
    let title = checks.required("title").unwrap_or_default();
    let source_branch = checks.required("source_branch").unwrap_or_default();
    let target_branch = checks.required("target_branch").unwrap_or_default();
    let target = checks.integer("target_project_id").map(|id| u64::try_from(id).unwrap_or(0));
    let allow_collaboration = checks.boolean("allow_collaboration").unwrap_or_default();
    checks.finish()?;
    check_texts(Some(title), params.text("description"))?;
    let projects = access::merge_request_target(context, project, target)?;
    let refused = |status: StatusCode, text: String| Err(Error::with_body(status, json!({"message": [text]})));
    if projects.source.id == projects.target.id && source_branch == target_branch {
        let text = "You can't use same project/branch for source and target";
        return refused(StatusCode::UNPROCESSABLE_ENTITY, text.to_owned());
    }
    let env = &context.env;
    check_branch(env, &projects.source, "source_branch", source_branch)?;
    check_branch(env, &projects.target, "target_branch", target_branch)?;
    let key = projects.target.key();
    for listed in store::list(env, &key)?.open {
        let branches = (listed.source_branch.as_str(), listed.target_branch.as_str());
        let is_same =
            branches == (source_branch, target_branch) && listed.source_project_id == Some(projects.source.id);
        if is_same && store::read(env, &key, listed.iid)?.is_some_and(|other| other.is_open()) {
            let text = format!("Another open merge request already exists for this source branch: !{}", listed.iid);
            return refused(StatusCode::CONFLICT, text);
        }
    }
    let iid = store::allocate_iid(env, &key, &env.id())?;
    let merge_request = MergeRequest {
        id: store::allocate_id(env)?,
        state: MergeRequestState::Opened,
        source_project_id: Some(projects.source.id),
        source_branch: source_branch.to_owned(),
        target_branch: target_branch.to_owned(),
        title: title.to_owned(),
        description: params.text("description").map(str::to_owned),
        author_id: Some(projects.author_id),
        allow_collaboration,
        created: Some(env.now),
        updated: Some(env.now),
        ended: None,
        sha: None,
    };
    store::save(env, &key, iid, Some(&merge_request))?;
    let readable = ReadableMergeRequest { project: projects.target, iid, merge_request };
    Ok(Response::json(StatusCode::CREATED, &MergeRequestRenderer::new(context).render_whole(&readable)?))
}

/// 400 unless the project has this branch.
fn check_branch(env: &Env, project: &Project, field: &str, branch: &str) -> Result<(), Error> {
    // A longer name is that of no branch, and could exceed what a key may have.
    let exists = branch.len() <= 255 && refs::read(env, project.id, &format!("heads/{branch}"))?.is_some();
    if exists { Ok(()) } else { Err(invalid(field, "does not exist")) }
}

/// 400 if a title is blank or one of these is too long.
fn check_texts(title: Option<&str>, description: Option<&str>) -> Result<(), Error> {
    let too_long = |text: &str, limit: usize| text.chars().count() > limit;
    if title.is_some_and(|title| title.trim().is_empty()) {
        return Err(invalid("title", "can't be blank"));
    }
    if title.is_some_and(|title| too_long(title, MAX_TITLE)) {
        return Err(invalid("title", &format!("is too long (maximum is {MAX_TITLE} characters)")));
    }
    if description.is_some_and(|description| too_long(description, MAX_DESCRIPTION)) {
        return Err(invalid("description", &format!("is too long (maximum is {MAX_DESCRIPTION} characters)")));
    }
    Ok(())
}

fn invalid(field: &str, why: &str) -> Error {
    let message: Value = json!({field: [why]});
    Error::with_body(StatusCode::BAD_REQUEST, json!({"message": message}))
}

/// Checks a merge request's iid in a path; 400 if it is not an integer.
fn check_iid(text: &str) -> Result<(), Error> {
    input::integer(text).map(drop).ok_or_else(|| Error::validation("merge_request_iid is invalid"))
}
