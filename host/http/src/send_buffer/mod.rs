//! The responses that the host buffers for slow clients (decision 0060).
//!
//! A guest needs its instance until it has written its response. So the host reads a response as fast as the guest
//! writes it, and keeps the bytes that the client has not taken. Budgets for the connection, the client's address and
//! the host limit these bytes; past a budget the guest waits. A client below the minimum rate loses the response,
//! sooner if others wait for an instance ([`MinRateMonitor`]).
//!
//! Over HTTP/2, few requests of a connection may be pending at once: without a response, or with a response that waits
//! for the client ([`StreamRequests`]).
//!
//! A byte counts until it was written to the socket, also while it is in hyper's buffers: [`BudgetedBytes`] leave the
//! budgets as they are written.

mod admission;
mod budget;
mod drain;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::task::AtomicWaker;
use hexad_limits::instance_permit::InstancePermit;
use http_body::{Body, Frame};

use crate::body::{BodyError, PermitGuard, ResponseBody};

pub use admission::{PendingRequest, StreamRequests, Upload};
pub use budget::{Budget, Budgets, SendBudgets, SendLimits};
pub use drain::{BelowMinRate, BodyProgress, DrainPolicy, MinRateMonitor, Progress};

/// Bytes that an HTTP/2 stream takes besides its body until its client has taken the body, as measured.
const STREAM_BYTES: usize = 4 << 10;

/// The part of one response that its client has not taken.
pub struct SendBuffer {
    flow: Arc<BodyProgress>,
    budgets: Budgets,
    /// Set for a response on an HTTP/2 stream, which counts as [`STREAM_BYTES`] while it exists.
    requests: Option<Arc<StreamRequests>>,
    queue: Mutex<SendQueue>,
    /// Bytes in the queue or in hyper's buffers.
    held: AtomicUsize,
    /// Woken when the buffer has room, or when the response is abandoned.
    writer: AtomicWaker,
    /// Woken when a frame or the end has come.
    reader: AtomicWaker,
}

#[derive(Default)]
struct SendQueue {
    frames: VecDeque<Result<Frame<BudgetedBytes>, BodyError>>,
    is_complete: bool,
    is_abandoned: bool,
}

impl SendBuffer {
    /// `requests` belong to the HTTP/2 connection, if the response is on a stream.
    pub fn new(flow: Arc<BodyProgress>, budgets: Budgets, requests: Option<Arc<StreamRequests>>) -> Arc<Self> {
        if requests.is_some() {
            budgets.take(STREAM_BYTES);
        }
        Arc::new(Self {
            flow,
            budgets,
            requests,
            queue: Mutex::default(),
            held: AtomicUsize::new(0),
            writer: AtomicWaker::new(),
            reader: AtomicWaker::new(),
        })
    }

    /// Reads all of `body`, until the response is abandoned. If the body is not complete at once, a task of this thread
    /// reads on.
    pub fn fill(self: &Arc<Self>, mut body: ResponseBody, in_progress: Option<PermitGuard>) {
        let buffer = self.clone();
        let permit = in_progress.map(|PermitGuard(permit)| permit);
        buffer.flow.begin(permit.clone());
        // The bytes that the guest has written so far leave with the head. A whole body is one frame and the end, which
        // need no task. If the body is not complete, the task polls again, with a waker.
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            if !buffer.has_room(permit.as_deref()) {
                break;
            }
            match Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Ready(Some(frame)) => buffer.push(frame),
                Poll::Ready(None) => return buffer.complete(body, permit),
                Poll::Pending => break,
            }
        }
        tokio::spawn(async move {
            while let Some(frame) = buffer.next_frame(&mut body, permit.as_deref()).await {
                let is_broken = frame.is_err();
                buffer.push(frame);
                if is_broken {
                    break;
                }
            }
            buffer.complete(body, permit);
        });
    }

    /// Records the end of `body`.
    fn complete(&self, body: ResponseBody, permit: Option<Arc<InstancePermit>>) {
        // From here on the guest's instance is free, unless the guest works on.
        drop(body);
        if let Some(permit) = permit {
            permit.try_resume();
            self.flow.end(&permit);
        }
        self.queue().is_complete = true;
        self.reader.wake();
    }

    /// Waits for room, and then for a frame.
    async fn next_frame(
        &self,
        body: &mut ResponseBody,
        permit: Option<&InstancePermit>,
    ) -> Option<Result<Frame<Bytes>, BodyError>> {
        if !self.has_room(permit) && !self.wait_for_room(permit).await {
            return Some(Err(BodyError::SlowClient));
        }
        if let Some(permit) = permit {
            permit.try_resume();
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

    /// Waits for room, or until the response is abandoned. Meanwhile the instance yields its permit to others. False if
    /// the instance has to end for them.
    async fn wait_for_room(&self, permit: Option<&InstancePermit>) -> bool {
        let _behind = permit.and(self.requests.as_ref()).map(StreamRequests::begin_wait);
        let has_room = |cx: &mut Context<'_>| {
            self.writer.register(cx.waker());
            match self.has_room(permit) || self.queue().is_abandoned {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        };
        let yield_permit = async {
            match permit {
                Some(permit) => permit.yield_permit(Duration::ZERO).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(yield_permit);
        loop {
            let freed = self.budgets.freed();
            tokio::pin!(freed);
            // Enabled before the budgets are read, so that no release is missed.
            freed.as_mut().enable();
            let may_go_on = poll_fn(|cx| match has_room(cx) {
                Poll::Ready(()) => Poll::Ready(Some(true)),
                Poll::Pending if yield_permit.as_mut().poll(cx).is_ready() => Poll::Ready(Some(false)),
                Poll::Pending => freed.as_mut().poll(cx).map(|()| None),
            });
            if let Some(may_go_on) = may_go_on.await {
                return may_go_on;
            }
        }
    }

    /// Whether the buffer may take a frame. A response that holds nothing may exceed the budgets by one frame, so that
    /// every client progresses. A response without a guest may always: it is in memory as a whole.
    fn has_room(&self, permit: Option<&InstancePermit>) -> bool {
        let may_begin = || permit.is_none() || self.budgets.have_first_frame();
        !self.budgets.are_exhausted() || (self.held.load(Ordering::Relaxed) == 0 && may_begin())
    }

    fn push(self: &Arc<Self>, frame: Result<Frame<Bytes>, BodyError>) {
        let frame = frame.map(|frame| frame.map_data(|data| self.charge(data)));
        self.queue().frames.push_back(frame);
        self.reader.wake();
    }

    /// Counts the bytes in the budgets until they are written.
    pub fn charge(self: &Arc<Self>, bytes: Bytes) -> BudgetedBytes {
        self.held.fetch_add(bytes.len(), Ordering::Relaxed);
        self.flow.add(bytes.len());
        self.budgets.take(bytes.len());
        BudgetedBytes { bytes, buffer: Some(self.clone()) }
    }

    /// Whether the response is on an HTTP/2 stream.
    pub fn is_of_stream(&self) -> bool {
        self.requests.is_some()
    }

    fn give_back(&self, length: usize) {
        self.held.fetch_sub(length, Ordering::Relaxed);
        self.flow.remove(length);
        self.budgets.give_back(length);
        self.writer.wake();
    }

    /// The next frame for the client.
    pub fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<BudgetedBytes>, BodyError>>> {
        self.reader.register(cx.waker());
        let mut queue = self.queue();
        match queue.frames.pop_front() {
            None if !queue.is_complete => Poll::Pending,
            frame => Poll::Ready(frame),
        }
    }

    /// Drops the remaining frames and the body behind them: the client has gone.
    pub fn abandon(&self) {
        let mut queue = self.queue();
        queue.is_abandoned = true;
        let frames = std::mem::take(&mut queue.frames);
        drop(queue);
        drop(frames);
        self.writer.wake();
    }

    fn queue(&self) -> MutexGuard<'_, SendQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SendBuffer {
    fn drop(&mut self) {
        if self.requests.is_some() {
            self.budgets.give_back(STREAM_BYTES);
        }
    }
}

/// Bytes on their way to the socket. The bytes of a buffered response count in budgets until they are written or
/// dropped.
pub struct BudgetedBytes {
    bytes: Bytes,
    buffer: Option<Arc<SendBuffer>>,
}

impl BudgetedBytes {
    /// Bytes that no budget counts.
    pub fn free(bytes: Bytes) -> Self {
        Self { bytes, buffer: None }
    }

    /// Splits the last byte off, unless it is the only one.
    pub fn split_last(&mut self) -> Option<Self> {
        let at = self.bytes.len().checked_sub(1).filter(|at| *at > 0)?;
        Some(Self { bytes: self.bytes.split_off(at), buffer: self.buffer.clone() })
    }

    fn give_back(&self, length: usize) {
        if let Some(buffer) = self.buffer.as_ref().filter(|_| length > 0) {
            buffer.give_back(length);
        }
    }
}

impl Buf for BudgetedBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.give_back(count);
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        let bytes = self.bytes.copy_to_bytes(length);
        self.give_back(length);
        bytes
    }
}

impl Drop for BudgetedBytes {
    fn drop(&mut self) {
        self.give_back(self.bytes.len());
    }
}
