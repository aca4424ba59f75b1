//! Lists of merge requests: of one project, of a group, and of all that the caller may read.

use crate::api::access::{self, ReadableMergeRequest};
use crate::api::context::RequestContext;
use crate::api::json_page::JsonPage;
use crate::api::merge_request_json::MergeRequestRenderer;
use crate::merge_request::{End, MergeRequest, MergeRequestState};
use crate::store::merge_requests::{self as store, MergeRequestList};
use directory::catalog::{self, ProjectView};
use directory::project::{self, Project};
use directory::user::{self, User, UserKey};
use directory::{access as rights, namespace, record_cache};
use kit::page::Pagination;
use kit::params::{Params, Validation};
use kit::store::StoreError;
use kit::{Error, Response, Timestamp};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The most merge requests that a list reads, and the most projects that it searches. A list that needs more is
/// refused.
const MAX_READ: usize = 20_000;
const MAX_PROJECTS: usize = 20_000;

/// The values of `order_by`. By a field that no merge request has here, all are equal, and their ids decide.
const ORDERS: [&str; 8] =
    ["created_at", "label_priority", "milestone_due", "popularity", "priority", "title", "updated_at", "merged_at"];

/// How many characters of a title count in the order: as many as it may have. Earlier builds imported longer titles.
const MAX_TITLE: usize = 255;

/// A merge request of a list, with its sort key. Descriptions, which may be large, are not kept.
struct ListItem {
    project: Rc<Project>,
    iid: u64,
    sort_key: SortKey,
}

/// The sort key of a merge request in a list.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum SortKey {
    Same,
    Time(Option<Timestamp>),
    Title(String),
}

impl SortKey {
    fn find(order_by: &str, merge_request: &MergeRequest) -> Self {
        match order_by {
            "created_at" => SortKey::Time(merge_request.created),
            "updated_at" => SortKey::Time(merge_request.updated),
            "merged_at" => SortKey::Time(merge_request.merged().map(|end| end.at)),
            "title" => SortKey::Title(merge_request.title.chars().take(MAX_TITLE).collect()),
            _ => SortKey::Same,
        }
    }
}

/// A request for a list.
struct ListRequest<'a> {
    params: &'a Params,
    filter: MergeRequestFilter,
    page: Pagination,
    order_by: &'a str,
    is_ascending: bool,
}

/// `GET /projects/:id/merge_requests`, the latest first, in pages. 1 read for each merge request of the project,
/// and some for each that is shown.
pub fn of_project(context: &RequestContext, project: &str) -> Result<Response, Error> {
    let params = context.params();
    let list = ListRequest::read(&params, Scope::All)?;
    let project = Rc::new(access::project_with_merge_requests(context, project)?);
    if list.filter.matches_none {
        return list.respond(context, Vec::new());
    }
    let users = list.filter.find_users(context)?;
    let mut found = Vec::new();
    let listed = store::list(&context.env, &project.key())?;
    if listed.iids.len() > MAX_READ && list.is_by_number() {
        let by_number = |iid| ListItem { project: project.clone(), iid, sort_key: SortKey::Same };
        return list.respond(context, listed.iids.into_iter().map(by_number).collect());
    }
    list.collect(context, &project, listed, &users, &mut Reads::default(), &mut found)?;
    list.respond(context, found)
}

/// `GET /merge_requests`: the merge requests of all projects that the caller may read. Without a `scope`, only the
/// caller's own, as in the reference service. Reads the catalog, each project that the caller may read and its list,
/// and each merge request. 401 for anonymous callers unless `scope` is `all`.
pub fn of_all_projects(context: &RequestContext) -> Result<Response, Error> {
    let params = context.params();
    let list = ListRequest::read(&params, Scope::CreatedByMe)?;
    if list.filter.scope != Scope::All {
        context.caller.user_or_401()?;
    }
    list.respond_for_projects(context, |_| true)
}

/// `GET /groups/:id/merge_requests`: the merge requests of the readable projects in and below a group. Archived
/// projects count only if `non_archived` is false. Reads the same as [`of_all_projects`], for these projects. 404 if
/// the caller may not read the group.
pub fn of_group(context: &RequestContext, group: &str) -> Result<Response, Error> {
    let params = context.params();
    let list = ListRequest::read(&params, Scope::All)?;
    let checks = Validation::new(&params);
    let with_archived = checks.boolean("non_archived") == Some(false);
    checks.finish()?;
    let not_found = || Error::not_found("Group");
    let group = namespace::find_group(&context.env, group)?.ok_or_else(not_found)?;
    if !rights::may_read_group(&context.env, &context.caller, &group)? {
        return Err(not_found());
    }
    list.respond_for_projects(context, |project| {
        let is_below = project.namespace().lineage().any(|above| above.id() == group.id);
        is_below && (with_archived || !project.archived())
    })
}

impl<'a> ListRequest<'a> {
    fn read(params: &'a Params, scope: Scope) -> Result<Self, Error> {
        let filter = MergeRequestFilter::read(params, scope)?;
        let checks = Validation::new(params);
        let page = Pagination::check(&checks);
        let order_by = checks.one_of("order_by", &ORDERS).unwrap_or("created_at");
        let is_ascending = checks.one_of("sort", &["asc", "desc"]) == Some("asc");
        checks.finish()?;
        Ok(ListRequest { params, filter, page, order_by, is_ascending })
    }

    /// Whether the list has all merge requests in the order of their creation, which is the order of their iids.
    fn is_by_number(&self) -> bool {
        let is_narrowed = self
            .params
            .pairs()
            .any(|(name, value)| is_filter(name) && ![("state", "all"), ("scope", "all")].contains(&(name, value)));
        self.order_by == "created_at" && !is_narrowed
    }

    /// Adds the merge requests of a project that the filter accepts. 400 if the list reads too many.
    fn collect(
        &self,
        context: &RequestContext,
        project: &Rc<Project>,
        listed: MergeRequestList,
        users: &FilterUsers,
        reads: &mut Reads,
        found: &mut Vec<ListItem>,
    ) -> Result<(), Error> {
        let key = project.key();
        let mut iids: Vec<u64> = match self.filter.is_only_open() {
            true => listed.open.iter().map(|listed| listed.iid).collect(),
            false => listed.iids,
        };
        // A merge request that gets other branches is listed with both.
        iids.dedup();
        iids.retain(|iid| self.filter.may_accept(*iid));
        reads.add(context, iids.len())?;
        for iid in iids.into_iter().rev() {
            if let Some(merge_request) = store::read(&context.env, &key, iid)?
                && self.filter.accepts(&merge_request, users)
            {
                let sort_key = SortKey::find(self.order_by, &merge_request);
                found.push(ListItem { project: project.clone(), iid, sort_key });
            }
        }
        Ok(())
    }

    /// Lists the merge requests of all projects that the caller may read and `is_in_question` accepts.
    fn respond_for_projects(
        &self,
        context: &RequestContext,
        is_in_question: impl Fn(ProjectView) -> bool,
    ) -> Result<Response, Error> {
        let users = self.filter.find_users(context)?;
        if self.filter.scope == Scope::Nothing || self.filter.matches_none {
            return self.respond(context, Vec::new());
        }
        let env = record_cache::attach(&context.env)?;
        let catalog = catalog::read(&env)?;
        context.check_rows(catalog.projects().count())?;
        let access = catalog.access_snapshot(&env, &context.caller)?;
        let projects = catalog.projects().filter(|project| access.may_read(*project) && is_in_question(*project));
        let mut ids: Vec<u64> = projects.map(|project| project.id()).collect();
        if ids.len() > MAX_PROJECTS {
            return Err(too_long());
        }
        ids.sort_unstable_by(|one, other| other.cmp(one));
        let (mut found, mut reads) = (Vec::new(), Reads::default());
        for id in ids {
            reads.count(context, 1)?;
            let Some(project) = project::by_id(&env, id)? else { continue };
            let listed = store::list_if_any(&env, &project.key())?;
            if !listed.iids.is_empty() && rights::may_read_merge_requests(&env, &context.caller, &project)? {
                self.collect(context, &Rc::new(project), listed, &users, &mut reads, &mut found)?;
            }
        }
        self.respond(context, found)
    }

    fn respond(&self, context: &RequestContext, mut found: Vec<ListItem>) -> Result<Response, Error> {
        let order = |one: &ListItem, other: &ListItem| {
            let identity = |found: &ListItem| (found.project.id, found.iid);
            one.sort_key.cmp(&other.sort_key).then_with(|| identity(one).cmp(&identity(other)))
        };
        found.sort_by(|one, other| if self.is_ascending { order(one, other) } else { order(other, one) });
        if self.order_by == "merged_at" {
            // Merge requests that were not merged come last in each direction.
            found.sort_by_key(|one| one.sort_key == SortKey::Time(None));
        }
        let total = found.len() as u64;
        let skip = usize::try_from(self.page.offset()).unwrap_or(usize::MAX);
        let mut renderer = MergeRequestRenderer::new(context);
        let mut shown = JsonPage::new("merge requests");
        for ListItem { project, iid, .. } in found.into_iter().skip(skip).take(self.page.per_page as usize) {
            // The merge request may have been deleted meanwhile.
            let Some(merge_request) = store::read(&context.env, &project.key(), iid)? else { continue };
            let project = Rc::unwrap_or_clone(project);
            let readable = ReadableMergeRequest::new(context, project, iid, merge_request)?;
            shown.push(&renderer.render(&readable)?)?;
        }
        let url = context.own_url();
        // A query may also have credentials, which are not repeated.
        let is_effective = |name: &str| is_filter(name) || matches!(name, "order_by" | "sort" | "non_archived");
        let effective: Vec<(&str, &str)> = self.params.pairs().filter(|(name, _)| is_effective(name)).collect();
        Ok(self.page.describe(shown.into_response(), &url, &effective, total))
    }
}

/// The records that a list has read so far.
#[derive(Default)]
struct Reads {
    merge_requests: usize,
    /// Records that do not count against the limit of anonymous requests yet.
    uncounted: usize,
}

impl Reads {
    /// How many records are counted together. Fewer are free.
    const COUNTED: usize = 1000;

    fn add(&mut self, context: &RequestContext, merge_requests: usize) -> Result<(), Error> {
        self.merge_requests += merge_requests;
        if self.merge_requests > MAX_READ {
            return Err(too_long());
        }
        self.count(context, merge_requests)
    }

    fn count(&mut self, context: &RequestContext, records: usize) -> Result<(), Error> {
        self.uncounted += records;
        if self.uncounted > Self::COUNTED {
            context.check_records(std::mem::take(&mut self.uncounted))?;
        }
        Ok(())
    }
}

fn too_long() -> Error {
    let text = format!(
        "the list has more than {MAX_READ} merge requests or {MAX_PROJECTS} projects to look at: ask for open ones \
         (state=opened), for some iids, or for those of a project or of a smaller group"
    );
    Error::bad_request(&text)
}

/// The parameters that filter a list.
const FILTERS: [&str; 22] = [
    "state",
    "scope",
    "iids",
    "source_branch",
    "source_project_id",
    "target_branch",
    "author_id",
    "author_username",
    "not[author_id]",
    "not[author_username]",
    "merge_user_id",
    "merge_user_username",
    "search",
    "in",
    "wip",
    "draft",
    "created_after",
    "created_before",
    "updated_after",
    "updated_before",
    "merged_after",
    "merged_before",
];

/// Filters by fields that no merge request has here. The value `None` finds all merge requests, any other value finds
/// none. Their negations, `not[…]`, filter out nothing.
const ABSENT_FIELDS: [&str; 13] = [
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
    "deployed_after",
    "deployed_before",
];

/// The values of `scope`. A scope of assignees or reviewers finds nothing, because merge requests have none.
const SCOPES: [&str; 6] =
    ["created_by_me", "created-by-me", "assigned_to_me", "assigned-to-me", "reviews_for_me", "all"];

/// Whether a parameter is one of these filters, also in the form of a list.
pub fn is_filter(name: &str) -> bool {
    let name = name.trim_end_matches("[]");
    FILTERS.contains(&name) || ABSENT_FIELDS.contains(&name)
}

/// Whose merge requests a list has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    All,
    CreatedByMe,
    /// Merge requests of which the caller is an assignee or a reviewer: none.
    Nothing,
}

/// Which merge requests a list has.
pub struct MergeRequestFilter {
    /// `None`: all.
    state: Option<MergeRequestState>,
    iids: Option<BTreeSet<u64>>,
    source_branch: Option<String>,
    source_project_id: Option<u64>,
    target_branch: Option<String>,
    author: Option<UserParam>,
    not_author: Option<UserParam>,
    merge_user: Option<UserParam>,
    pub scope: Scope,
    search: Option<Search>,
    is_draft: Option<bool>,
    created: TimeRange,
    updated: TimeRange,
    merged: TimeRange,
    /// Whether the parameters ask for a value of one of [`ABSENT_FIELDS`].
    pub matches_none: bool,
}

/// A user, as a parameter names them.
enum UserParam {
    Id(u64),
    Username(String),
}

/// The present users with the ids or names of a filter. If there is no such user, a user with the id 0, which no author
/// has.
pub struct FilterUsers {
    author: Option<UserKey>,
    not_author: Option<UserKey>,
    merge_user: Option<UserKey>,
}

struct Search {
    /// In lower case.
    text: String,
    in_title: bool,
    in_description: bool,
}

/// A range that includes both ends.
struct TimeRange {
    after: Option<Timestamp>,
    before: Option<Timestamp>,
}

impl TimeRange {
    fn read(checks: &Validation, after: &str, before: &str) -> Self {
        TimeRange { after: checks.datetime(after), before: checks.datetime(before) }
    }

    /// An unknown time is in no range that has an end.
    fn has(&self, time: Option<Timestamp>) -> bool {
        self.after.is_none_or(|after| time.is_some_and(|time| time >= after))
            && self.before.is_none_or(|before| time.is_some_and(|time| time <= before))
    }
}

impl MergeRequestFilter {
    /// The filter of the parameters, with the scope `default` if they have none.
    pub fn read(params: &Params, default: Scope) -> Result<Self, Error> {
        let checks = Validation::new(params);
        let text = |name: &str| checks.text(name).map(str::to_owned);
        let state = checks.one_of("state", &["opened", "closed", "locked", "merged", "all"]);
        let scope = checks.one_of("scope", &SCOPES);
        let id = |name: &str| checks.integer(name).map(|id| u64::try_from(id).unwrap_or(0));
        let user_param = |by_id: &str, by_name: &str| {
            checks.exclusive(&[by_id, by_name]);
            id(by_id).map(UserParam::Id).or_else(|| text(by_name).map(UserParam::Username))
        };
        let author = user_param("author_id", "author_username");
        let not_author = user_param("not[author_id]", "not[author_username]");
        let merge_user = user_param("merge_user_id", "merge_user_username");
        let source_project_id = id("source_project_id");
        let wip = checks.one_of("wip", &["yes", "no"]).map(|wip| wip == "yes");
        let is_draft = checks.boolean("draft").or(wip);
        checks.exclusive(&["draft", "wip"]);
        let is_approved = checks.one_of("approved", &["yes", "no"]) == Some("yes");
        let created = TimeRange::read(&checks, "created_after", "created_before");
        let updated = TimeRange::read(&checks, "updated_after", "updated_before");
        let merged = TimeRange::read(&checks, "merged_after", "merged_before");
        let is_none = |value: &&str| value.eq_ignore_ascii_case("none");
        let absent = ABSENT_FIELDS.map(|name| checks.list(name).unwrap_or_default());
        let is_any_absent = !absent.iter().flatten().all(is_none);
        let (iids, search) = (checks.list("iids"), Search::read(&checks));
        let (source_branch, target_branch) = (text("source_branch"), text("target_branch"));
        if params.list("not").is_some_and(|values| !values.is_empty()) {
            checks.reject("not is invalid");
        }
        checks.finish()?;
        Ok(MergeRequestFilter {
            state: state.and_then(MergeRequestState::parse),
            iids: iids.map(|iids| iids.iter().map(|iid| iid.parse().unwrap_or(0)).collect()),
            source_branch,
            source_project_id,
            target_branch,
            author,
            not_author,
            merge_user,
            scope: match scope {
                None => default,
                Some("all") => Scope::All,
                Some("created_by_me" | "created-by-me") => Scope::CreatedByMe,
                Some(_) => Scope::Nothing,
            },
            search,
            is_draft,
            created,
            updated,
            merged,
            matches_none: is_any_absent || is_approved,
        })
    }

    /// Looks up the users that the parameters name.
    pub fn find_users(&self, context: &RequestContext) -> Result<FilterUsers, StoreError> {
        let find = |user_param: &Option<UserParam>| match user_param {
            Some(UserParam::Id(id)) => user::key_of(&context.env, *id).map(Some),
            Some(UserParam::Username(name)) => {
                let user = user::by_username(&context.env, name)?;
                Ok::<_, StoreError>(Some(user.map_or(UserKey::first(0), |user| user.key())))
            }
            None => Ok(None),
        };
        let author = match self.scope {
            Scope::All => find(&self.author)?,
            Scope::CreatedByMe => Some(context.caller.user().map_or(UserKey::first(0), User::key)),
            Scope::Nothing => Some(UserKey::first(0)),
        };
        Ok(FilterUsers { author, not_author: find(&self.not_author)?, merge_user: find(&self.merge_user)? })
    }

    /// Whether only open merge requests are accepted.
    pub fn is_only_open(&self) -> bool {
        self.state == Some(MergeRequestState::Opened)
    }

    /// Whether a merge request with this iid need be read.
    pub fn may_accept(&self, iid: u64) -> bool {
        self.iids.as_ref().is_none_or(|iids| iids.contains(&iid))
    }

    pub fn accepts(&self, merge_request: &MergeRequest, users: &FilterUsers) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let author = merge_request.author.as_ref();
        let merged = merge_request.merged();
        let merge_user = merged.and_then(|end: &End| end.user.as_ref());
        self.state.is_none_or(|state| state == merge_request.state)
            && is(&self.source_branch, &merge_request.source_branch)
            && is(&self.target_branch, &merge_request.target_branch)
            && self.source_project_id.is_none_or(|id| merge_request.source.is_some_and(|source| source.project == id))
            && users.author.as_ref().is_none_or(|wanted| author == Some(wanted))
            && users.not_author.as_ref().is_none_or(|unwanted| author != Some(unwanted))
            && users.merge_user.as_ref().is_none_or(|wanted| merge_user == Some(wanted))
            && self.is_draft.is_none_or(|is_draft| is_draft == merge_request.is_draft())
            && self.search.as_ref().is_none_or(|search| search.finds(merge_request))
            && self.created.has(merge_request.created)
            && self.updated.has(merge_request.updated)
            && self.merged.has(merged.map(|end| end.at))
    }
}

impl Search {
    /// In titles and descriptions, unless `in` names one of them.
    fn read(checks: &Validation) -> Option<Self> {
        let fields = checks.list("in").unwrap_or_default();
        let text = checks.text("search")?.to_lowercase();
        let [in_title, in_description] = ["title", "description"].map(|field| fields.contains(&field));
        let is_in_none = !in_title && !in_description;
        Some(Search { text, in_title: in_title || is_in_none, in_description: in_description || is_in_none })
    }

    fn finds(&self, merge_request: &MergeRequest) -> bool {
        let title = Some(&merge_request.title).filter(|_| self.in_title);
        let description = merge_request.description.as_ref().filter(|_| self.in_description);
        [title, description].into_iter().flatten().any(|text| text.to_lowercase().contains(&self.text))
    }
}
