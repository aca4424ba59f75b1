//! The thread that looks after what nobody asks for: the end of trials, and, in development,
//! components that were built anew.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use super::{Deployer, Event, Order, Signature};

/// How often the sources are looked at.
const LOOK: Duration = Duration::from_millis(300);

/// The name under which it swaps.
const BY: &str = "watch";

/// Owns the thread.
pub struct Keeper(JoinHandle<()>);

/// How a file looks from outside.
type Stamp = Option<(SystemTime, u64)>;

/// A component's source and its signature.
type Stamps = (Stamp, Stamp);

impl Keeper {
    /// `watch`: swap in a component whenever its source changes.
    pub fn start(deployer: Arc<Deployer>, events: Receiver<Event>, watch: bool) -> io::Result<Self> {
        let mut watcher = watch.then(|| Watcher::new(&deployer));
        let keep = move || {
            // Not before the first requests: nothing can be rolled back yet.
            deployer.keep_serving();
            let mut wait = None;
            loop {
                let wait_now = match (&watcher, wait) {
                    (Some(_), wait) => Some(LOOK.min(wait.unwrap_or(LOOK))),
                    (None, wait) => wait,
                };
                let event = match wait_now {
                    Some(wait) => events.recv_timeout(wait),
                    None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
                };
                match event {
                    Ok(Event::CanaryFailed { component, digest, reason }) => {
                        deployer.canary_failed(&component, digest, &reason);
                    }
                    Ok(Event::CanaryBegan) | Err(RecvTimeoutError::Timeout) => {}
                    Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                }
                wait = deployer.look_after_canaries();
                if let Some(watcher) = &mut watcher {
                    watcher.look(&deployer);
                }
            }
        };
        std::thread::Builder::new().name("keeper".to_owned()).spawn(keep).map(Self)
    }

    /// Waits for the thread; the deployer must have been closed.
    pub fn join(self) {
        if self.0.join().is_err() {
            tracing::error!("the keeper panicked");
        }
    }
}

/// Swaps in what was built anew.
struct Watcher {
    /// By component: what is served, and what was seen last.
    seen: HashMap<String, (Stamps, Stamps)>,
}

impl Watcher {
    fn new(deployer: &Deployer) -> Self {
        let slots = deployer.application().slots().iter();
        let seen = slots.map(|slot| {
            let now = stamps(&slot.component().source);
            (slot.component().id.clone(), (now, now))
        });
        Self { seen: seen.collect() }
    }

    fn look(&mut self, deployer: &Deployer) {
        for slot in deployer.application().slots() {
            let component = slot.component();
            let now = stamps(&component.source);
            let Some((served, last)) = self.seen.get_mut(&component.id) else { continue };
            // A file that is still being written looks different every time.
            let settled = now == std::mem::replace(last, now);
            if !settled || now == *served || now.0.is_none() {
                continue;
            }
            *served = now;
            let Ok(wasm) = std::fs::read(&component.source) else { continue };
            let signature = Signature::read(&Signature::beside(&component.source)).unwrap_or_else(|error| {
                tracing::warn!(component = component.id, %error, "taken for no signature");
                None
            });
            let (id, by) = (component.id.clone(), BY.to_owned());
            let order = Order { component: id, wasm: wasm.into(), signature, by, canary: None };
            // A refusal is in the log; the next build may be better.
            let _ = deployer.swap(&order);
        }
    }
}

fn stamps(source: &Path) -> Stamps {
    (stamp(source), stamp(&Signature::beside(source)))
}

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
