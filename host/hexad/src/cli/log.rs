//! The log, on standard error, as text or as JSON.

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

#[derive(Args)]
pub struct LogOptions {
    /// How the log is written.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    log_format: Format,

    /// The log filter: a level, or `target=level` pairs separated by commas.
    #[arg(long, env = "RUST_LOG", default_value = "info", value_name = "FILTER")]
    log_level: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Human,
    Json,
}

/// Without it, h2 warns of clients' errors once for each frame, and wasmtime of broken bodies once for each request. It
/// comes before the operator's filter, which may ask for more.
const QUIET: &str = "h2=error,wasmtime_wasi_http=error";

impl LogOptions {
    pub fn init(&self) -> Result<()> {
        let filter = EnvFilter::try_new(format!("{QUIET},{}", self.log_level))
            .map_err(|error| anyhow!("--log-level {}: {error}; write `debug`, for example", self.log_level))?;
        // tracing would print an error of the log to the same standard error, and panic if that fails. Then the program
        // that reads the log could end the threads that serve.
        let builder =
            tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
        match self.log_format {
            Format::Human => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
            Format::Json => builder.json().flatten_event(true).try_init(),
        }
        .map_err(|error| anyhow!("cannot start the log: {error}"))
    }
}
