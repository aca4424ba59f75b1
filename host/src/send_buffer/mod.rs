//! What the host holds for a client that reads slowly.
//!
//! A guest needs its instance until it has written its response. So the host takes a response from the
//! guest as fast as the guest writes it, and keeps what the client has not taken, within budgets for the
//! connection, the client's address and the host. Past a budget the guest waits. A client that takes less
//! than a minimum rate loses the response, at once if others wait for the instance ([`DrainMonitor`]).
//!
//! A byte counts until it was written to the socket, also while it is in a buffer of the HTTP
//! implementation: each chunk that is handed on owns its part of the budgets.

mod budget;
mod drain;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures::task::AtomicWaker;
use http_body::{Body, Frame};

pub use budget::{Budget, Budgets, SendBudgets, SendLimits};
pub use drain::{DrainMonitor, DrainPolicy, Flow, Progress, TooSlow};

use crate::body::{BodyError, InProgress, ResponseBody};

/// The largest chunk that is handed on, in bytes: a client's progress is seen in steps of this size.
const CHUNK: usize = 16 * 1024;

/// The part of one response that its client has not taken.
pub struct SendBuffer {
    flow: Arc<Flow>,
    budgets: Budgets,
    queue: Mutex<Queue>,
    /// Bytes that are in the queue or in a buffer of the HTTP implementation.
    held: AtomicUsize,
    /// Woken when there is room, or when the response is abandoned.
    writer: AtomicWaker,
    /// Woken when there is a frame, or the end.
    reader: AtomicWaker,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Result<Frame<Bytes>, BodyError>>,
    is_complete: bool,
    is_abandoned: bool,
}

impl SendBuffer {
    pub fn new(flow: Arc<Flow>, budgets: Budgets) -> Arc<Self> {
        Arc::new(Self {
            flow,
            budgets,
            queue: Mutex::default(),
            held: AtomicUsize::new(0),
            writer: AtomicWaker::new(),
            reader: AtomicWaker::new(),
        })
    }

    /// Takes all of `body`, on a task of this thread, until the response is abandoned.
    pub fn fill(self: &Arc<Self>, mut body: ResponseBody, in_progress: Option<InProgress>) {
        let buffer = self.clone();
        buffer.flow.begin(in_progress.and_then(|InProgress(contention)| contention));
        // What the guest has written so far goes to the socket together with the head. The task polls again.
        if buffer.has_room()
            && let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()))
        {
            buffer.push(frame);
        }
        tokio::spawn(async move {
            while let Some(frame) = buffer.next_frame(&mut body).await {
                buffer.push(frame);
            }
            // The guest's instance is free from here on.
            drop(body);
            buffer.flow.end();
            buffer.queue().is_complete = true;
            buffer.reader.wake();
        });
    }

    /// Waits for room, and then for a frame.
    async fn next_frame(&self, body: &mut ResponseBody) -> Option<Result<Frame<Bytes>, BodyError>> {
        let has_room = |cx: &mut Context<'_>| {
            self.writer.register(cx.waker());
            match self.has_room() || self.queue().is_abandoned {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        };
        loop {
            let freed = self.budgets.freed();
            tokio::pin!(freed);
            // Registered before the budgets are looked at, so that no release is missed.
            freed.as_mut().enable();
            let found_room = poll_fn(|cx| match has_room(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending => freed.as_mut().poll(cx).map(|()| false),
            });
            if found_room.await {
                break;
            }
        }
        poll_fn(|cx| {
            self.writer.register(cx.waker());
            match self.queue().is_abandoned {
                true => Poll::Ready(None),
                false => Pin::new(&mut *body).poll_frame(cx),
            }
        })
        .await
    }

    /// A response that holds nothing may always take one frame, so that every client gets on.
    fn has_room(&self) -> bool {
        self.held.load(Ordering::Relaxed) == 0 || !self.budgets.are_exhausted()
    }

    fn push(self: &Arc<Self>, frame: Result<Frame<Bytes>, BodyError>) {
        match frame.map(Frame::into_data) {
            Ok(Ok(mut data)) => {
                let mut chunks = VecDeque::with_capacity(data.len().div_ceil(CHUNK));
                while !data.is_empty() {
                    chunks.push_back(Ok(Frame::data(self.charge(data.split_to(CHUNK.min(data.len()))))));
                }
                self.queue().frames.append(&mut chunks);
            }
            Ok(Err(other)) => self.queue().frames.push_back(Ok(other)),
            Err(error) => self.queue().frames.push_back(Err(error)),
        }
        self.reader.wake();
    }

    /// The bytes, with their part of the budgets, which ends when they are dropped.
    pub fn charge(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        self.held.fetch_add(bytes.len(), Ordering::Relaxed);
        self.flow.add(bytes.len());
        self.budgets.take(bytes.len());
        Bytes::from_owner(Charged { bytes, buffer: self.clone() })
    }

    /// The next frame for the client.
    pub fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.reader.register(cx.waker());
        let mut queue = self.queue();
        match queue.frames.pop_front() {
            None if !queue.is_complete => Poll::Pending,
            frame => Poll::Ready(frame),
        }
    }

    /// Drops what is left, and the body that it comes from: the client has gone.
    pub fn abandon(&self) {
        let mut queue = self.queue();
        queue.is_abandoned = true;
        let frames = std::mem::take(&mut queue.frames);
        drop(queue);
        drop(frames);
        self.writer.wake();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that count in the budgets of a buffer.
struct Charged {
    bytes: Bytes,
    buffer: Arc<SendBuffer>,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        let length = self.bytes.len();
        self.buffer.held.fetch_sub(length, Ordering::Relaxed);
        self.buffer.flow.remove(length);
        self.buffer.budgets.give_back(length);
        self.buffer.writer.wake();
    }
}
