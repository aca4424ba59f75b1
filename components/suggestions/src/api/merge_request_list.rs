//! Lists of merge requests: of one project, and of all that the caller may read.

use super::access::{self, ReadableMergeRequest};
use super::context::RequestContext;
use super::merge_request_json::MergeRequestRenderer;
use crate::merge_request::{MergeRequest, MergeRequestState};
use crate::store::merge_requests as store;
use directory::project::{self, Project};
use directory::{access as rights, catalog, record_cache, user};
use kit::page::Pagination;
use kit::params::{Params, Validation};
use kit::store::StoreError;
use kit::{Error, Response, Timestamp};
use std::rc::Rc;

/// The most merge requests that a list reads: of a project those with the highest iids.
const MAX_READ: usize = 20_000;

/// The most projects in which the list of all merge requests looks: those with the highest ids.
const MAX_PROJECTS: usize = 20_000;

/// The parameters that decide what a list has, and its order.
const FILTERS: [&str; 14] = [
    "state",
    "scope",
    "iids",
    "source_branch",
    "target_branch",
    "author_id",
    "author_username",
    "search",
    "created_after",
    "created_before",
    "updated_after",
    "updated_before",
    "order_by",
    "sort",
];

/// Filters by what no merge request has here. Of each, `None` finds all of them, and any other value nothing.
const ABSENT: [&str; 11] = [
    "assignee_id",
    "assignee_username",
    "reviewer_id",
    "reviewer_username",
    "labels",
    "milestone",
    "my_reaction_emoji",
    "approved_by_ids",
    "approved_by_usernames",
    "approver_ids",
    "environment",
];

/// Of the values of `scope`, those that ask for assignees and reviewers find nothing: merge requests have none.
const SCOPES: [&str; 6] =
    ["created_by_me", "created-by-me", "assigned_to_me", "assigned-to-me", "reviews_for_me", "all"];

/// A merge request that a list has: what its place depends on. Descriptions are not kept, which may be large.
struct Found {
    project: Rc<Project>,
    iid: u64,
    title: String,
    created: Option<Timestamp>,
    updated: Option<Timestamp>,
}

/// A request for a list.
struct ListRequest<'a> {
    params: &'a Params,
    filter: MergeRequestFilter,
    page: Pagination,
    order_by: &'static str,
    is_ascending: bool,
}

/// `GET /projects/:id/merge_requests`, the latest first, in pages. 1 read for each merge request of the project,
/// and some for each that is shown.
pub fn of_project(context: &RequestContext, project: &str) -> Result<Response, Error> {
    let params = context.params();
    let list = ListRequest::read(&params, Scope::All)?;
    let project = Rc::new(access::project_with_merge_requests(context, project)?);
    if list.filter.is_of_absent {
        return list.respond(context, Vec::new());
    }
    let author_id = list.filter.author_id(context)?;
    let mut found = Vec::new();
    let iids = store::list(&context.env, &project.key())?.iids;
    list.collect(context, &project, iids, author_id, &mut MAX_READ.clone(), &mut found)?;
    list.respond(context, found)
}

/// `GET /merge_requests`: those of all projects that the caller may read, and without a `scope` only those that the
/// caller made, as in the reference service. Reads the catalog, each project that the caller may read and its list,
/// and each merge request. 401 for anonymous callers unless `scope` is `all`.
pub fn of_all_projects(context: &RequestContext) -> Result<Response, Error> {
    let params = context.params();
    let list = ListRequest::read(&params, Scope::CreatedByMe)?;
    if list.filter.scope != Scope::All {
        context.caller.user_or_401()?;
    }
    let author_id = list.filter.author_id(context)?;
    if list.filter.scope == Scope::Nothing || list.filter.is_of_absent {
        return list.respond(context, Vec::new());
    }
    let env = record_cache::attach(&context.env)?;
    let catalog = catalog::read(&env)?;
    let access = catalog.access_snapshot(&env, &context.caller)?;
    let mut ids: Vec<u64> =
        catalog.projects().filter(|project| access.may_read(*project)).map(|project| project.id()).collect();
    ids.sort_unstable_by(|one, other| other.cmp(one));
    let (mut found, mut left) = (Vec::new(), MAX_READ);
    for id in ids.into_iter().take(MAX_PROJECTS) {
        if left == 0 {
            break;
        }
        let Some(project) = project::by_id(&env, id)? else { continue };
        let iids = store::list_if_any(&env, &project.key())?.iids;
        if !iids.is_empty() && rights::may_read_merge_requests(&env, &context.caller, &project)? {
            list.collect(context, &Rc::new(project), iids, author_id, &mut left, &mut found)?;
        }
    }
    list.respond(context, found)
}

impl<'a> ListRequest<'a> {
    fn read(params: &'a Params, scope: Scope) -> Result<Self, Error> {
        let filter = MergeRequestFilter::read(params, scope)?;
        let checks = Validation::new(params);
        let page = Pagination::check(&checks);
        let order_by = match checks.one_of("order_by", &["created_at", "updated_at", "title"]) {
            Some("updated_at") => "updated_at",
            Some("title") => "title",
            _ => "created_at",
        };
        let is_ascending = checks.one_of("sort", &["asc", "desc"]) == Some("asc");
        checks.finish()?;
        Ok(ListRequest { params, filter, page, order_by, is_ascending })
    }

    /// Adds those of a project that the filter accepts. Reads at most `left` of them, and subtracts what it reads.
    fn collect(
        &self,
        context: &RequestContext,
        project: &Rc<Project>,
        iids: Vec<u64>,
        author_id: Option<u64>,
        left: &mut usize,
        found: &mut Vec<Found>,
    ) -> Result<(), StoreError> {
        let key = project.key();
        let read = iids.len().min(*left);
        *left -= read;
        for iid in iids.into_iter().rev().take(read) {
            if let Some(merge_request) = store::read(&context.env, &key, iid)?
                && self.filter.accepts(iid, &merge_request, author_id)
            {
                let MergeRequest { title, created, updated, .. } = merge_request;
                found.push(Found { project: project.clone(), iid, title, created, updated });
            }
        }
        Ok(())
    }

    fn respond(&self, context: &RequestContext, mut found: Vec<Found>) -> Result<Response, Error> {
        let identity = |one: &Found| (one.project.id, one.iid);
        match self.order_by {
            "title" => found.sort_by(|one, other| one.title.cmp(&other.title)),
            "updated_at" => found.sort_by_key(|one| (one.updated, identity(one))),
            _ => found.sort_by_key(|one| (one.created, identity(one))),
        }
        if !self.is_ascending {
            found.reverse();
        }
        let total = found.len() as u64;
        let skip = usize::try_from(self.page.offset()).unwrap_or(usize::MAX);
        let mut renderer = MergeRequestRenderer::new(context);
        let mut json = Vec::new();
        for Found { project, iid, .. } in found.into_iter().skip(skip).take(self.page.per_page as usize) {
            // It may have been deleted meanwhile.
            let Some(merge_request) = store::read(&context.env, &project.key(), iid)? else { continue };
            let project = Rc::unwrap_or_clone(project);
            json.push(renderer.render(&ReadableMergeRequest { project, iid, merge_request })?);
        }
        let url = context.own_url();
        // A query may have credentials, too, which are not repeated.
        let is_filter = |name: &str| FILTERS.contains(&name) || ABSENT.contains(&name);
        let effective: Vec<(&str, &str)> =
            self.params.pairs().filter(|(name, _)| is_filter(name.trim_end_matches("[]"))).collect();
        Ok(self.page.describe(Response::ok(&json), &url, &effective, total))
    }
}

/// Whose merge requests a list has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    CreatedByMe,
    /// Those of which the caller is an assignee or a reviewer: none.
    Nothing,
}

/// Which merge requests a list has.
struct MergeRequestFilter {
    /// `None`: all.
    state: Option<MergeRequestState>,
    iids: Option<Vec<u64>>,
    source_branch: Option<String>,
    target_branch: Option<String>,
    author_id: Option<u64>,
    author_username: Option<String>,
    scope: Scope,
    /// In lower case.
    search: Option<String>,
    created: TimeRange,
    updated: TimeRange,
    /// A value of one of [`ABSENT`] is asked for.
    is_of_absent: bool,
}

/// Both ends are in the range.
struct TimeRange {
    after: Option<Timestamp>,
    before: Option<Timestamp>,
}

impl TimeRange {
    /// An unknown time is in no range that has an end.
    fn has(&self, time: Option<Timestamp>) -> bool {
        self.after.is_none_or(|after| time.is_some_and(|time| time >= after))
            && self.before.is_none_or(|before| time.is_some_and(|time| time <= before))
    }
}

impl MergeRequestFilter {
    /// Those that the parameters ask for; without a scope, the one of `default`.
    fn read(params: &Params, default: Scope) -> Result<Self, Error> {
        let text = |name: &str| params.text(name).map(str::to_owned);
        let checks = Validation::new(params);
        let state = checks.one_of("state", &["opened", "closed", "locked", "merged", "all"]);
        let scope = checks.one_of("scope", &SCOPES);
        let author_id = checks.integer("author_id").map(|id| u64::try_from(id).unwrap_or(0));
        checks.exclusive(&["author_id", "author_username"]);
        let [created, updated] = [["created_after", "created_before"], ["updated_after", "updated_before"]]
            .map(|[after, before]| TimeRange { after: checks.datetime(after), before: checks.datetime(before) });
        checks.finish()?;
        let is_none = |value: &str| value.eq_ignore_ascii_case("none");
        let is_of_absent = ABSENT
            .iter()
            .any(|name| params.list(name).is_some_and(|values| !values.iter().all(|value| is_none(value))));
        let iids = params.list("iids");
        Ok(MergeRequestFilter {
            state: state.and_then(MergeRequestState::parse),
            iids: iids.map(|iids| iids.iter().map(|iid| iid.parse().unwrap_or(0)).collect()),
            source_branch: text("source_branch"),
            target_branch: text("target_branch"),
            author_id,
            author_username: text("author_username"),
            scope: match scope {
                None => default,
                Some("all") => Scope::All,
                Some("created_by_me" | "created-by-me") => Scope::CreatedByMe,
                Some(_) => Scope::Nothing,
            },
            search: text("search").map(|search| search.to_lowercase()),
            created,
            updated,
            is_of_absent,
        })
    }

    /// The author that is asked for; 0, which is no author, if there is no such user.
    fn author_id(&self, context: &RequestContext) -> Result<Option<u64>, StoreError> {
        match self.scope {
            Scope::All => {}
            Scope::CreatedByMe => return Ok(Some(context.caller.user().map_or(0, |user| user.id))),
            Scope::Nothing => return Ok(Some(0)),
        }
        match &self.author_username {
            Some(name) => Ok(Some(user::by_username(&context.env, name)?.map_or(0, |user| user.id))),
            None => Ok(self.author_id),
        }
    }

    fn accepts(&self, iid: u64, merge_request: &MergeRequest, author_id: Option<u64>) -> bool {
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
            && self.created.has(merge_request.created)
            && self.updated.has(merge_request.updated)
    }
}
