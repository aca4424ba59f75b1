//! Maintenance requests of administrators: an area collects garbage ([`crate::gc`]), checks its store
//! ([`crate::fsck`]), or repairs data that is derived from records. A run has bounded steps. Each request does one step
//! and answers with the cursor of the next. Clients (`hexad gc`, `hexad fsck`) repeat until an answer has no cursor.

use crate::env::Env;
use crate::error::Error;
use crate::fsck::{self, CheckReport};
use crate::gc::{self, GcReport, GcRequest};
use crate::reachability::{GcSource, StepError};
use crate::request::Request;
use crate::response::Response;
use crate::store::StoreError;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The largest request body, in bytes. A cursor holds a key or two.
pub const MAX_BODY: u64 = 64 << 10;

/// A kind of maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    CollectGarbage,
    Check,
    /// Derives data from the records again.
    Repair,
}

impl Task {
    /// Parses the last segment of a path. 404 if it names no task, 405 for a method other than POST.
    pub fn named(method: &Method, name: &str) -> Result<Self, Error> {
        let task = match name {
            "gc" => Task::CollectGarbage,
            "fsck" => Task::Check,
            "repair" => Task::Repair,
            _ => return Err(Error::route_not_found()),
        };
        if method == Method::POST { Ok(task) } else { Err(Error::method_not_allowed("POST")) }
    }
}

/// A store that can be maintained. The default steps suit an area whose work per root is bounded.
pub trait Maintain: GcSource {
    /// One step of garbage collection.
    fn collect(&self, env: &Env, request: &GcRequest) -> Result<GcReport, StepError> {
        gc::step(env, self, request)
    }

    /// One step of a check.
    fn check(&self, env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
        fsck::step(env, self, cursor)
    }

    /// One step of a repair. By default it does nothing.
    fn repair(&self, _env: &Env, _cursor: Option<&str>) -> Result<CheckReport, StepError> {
        Ok(CheckReport::default())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CheckRequest {
    cursor: Option<String>,
}

/// Does one step and answers with its report. 400 for an invalid body or cursor, 403 unless the caller is an
/// administrator, 409 if damage stops a garbage collection.
pub async fn answer(
    env: &Env,
    request: Request,
    is_admin: bool,
    task: Task,
    area: &dyn Maintain,
) -> Result<Response, Error> {
    let body = request.body.collect(MAX_BODY).await?;
    let (gc, check): (GcRequest, CheckRequest) = match task {
        Task::CollectGarbage => (read(&body)?, CheckRequest::default()),
        Task::Check | Task::Repair => (GcRequest::default(), read(&body)?),
    };
    if !is_admin {
        return Err(Error::forbidden());
    }
    match task {
        Task::CollectGarbage => area.collect(env, &gc).map(|report| Response::ok(&report)),
        Task::Check => area.check(env, check.cursor.as_deref()).map(|report| Response::ok(&report)),
        Task::Repair => area.repair(env, check.cursor.as_deref()).map(|report| Response::ok(&report)),
    }
    .map_err(|error| match error {
        StepError::Cursor => Error::validation("cursor is not one of a run that goes on; begin a new one without it"),
        StepError::Store(error @ StoreError::Corrupt { .. }) if task == Task::CollectGarbage => {
            Error::message(StatusCode::CONFLICT, format!("the store is damaged, so nothing more is removed: {error}"))
        }
        StepError::Store(error @ StoreError::Other(_)) => {
            // The administrator must learn the cause, such as a host that cannot list so many keys at once.
            let text = format!("500 Internal Server Error - {error}");
            let mut answer = Error::message(StatusCode::INTERNAL_SERVER_ERROR, text);
            answer.cause = Some(error.to_string());
            answer
        }
        StepError::Store(error) => error.into(),
    })
}

fn read<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, Error> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|why| Error::validation(format!("body is invalid: {why}")))
}
