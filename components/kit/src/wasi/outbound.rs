//! The outbound port over `wasi:http/client`.

use crate::body::{Body, BodyError, Chunk};
use crate::outbound::{Client, OutboundError, OutboundRequest, OutboundResponse, Timeouts};
use bytes::Bytes;
use futures::future::{self, Either, LocalBoxFuture};
use futures::stream::{self, StreamExt};
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use spin_sdk::wasip3::clocks::monotonic_clock;
use spin_sdk::wasip3::http::client;
use spin_sdk::wasip3::http::types::{ErrorCode, Fields, Method, Request, RequestOptions, Response, Scheme, Trailers};
use spin_sdk::wasip3::wit_bindgen::{FutureReader, FutureWriter, StreamReader, StreamResult};
use spin_sdk::wasip3::{spawn, wit_future, wit_stream};
use std::time::Duration;

/// The size of one read of a response body, in bytes. The first applies if the server declares no length, or after a
/// smaller read. The second applies after a full read. Larger reads need fewer calls of the host. A copy beyond the
/// second size does not stay in the processor's cache.
const READ: (usize, usize) = (16 << 10, 256 << 10);

/// A client with the outbound access that the manifest grants.
pub struct Network;

impl Client for Network {
    fn send(&self, call: OutboundRequest) -> LocalBoxFuture<'static, Result<OutboundResponse, OutboundError>> {
        Box::pin(async move {
            let mut budget = Budget::new(call.timeouts.total);
            let request = request(call).map_err(|why| OutboundError::Other(why.into()))?;
            let answered = budget.spend(client::send(request)).await.ok_or(OutboundError::Timeout)?;
            let response = answered.map_err(failure)?;
            let status = StatusCode::from_u16(response.get_status_code())
                .map_err(|why| OutboundError::Other(why.to_string()))?;
            let mut headers = HeaderMap::new();
            for (name, value) in response.get_headers().copy_all() {
                if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                    headers.append(name, value);
                }
            }
            let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
            Ok(OutboundResponse { status, headers, body: Body::Stream(chunks(response, budget, length).boxed_local()) })
        })
    }
}

/// The unused part of [`Timeouts::total`].
pub struct Budget {
    left: Duration,
    /// One timer for many waits, because setting a timer is a call of the host.
    timer: LocalBoxFuture<'static, ()>,
}

impl Budget {
    pub fn new(left: Duration) -> Self {
        Budget { left, timer: Box::pin(monotonic_clock::wait_for(nanoseconds(left))) }
    }

    /// Waits for `work`; `None` if the budget is used up first.
    async fn spend<T>(&mut self, work: impl IntoFuture<Output = T>) -> Option<T> {
        let start = monotonic_clock::now();
        let mut work = std::pin::pin!(work.into_future());
        loop {
            let outcome = future::select(work.as_mut(), &mut self.timer).await;
            let left = self.left.saturating_sub(Duration::from_nanos(monotonic_clock::now().saturating_sub(start)));
            match outcome {
                Either::Left((outcome, _)) => {
                    self.left = left;
                    return Some(outcome);
                }
                Either::Right(_) if left.is_zero() => return None,
                // The reader spent a part of the time since the timer was set.
                Either::Right(_) => self.timer = Box::pin(monotonic_clock::wait_for(nanoseconds(left))),
            }
        }
    }
}

pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn request(call: OutboundRequest) -> Result<Request, &'static str> {
    let OutboundRequest { method, url, mut headers, body, timeouts } = call;
    if !body.is_empty() {
        headers.insert(CONTENT_LENGTH, body.len().into());
    }
    let entries: Vec<(String, Vec<u8>)> =
        headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect();
    let fields = Fields::from_list(&entries).map_err(|_| "the host refused a header")?;
    let (trailers_writer, trailers) = wit_future::new(|| Ok(None));
    drop(trailers_writer);
    let contents = (!body.is_empty()).then(|| {
        let (mut writer, reader) = wit_stream::new();
        spawn(async move { drop(writer.write_all(body.into()).await) });
        reader
    });
    let (request, _sent) = Request::new(fields, contents, trailers, Some(options(timeouts)));
    request.set_method(&Method::from(&method)).map_err(|()| "the host refused the method")?;
    let scheme = url.scheme().map(Scheme::from);
    request.set_scheme(scheme.as_ref()).map_err(|()| "the host refused the scheme")?;
    let authority = url.authority().map(|authority| authority.as_str());
    request.set_authority(authority).map_err(|()| "the host refused the authority")?;
    let path = url.path_and_query().map(|path| path.as_str());
    request.set_path_with_query(path).map_err(|()| "the host refused the path")?;
    Ok(request)
}

/// Some hosts refuse a timeout option. [`Timeouts::total`] limits the request anyway.
fn options(timeouts: Timeouts) -> RequestOptions {
    let options = RequestOptions::new();
    let _ = options.set_connect_timeout(Some(nanoseconds(timeouts.connect)));
    let _ = options.set_first_byte_timeout(Some(nanoseconds(timeouts.idle)));
    let _ = options.set_between_bytes_timeout(Some(nanoseconds(timeouts.idle)));
    options
}

struct Reading {
    body: StreamReader<u8>,
    trailers: FutureReader<Result<Option<Trailers>, ErrorCode>>,
    /// Dropping this tells the host that the component has stopped reading.
    _taken: FutureWriter<Result<(), ErrorCode>>,
    budget: Budget,
    /// The size of the next read.
    size: usize,
    /// The number of remaining bytes, if the server has declared it.
    left: Option<u64>,
}

/// The body of `response`, with `length` bytes if the server has declared it.
pub fn chunks(response: Response, budget: Budget, length: Option<u64>) -> impl stream::Stream<Item = Chunk> {
    let (taken, reader) = wit_future::new(|| Ok(()));
    let (body, trailers) = Response::consume_body(response, reader);
    let size = length.map_or(READ.0, |length| usize::try_from(length).unwrap_or(READ.1).clamp(1, READ.1));
    let reading = Reading { body, trailers, _taken: taken, budget, size, left: length };
    stream::unfold(Some(reading), async |reading| {
        let Reading { mut body, trailers, _taken, mut budget, size, left } = reading?;
        let broken = |why: String| Some((Err(BodyError::Upstream(why)), None));
        match budget.spend(body.read(Vec::with_capacity(size))).await {
            None => broken("it took too long".into()),
            Some((StreamResult::Complete(_), chunk)) => {
                let size = if chunk.len() < READ.0 { READ.0 } else { READ.1 };
                let left = left.map(|left| left.saturating_sub(chunk.len() as u64));
                // Waiting for the end of the stream would take two more turns of the host.
                let more = (left != Some(0)).then_some(Reading { body, trailers, _taken, budget, size, left });
                Some((Ok(Bytes::from(chunk)), more))
            }
            Some((StreamResult::Dropped | StreamResult::Cancelled, _)) => match budget.spend(trailers).await {
                Some(Ok(_)) => None,
                // The stream also ends when the server disconnects. Only the trailers distinguish the two.
                Some(Err(code)) => broken(code.to_string()),
                None => broken("it took too long".into()),
            },
        }
    })
}

pub fn failure(code: ErrorCode) -> OutboundError {
    match code {
        ErrorCode::ConnectionLimitReached => OutboundError::Busy,
        ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited => OutboundError::Denied,
        ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::HttpResponseTimeout
        | ErrorCode::DnsTimeout => OutboundError::Timeout,
        ErrorCode::ConnectionRefused => OutboundError::Refused,
        ErrorCode::DnsError(_) | ErrorCode::DestinationNotFound => OutboundError::Name,
        ErrorCode::TlsProtocolError | ErrorCode::TlsCertificateError | ErrorCode::TlsAlertReceived(_) => {
            OutboundError::Tls
        }
        other => OutboundError::Other(other.to_string()),
    }
}
