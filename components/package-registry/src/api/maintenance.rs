//! What an administrator does for the store: removing garbage, and checking everything.
//!
//! Both go through everything in bounded steps: each request does a part and answers with the cursor
//! of the next, which `hexad gc` and `hexad fsck` send until there is none.

mod check;

use crate::route::Task;
use crate::store;
use check::Checked;
use directory::caller::{self, Accepted};
use http::StatusCode;
use kit::gc::{Stopped, Wanted};
use kit::store::Fault;
use kit::{Env, Error, Request, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The largest body, in bytes: a cursor holds a key or two.
const MAX_BODY: u64 = 64 << 10;

#[derive(Default, Deserialize)]
#[serde(default)]
struct CheckWanted {
    cursor: Option<String>,
}

/// Answers an administrator's request.
pub async fn run(env: Env, mut request: Request, task: Task) -> Result<Response, Error> {
    let caller = caller::authenticate(&env, &request, Accepted::Api)?;
    caller.user_or_401()?;
    caller.require_scope(caller::api_scopes(&request.method))?;
    let body = std::mem::take(&mut request.body).collect(MAX_BODY).await?;
    let (sweep, check): (Wanted, CheckWanted) = match task {
        Task::CollectGarbage => (read(&body)?, CheckWanted::default()),
        Task::Check => (Wanted::default(), read(&body)?),
    };
    if !caller.is_admin() {
        return Err(Error::forbidden());
    }
    match task {
        Task::CollectGarbage => match store::collect_garbage(&env, &sweep) {
            Ok(step) => Ok(Response::ok(&step)),
            Err(Stopped::Cursor) => Err(no_cursor()),
            Err(Stopped::Fault(fault @ Fault::Corrupt { .. })) => Err(Error::message(
                StatusCode::CONFLICT,
                format!("the store is damaged, so nothing more is removed: {fault}"),
            )),
            Err(Stopped::Fault(fault)) => Err(fault.into()),
        },
        Task::Check => {
            let checked: Checked = check::step(&env, check.cursor.as_deref())?;
            Ok(Response::ok(&checked))
        }
    }
}

fn read<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, Error> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|why| Error::validation(format!("body is invalid: {why}")))
}

fn no_cursor() -> Error {
    Error::validation("cursor is not one of a run that goes on; begin a new one without it")
}
