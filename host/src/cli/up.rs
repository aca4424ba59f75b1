//! `hexad up`: serves an application until it is told to stop.

use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use jiff::SignedDuration;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::gc::Automatic;
use super::log::LogOptions;
use super::{Failure, demo};
use crate::host::{Host, Options};
use crate::manifest::{self, Manifest};
use crate::runtime::Runtime;

/// How long requests under way may take when the host stops.
const GRACE: Duration = Duration::from_secs(30);

/// The folder of compiled code in the data directory.
pub const CODE: &str = "code";

/// Serve the application of a manifest.
#[derive(Args)]
pub struct Up {
    /// The application's manifest.
    #[arg(long, default_value = manifest::FILE_NAME, value_name = "FILE")]
    manifest: PathBuf,

    /// The address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    listen: SocketAddr,

    /// The folder for the store and for compiled code.
    #[arg(long, default_value = "data", value_name = "FOLDER")]
    data: PathBuf,

    /// The address under which clients reach this host, if it is not the one it listens on.
    #[arg(long, value_name = "URL")]
    external_url: Option<String>,

    /// Certificates (PEM) of authorities that components' outbound requests trust, besides the
    /// system's.
    #[arg(long, value_name = "FILE")]
    outbound_ca: Option<PathBuf>,

    /// How many threads serve requests [default: one for each processor].
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Load a small demo and print its tokens, unless the store has it already.
    #[arg(long)]
    demo: bool,

    /// How often stored data that nothing reaches any more is removed, as with `hexad gc`; 0 is never.
    #[arg(long, default_value = "6h", value_name = "TIME", value_parser = period)]
    gc_every: Duration,

    #[command(flatten)]
    log: LogOptions,
}

impl Up {
    pub fn run(self) -> Result<(), Failure> {
        let started = Instant::now();
        self.log.init()?;
        // The demo and the removal of garbage need somebody who may do that; without a token in the
        // environment, one that nobody else gets to know.
        let stranger = if self.demo || !self.gc_every.is_zero() { Some(demo::token()?) } else { None };
        let environment = |name: &str| match std::env::var(name).ok() {
            value if name == demo::ADMIN_TOKEN => value.filter(|token| !token.is_empty()).or_else(|| stranger.clone()),
            value => value,
        };
        let manifest = Manifest::load(&self.manifest, &environment, self.external_url.as_deref())?;
        let runtime = Runtime::new(Some(self.data.join(CODE)))?;
        let mut options = Options::new(self.data.clone());
        options.outbound.authority = self.outbound_ca;
        if let Some(threads) = self.threads {
            options.threads = threads;
        }
        let signals = Signals::catch()?;
        let mut host = Host::start(&runtime, manifest, &options)?;
        let address = host.listen(self.listen).map_err(|error| {
            format!("cannot listen on {}: {error}; choose another address with --listen", self.listen)
        })?;
        let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(%address, threads = options.threads, milliseconds, "serving");
        // For people and for programs that start this one: the real address, on one line.
        writeln!(std::io::stdout(), "listening on http://{address}")?;
        if let Some(admin) = environment(demo::ADMIN_TOKEN).filter(|_| self.demo) {
            let text = demo::load(&format!("http://{address}"), &admin, &self.data)?;
            write!(std::io::stdout(), "{text}")?;
        }

        let gc = match environment(demo::ADMIN_TOKEN) {
            Some(admin) if !self.gc_every.is_zero() => Some(Automatic::start(address, &admin, self.gc_every)?),
            _ => None,
        };

        let name = signals.wait()?;
        drop(gc);
        tracing::info!(signal = name, "stopping; requests under way may finish");
        host.stop(GRACE);
        tracing::info!("stopped");
        Ok(())
    }
}

fn period(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let parsed = text.parse::<SignedDuration>().ok().and_then(|period| Duration::try_from(period).ok());
    parsed.ok_or_else(|| "write a number and a unit, such as 6h, or 0".to_owned())
}

/// The signals that stop the host, caught from before it starts.
struct Signals {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let context = runtime.enter();
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        drop(context);
        Ok(Self { runtime, terminate, interrupt })
    }

    fn wait(mut self) -> Result<&'static str, Failure> {
        Ok(self.runtime.block_on(async {
            tokio::select! {
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.interrupt.recv() => "SIGINT",
            }
        }))
    }
}
