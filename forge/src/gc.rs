//! `hexad gc`: removes what nothing reaches any more, by hand or from time to time.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;
use serde_json::json;

use super::maintenance::{self, Place};
use super::server::Server;
use super::{Failure, counted};

/// Remove stored data that nothing reaches any more: what crashes, lost races and rewrites left
/// behind more than two hours ago. Safe while the server is used.
#[derive(Args)]
pub struct Gc {
    /// Count, and remove nothing.
    #[arg(long)]
    dry_run: bool,

    /// Do not wait two minutes for reads that may be under way; only if nobody uses the server.
    #[arg(long)]
    no_wait: bool,

    #[command(flatten)]
    place: Place,
}

impl Gc {
    pub fn run(self) -> Result<(), Failure> {
        let open = self.place.open()?;
        let no_wait = self.no_wait || self.dry_run || self.place.data.is_some();
        let wanted = json!({"dry_run": self.dry_run, "no_wait": no_wait});
        let verb = if self.dry_run { "garbage" } else { "removed" };
        for (area, sum) in maintenance::run(&open.server, "gc", &wanted, |_, _| Ok(()))? {
            let of = format!("{} of {}", sum.removed, counted(sum.keys, "key"));
            writeln!(std::io::stdout(), "{area}: {verb}: {of}, {}", ByteSize(sum.removed_bytes))?;
        }
        Ok(())
    }
}

/// How soon after the start the first removal begins, however rare they are.
const FIRST: Duration = Duration::from_secs(10 * 60);

/// The removal that a server does from time to time by itself: what `hexad gc` does, sent to its own
/// address. Dropping it ends it after the step under way.
pub struct Automatic {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Automatic {
    /// Begins `every` so often, and for the first time after ten minutes if that is sooner.
    pub fn start(address: SocketAddr, token: &str, every: Duration) -> Result<Self, Failure> {
        let mut address = address;
        if address.ip().is_unspecified() {
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        let server = Server::at(&format!("http://{address}"), token);
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name("gc".to_owned()).spawn(move || {
            let mut pause = every.min(FIRST);
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = every;
                match maintenance::run(&server, "gc", &json!({}), |_, _| Ok(())) {
                    Ok(sums) => {
                        for (area, sum) in sums {
                            tracing::info!(area, keys = sum.removed, bytes = sum.removed_bytes, "garbage removed");
                        }
                    }
                    Err(error) => tracing::warn!(%error, "garbage could not be removed"),
                }
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Automatic {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A run that waits is not waited for: the process ends, and the next one begins anew.
        if let Some(thread) = self.thread.take()
            && thread.is_finished()
            && thread.join().is_err()
        {
            tracing::error!("the removal of garbage panicked");
        }
    }
}
