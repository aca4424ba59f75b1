//! What an administrator has an area do for its store: removing garbage ([`crate::gc`]) and checking
//! everything ([`crate::fsck`]). Both go through everything in bounded steps: each request does a part
//! and answers with the cursor of the next, which `hexad gc` and `hexad fsck` send until there is none.

use crate::env::Env;
use crate::error::Error;
use crate::gc::GcRequest;
use crate::reachability::{Roots, StepError};
use crate::request::Request;
use crate::response::Response;
use crate::store::StoreError;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The largest body, in bytes: a cursor holds a key or two.
const MAX_BODY: u64 = 64 << 10;

/// What an administrator asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    CollectGarbage,
    Check,
}

impl Task {
    /// The task that the last segment of a path names.
    pub fn named(method: &Method, name: &str) -> Result<Self, Error> {
        let task = match name {
            "gc" => Task::CollectGarbage,
            "fsck" => Task::Check,
            _ => return Err(Error::unrouted()),
        };
        if method == Method::POST { Ok(task) } else { Err(Error::method_not_allowed("POST")) }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CheckWanted {
    cursor: Option<String>,
}

/// Answers to a user, who is 403 unless they are an administrator, with one step.
pub async fn answer(
    env: &Env,
    request: Request,
    is_admin: bool,
    task: Task,
    keeper: &dyn Roots,
) -> Result<Response, Error> {
    let body = request.body.collect(MAX_BODY).await?;
    let (sweep, check): (GcRequest, CheckWanted) = match task {
        Task::CollectGarbage => (read(&body)?, CheckWanted::default()),
        Task::Check => (GcRequest::default(), read(&body)?),
    };
    if !is_admin {
        return Err(Error::forbidden());
    }
    match task {
        Task::CollectGarbage => keeper.collect(env, &sweep).map(|step| Response::ok(&step)),
        Task::Check => keeper.check(env, check.cursor.as_deref()).map(|checked| Response::ok(&checked)),
    }
    .map_err(|stopped| match stopped {
        StepError::Cursor => Error::validation("cursor is not one of a run that goes on; begin a new one without it"),
        StepError::Store(fault @ StoreError::Corrupt { .. }) if task == Task::CollectGarbage => {
            Error::message(StatusCode::CONFLICT, format!("the store is damaged, so nothing more is removed: {fault}"))
        }
        StepError::Store(fault) => fault.into(),
    })
}

fn read<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, Error> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|why| Error::validation(format!("body is invalid: {why}")))
}
