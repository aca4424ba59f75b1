//! Following one request: route → slot → lease → instance → response.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::header::{CONTENT_LENGTH, EXPECT, HOST};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body;
use http_body_util::BodyExt;
use wasmtime_wasi_http::WasiBody;

use crate::body::{GuestBody, RequestBody, ResponseBody};
use crate::component::{Refused, Run, Slot, Trial, Unanswered};
use crate::deploy::Event;
use crate::exchange::Exchange;
use crate::ingress::Arrival;
use crate::keyvalue::Call;
use crate::memo::Memo;
use crate::metrics::{Counter, Operation, Refusal};
use crate::reply;
use crate::request_id::{RequestIds, X_REQUEST_ID};
use crate::router::Router;
use crate::store::Backend;
use crate::trace::{Destination, Trace, Tracer};

/// Where a route leads.
pub struct Target {
    /// The slot's place among the slots.
    pub slot: usize,
    /// The route as written in the manifest.
    pub route: String,
}

/// What the shards of a host share.
pub struct Application {
    router: Router<Target>,
    slots: Vec<Slot>,
    /// One for each shard.
    backends: Vec<Arc<dyn Backend>>,
    memo: Arc<Memo>,
    tracer: Option<Arc<Tracer>>,
    /// Requests that no route leads anywhere.
    unrouted: Counter,
    ids: RequestIds,
    events: Sender<Event>,
}

impl Application {
    pub fn new(
        router: Router<Target>,
        slots: Vec<Slot>,
        backends: Vec<Arc<dyn Backend>>,
        memo: Memo,
        tracer: Option<Arc<Tracer>>,
        events: Sender<Event>,
    ) -> Self {
        let (memo, ids) = (Arc::new(memo), RequestIds::new());
        Self { router, slots, backends, memo, tracer, unrouted: Counter::default(), ids, events }
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The slot that serves `path`.
    pub fn slot_at(&self, path: &str) -> Option<&Slot> {
        self.slots.get(self.router.find(path)?.slot)
    }

    pub fn memo(&self) -> &Memo {
        &self.memo
    }

    /// What makes traces, if they are wanted.
    pub fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.tracer.as_ref()
    }

    /// How many requests had a path that no component serves.
    pub fn unrouted(&self) -> u64 {
        self.unrouted.get()
    }

    /// One for each shard.
    pub fn backends(&self) -> &[Arc<dyn Backend>] {
        &self.backends
    }

    /// Answers a request on the given shard, whatever happens to the component.
    pub async fn answer(&self, shard: usize, mut request: Request<WasiBody>) -> Response<ResponseBody> {
        let started = Instant::now();
        let id = self.ids.of(request.headers());
        request.headers_mut().insert(X_REQUEST_ID, id.clone());
        let method = request.method().clone();
        let uri = request.uri().clone();
        let target = self.router.find(uri.path());
        let slot = target.and_then(|target| self.slots.get(target.slot));
        let trace = self.tracer.as_ref().map(|tracer| {
            let destination = target.zip(slot);
            let destination =
                destination.map(|(target, slot)| Destination { route: &target.route, component: &slot.component().id });
            tracer.begin(&request, destination)
        });
        let mut response = match (slot, self.backends.get(shard)) {
            (Some(slot), Some(backend)) => {
                let mut trial = None;
                let response = serve(slot, shard, &**backend, &self.memo, request, trace.as_ref(), &mut trial).await;
                let refusal = response.extensions().get::<Refusal>().copied();
                let latency = started.elapsed();
                if let Some(counters) = slot.metrics().shard(shard) {
                    counters.answered(response.status().as_u16(), latency);
                    if let Some(refusal) = refusal {
                        counters.refused(refusal);
                    }
                }
                if let (Some(trace), Some(refusal)) = (&trace, refusal) {
                    trace.failed(refusal.name());
                }
                if let Some(trial) = trial {
                    self.conclude(slot, &trial, response.status(), latency);
                }
                response
            }
            _ => {
                self.unrouted.add(1);
                reply::not_found()
            }
        };
        // The query may hold a token.
        tracing::debug!(
            request = id.to_str().unwrap_or_default(),
            %method,
            path = uri.path(),
            status = response.status().as_u16(),
            component = slot.map(|slot| slot.component().id.as_str()),
            microseconds = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
            "request"
        );
        response.headers_mut().insert(X_REQUEST_ID, id);
        match trace {
            Some(trace) => trace.answered(response),
            None => response,
        }
    }

    /// Counts an answer of a trial. If it decides against the canary, the canary is gone at once,
    /// and whoever keeps the records hears of it.
    fn conclude(&self, slot: &Slot, trial: &Trial, status: StatusCode, latency: Duration) {
        if let Some(reason) = trial.answered(status.as_u16(), latency) {
            let digest = trial.digest();
            slot.end_trial(&digest);
            let component = slot.component().id.clone();
            // Without the receiver the host is stopping.
            let _ = self.events.send(Event::CanaryFailed { component, digest, reason });
        }
    }
}

/// `trial` is set if the request takes part in one.
async fn serve(
    slot: &Slot,
    shard: usize,
    backend: &dyn Backend,
    memo: &Arc<Memo>,
    request: Request<WasiBody>,
    trace: Option<&Arc<Trace>>,
    trial: &mut Option<Trial>,
) -> Response<ResponseBody> {
    let limits = &slot.component().limits;
    let (mut parts, body) = request.into_parts();
    let arrival = parts.extensions.get::<Arrival>();
    let target = absolute(&parts.uri, &parts.headers, parts.version, arrival);
    let refused = target.map(|uri| parts.uri = uri).err();
    // While there is a canary nothing is remembered: it would see fewer requests than it should.
    let asked = slot.sole_code();
    let memoize = slot.component().memoize.as_ref().filter(|_| refused.is_none());
    let memoize = memoize.filter(|memoize| body.is_end_stream() && memoize.covers(&parts));
    let question = match (memoize, asked, backend.changes()) {
        (Some(memoize), Some(asked), Some(changes)) => {
            match memo.ask((&slot.component().id, &asked), memoize, &parts, changes, Instant::now()) {
                Ok(remembered) => {
                    if let Some(trace) = trace {
                        trace.remembered();
                    }
                    return remembered;
                }
                Err(question) => {
                    memoize.narrow(&mut parts.headers);
                    Some(question)
                }
            }
        }
        _ => None,
    };
    let exchange = Arc::new(Exchange::new(limits, parts.uri.clone(), trace.cloned()));
    let method = parts.method.clone();
    let withheld = parts.version == Version::HTTP_11 && parts.headers.contains_key(EXPECT);
    let body = RequestBody::new(body, exchange.clone(), limits.max_body, withheld);
    if content_length(&parts.headers).is_some_and(|length| length > limits.max_body) {
        return reply::too_large(limits.max_body);
    }
    if let Some(reason) = refused {
        return reply::bad_request(reason);
    }
    if let Some(question) = &question {
        exchange.watch(question.testimony.clone());
    }
    let caller = || {
        let address = parts.extensions.get::<Arrival>().map(|arrival| arrival.client);
        slot.component().credentials.caller(&parts.headers, &parts.uri, address)
    };
    let (generation, lease) = match slot.lease(shard, exchange.path(), caller, trial).await {
        Ok(leased) => leased,
        Err(Refused::Busy) => {
            tracing::debug!(component = slot.component().id, "every instance is busy");
            return reply::unavailable(Refusal::Busy);
        }
        Err(Refused::Failing(retry_after)) => return reply::failing(retry_after),
    };
    let Some(pool) = generation.pool(shard) else {
        return reply::internal_error(Refusal::Failed);
    };
    if let Some(trace) = trace {
        // An answer that may be given again does not depend on who asks, nor on why.
        trace.enter(&slot.component().id, &generation, question.is_none().then_some(&mut parts.headers));
    }

    let request = Request::from_parts(parts, body.boxed_unsync());
    let mut run = Run::new(pool.clone(), exchange.clone(), lease.clone(), request);
    let head = poll_fn(|cx| {
        let head = run.poll_head(cx);
        // Whatever the guest makes of a body that was cut off.
        match exchange.poll_too_large(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => head.map(Some),
        }
    });
    let response = match head.await {
        Some(Ok(response)) => response,
        Some(Err(error)) => return failed(slot, &exchange, &error),
        None => return reply::too_large(limits.max_body),
    };

    // Nothing is acknowledged before it is durable, and from here on nobody waits for the
    // guest's writes but the guest.
    exchange.writes.write_through();
    let counters = slot.metrics().shard(shard).filter(|_| !exchange.writes.is_settled());
    let commit = counters.map(|counters| Call::begin(Operation::Commit, counters, trace, ""));
    let durable = tokio::select! {
        biased;
        durable = exchange.writes.durable(backend) => durable,
        () = exchange.expired() => return out_of_time(&exchange),
        () = run.over() => pending().await,
    };
    drop(commit);
    if let Err(error) = durable {
        if let Some(suppressed) = slot.complaints().pass() {
            let component = &slot.component().id;
            tracing::error!(component, %error, suppressed, "a response was withheld: its writes are not durable");
        }
        return reply::internal_error(Refusal::NotDurable);
    }
    // These have no body, whatever length they declare (RFC 9110, section 8.6).
    let bodiless = method == Method::HEAD || response.status() == StatusCode::NOT_MODIFIED;
    if !bodiless && response.body().size_hint().lower() > limits.max_response {
        return reply::response_too_large(limits.max_response);
    }
    exchange.head_produced();
    // While the request waited for its place, the code may have been replaced.
    let recording = question.filter(|_| asked == Some(generation.digest)).and_then(|question| {
        let declared = bodiless.then(|| response.body().size_hint());
        memo.record(question, response.status(), response.headers(), declared)
    });
    let (head, body) = response.into_parts();
    let body = GuestBody::new(body, bodiless, limits.max_response, recording, exchange, lease);
    Response::from_parts(head, if bodiless { body.skip(run) } else { body.gather(run) })
}

fn out_of_time(exchange: &Exchange) -> Response<ResponseBody> {
    match exchange.is_clients_turn() {
        true => reply::request_timeout(),
        false => reply::gateway_timeout(),
    }
}

fn failed(slot: &Slot, exchange: &Exchange, error: &Unanswered) -> Response<ResponseBody> {
    let component = &slot.component().id;
    if exchange.is_expired() || exchange.expires_at() <= Instant::now() {
        return out_of_time(exchange);
    }
    if exchange.is_out_of_cpu_time() {
        return reply::out_of_cpu_time();
    }
    if !matches!(error, Unanswered::Ended)
        && let Some(suppressed) = slot.complaints().pass()
    {
        tracing::warn!(component, %error, suppressed, "the component gave no response");
    }
    match error {
        Unanswered::NoInstance(_) => reply::unavailable(Refusal::NoInstance),
        Unanswered::Ended | Unanswered::Refused(_) => reply::internal_error(Refusal::Failed),
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The URI with the authority that the client addressed: guests do not see the `Host` header. How
/// the request arrived says more of that than the client does.
fn absolute(uri: &Uri, headers: &HeaderMap, version: Version, arrival: Option<&Arrival>) -> Result<Uri, &'static str> {
    let mut parts = uri.clone().into_parts();
    let mut hosts = headers.get_all(HOST).iter();
    let authority = match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return Err("the request has more than one Host header"),
        (Some(host), None) => Some(
            host.to_str()
                .ok()
                .and_then(|host| host.parse::<Authority>().ok())
                .filter(|authority| !authority.as_str().contains('@'))
                .ok_or("the Host header is not a host and port")?,
        ),
        (None, None) => None,
    };
    let forwarded = arrival.and_then(|arrival| arrival.authority.clone());
    parts.authority = match (forwarded.or(parts.authority), authority) {
        // The request target wins over the header (RFC 9112, section 3.2.2).
        (Some(target), _) => Some(target),
        (None, Some(host)) => Some(host),
        (None, None) if version == Version::HTTP_11 => return Err("the request has no Host header"),
        (None, None) => Some(Authority::from_static("localhost")),
    };
    let arrived = arrival.map(|arrival| arrival.scheme.clone());
    parts.scheme = Some(arrived.or(parts.scheme).unwrap_or(Scheme::HTTP));
    Uri::from_parts(parts).map_err(|_| "the request target is not a path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: &str, hosts: &[&str], expected: Result<&str, &str>) {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().unwrap());
        }
        let found = absolute(&target.parse().unwrap(), &headers, Version::HTTP_11, None);
        assert_eq!(found.map(|uri| uri.to_string()), expected.map(str::to_owned));
    }

    #[test]
    fn the_authority_is_the_clients() {
        check("/a//b?q", &["app.test:8080"], Ok("http://app.test:8080/a//b?q"));
        check("http://other.test/a", &["app.test"], Ok("http://other.test/a"));
        check("/a", &[], Err("the request has no Host header"));
        check("/a", &["a", "b"], Err("the request has more than one Host header"));
        check("/a", &["a/b"], Err("the Host header is not a host and port"));
        check("/a", &["user@host"], Err("the Host header is not a host and port"));
    }
}
