//! Work that must not be in the way of requests.

use std::io;

/// How much the threads of such work stand back (`nice`).
const NICE: i32 = 15;

/// Runs `work`, and the compilation in it, on threads of low priority, and waits for it.
pub fn run<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    // wasmtime compiles on the pool that it is called from.
    let pool = rayon::ThreadPoolBuilder::new()
        .thread_name(|index| format!("compile-{index}"))
        .start_handler(|_| stand_back())
        .build()
        .map_err(io::Error::other)?;
    Ok(pool.install(work))
}

fn stand_back() {
    // On Linux a priority is a thread's own, and one's own can always be lowered.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "the priority of a thread cannot be lowered");
    }
}
