//! Bodies of requests to the admin listener, within bounds of size and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::EXPECT;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout, timeout_at};

use crate::bounded_file::MAX_COMPONENT_BYTES;

/// How long the next part of a component may take, and how long all of it.
pub const PART_TIMEOUT: Duration = Duration::from_secs(30);
pub const UPLOAD_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How many bytes of an unused body are read and discarded, and how long that may take. A client that
/// is still sending when the connection closes may not read the response; one that has stopped
/// sending gets the response at once.
const MAX_DRAIN: usize = 16 * 1024 * 1024;
const DRAIN_PART_TIMEOUT: Duration = Duration::from_millis(100);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request to the listener.
pub trait RequestBody: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send {}

impl<B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send> RequestBody for B {}

/// Why an upload was not received. Each text is for the client.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error("a component has at most {MAX_COMPONENT_BYTES} bytes")]
    TooLarge,
    #[error("the component broke off: {0}")]
    Broken(BoxError),
    #[error(
        "the component did not arrive in time: each part has {} s, all of it {} s",
        PART_TIMEOUT.as_secs(),
        UPLOAD_TIMEOUT.as_secs()
    )]
    TooSlow,
}

impl UploadError {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// Reads a component.
pub async fn receive(body: impl RequestBody) -> Result<Bytes, UploadError> {
    let mut body = std::pin::pin!(body);
    let end = Instant::now() + UPLOAD_TIMEOUT;
    let mut content = BytesMut::new();
    loop {
        let part_end = end.min(Instant::now() + PART_TIMEOUT);
        let Some(frame) = timeout_at(part_end, body.frame()).await.map_err(|_| UploadError::TooSlow)? else {
            return Ok(content.freeze());
        };
        let frame = frame.map_err(|error| UploadError::Broken(error.into()))?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        if content.len() + data.len() > MAX_COMPONENT_BYTES {
            return Err(UploadError::TooLarge);
        }
        content.extend_from_slice(data);
    }
}

/// Discards the body of a request that gets its response without it. If the client waits for `100 Continue`, the body
/// is not polled: the server would ask for it.
pub async fn discard(headers: &HeaderMap, body: impl RequestBody) {
    if !headers.contains_key(EXPECT) {
        drain(body).await;
    }
}

/// Reads and discards the body until the client pauses.
pub async fn drain(body: impl RequestBody) {
    let mut body = std::pin::pin!(body);
    let mut remaining = MAX_DRAIN;
    let drained = async {
        while let Ok(Some(Ok(frame))) = timeout(DRAIN_PART_TIMEOUT, body.frame()).await {
            match remaining.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(rest) => remaining = rest,
                None => return,
            }
        }
    };
    // If a part of the body is still unread by then, the connection is closed.
    let _ = timeout(DRAIN_TIMEOUT, drained).await;
}
