//! Authorization: which resources the caller may read, push to and import. Each function decides once and returns the
//! resource or the error response. A client may send a body for as long as the host lets it, so the body's contents are
//! authorized after the body was read. An earlier decision only saves reading the body.

use super::context::RequestContext;
use crate::api::context;
use crate::discussion::{CommentedFile, Discussion, Note};
use crate::git::ObjectId;
use crate::merge_request::MergeRequest;
use crate::repository_id::RepositoryId;
use crate::store::{default_branch, discussions, merge_requests, ref_names, refs};
use crate::suggestion::Suggestion;
use directory::access::{self, Role};
use directory::caller::{self, AcceptedTokens, Caller};
use directory::namespace::Visibility;
use directory::project::{self, Project, ProjectKey, ProjectLookup};
use directory::user::{self, User, UserKey};
use directory::{record_cache, request_limits};
use http::StatusCode;
use kit::store::StoreError;
use kit::{Env, Error, Request};

/// A token needs one of these scopes to push to a repository.
const PUSH_SCOPES: &[&str] = &["api", "write_repository"];

/// A token needs one of these scopes to read a repository.
const REPOSITORY_SCOPES: &[&str] = &["api", "read_api", "read_repository", "write_repository"];

/// A merge request that the caller may read.
pub struct ReadableMergeRequest {
    pub project: Project,
    pub iid: u64,
    pub merge_request: MergeRequest,
    /// Whether the caller may see internal notes: Reporters of the project, as in the reference service. The author of
    /// the merge request needs that role, too.
    pub sees_internal_notes: bool,
}

/// The merge request with this iid. 404 if the caller may not read the project or its merge requests; 301 if the
/// project has moved.
pub fn readable_merge_request(
    context: &RequestContext,
    project: &str,
    iid: &str,
) -> Result<ReadableMergeRequest, Error> {
    let project = readable_project(context, project)?;
    // A number that does not fit becomes 0, which no merge request has.
    let iid = iid.parse().unwrap_or(0);
    let not_found = || Error::message(StatusCode::NOT_FOUND, "404 Not found");
    if !access::may_read_merge_requests(&context.env, &context.caller, &project)? {
        return Err(not_found());
    }
    let merge_request = merge_requests::read(&context.env, &project.key(), iid)?.ok_or_else(not_found)?;
    Ok(ReadableMergeRequest::new(context, project, iid, merge_request)?)
}

fn readable_project(context: &RequestContext, id: &str) -> Result<Project, Error> {
    let not_found = || Error::not_found("Project");
    let (project, is_moved) = match project::find(&context.env, id)? {
        ProjectLookup::Found(project) => (project, false),
        ProjectLookup::Moved(project) => (project, true),
        ProjectLookup::Missing => return Err(not_found()),
    };
    if !access::may_read_project(&context.env, &context.caller, &project)? {
        return Err(not_found());
    }
    if is_moved { Err(context.moved(&project)) } else { Ok(project) }
}

impl ReadableMergeRequest {
    /// A merge request of a project whose merge requests the caller may read.
    pub fn new(
        context: &RequestContext,
        project: Project,
        iid: u64,
        merge_request: MergeRequest,
    ) -> Result<Self, StoreError> {
        let sees_internal_notes = access::project_role(&context.env, &context.caller, &project)? >= Role::Reporter;
        Ok(ReadableMergeRequest { project, iid, merge_request, sees_internal_notes })
    }

    /// Whether the caller may read files at this commit of the source project. The diff shows every reader of the merge
    /// request how the source branch differs from the target. So every reader may read the head of the source branch;
    /// other commits of a fork need the right to read the fork's code.
    pub fn may_read_commit(&self, context: &RequestContext, commit: ObjectId) -> Result<bool, StoreError> {
        let source = self.source();
        if source == RepositoryId::of(&self.project) {
            return Ok(true);
        }
        let branch = format!("heads/{}", self.merge_request.source_branch);
        if refs::read(&context.env, source, &branch)?.is_some_and(|head| head.commit == commit) {
            return Ok(true);
        }
        match project::by_id(&context.env, source.project)? {
            Some(project) if RepositoryId::of(&project) == source => {
                access::may_read_code(&context.env, &context.caller, &project)
            }
            _ => Ok(false),
        }
    }

    /// Whether the discussion belongs to the merge request, and the caller may see it.
    pub fn has(&self, discussion: &Discussion) -> bool {
        let is_of_merge_request = discussion.project == self.project.key() && discussion.merge_request_iid == self.iid;
        is_of_merge_request && (self.sees_internal_notes || !discussion.is_internal())
    }

    /// The repository that has the source branch.
    pub fn source(&self) -> RepositoryId {
        self.merge_request.source.unwrap_or_else(|| RepositoryId::of(&self.project))
    }
}

/// A merge request with the caller's rights to change it and other users' notes on it.
pub struct WritableMergeRequest {
    pub readable: ReadableMergeRequest,
    pub user: UserKey,
    role: Role,
}

/// The merge request, for a caller who may comment on it: 401 for anonymous callers, 404 if the caller may
/// not read it, 403 in an archived project.
pub fn writable_merge_request(
    context: &RequestContext,
    project: &str,
    iid: &str,
) -> Result<WritableMergeRequest, Error> {
    let user = context.caller.user_or_401()?.key();
    let readable = readable_merge_request(context, project, iid)?;
    if readable.project.archived {
        return Err(Error::forbidden());
    }
    let role = access::project_role(&context.env, &context.caller, &readable.project)?;
    Ok(WritableMergeRequest { readable, user, role })
}

impl WritableMergeRequest {
    /// Whether the caller may edit and delete this note: its author and Maintainers, as in the reference service. No
    /// user may change system notes.
    pub fn may_change_note(&self, note: &Note) -> bool {
        !note.is_system && (note.author == self.user || self.role >= Role::Maintainer)
    }

    /// Whether the caller may resolve discussions, and change the merge request: its author and Developers.
    pub fn may_change(&self) -> bool {
        self.readable.merge_request.author.as_ref() == Some(&self.user) || self.role >= Role::Developer
    }
}

/// A suggestion of a merge request that the caller may read.
pub struct ReadableSuggestion {
    pub suggestion: Suggestion,
    pub discussion: Discussion,
    pub file: CommentedFile,
    pub merge_request: MergeRequest,
}

/// The suggestion with this id; 401 for anonymous callers, 404 if the caller may not read the merge request.
pub fn readable_suggestion(context: &RequestContext, id: &str) -> Result<ReadableSuggestion, Error> {
    let env = &context.env;
    context.caller.user_or_401()?;
    let id = context::suggestion_id(id)?;
    let not_found = || Error::not_found("Suggestion");
    let (suggestion, discussion) = discussions::find_suggestion(env, id)?.ok_or_else(not_found)?;
    let project = project::by_id(env, discussion.project.id)?.filter(|project| project.key() == discussion.project);
    let project = project.ok_or_else(not_found)?;
    if !access::may_read_merge_requests(env, &context.caller, &project)? {
        return Err(not_found());
    }
    let merge_request = merge_requests::read(env, &discussion.project, discussion.merge_request_iid)?;
    let merge_request = merge_request.ok_or_else(not_found)?;
    let file = discussion.file.clone().ok_or_else(not_found)?;
    Ok(ReadableSuggestion { suggestion, discussion, file, merge_request })
}

/// The projects of a merge request that the caller may read, and to whose source branch they may push.
pub struct PushableMergeRequest {
    pub source: Project,
    pub target: Project,
}

/// 403 unless the caller may read the merge request in the project `target`, and may push to its source branch.
pub fn pushable_merge_request(
    context: &RequestContext,
    target: &ProjectKey,
    merge_request: &MergeRequest,
) -> Result<PushableMergeRequest, Error> {
    let (env, caller) = (&context.env, &context.caller);
    let load = |id| -> Result<Project, Error> { project::by_id(env, id)?.ok_or_else(Error::forbidden) };
    let (key, target) = (target, load(target.id)?);
    if target.key() != *key || !access::may_read_merge_requests(env, caller, &target)? {
        return Err(Error::forbidden());
    }
    let repository = merge_request.source.ok_or_else(Error::forbidden)?;
    let source = if repository.project == target.id { target.clone() } else { load(repository.project)? };
    if RepositoryId::of(&source) != repository {
        return Err(Error::forbidden());
    }
    if may_push(env, caller, &source, &merge_request.source_branch)? {
        return Ok(PushableMergeRequest { source, target });
    }
    let may_collaborate = may_collaborate(env, merge_request, &source, &target)?;
    match may_collaborate && may_push(env, caller, &target, &merge_request.target_branch)? {
        true => Ok(PushableMergeRequest { source, target }),
        false => Err(Error::forbidden()),
    }
}

/// Whether users who may push to the target branch may push to the source branch too. As in the reference service,
/// source and target must be two projects that are not private, and the source branch must not be protected. The author
/// must still be a Developer of the source project.
fn may_collaborate(
    env: &Env,
    merge_request: &MergeRequest,
    source: &Project,
    target: &Project,
) -> Result<bool, StoreError> {
    let is_seen = |project: &Project| project.visibility != Visibility::Private;
    let (Some(author), true) = (&merge_request.author, merge_request.allow_collaboration) else { return Ok(false) };
    if source.id == target.id || !is_seen(source) || !is_seen(target) || !source.accepts_pushes() {
        return Ok(false);
    }
    let default_branches = protected_default_branches(env, source)?;
    Ok(!is_protected(source, &merge_request.source_branch, &default_branches)
        && user::by_key(env, author)?.is_some()
        && access::project_role_of(env, author.id, source)? >= Role::Developer)
}

/// Whether the caller may push to the source branch by their own role.
pub fn may_push_source(context: &RequestContext, readable: &ReadableMergeRequest) -> Result<bool, StoreError> {
    let source = readable.source();
    match project::by_id(&context.env, source.project)?.filter(|project| RepositoryId::of(project) == source) {
        Some(project) => may_push(&context.env, &context.caller, &project, &readable.merge_request.source_branch),
        None => Ok(false),
    }
}

fn may_push(env: &Env, caller: &Caller, project: &Project, branch: &str) -> Result<bool, StoreError> {
    let role = access::project_role(env, caller, project)?;
    let default_branches = protected_default_branches(env, project)?;
    Ok(may_push_to(project, role, branch, &default_branches))
}

/// Empty if the project itself says which branches are protected.
fn protected_default_branches(env: &Env, project: &Project) -> Result<Vec<String>, StoreError> {
    match project.protected_branches {
        None => default_branch::protected(env, RepositoryId::of(project), project.default_branch.as_deref()),
        Some(_) => Ok(Vec::new()),
    }
}

fn may_push_to(project: &Project, role: Role, branch: &str, default_branches: &[String]) -> bool {
    let default_branch = default_branches.iter().find(|default| *default == branch);
    project.may_push(role, branch, default_branch.map(String::as_str))
}

fn is_protected(project: &Project, branch: &str, default_branches: &[String]) -> bool {
    match &project.protected_branches {
        Some(protected) => protected.iter().any(|protected| protected.covers(branch)),
        None => default_branches.iter().any(|default| default == branch),
    }
}

/// A project whose repository the caller may push to; [`Self::may_push`] decides about each branch.
pub struct PushableRepository {
    pub project: Project,
    /// The user who pushes; `None` for a deploy token.
    pub user: Option<UserKey>,
    role: Role,
    /// The default branches, which are protected unless the project says otherwise.
    default_branches: Vec<String>,
}

impl PushableRepository {
    pub fn id(&self) -> RepositoryId {
        RepositoryId::of(&self.project)
    }

    pub fn may_push(&self, branch: &str) -> bool {
        may_push_to(&self.project, self.role, branch, &self.default_branches)
    }

    /// Whether a branch may neither be deleted nor lose commits.
    pub fn is_protected(&self, branch: &str) -> bool {
        is_protected(&self.project, branch, &self.default_branches)
    }
}

/// The project, if the caller may push to some branch of its repository, as Developers may. The errors are those of
/// [`readable_repository`], and 403 with a reason.
pub fn pushable_repository(env: &Env, request: &Request, id: &str) -> Result<PushableRepository, Error> {
    pushable_by(env, caller::authenticate(env, request, AcceptedTokens::Repository)?, id)
}

/// As [`pushable_repository`]; counts against the user's limit of pushes.
pub fn repository_to_push_to(env: &Env, request: &Request, id: &str) -> Result<PushableRepository, Error> {
    let caller = caller::authenticate(env, request, AcceptedTokens::Repository)?;
    request_limits::check_write(env, &caller, &request_limits::PUSHES)?;
    pushable_by(env, caller, id)
}

fn pushable_by(env: &Env, caller: Caller, id: &str) -> Result<PushableRepository, Error> {
    caller.require_authenticated()?;
    let project = readable_by(env, &caller, id)?;
    let forbidden = |why: &str| Error::message(StatusCode::FORBIDDEN, why);
    if !caller.has_scope(PUSH_SCOPES) || matches!(caller, Caller::Job(_)) {
        return Err(forbidden("The token may read repositories and not push to them."));
    }
    if !project.accepts_pushes() {
        return Err(forbidden("You can't push to this project: its repository is read-only."));
    }
    let role = access::project_role(env, &caller, &project)?;
    if role < Role::Developer {
        return Err(forbidden("You are not allowed to push code to this project."));
    }
    let default_branches = protected_default_branches(env, &project)?;
    let user = caller.user().map(User::key);
    Ok(PushableRepository { project, user, role, default_branches })
}

/// As [`pushable_repository`] at the present time, after the body was read. 404 unless the project is that of
/// `earlier`.
pub fn still_pushable_repository(
    env: &Env,
    request: &Request,
    id: &str,
    earlier: &PushableRepository,
) -> Result<PushableRepository, Error> {
    let present = pushable_repository(&record_cache::renew(env)?, request, id)?;
    if present.id() == earlier.id() { Ok(present) } else { Err(Error::not_found("Project")) }
}

/// The project, if the caller may read its repository with git. Otherwise an anonymous caller gets 401. A caller with
/// credentials gets 404 if they may not see the project, and 403 if they may not read its code.
pub fn readable_repository(env: &Env, request: &Request, id: &str) -> Result<Project, Error> {
    Ok(repository_and_reader(env, request, id)?.0)
}

/// As [`readable_repository`], for a request that lists branches and tags. It counts against the limit of anonymous
/// requests, which takes 1 more read for an anonymous caller.
pub fn repository_with_refs(env: &Env, request: &Request, id: &str) -> Result<Project, Error> {
    let (project, caller) = repository_and_reader(env, request, id)?;
    if caller.is_anonymous() {
        let refs = ref_names::count(env, RepositoryId::of(&project))?;
        request_limits::check_anonymous_records(env, request, &caller, refs)?;
    }
    Ok(project)
}

fn repository_and_reader(env: &Env, request: &Request, id: &str) -> Result<(Project, Caller), Error> {
    let caller = caller::authenticate(env, request, AcceptedTokens::Repository)?;
    caller.require_scope(REPOSITORY_SCOPES)?;
    Ok((readable_by(env, &caller, id)?, caller))
}

fn readable_by(env: &Env, caller: &Caller, id: &str) -> Result<Project, Error> {
    let refused = |error: Error| if caller.is_anonymous() { Error::unauthorized() } else { error };
    let project = match project::find(env, id)? {
        // git sends all requests to the address that it was given, so an old path is served, not redirected.
        ProjectLookup::Found(project) | ProjectLookup::Moved(project) => project,
        ProjectLookup::Missing => return Err(refused(Error::not_found("Project"))),
    };
    if access::may_read_code(env, caller, &project)? {
        return Ok(project);
    }
    let is_visible = access::may_read_project(env, caller, &project)?;
    Err(refused(if is_visible { Error::forbidden() } else { Error::not_found("Project") }))
}

/// A project in which the caller may make merge requests from a branch of `source`.
pub struct MergeRequestTarget {
    pub source: Project,
    pub target: Project,
    pub author: UserKey,
}

/// The projects of a new merge request. 404 if the caller may not see one of them. 403 unless the caller is a Developer
/// in the source and may read merge requests of the target.
pub fn merge_request_target(
    context: &RequestContext,
    source: &str,
    target: Option<u64>,
) -> Result<MergeRequestTarget, Error> {
    let (env, caller) = (&context.env, &context.caller);
    let author = caller.user_or_401()?.key();
    let source = readable_project(context, source)?;
    let target = match target {
        Some(id) if id != source.id => readable_project(context, &id.to_string())?,
        _ => source.clone(),
    };
    let may_push = access::project_role(env, caller, &source)? >= Role::Developer && source.accepts_pushes();
    if !may_push || target.archived || !access::may_read_merge_requests(env, caller, &target)? {
        return Err(Error::forbidden());
    }
    Ok(MergeRequestTarget { source, target, author })
}

/// A project whose merge requests the caller may read. 404 if the caller may not see the project, 403 if the caller may
/// not see its merge requests.
pub fn project_with_merge_requests(context: &RequestContext, project: &str) -> Result<Project, Error> {
    let project = readable_project(context, project)?;
    match access::may_read_merge_requests(&context.env, &context.caller, &project)? {
        true => Ok(project),
        false => Err(Error::forbidden()),
    }
}

/// 401 for an anonymous caller, 403 for any other caller who is no administrator.
pub fn require_admin(context: &RequestContext) -> Result<(), Error> {
    context.caller.user_or_401()?;
    if context.caller.is_admin() { Ok(()) } else { Err(Error::forbidden()) }
}

/// The repository of a project, for a caller who may import it: an administrator.
pub fn importable_repository(context: &RequestContext, id: &str) -> Result<RepositoryId, Error> {
    require_admin(context)?;
    match project::find(&context.env, id)? {
        ProjectLookup::Found(project) => Ok(RepositoryId::of(&project)),
        ProjectLookup::Moved(_) | ProjectLookup::Missing => Err(Error::not_found("Project")),
    }
}

/// Checks again after a body was read: the errors of [`importable_repository`], and 404 if another project has the id
/// of `earlier`.
pub fn still_importable(context: &mut RequestContext, id: &str, earlier: RepositoryId) -> Result<(), Error> {
    context.renew()?;
    if importable_repository(context, id)? == earlier { Ok(()) } else { Err(Error::not_found("Project")) }
}
