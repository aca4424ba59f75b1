//! Messages of HTTP: bodies, the host's own responses, origins, nested requests, and buffered and cached responses.

pub mod body;
pub mod forwarding;
pub mod nested_request;
pub mod origin;
pub mod reply;
pub mod response_cache;
pub mod send_buffer;

pub use body::{BodyError, ResponseBody};
