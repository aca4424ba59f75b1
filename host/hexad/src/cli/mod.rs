//! The generic commands of a program that serves an application. Each is a `clap` argument struct; the
//! program combines them with its own.

mod admin;
mod backup;
mod browser;
mod bundle;
mod descriptors;
mod former_flags;
mod ingress;
mod log;
mod policy;
mod reload;
mod secrets;
mod service_manager;
mod signals;
mod status;
mod store;
mod swap;
mod terminal;
mod up;
mod validate;
mod values;

use std::path::{Path, PathBuf};

pub use hexad_support::http_client::agent;
pub use hexad_telemetry::redaction::url as shown_url;

pub use backup::Backup;
pub use bundle::MakeBundle;
pub use former_flags::warn_of_former_flags;
pub use secrets::{SecretArgs, SecretValues};
pub use status::Status;
pub use swap::{Promote, Rollback, Swap};
pub use terminal::{announce, has_lost_reader, one_line, printable};
pub use up::{Serving, Up};
pub use validate::Validate;
pub use values::{parse_server_url, parse_time};

/// The cache of compiled code in a data folder.
pub fn code_folder(data: &Path) -> PathBuf {
    data.join("code")
}
