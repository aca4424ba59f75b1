//! The waits of `wait.rs` as futures. They have their own file, because not all crates that wait have tokio.
//!
//! They use tokio's clock. While the runtime is idle, a paused clock jumps to the deadline, so a wait for another
//! thread fails at once.

use std::panic::Location;
use std::time::Duration;

use crate::wait::{BETWEEN_LOOKS, failure};

/// Lets every ready task of the runtime run once. It waits for no event.
pub async fn next_turn() {
    tokio::task::yield_now().await;
}

/// Waits until the condition holds.
#[track_caller]
pub fn wait_until_async(
    deadline: Duration,
    what: &str,
    mut condition: impl AsyncFnMut() -> bool,
) -> impl Future<Output = ()> {
    wait_for_async(deadline, what, async move || condition().await.then_some(()))
}

/// Waits until there is a value.
#[track_caller]
pub fn wait_for_async<T>(
    deadline: Duration,
    what: &str,
    mut value: impl AsyncFnMut() -> Option<T>,
) -> impl Future<Output = T> {
    within_async(deadline, what, async move {
        loop {
            if let Some(value) = value().await {
                return value;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    })
}

/// Waits for a future.
#[track_caller]
pub fn within_async<T>(deadline: Duration, what: &str, future: impl Future<Output = T>) -> impl Future<Output = T> {
    // An `async fn` does not have `#[track_caller]`'s location.
    let caller = Location::caller();
    async move {
        match tokio::time::timeout(deadline, future).await {
            Ok(value) => value,
            Err(_) => panic!("{caller}: {}", failure(deadline, what)),
        }
    }
}
