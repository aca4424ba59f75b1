//! Files, caches, throttles, TLS and threads, as several crates of the host need them.

pub mod bearer_token;
pub mod bounded_file;
pub mod byte_lru;
pub mod digest;
pub mod http_client;
pub mod log_throttle;
pub mod machine;
pub mod memory;
pub mod named_values;
pub mod pem;
pub mod private_files;
pub mod random;
pub mod serving_threads;
pub mod shared_map;
pub mod tls;

pub use digest::Digest;
