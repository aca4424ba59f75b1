//! Authorization: what the caller may read, push to and import. Each function returns what it grants
//! access to, or the error response.

use super::context::RequestContext;
use crate::merge_request::MergeRequest;
use crate::store::merge_requests;
use directory::access;
use directory::project::{self, Project, ProjectLookup};
use http::StatusCode;
use kit::Error;

/// A merge request that the caller may read.
pub struct ReadableMergeRequest {
    pub project: Project,
    pub iid: u64,
    pub merge_request: MergeRequest,
}

/// The merge request with this iid; 404 if the caller may not read the project, which 301 says to have
/// moved.
pub fn readable_merge_request(
    context: &RequestContext,
    project: &str,
    iid: &str,
) -> Result<ReadableMergeRequest, Error> {
    let project = readable_project(context, project)?;
    // A number that does not fit is the iid of no merge request.
    let iid = iid.parse().unwrap_or(0);
    let not_found = || Error::message(StatusCode::NOT_FOUND, "404 Not found");
    let merge_request = merge_requests::read(&context.env, project.id, iid)?.ok_or_else(not_found)?;
    Ok(ReadableMergeRequest { project, iid, merge_request })
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

/// The source project of a merge request with target project `target`; 403 unless the caller may push to
/// the source branch.
pub fn pushable_source(context: &RequestContext, target: u64, merge_request: &MergeRequest) -> Result<Project, Error> {
    let env = &context.env;
    let source = merge_request.source_project_id.map(|id| project::by_id(env, id)).transpose()?.flatten();
    let source = source.ok_or_else(Error::forbidden)?;
    let role = access::project_role(env, &context.caller, &source)?;
    if source.may_push(role, &merge_request.source_branch) {
        return Ok(source);
    }
    if !merge_request.allow_collaboration || source.archived {
        return Err(Error::forbidden());
    }
    let target = project::by_id(env, target)?.ok_or_else(Error::forbidden)?;
    let role = access::project_role(env, &context.caller, &target)?;
    if target.may_push(role, &merge_request.target_branch) { Ok(source) } else { Err(Error::forbidden()) }
}

/// 401 for anonymous callers, 403 for all others but administrators.
pub fn require_admin(context: &RequestContext) -> Result<(), Error> {
    context.caller.user_or_401()?;
    if context.caller.is_admin() { Ok(()) } else { Err(Error::forbidden()) }
}

/// The id of a project whose repository the caller, an administrator, may import.
pub fn importable_project(context: &RequestContext, id: &str) -> Result<u64, Error> {
    require_admin(context)?;
    match project::find(&context.env, id)? {
        ProjectLookup::Found(project) => Ok(project.id),
        ProjectLookup::Moved(_) | ProjectLookup::Missing => Err(Error::not_found("Project")),
    }
}
