//! Counters, the access log, request ids, and targets without secrets.

pub mod access_log;
pub mod metrics;
pub mod redaction;
pub mod request_id;
