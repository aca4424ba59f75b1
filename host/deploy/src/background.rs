//! Work at low priority, so that it does not slow requests down.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::stop_phase::{StopPhase, StopPhases};

/// The `nice` value of the threads.
const NICE: i32 = 15;

/// Runs `work`, including wasmtime's compilations, on threads of low priority, and waits for it. `None` once the host
/// has come to `end`. The work then continues in the background, because a compilation cannot be interrupted.
pub fn run<T: Send + 'static>(
    phases: &StopPhases,
    end: StopPhase,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    // wasmtime compiles on the rayon pool of the calling thread.
    let pool = rayon::ThreadPoolBuilder::new()
        .thread_name(|index| format!("compile-{index}"))
        .start_handler(|_| lower_priority())
        .build()
        .map_err(io::Error::other)?;
    let outcome = Arc::new(Mutex::new(None));
    let (made, waiting) = (outcome.clone(), phases.clone());
    pool.spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        waiting.notify();
    });
    let outcome = phases.wait_for(end, || outcome.lock().unwrap_or_else(PoisonError::into_inner).take());
    outcome.map(|outcome| outcome.map_err(|panic| resume_unwind(panic))).transpose()
}

fn lower_priority() {
    // On Linux, a thread has its own priority and may always lower it.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "the priority of a thread cannot be lowered");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use hexad_testing::wait::{SOON, join};

    #[test]
    fn a_stop_does_not_wait_for_compilations() {
        let phases = StopPhases::default();
        let (begin, began) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let waiting = {
            let phases = phases.clone();
            std::thread::spawn(move || {
                run(&phases, StopPhase::Stopping, move || (begin.send(()).unwrap(), ended.recv().is_ok())).unwrap()
            })
        };
        began.recv_timeout(SOON).unwrap();
        phases.enter(StopPhase::Stopping);
        assert_eq!(join(waiting, "the end of the wait for a compilation"), None);
        drop(end);
    }

    #[test]
    fn work_that_other_hosts_wait_for_continues_while_stopping() {
        let phases = StopPhases::default();
        phases.enter(StopPhase::Stopping);
        assert_eq!(run(&phases, StopPhase::Ended, || 1).unwrap(), Some(1));
        phases.enter(StopPhase::Ended);
        phases.enter(StopPhase::Stopping);
        assert!(phases.is_in(StopPhase::Ended), "a phase does not come back");
    }

    #[test]
    fn a_panic_is_that_of_the_caller() {
        let run = || run(&StopPhases::default(), StopPhase::Stopping, || panic!("a defect"));
        assert!(catch_unwind(run).is_err());
    }
}
