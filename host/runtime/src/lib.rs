//! A request, from its connection to its component and back.

pub mod acceptor;
pub mod application;
pub mod component;
pub mod connection;
pub mod engine;
pub mod guest;
pub mod ingress;
pub mod request_body;
pub mod request_context;
pub mod request_error;
pub mod request_target;
pub mod shard;
pub mod upload_wait;

pub use engine::{Runtime, RuntimeError};
