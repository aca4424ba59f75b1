//! The thread that ends trials. In development, it also swaps in rebuilt components.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use hexad_runtime::component::DeploymentEvent;
use hexad_support::bounded_file::read_component;
use hexad_support::serving_threads::ServingThreads;

use super::{Deployer, Signature, SwapRequest};

/// How often the sources are checked.
const WATCH_INTERVAL: Duration = Duration::from_millis(300);

/// How long after a panic the next turn begins.
const RETRY_AFTER: Duration = Duration::from_secs(1);

const NAME: &str = "supervisor";

/// The actor of its swaps in the audit log.
const ACTOR: &str = "watch";

/// Owns the thread.
pub struct Supervisor(JoinHandle<()>);

/// A file's modification time and size.
type Stamp = Option<(SystemTime, u64)>;

/// A component's source and its signature.
type Stamps = (Stamp, Stamp);

impl Supervisor {
    /// `watch`: the thread swaps in a component whenever its source changes.
    pub fn start(
        deployer: Arc<Deployer>,
        events: Receiver<DeploymentEvent>,
        watch: bool,
        threads: ServingThreads,
    ) -> io::Result<Self> {
        let mut watcher = watch.then(|| Watcher::new(&deployer));
        let interval = watch.then_some(WATCH_INTERVAL);
        let supervise = move || {
            // Both read files, which would delay the start. No rollback needs them earlier.
            threads.turn(NAME, || {
                deployer.log_interrupted_trials();
                deployer.preserve_active();
            });
            take_turns(&events, &threads, interval, |event| {
                if let Some(DeploymentEvent::CanaryFailed { component, digest, reason }) = event {
                    deployer.canary_failed(&component, digest, &reason);
                }
                let wait = deployer.end_trials();
                if let Some(watcher) = &mut watcher {
                    watcher.check(&deployer);
                }
                wait
            });
        };
        std::thread::Builder::new().name(NAME.to_owned()).spawn(supervise).map(Self)
    }

    /// Waits for the thread. The caller must have closed the deployer.
    pub fn join(self) {
        if self.0.join().is_err() {
            tracing::error!("the supervisor panicked");
        }
    }
}

/// Calls `turn` for each event, and at the latest after `interval` or the time that `turn` returned, until the host
/// stops. After a panic the loop continues: a component that cannot be compiled must not keep a canary on trial for
/// ever.
fn take_turns(
    events: &Receiver<DeploymentEvent>,
    threads: &ServingThreads,
    interval: Option<Duration>,
    mut turn: impl FnMut(Option<DeploymentEvent>) -> Option<Duration>,
) {
    let mut wait = Some(Duration::ZERO);
    loop {
        let event = match wait {
            Some(wait) => events.recv_timeout(wait),
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let event = match event {
            Ok(DeploymentEvent::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
        };
        let next = threads.turn(NAME, || turn(event)).unwrap_or(Some(RETRY_AFTER));
        wait = next.into_iter().chain(interval).min();
    }
}

/// Swaps in rebuilt components.
struct Watcher {
    /// By component: the stamps of the served files, and the stamps at the last check.
    seen: HashMap<String, (Stamps, Stamps)>,
}

impl Watcher {
    fn new(deployer: &Deployer) -> Self {
        let services = deployer.application().services().iter();
        let seen = services.map(|service| {
            let now = stamps(&service.component().source);
            (service.id().to_owned(), (now, now))
        });
        Self { seen: seen.collect() }
    }

    fn check(&mut self, deployer: &Deployer) {
        for service in deployer.application().services() {
            let component = service.component();
            let now = stamps(&component.source);
            let Some((served, last)) = self.seen.get_mut(&component.id) else { continue };
            // A file that is still being written changes between two checks.
            let settled = now == std::mem::replace(last, now);
            if !settled || now == *served || now.0.is_none() {
                continue;
            }
            // A build that comes during a canary waits until the trial has ended.
            if service.deployment().canary.is_some() {
                continue;
            }
            let Ok(wasm) = read_component(&component.source) else { continue };
            *served = now;
            let signature = Signature::read(&Signature::beside(&component.source)).unwrap_or_else(|error| {
                tracing::warn!(component = component.id, %error, "the signature is ignored");
                None
            });
            let (id, by) = (component.id.clone(), ACTOR.to_owned());
            let (wasm, canary, without, expected) = (wasm.into(), None, Vec::new(), None);
            let request = SwapRequest { component: id, wasm, signature, by, canary, without, expected };
            // `swap` logs a refusal; the next build may succeed.
            let _ = deployer.swap(&request);
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_panic_in_a_turn_ends_no_later_turn() {
        let (sender, events) = mpsc::channel();
        let threads = ServingThreads::default();
        let mut turns = 0;
        for _ in 0..2 {
            sender.send(DeploymentEvent::CanaryBegan).unwrap();
        }
        take_turns(&events, &threads, None, |event| {
            turns += 1;
            match turns {
                1 => panic!("a defect of the compiler"),
                2 => {
                    assert!(event.is_some());
                    assert_eq!(threads.ended(), ["supervisor"], "until a turn ends well");
                    Some(Duration::ZERO)
                }
                _ => {
                    assert!(event.is_none() && threads.ended().is_empty());
                    sender.send(DeploymentEvent::Stop).unwrap();
                    None
                }
            }
        });
        assert_eq!(turns, 3);
    }
}
