//! A template of an area: notes, by `kit` alone. Copy the folder, and rename the package and the key prefix.
//!
//! | endpoint | |
//! |---|---|
//! | `GET /notes/:name` | shows a note |
//! | `PUT /notes/:name` | writes a note: the body is its text |
//!
//! | key | root |
//! |---|---|
//! | `notes/v1/<name>` | a note |

use http::{Method, StatusCode};
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, Error, Request, Response, Timestamp, path};
use serde::{Deserialize, Serialize};

/// The variable with the longest text of a note, in bytes.
const MAX_BYTES: &str = "notes_max_bytes";
const DEFAULT_MAX_BYTES: u64 = 64 << 10;

#[cfg(target_family = "wasm")]
mod entry {
    kit::area! {
        handle: crate::handle,
        variables: &[crate::MAX_BYTES],
        storage: [owns("notes/", 1)],
    }
}

#[derive(Serialize, Deserialize)]
struct Note {
    text: String,
    written_at: Timestamp,
    /// The id of the request that wrote the note.
    #[serde(rename = "request")]
    request_id: String,
}

/// Answers a request.
pub async fn handle(env: Env, request: Request) -> Response {
    answer(&env, request).await.unwrap_or_else(Response::from)
}

async fn answer(env: &Env, request: Request) -> Result<Response, Error> {
    let segments = path::below(&request.path, "/notes").ok_or_else(Error::route_not_found)?;
    let [name] = segments.as_slice() else { return Err(Error::route_not_found()) };
    let name = name.decode().ok_or_else(|| Error::not_found("Note"))?;
    let key = format!("notes/v1/{}", path::encode(&name));
    match request.method {
        Method::GET => {
            let note = root::read::<Note>(&*env.store, &key)?.ok_or_else(|| Error::not_found("Note"))?;
            Ok(Response::ok(&note))
        }
        Method::PUT => write(env, request, &key).await,
        _ => Err(Error::method_not_allowed("GET, PUT")),
    }
}

async fn write(env: &Env, request: Request, key: &str) -> Result<Response, Error> {
    let body = request.body.collect(env.variables.number(MAX_BYTES, DEFAULT_MAX_BYTES)).await?;
    let text = String::from_utf8(body).map_err(|_| Error::bad_request("the text is not UTF-8"))?;
    // The body may have taken long to arrive.
    let (now, request_id) = (env.clock.now(), env.id());
    root::update(env, key, |current: Option<Note>| {
        // A swap that was reported as lost may have taken place, so the change has an id.
        if current.is_some_and(|note| note.request_id == request_id) {
            return Ok(Decision::Keep(()));
        }
        let note = Note { text: text.clone(), written_at: now, request_id: request_id.clone() };
        Ok::<_, StoreError>(Decision::Replace(note, ()))
    })?;
    Ok(Response::new(StatusCode::NO_CONTENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use kit::testing::{LostReplyStore, MemoryStore, env};

    #[test]
    fn a_written_note_is_read() {
        let env = env(LostReplyStore::over(MemoryStore::default()), &[(MAX_BYTES, "9")]);
        let send = |method: Method, path: &str, body: &'static str| {
            let mut request = Request::new(method, path);
            request.body = body.into();
            block_on(handle(env.clone(), request)).status.as_u16()
        };
        assert_eq!(send(Method::GET, "/notes/a%2Fb", ""), 404);
        assert_eq!(send(Method::PUT, "/notes/a%2Fb", "milk"), 204);
        assert_eq!(send(Method::GET, "/notes/a%2Fb", ""), 200);
        assert_eq!(send(Method::PUT, "/notes/c", "ten bytes!"), 413);
        assert_eq!(send(Method::POST, "/notes/c", ""), 405);
    }
}
