//! Bodies of requests to the admin listener, within bounds of size and time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hexad_limits::memory_budget::{MemoryBudget, Reservation};
use hexad_support::bounded_file::MAX_COMPONENT_BYTES;
use http::header::EXPECT;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout, timeout_at};

/// How long the next part of a component may take, and how long all of it.
pub const PART_TIMEOUT: Duration = Duration::from_secs(30);
pub const UPLOAD_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How many bytes of an unused body the host reads and discards, and for how long. A client that is still sending when
/// the connection closes may not read the response. A client that has stopped sending gets the response at once.
const MAX_DRAIN: usize = 16 * 1024 * 1024;
const DRAIN_PART_TIMEOUT: Duration = Duration::from_millis(100);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request to the listener.
pub trait UploadBody: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send {}

impl<B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send> UploadBody for B {}

/// Why an upload was not received. Each text is for the client.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error("the component is larger than the limit of {MAX_COMPONENT_BYTES} bytes")]
    TooLarge,
    #[error("the upload of the component broke off: {0}")]
    Broken(BoxError),
    #[error(
        "the upload took too long: the limits are {} s for each part and {} s for the component",
        PART_TIMEOUT.as_secs(),
        UPLOAD_TIMEOUT.as_secs()
    )]
    TooSlow,
    #[error("the host has no memory left for the component; try again when it has less to do, or raise --memory")]
    NoMemory,
}

impl UploadError {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NoMemory => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The bytes of a component. They count in the host's memory until the last reference is dropped.
pub struct UploadBuffer {
    content: Vec<u8>,
    memory: Reservation,
}

impl UploadBuffer {
    pub fn new(memory: &Arc<MemoryBudget>) -> Self {
        Self { content: Vec::new(), memory: Reservation::new(memory.clone()) }
    }

    pub fn push(&mut self, data: &[u8]) -> Result<(), UploadError> {
        let length = self.content.len() + data.len();
        if length > MAX_COMPONENT_BYTES {
            return Err(UploadError::TooLarge);
        }
        let capacity = self.content.capacity();
        if length > capacity {
            let larger = length.max(2 * capacity).min(MAX_COMPONENT_BYTES);
            if !self.memory.grow((larger - capacity) as u64) {
                return Err(UploadError::NoMemory);
            }
            self.content.reserve_exact(larger - self.content.len());
        }
        self.content.extend_from_slice(data);
        Ok(())
    }

    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for UploadBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

/// Reads a component.
pub async fn receive(body: impl UploadBody, memory: &Arc<MemoryBudget>) -> Result<Bytes, UploadError> {
    let mut body = std::pin::pin!(body);
    let end = Instant::now() + UPLOAD_TIMEOUT;
    let mut content = UploadBuffer::new(memory);
    loop {
        let part_end = end.min(Instant::now() + PART_TIMEOUT);
        let Some(frame) = timeout_at(part_end, body.frame()).await.map_err(|_| UploadError::TooSlow)? else {
            return Ok(content.freeze());
        };
        let frame = frame.map_err(|error| UploadError::Broken(error.into()))?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        content.push(data)?;
    }
}

/// Discards the body of a request whose response does not need it. If the client waits for `100 Continue`, the body is
/// not polled, because the server would then ask for it.
pub async fn discard(headers: &HeaderMap, body: impl UploadBody) {
    if !headers.contains_key(EXPECT) {
        drain(body).await;
    }
}

/// Reads and discards the body until the client pauses.
pub async fn drain(body: impl UploadBody) {
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

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn an_upload_counts_in_the_memory_of_the_host() {
        let memory = MemoryBudget::new(1000);
        let upload = async |bytes| receive(Full::new(Bytes::from(vec![7; bytes])), &memory).await;
        let first = upload(600).await.unwrap();
        assert_eq!((first.len(), memory.used()), (600, 600));
        let refused = upload(401).await.unwrap_err();
        assert!(matches!(refused, UploadError::NoMemory), "{refused}");
        assert_eq!((refused.status(), memory.used()), (StatusCode::SERVICE_UNAVAILABLE, 600));
        let second = first.clone();
        drop(first);
        assert_eq!(memory.used(), 600);
        drop(second);
        assert_eq!(memory.used(), 0);
        assert_eq!(upload(1000).await.unwrap().len(), 1000);
    }
}
