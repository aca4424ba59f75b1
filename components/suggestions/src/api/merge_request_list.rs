//! Lists of merge requests: of one project, of a group, and of all that the caller may read.

use super::access::{self, ReadableMergeRequest};
use super::context::RequestContext;
use super::json_page::JsonPage;
use super::merge_request_filter::{FilterUsers, MergeRequestFilter, Scope, is_filter};
use super::merge_request_json::MergeRequestRenderer;
use crate::merge_request::MergeRequest;
use crate::store::merge_requests::{self as store, MergeRequestList};
use directory::catalog::ProjectView;
use directory::project::{self, Project};
use directory::{access as rights, catalog, namespace, record_cache};
use kit::page::Pagination;
use kit::params::{Params, Validation};
use kit::{Error, Response, Timestamp};
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
