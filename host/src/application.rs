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

use crate::body::ResponseBody;
use crate::component::{CallError, GuestBody, GuestCall, LeaseError, Slot, Trial};
use crate::deploy::Event;
use crate::imports::keyvalue::MeasuredCall;
use crate::ingress::RequestOrigin;
use crate::metrics::{Counter, Operation, Refusal};
use crate::reply;
use crate::request_body::RequestBody;
use crate::request_context::RequestContext;
use crate::request_id::{RequestIds, X_REQUEST_ID};
use crate::response_cache::{Lookup, ResponseCache};
use crate::router::Router;
use crate::store::Backend;
use crate::trace::{Destination, Trace, Tracer};

/// Where a route leads.
pub struct Target {
    /// The slot's index.
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
    cache: Arc<ResponseCache>,
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
        cache: ResponseCache,
        tracer: Option<Arc<Tracer>>,
        events: Sender<Event>,
    ) -> Self {
        let (cache, ids) = (Arc::new(cache), RequestIds::new());
        Self { router, slots, backends, cache, tracer, unrouted: Counter::default(), ids, events }
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The slot that serves `path`.
    pub fn slot_at(&self, path: &str) -> Option<&Slot> {
        self.slots.get(self.router.find(path)?.slot)
    }

    pub fn response_cache(&self) -> &ResponseCache {
        &self.cache
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
                let response = serve(slot, shard, &**backend, &self.cache, request, trace.as_ref(), &mut trial).await;
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
                    self.end_failed_trial(slot, &trial, response.status(), latency);
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

    /// Counts a response of a trial. If it decides against the canary, the canary is removed at once,
    /// and the supervisor is told.
    fn end_failed_trial(&self, slot: &Slot, trial: &Trial, status: StatusCode, latency: Duration) {
        if let Some(reason) = trial.record(status.as_u16(), latency) {
            let digest = trial.digest();
            slot.end_trial(&digest);
            let component = slot.component().id.clone();
            // Without the supervisor the host is stopping.
            let _ = self.events.send(Event::CanaryFailed { component, digest, reason });
        }
    }
}

/// `trial` is set if the request takes part in one.
async fn serve(
    slot: &Slot,
    shard: usize,
    backend: &dyn Backend,
    cache: &Arc<ResponseCache>,
    request: Request<WasiBody>,
    trace: Option<&Arc<Trace>>,
    trial: &mut Option<Trial>,
) -> Response<ResponseBody> {
    let limits = &slot.component().limits;
    let (mut parts, body) = request.into_parts();
    let origin = parts.extensions.get::<RequestOrigin>();
    let target = absolute(&parts.uri, &parts.headers, parts.version, origin);
    let refused = target.map(|uri| parts.uri = uri).err();
    // During a trial nothing is cached: the canary would see fewer requests than it should.
    let code = slot.sole_code();
    let policy = slot.component().cache_policy.as_ref().filter(|_| refused.is_none());
    let policy = policy.filter(|policy| body.is_end_stream() && policy.applies_to(&parts));
    let miss = match (policy, code, backend.change_clock()) {
        (Some(policy), Some(code), Some(clock)) => {
            match cache.look_up((&slot.component().id, &code), policy, &parts, clock, Instant::now()) {
                Lookup::Hit(cached) => {
                    if let Some(trace) = trace {
                        trace.cached();
                    }
                    return cached;
                }
                Lookup::Miss(miss) => {
                    policy.strip_headers(&mut parts.headers);
                    Some(miss)
                }
            }
        }
        _ => None,
    };
    let context = Arc::new(RequestContext::new(limits, parts.uri.clone(), trace.cloned()));
    let method = parts.method.clone();
    let withheld = parts.version == Version::HTTP_11 && parts.headers.contains_key(EXPECT);
    let body = RequestBody::new(body, context.clone(), limits.max_body, withheld);
    if content_length(&parts.headers).is_some_and(|length| length > limits.max_body) {
        return reply::too_large(limits.max_body);
    }
    if let Some(reason) = refused {
        return reply::bad_request(reason);
    }
    if let Some(miss) = &miss {
        context.track_reads(miss.read_set.clone());
    }
    let caller = || {
        let address = parts.extensions.get::<RequestOrigin>().map(|origin| origin.client);
        slot.component().credentials.caller(&parts.headers, &parts.uri, address)
    };
    let (generation, lease) = match slot.lease(shard, context.path(), caller, trial).await {
        Ok(leased) => leased,
        Err(LeaseError::Saturated) => {
            tracing::debug!(component = slot.component().id, "every instance is busy");
            return reply::unavailable(Refusal::Saturated);
        }
        Err(LeaseError::Failing(retry_after)) => return reply::failing(retry_after),
    };
    let Some(pool) = generation.pool(shard) else {
        return reply::internal_error(Refusal::Failed);
    };
    if let Some(trace) = trace {
        // A response that may be cached must not depend on the trace's headers.
        trace.enter(&slot.component().id, &generation, miss.is_none().then_some(&mut parts.headers));
    }

    let request = Request::from_parts(parts, body.boxed_unsync());
    let mut call = GuestCall::new(pool.clone(), context.clone(), lease.clone(), request);
    let head = poll_fn(|cx| {
        let head = call.poll_head(cx);
        // The response of a guest whose request body was cut off is not used.
        match context.poll_body_too_large(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => head.map(Some),
        }
    });
    let response = match head.await {
        Some(Ok(response)) => response,
        Some(Err(error)) => return failed(slot, &context, &error),
        None => return reply::too_large(limits.max_body),
    };

    // No write is acknowledged before it is durable; from here on the guest itself waits for its
    // writes.
    context.writes.write_through();
    let counters = slot.metrics().shard(shard).filter(|_| !context.writes.is_settled());
    let commit = counters.map(|counters| MeasuredCall::begin(Operation::Commit, counters, trace, ""));
    let durable = tokio::select! {
        biased;
        durable = context.writes.durable(backend) => durable,
        () = context.until_expired() => return out_of_time(&context),
        () = call.wait_until_done() => pending().await,
    };
    drop(commit);
    if let Err(error) = durable {
        if let Some(suppressed) = slot.log_throttle().pass() {
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
    context.mark_head_sent();
    // While the request waited for its permit, the code may have been replaced.
    let recorder = miss.filter(|_| code == Some(generation.digest)).and_then(|miss| {
        let declared = bodiless.then(|| response.body().size_hint());
        cache.record(miss, response.status(), response.headers(), declared)
    });
    let (head, body) = response.into_parts();
    let body = GuestBody::new(body, bodiless, limits.max_response, recorder, context, lease);
    Response::from_parts(head, if bodiless { body.skip(call) } else { body.buffer_small_body(call) })
}

fn out_of_time(context: &RequestContext) -> Response<ResponseBody> {
    match context.is_waiting_for_client() {
        true => reply::request_timeout(),
        false => reply::gateway_timeout(),
    }
}

fn failed(slot: &Slot, context: &RequestContext, error: &CallError) -> Response<ResponseBody> {
    let component = &slot.component().id;
    if context.is_expired() || context.expires_at() <= Instant::now() {
        return out_of_time(context);
    }
    if context.is_out_of_cpu_time() {
        return reply::out_of_cpu_time();
    }
    if !matches!(error, CallError::Ended)
        && let Some(suppressed) = slot.log_throttle().pass()
    {
        tracing::warn!(component, %error, suppressed, "the component gave no response");
    }
    match error {
        CallError::NoInstance(_) => reply::unavailable(Refusal::NoInstance),
        CallError::Ended | CallError::Refused(_) => reply::internal_error(Refusal::Failed),
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The URI with the authority that the client addressed: guests do not see the `Host` header. The
/// request's origin takes precedence over the client's own headers.
fn absolute(
    uri: &Uri,
    headers: &HeaderMap,
    version: Version,
    origin: Option<&RequestOrigin>,
) -> Result<Uri, &'static str> {
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
    let forwarded = origin.and_then(|origin| origin.authority.clone());
    parts.authority = match (forwarded.or(parts.authority), authority) {
        // The request target wins over the header (RFC 9112, section 3.2.2).
        (Some(target), _) => Some(target),
        (None, Some(host)) => Some(host),
        (None, None) if version == Version::HTTP_11 => return Err("the request has no Host header"),
        (None, None) => Some(Authority::from_static("localhost")),
    };
    let scheme = origin.map(|origin| origin.scheme.clone());
    parts.scheme = Some(scheme.or(parts.scheme).unwrap_or(Scheme::HTTP));
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
