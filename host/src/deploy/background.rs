//! Work at low priority, so that it does not slow requests down.

use std::io;

/// The `nice` value of its threads.
const NICE: i32 = 15;

/// Runs `work`, including any compilation by wasmtime, on threads of low priority, and waits for it.
pub fn run<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    // wasmtime compiles on the rayon pool that it is called from.
    let pool = rayon::ThreadPoolBuilder::new()
        .thread_name(|index| format!("compile-{index}"))
        .start_handler(|_| lower_priority())
        .build()
        .map_err(io::Error::other)?;
    Ok(pool.install(work))
}

fn lower_priority() {
    // On Linux, a thread has its own priority and may always lower it.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "the priority of a thread cannot be lowered");
    }
}
