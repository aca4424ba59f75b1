//! Errors for callers who lack a right. A caller who cannot read a project or group gets the error of an absent one.

use super::action::Action;
use crate::api::request::RegistryRequest;
use crate::route::Level;
use directory::access;
use directory::caller::Caller;
use directory::project::Project;
use http::StatusCode;
use kit::Error;

pub fn project_not_found(request: &RegistryRequest, action: Action) -> Error {
    let asks_for_credentials = match action {
        Action::Read => matches!(request.level, Level::Project(_)),
        Action::Download => false,
        Action::Publish | Action::Unpublish => true,
    };
    if request.caller.is_anonymous() && asks_for_credentials {
        return Error::unauthorized();
    }
    Error::pair(StatusCode::NOT_FOUND, "404 Project Not Found", "Project not found")
}

pub fn group_not_found(request: &RegistryRequest, action: Action) -> Error {
    if request.caller.is_anonymous() && action != Action::Download {
        return Error::unauthorized();
    }
    Error::pair(StatusCode::NOT_FOUND, "404 Group Not Found", "Group not found")
}

/// The error for an existing project that the caller cannot read.
pub fn project_unreadable(request: &RegistryRequest, project: &Project, action: Action) -> Error {
    job_not_accepted(request, project).unwrap_or_else(|| match (&request.caller, action) {
        // For an existing package, every level asks anonymous callers for credentials.
        (Caller::Anonymous, Action::Read) => Error::unauthorized(),
        _ => project_not_found(request, action),
    })
}

/// The error for a name with packages of which the caller may read none, as the reference service's merging of projects
/// answers. `refusal` is the error of the first project.
pub fn name_unreadable(request: &RegistryRequest, refusal: Error, action: Action) -> Error {
    match (&request.caller, action) {
        (Caller::Anonymous, Action::Download) => project_not_found(request, action),
        (Caller::Anonymous, _) => Error::unauthorized(),
        _ if refusal.status == StatusCode::FORBIDDEN => refusal,
        _ => Error::forbidden(),
    }
}

/// The error for a CI job, if `project` does not accept jobs from the job's project.
pub fn job_not_accepted(request: &RegistryRequest, project: &Project) -> Option<Error> {
    let Caller::Job(job) = &request.caller else { return None };
    access::refuses_job(&request.caller, project).then(|| {
        let from = job.project.full_path();
        let id = project.id;
        let text =
            format!("403 Forbidden - Authentication by CI/CD job token not allowed from {from} to project #{id}.");
        Error::message(StatusCode::FORBIDDEN, text)
    })
}
