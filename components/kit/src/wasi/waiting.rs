//! Calls that may not wait. In such a call, a future of an `async` import, a stream or a timer must not be polled.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

thread_local! {
    /// Whether the present call may wait.
    static IS_ALLOWED: Cell<bool> = const { Cell::new(true) };
}

/// Runs `work`, in which [`allowed`] is pending.
pub fn without<T>(work: impl FnOnce() -> T) -> T {
    IS_ALLOWED.set(false);
    let done = work();
    IS_ALLOWED.set(true);
    done
}

/// Is ready in a call that may wait.
pub async fn allowed() {
    poll_fn(|cx| {
        if IS_ALLOWED.get() {
            return Poll::Ready(());
        }
        // The call that may wait polls the handler again. A set of futures within it polls only woken futures.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
