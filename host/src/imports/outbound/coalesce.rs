//! Request coalescing: the host sends equal concurrent requests of one component once. The requests must be equal byte
//! for byte, and the manifest must allow it for their method (`coalesce`, `coalesce_methods`). Two equal requests of an
//! unsafe method, such as POST, may be meant to have their effect twice.
//!
//! The first request with a permit is the leader. A task sends it, so it does not end with the leader's client. Equal
//! requests that come before the head of the response are followers: they get the same response or the same error. The
//! task ends early if leader and followers have gone.
//!
//! A follower sends nothing and needs no permit. A request that waits for its permit has no followers, so a client at
//! its limit delays no other client. Such a request follows an equal one that gets a permit first.
//!
//! A response without followers is not copied. The task reads a shared one at the pace of its fastest reader. The host's
//! memory budget counts a chunk until its last reader has it, so a slow reader delays no other.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, join_all};
use futures::stream::{self, StreamExt, TryStreamExt};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use wasmtime_wasi_http::{Error as WasiError, WasiBody};

use super::component_outbound::OutboundCounters;
use super::error::clone_error;
use crate::body::content_length;
use crate::memory_budget::{MemoryBudget, Reservation};

/// The longest request body that is compared, in bytes. Requests with a longer body are not coalesced. Requests without
/// a declared length are coalesced only if their method usually has no body.
const MAX_COMPARED_BODY: u64 = 1 << 20;

type SendResult = Result<Response<WasiBody>, WasiError>;
type Exchange = BoxFuture<'static, SendResult>;

/// A leader or follower, for the task.
type Waiter = oneshot::Sender<SendResult>;

/// The requests without a response, by their digests. Leaders and followers own the strong senders.
type InFlight = HashMap<[u8; 32], WeakUnboundedSender<Waiter>>;

/// A chunk of a shared response, or `None` at its end.
type Chunk = Result<Option<(Bytes, Arc<Reservation>)>, WasiError>;

/// The requests of one component.
pub struct Coalescer {
    memory: Arc<MemoryBudget>,
    in_flight: Mutex<InFlight>,
    /// Wakes the requests that wait for a permit when another one has a permit.
    begun: Notify,
    counters: Arc<OutboundCounters>,
}

impl Coalescer {
    pub fn new(memory: Arc<MemoryBudget>, counters: Arc<OutboundCounters>) -> Self {
        Self { memory, in_flight: Mutex::default(), begun: Notify::new(), counters }
    }

    /// Waits for a permit (`acquire`) and sends the request (`send`), or waits for the response to an equal request.
    pub async fn send<P>(
        &self,
        request: Request<WasiBody>,
        acquire: impl Future<Output = Result<P, WasiError>>,
        send: impl FnOnce(Request<WasiBody>, P) -> Exchange,
    ) -> SendResult {
        let length = content_length(request.headers());
        let has_no_body = length.is_none() && matches!(*request.method(), Method::GET | Method::HEAD);
        if !has_no_body && length.is_none_or(|length| length > MAX_COMPARED_BODY) {
            let permit = acquire.await?;
            return send(request, permit).await;
        }
        let (parts, body) = request.into_parts();
        let mut memory = Reservation::new(self.memory.clone());
        let body = buffer(body, &mut memory).await?;
        let digest = digest(&parts, &body);
        let send = |permit| {
            let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
            let exchange = send(Request::from_parts(parts, body), permit);
            let counted = async move {
                let _memory = memory;
                exchange.await
            };
            counted.boxed()
        };
        let (response, _sender) = self.follow_or_lead(digest, acquire, send).await?;
        // The task ends without a response only if its shard stops.
        response.await.unwrap_or(Err(WasiError::ConnectionTerminated))
    }

    /// Returns the receiver of the response, and a sender that keeps the task running.
    async fn follow_or_lead<P>(
        &self,
        digest: [u8; 32],
        acquire: impl Future<Output = Result<P, WasiError>>,
        send: impl FnOnce(P) -> Exchange,
    ) -> Result<(oneshot::Receiver<SendResult>, UnboundedSender<Waiter>), WasiError> {
        let mut acquire = pin!(acquire);
        let mut permit = None;
        loop {
            let begun = self.begun.notified();
            {
                let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
                let (waiter, response) = oneshot::channel();
                if let Some(waiters) = in_flight.get(&digest).and_then(WeakUnboundedSender::upgrade)
                    && waiters.send(waiter).is_ok()
                {
                    self.counters.coalesced.add(1);
                    return Ok((response, waiters));
                }
                if let Some(permit) = permit {
                    let (waiter, response) = oneshot::channel();
                    let (waiters, queue) = unbounded_channel();
                    let _ = waiters.send(waiter);
                    in_flight.retain(|_, waiters| waiters.strong_count() > 0);
                    in_flight.insert(digest, waiters.downgrade());
                    tokio::spawn(lead(send(permit), queue, self.memory.clone()));
                    self.begun.notify_waiters();
                    return Ok((response, waiters));
                }
            }
            tokio::select! {
                acquired = &mut acquire => permit = Some(acquired?),
                () = begun => {}
            }
        }
    }
}

/// Sends a request, and gives the response to leader and followers.
async fn lead(mut exchange: Exchange, mut queue: UnboundedReceiver<Waiter>, memory: Arc<MemoryBudget>) {
    let mut waiting = Vec::new();
    let response = loop {
        tokio::select! {
            response = &mut exchange => break response,
            waiter = queue.recv() => match waiter {
                Some(waiter) => waiting.push(waiter),
                None => return,
            },
        }
    };
    drop(exchange);
    queue.close();
    while let Some(waiter) = queue.recv().await {
        waiting.push(waiter);
    }
    waiting.retain(|waiter| !waiter.is_closed());
    match (<[Waiter; 1]>::try_from(waiting), response) {
        (Ok([only]), response) => drop(only.send(response)),
        (Err(waiting), Ok(response)) => share(response, waiting, memory).await,
        (Err(waiting), Err(error)) => {
            waiting.into_iter().for_each(|waiter| drop(waiter.send(Err(clone_error(&error)))));
        }
    }
}

/// Gives a response to several readers until it ends or all of them have gone. It loses its trailers.
async fn share(response: Response<WasiBody>, waiting: Vec<Waiter>, memory: Arc<MemoryBudget>) {
    let (head, mut body) = response.into_parts();
    let wanted = Arc::new(Notify::new());
    let reader = |waiter: Waiter| {
        let (reader, chunks) = unbounded_channel();
        drop(waiter.send(Ok(Response::from_parts(head.clone(), shared_body(chunks, wanted.clone())))));
        reader
    };
    let readers: Vec<_> = waiting.into_iter().map(reader).collect();
    let copy = async {
        loop {
            wanted.notified().await;
            let chunk = match body.frame().await {
                Some(frame) => frame.and_then(|frame| {
                    let data = frame.into_data().unwrap_or_default();
                    let mut reservation = Reservation::new(memory.clone());
                    reserve(&mut reservation, &data)?;
                    Ok(Some((data, Arc::new(reservation))))
                }),
                None => Ok(None),
            };
            for reader in &readers {
                let _ = reader.send(chunk.as_ref().cloned().map_err(clone_error));
            }
            if !matches!(chunk, Ok(Some(_))) {
                return;
            }
        }
    };
    tokio::select! {
        () = copy => {}
        _ = join_all(readers.iter().map(UnboundedSender::closed)) => {}
    }
}

/// The body of a shared response for one reader.
fn shared_body(mut chunks: UnboundedReceiver<Chunk>, wanted: Arc<Notify>) -> WasiBody {
    let frames = stream::poll_fn(move |cx| {
        let chunk = chunks.poll_recv(cx);
        if chunk.is_pending() {
            wanted.notify_one();
        }
        // Without an end of the body, the shard of the task has stopped.
        chunk.map(|chunk| chunk.unwrap_or(Err(WasiError::HttpResponseIncomplete)).transpose())
    });
    StreamBody::new(frames.map_ok(|(data, _)| Frame::data(data)).fuse()).boxed_unsync()
}

/// A digest of what the server receives.
fn digest(parts: &Parts, body: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    // Each part is hashed with its length, so that two different requests never hash the same bytes.
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    add(parts.method.as_str().as_bytes());
    add(parts.uri.to_string().as_bytes());
    for (name, value) in &parts.headers {
        add(name.as_str().as_bytes());
        add(value.as_bytes());
    }
    add(body);
    hash.finalize().into()
}

/// Reads a request body of at most [`MAX_COMPARED_BODY`].
async fn buffer(body: WasiBody, memory: &mut Reservation) -> Result<Bytes, WasiError> {
    let mut body = Limited::new(body, MAX_COMPARED_BODY as usize);
    let mut buffered = Vec::new();
    while let Some(frame) = body.frame().await {
        let too_large = WasiError::HttpRequestBodySize(Some(MAX_COMPARED_BODY));
        let frame = frame.map_err(|error| error.downcast::<WasiError>().map_or(too_large, |error| *error))?;
        let data = frame.into_data().unwrap_or_default();
        reserve(memory, &data)?;
        buffered.extend_from_slice(&data);
    }
    Ok(buffered.into())
}

fn reserve(memory: &mut Reservation, data: &[u8]) -> Result<(), WasiError> {
    let denied = || WasiError::InternalError(Some("the host has no memory for equal outbound requests".to_owned()));
    memory.grow(data.len() as u64).then_some(()).ok_or_else(denied)
}

#[cfg(test)]
mod tests;
