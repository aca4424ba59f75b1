//! The errors for callers who lack a right. A project or group that the caller cannot read is answered
//! like one that does not exist.

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

/// The error for a project that exists and that the caller cannot read.
pub fn project_unreadable(request: &RegistryRequest, project: &Project, action: Action) -> Error {
    job_not_accepted(request, project).unwrap_or_else(|| match (&request.caller, action) {
        // Unlike a package that does not exist, this one asks for credentials at every level.
        (Caller::Anonymous, Action::Read) => Error::unauthorized(),
        _ => project_not_found(request, action),
    })
}

/// The error for a job whose project is not among those that `project` accepts jobs from.
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
