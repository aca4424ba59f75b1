//! Calls of the host that may not wait. A future of an `async` import, a stream or a timer must not be polled in one.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

thread_local! {
    /// Whether the call under way may wait.
    static IS_ALLOWED: Cell<bool> = const { Cell::new(true) };
}

/// Runs `work`, in which [`allowed`] is not ready.
pub fn without<T>(work: impl FnOnce() -> T) -> T {
    IS_ALLOWED.set(false);
    let done = work();
    IS_ALLOWED.set(true);
    done
}

/// Ready in a call that may wait.
pub async fn allowed() {
    poll_fn(|cx| {
        if IS_ALLOWED.get() {
            return Poll::Ready(());
        }
        // The call that may wait polls the handler again. A set of futures in it polls only those that were woken.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
