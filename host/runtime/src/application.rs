//! The path of a request: route, service, response cache, lease, guest call, response.
//!
//! A stage that fails returns a [`RequestError`]. Only [`error_response`] maps failures to statuses.

mod error_response;
mod response_wait;
mod spin_headers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use hexad_http::body::{PermitGuard, ResponseBody, content_length};
use hexad_http::nested_request::{Depth, NestedRequest, ParentRequest};
use hexad_http::origin::RequestOrigin;
use hexad_http::reply;
use hexad_http::response_cache::{CachedGuest, Dependencies, Lookup, Miss, Recorder, ResponseCache};
use hexad_imports::outbound::LocalService;
use hexad_limits::anonymous_work::{AnonymousWork, CALLER, ClientWork, UsedUp, WorkLimits};
use hexad_limits::concurrency_limit::client_keys;
use hexad_manifest::router::{RouteError, Router};
use hexad_manifest::{RequestLimits, Route};
use hexad_store::{Backend, StoreError, Watch};
use hexad_telemetry::metrics::Counter;
use hexad_telemetry::redaction;
use hexad_telemetry::request_id::{RequestIds, X_REQUEST_ID};
use hexad_trace::{Destination, ServingComponent, Trace, Tracer};
use http::header::{DATE, EXPECT, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use tokio_util::task::TaskTracker;
use wasmtime_wasi_http::WasiBody;

use self::response_wait::ResponseWait;
use crate::component::{
    ActiveRevisions, ComponentService, DeploymentEvent, GuestBody, GuestCall, Lease, LeaseError, ResponseEnd, Revision,
    Settings, Trial,
};
use crate::ingress::{OwnCookie, Unread};
use crate::request_body::{self, RequestBody};
use crate::request_context::RequestContext;
use crate::request_error::RequestError;
use crate::request_target::absolute_uri;

const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");

/// How long a request waits until this host serves the same components as the other hosts of the store. After that, the
/// client gets 503 and tries again.
const FOLLOW_PATIENCE: Duration = Duration::from_secs(1);

/// The route of a nested request that names its component.
const ANY_PATH: &str = "/...";

/// The state that the shards of a host share.
pub struct Application {
    router: ArcSwap<Router<RouteTarget>>,
    route_changes: AtomicU64,
    services: Vec<ComponentService>,
    /// One for each shard.
    backends: Vec<Arc<dyn Backend>>,
    cache: ResponseCache,
    anonymous_work: Arc<AnonymousWork>,
    tracer: Option<Arc<Tracer>>,
    /// Requests whose path has no route.
    unrouted: Counter,
    pub ids: RequestIds,
    events: Sender<DeploymentEvent>,
    /// One for each shard: the guests that still work after their calls.
    guest_tasks: Vec<TaskTracker>,
    /// When several hosts share a store: whether this host serves the components that all of them serve.
    followed: Option<Arc<Watch>>,
}

impl Application {
    /// `backends` has one for each shard.
    pub fn new(
        router: Router<RouteTarget>,
        services: Vec<ComponentService>,
        backends: Vec<Arc<dyn Backend>>,
        cache: ResponseCache,
        tracer: Option<Arc<Tracer>>,
        events: Sender<DeploymentEvent>,
        followed: Option<Arc<Watch>>,
    ) -> Self {
        let (ids, unrouted) = (RequestIds::default(), Counter::default());
        let guest_tasks = backends.iter().map(|_| TaskTracker::new()).collect();
        let router = ArcSwap::from_pointee(router);
        let route_changes = AtomicU64::default();
        Self {
            router,
            route_changes,
            services,
            backends,
            cache,
            anonymous_work: AnonymousWork::new(WorkLimits::default()),
            tracer,
            unrouted,
            ids,
            events,
            guest_tasks,
            followed,
        }
    }

    /// With the given limits of anonymous work.
    pub fn with_work_limits(self, limits: WorkLimits) -> Self {
        Self { anonymous_work: AnonymousWork::new(limits), ..self }
    }

    pub fn anonymous_work(&self) -> &AnonymousWork {
        &self.anonymous_work
    }

    pub fn services(&self) -> &[ComponentService] {
        &self.services
    }

    /// Replaces the routes. Requests under way keep their component.
    pub fn set_router(&self, router: Router<RouteTarget>) {
        self.router.store(Arc::new(router));
        self.route_changes.fetch_add(1, Ordering::SeqCst);
    }

    /// How often the routes or a component's revisions have changed.
    fn changes(&self) -> u64 {
        self.route_changes.load(Ordering::SeqCst) + self.services.iter().map(ComponentService::changes).sum::<u64>()
    }

    pub fn router(&self) -> Arc<Router<RouteTarget>> {
        self.router.load_full()
    }

    pub fn response_cache(&self) -> &ResponseCache {
        &self.cache
    }

    /// `None` if no traces are exported.
    pub fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.tracer.as_ref()
    }

    /// How many requests had a path without a route.
    pub fn unrouted(&self) -> u64 {
        self.unrouted.get()
    }

    /// One for each shard.
    pub fn backends(&self) -> &[Arc<dyn Backend>] {
        &self.backends
    }

    /// The guests of a shard that still work after their calls.
    pub fn guest_tasks(&self, shard: usize) -> TaskTracker {
        self.guest_tasks.get(shard).cloned().unwrap_or_default()
    }

    /// Handles a request on the given shard. The host responds whatever the component does.
    pub async fn handle(&self, shard: usize, mut request: Request<WasiBody>) -> Response<ResponseBody> {
        let started = Instant::now();
        let id = self.ids.assign(request.headers_mut());
        let method = request.method().clone();
        let uri = request.uri().clone();
        let (service, trace) = {
            let router = self.router.load();
            let target = self.target(&router, &request);
            let trace = self.tracer.as_ref().map(|tracer| {
                let destination = target.map(|(service, route)| Destination { route, component: service.id() });
                tracer.begin(&request, destination)
            });
            (target.map(|(service, _)| service), trace)
        };
        let mut response = match (service, self.backends.get(shard)) {
            (Some(service), Some(backend)) => {
                let (backend, trace) = (&**backend, trace.as_ref());
                let caught_up = self.catch_up(backend).await;
                // After `catch_up`, so that these are the revisions that all hosts of the store serve.
                let deployment = service.deployment();
                let steps = RequestPipeline {
                    application: self,
                    service,
                    deployment,
                    shard,
                    backend,
                    trace,
                    started,
                    caught_up,
                };
                self.serve(&steps, request).await
            }
            _ => {
                self.unrouted.add(1);
                let origin = request.extensions().get::<RequestOrigin>();
                match absolute_uri(&method, &uri, request.headers(), request.version(), origin) {
                    Ok(_) => reply::not_found(),
                    Err(reason) => reply::bad_request(reason),
                }
            }
        };
        // Without the query, which may hold a token.
        tracing::debug!(
            request = id.to_str().unwrap_or_default(),
            %method,
            path = &*redaction::path(&uri),
            status = response.status().as_u16(),
            component = service.map(ComponentService::id),
            microseconds = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
            "request"
        );
        response.headers_mut().insert(X_REQUEST_ID, id);
        match trace {
            Some(trace) => trace.follow_response(response),
            None => response,
        }
    }

    /// Waits until the host's cached values are as new as this request, and until the host serves the components that
    /// all hosts of the store serve.
    async fn catch_up(&self, backend: &dyn Backend) -> Result<(), StoreError> {
        if let Some(caught_up) = backend.catch_up() {
            caught_up.await?;
        }
        match (&self.followed, backend.change_clock()) {
            (Some(followed), Some(clock)) => followed.wait_until_applied(clock, FOLLOW_PATIENCE).await,
            _ => Ok(()),
        }
    }

    /// The service for a request, and its route. A guest can name the component, with or without a route.
    fn target<'r>(
        &self,
        router: &'r Router<RouteTarget>,
        request: &Request<WasiBody>,
    ) -> Option<(&ComponentService, &'r str)> {
        let nested = request.extensions().get::<NestedRequest>();
        match nested.and_then(|nested| nested.component.as_deref()) {
            Some(id) => self.services.iter().find(|service| service.id() == id).map(|service| (service, ANY_PATH)),
            None => {
                let target = router.find(request.uri().path())?;
                self.services.get(target.service).map(|service| (service, &*target.route))
            }
        }
    }

    /// Adds Spin's headers. The route is looked up again, so that requests to areas do not carry it along.
    fn add_spin_headers(&self, parts: &mut Parts) {
        let router = self.router.load();
        let found = if names_component(parts) { None } else { router.find(parts.uri.path()) };
        spin_headers::insert(parts, found.map_or(ANY_PATH, |target| &*target.route));
    }

    /// The response to a request that no shard can take, because the host is stopping.
    pub fn stopping_response() -> Response<ResponseBody> {
        reply::unavailable()
    }

    /// Serves a request that has a route, and counts its response.
    async fn serve(&self, steps: &RequestPipeline<'_>, request: Request<WasiBody>) -> Response<ResponseBody> {
        let service = steps.service;
        let (mut trial, mut work) = (None, None);
        let mut result = steps.run(request, &mut trial, &mut work).await;
        if let Ok(response) = &mut result {
            let caller = response.headers_mut().remove(CALLER);
            if let Some((work, is_nested)) = work {
                work.learn(caller.as_ref(), response.status(), is_nested);
            }
        }
        let refusal = result.as_ref().err().map(RequestError::refusal);
        let is_of_component = result.as_ref().err().is_none_or(RequestError::is_of_component);
        let response = result.unwrap_or_else(error_response::of);
        let latency = steps.started.elapsed();
        if let Some(counters) = service.metrics().shard(steps.shard) {
            counters.record_response(response.status().as_u16(), latency);
            if let Some(refusal) = refusal {
                counters.record_refusal(refusal);
            }
        }
        if let (Some(trace), Some(refusal)) = (steps.trace, refusal) {
            trace.record_failure(refusal.name());
        }
        if let Some(trial) = trial.filter(|_| is_of_component) {
            record_outcome(trial, service.id(), &self.events, response.status())(ResponseEnd::Complete);
        }
        response
    }
}

/// Requests of guests are handled on the shard of the guest.
#[async_trait]
impl LocalService for Application {
    async fn handle(self: Arc<Self>, shard: usize, request: Request<WasiBody>) -> Response<ResponseBody> {
        Application::handle(&self, shard, request).await
    }
}

/// The stages of a routed request, and their shared state.
struct RequestPipeline<'a> {
    application: &'a Application,
    service: &'a ComponentService,
    /// The settings and the revisions of the service when the request began.
    deployment: Arc<ActiveRevisions>,
    shard: usize,
    backend: &'a dyn Backend,
    trace: Option<&'a Arc<Trace>>,
    started: Instant,
    caught_up: Result<(), StoreError>,
}

impl RequestPipeline<'_> {
    /// Runs all stages of a request. Sets `trial` if the request takes part in a canary's trial. Sets `counted` to the
    /// account of its work, if its work counts, and to whether a guest has sent it.
    async fn run(
        &self,
        request: Request<WasiBody>,
        trial: &mut Option<Trial>,
        counted: &mut Option<(Arc<ClientWork>, bool)>,
    ) -> Result<Response<ResponseBody>, RequestError> {
        let (mut parts, body) = request.into_parts();
        let component = &self.deployment.settings.component;
        if !component.credentials.has_sessions() {
            OwnCookie::Session.remove(&mut parts.headers);
        }
        let limits = component.request_limits(parts.uri.path());
        let origin = parts.extensions.get::<RequestOrigin>();
        let id = parts.headers.get(X_REQUEST_ID).cloned();
        *counted = parts.extensions.get().and_then(|nested: &NestedRequest| Some((nested.work.clone()?, true)));
        let target = absolute_uri(&parts.method, &parts.uri, &parts.headers, parts.version, origin);
        let target = target.map(|uri| parts.uri = uri).map_err(RequestError::Malformed);
        // The cache comes before limits and permits: a hit needs none (decision 0019). During a trial the host caches
        // nothing, because the canary would see fewer requests than it should.
        let cached_revision = self.deployment.sole_revision().filter(|_| target.is_ok() && self.caught_up.is_ok());
        let miss = match self.look_up(&mut parts, &body, cached_revision) {
            Some(Lookup::Hit(response, _)) => return Ok(response),
            Some(Lookup::Miss(miss)) => Some(miss),
            None => None,
        };
        if let Some(miss) = miss.as_ref().filter(|miss| !miss.last_reads.is_empty()) {
            self.backend.prefetch(&miss.last_reads).await;
        }
        let dependencies = miss.as_ref().map(|miss| miss.dependencies().clone());
        let begun = self.count_work(&parts, counted);
        let context = self.context(&parts, id, dependencies.clone(), counted.as_ref().map(|(work, _)| work.clone()));
        let body = receive(&parts, body, &context, limits).await?;
        // Refused only here, because from here on the body drains.
        target?;
        begun.map_err(RequestError::AnonymousWork)?;
        self.caught_up.as_ref().map_err(|error| self.unavailable(error))?;
        if let Some(dependencies) = dependencies {
            context.track_reads(dependencies);
        }
        let (is_nested, method) = (is_nested(&parts), parts.method.clone());
        let (revision, lease) = self.lease(&parts, &context, trial).await?;
        check_unread(&parts)?;
        let pool = revision.pool(self.shard).ok_or(RequestError::Failed)?.clone();
        self.add_headers(&revision, &mut parts, miss.is_some());
        let (request, tasks) = (Request::from_parts(parts, body), self.application.guest_tasks(self.shard));
        let mut call = GuestCall::new(pool, context.clone(), lease.clone(), request, tasks);
        let response = self.response_wait(limits).until_sendable(&mut call, &context, &lease).await;
        let mut response = response.inspect_err(|error| match error {
            // A slow client is not the guest's failure: the guest is ended only to free its instance.
            RequestError::SlowClient => {}
            error if error.is_of_component() => call.fail(),
            _ => call.mark_refused(),
        })?;
        // Such responses have no body, whatever length they declare (RFC 9110, section 8.6).
        let bodiless = method == Method::HEAD || response.status() == StatusCode::NOT_MODIFIED;
        if let Err(refused) = self.check_head(&mut response, bodiless, limits) {
            drop(response);
            call.fail();
            return Err(refused);
        }
        context.mark_head_sent();
        // The revision may have been replaced while the request waited for its permit.
        let miss = miss.filter(|_| cached_revision == Some(revision.number));
        let recorder = miss.and_then(|miss| self.record(miss, &mut response, is_nested, bodiless));
        if let Some(trial) = trial.take() {
            lease.when_ended(record_outcome(trial, self.service.id(), &self.application.events, response.status()));
        }
        respond(response, (bodiless, recorder), limits, (call, context, lease))
    }

    /// Adds the headers that the host makes for the guest. An area reads none of Spin's.
    fn add_headers(&self, revision: &Revision, parts: &mut Parts, may_be_cached: bool) {
        if revision.description.is_none() {
            self.application.add_spin_headers(parts);
        }
        // A response that may be cached must not depend on the trace's headers (decision 0019).
        self.trace_call(revision, (!may_be_cached).then_some(&mut parts.headers));
    }

    /// Begins the account of the request's work, unless a guest's request counts for the guest's client already.
    fn count_work(&self, parts: &Parts, counted: &mut Option<(Arc<ClientWork>, bool)>) -> Result<(), UsedUp> {
        let credentials = &self.deployment.settings.component.credentials;
        let network = parts.extensions.get::<RequestOrigin>().map(RequestOrigin::network);
        if let Some(network) = network.filter(|_| counted.is_none() && credentials.is_declared) {
            let credential = credentials.all(&parts.headers, &parts.uri);
            let work = self.application.anonymous_work.begin(network, self.service.id(), credential)?;
            *counted = work.map(|work| (work, false));
        }
        Ok(())
    }

    fn context(
        &self,
        parts: &Parts,
        id: Option<HeaderValue>,
        dependencies: Option<Arc<Dependencies>>,
        work: Option<Arc<ClientWork>>,
    ) -> Arc<RequestContext> {
        let Settings { component, outbound, .. } = &*self.deployment.settings;
        let limits = component.request_limits(parts.uri.path());
        let network = parts.extensions.get::<RequestOrigin>().map(RequestOrigin::network);
        let client = client_keys(network, component.credentials.credential(&parts.headers, &parts.uri));
        let context = RequestContext::new(limits, parts.uri.clone(), client, self.trace.cloned(), self.started);
        let parent = outbound.as_ref().map(|_| Arc::new(ParentRequest::of(parts, id, dependencies, work.clone())));
        let context = context.with_parent(parent).with_work(work);
        Arc::new(context.with_min_rate(Unread::min_rate(&parts.extensions)))
    }

    fn response_wait<'r>(&'r self, limits: &'r RequestLimits) -> ResponseWait<'r> {
        let Self { service, shard, backend, trace, .. } = *self;
        ResponseWait { service, limits, shard, backend, trace }
    }

    /// A revision and a permit of one of its instances.
    async fn lease(
        &self,
        parts: &Parts,
        context: &Arc<RequestContext>,
        trial: &mut Option<Trial>,
    ) -> Result<(Arc<Revision>, Arc<Lease>), RequestError> {
        let caller = || {
            let address = parts.extensions.get::<RequestOrigin>().map(|origin| origin.client);
            self.deployment.settings.component.credentials.caller(&parts.headers, &parts.uri, address)
        };
        let depth = Depth::of(parts);
        let lease = self.service.lease(&self.deployment, self.shard, context, depth, caller, trial).await;
        lease.map_err(|error| self.lease_error(&error))
    }

    /// Refuses a head that cannot be sent, and removes what no component may set.
    fn check_head(
        &self,
        response: &mut Response<WasiBody>,
        is_bodiless: bool,
        limits: &RequestLimits,
    ) -> Result<(), RequestError> {
        // A guest switches no protocol, and other interim responses are not final ones.
        if response.status().is_informational() {
            if let Some(suppressed) = self.service.log_throttle().pass() {
                let (component, status) = (self.service.id(), response.status().as_u16());
                tracing::warn!(component, status, suppressed, "the component responded with an interim status");
            }
            return Err(RequestError::Failed);
        }
        let is_too_large = response.body().size_hint().lower() > limits.max_response;
        let headers = response.headers_mut();
        if !self.deployment.settings.component.credentials.has_sessions() {
            OwnCookie::Session.remove_set(headers);
            // It would remove the session's cookie as well.
            headers.remove(CLEAR_SITE_DATA);
        }
        // The host writes the date, once.
        headers.remove(DATE);
        match is_too_large && !is_bodiless {
            true => Err(RequestError::ResponseTooLarge(limits.max_response)),
            false => Ok(()),
        }
    }

    fn lease_error(&self, error: &LeaseError) -> RequestError {
        match error {
            LeaseError::Saturated => {
                tracing::debug!(component = self.service.id(), "every instance is busy");
                RequestError::Saturated
            }
            LeaseError::Failing(retry_after) => RequestError::Failing(*retry_after),
        }
    }

    /// Begins the component's span. Sets the trace's own `headers`, so that the guest can pass them on.
    fn trace_call(&self, revision: &Revision, headers: Option<&mut HeaderMap>) {
        if let Some(trace) = self.trace {
            let component = ServingComponent {
                id: self.service.id(),
                revision: revision.number,
                digest: revision.digest,
                area: revision.description.as_ref().map(|area| (&*area.area, &*area.version)),
            };
            trace.begin_component(&component, headers);
        }
    }

    /// The error when the store is unavailable before any part of the request has begun.
    fn unavailable(&self, error: &StoreError) -> RequestError {
        if let Some(suppressed) = self.service.log_throttle().pass() {
            tracing::error!(component = self.service.id(), %error, suppressed, "a request was refused");
        }
        RequestError::StoreUnavailable { maybe_stored: false }
    }

    /// Looks the request up in the response cache. `None` if its response may not be cached. After a miss, the request
    /// keeps only the headers that its response may depend on.
    fn look_up(&self, parts: &mut Parts, body: &WasiBody, revision: Option<u64>) -> Option<Lookup> {
        let (settings, revision) = (&self.deployment.settings, revision?);
        let policy = settings.component.cache_policy.as_ref()?;
        // The body of a guest's request ends only after its trailers, which have not come yet.
        let is_empty = body.is_end_stream() || body.size_hint().exact() == Some(0);
        if !is_empty || !policy.applies_to(parts) {
            return None;
        }
        let changes = match settings.outbound {
            Some(_) => self.application.changes(),
            None => self.application.route_changes.load(Ordering::SeqCst),
        };
        // A component may read its route, which a request that names the component does not have.
        let application = changes * 2 + u64::from(names_component(parts));
        let guest = CachedGuest { id: self.service.id(), revision, application };
        let mut lookup = self.application.cache.look_up(guest, policy, parts, self.backend, Instant::now())?;
        match (&mut lookup, self.trace) {
            (Lookup::Miss(_), _) => policy.strip_headers(&mut parts.headers),
            (Lookup::Hit(response, provenance), trace) => {
                if is_nested(parts) {
                    response.extensions_mut().insert(provenance.clone());
                }
                if let Some(trace) = trace {
                    trace.mark_cached();
                }
            }
        }
        Some(lookup)
    }

    /// Begins to record a response. `None` if the cache may not store it, or has it already.
    pub fn record(
        &self,
        miss: Miss,
        response: &mut Response<WasiBody>,
        is_nested: bool,
        is_bodiless: bool,
    ) -> Option<Recorder> {
        let provenance = miss.provenance(response.status(), response.headers())?;
        if is_nested {
            response.extensions_mut().insert(provenance);
        }
        let declared = is_bodiless.then(|| response.body().size_hint());
        self.application.cache.record(miss, response.status(), response.headers(), declared)
    }
}

#[derive(PartialEq, Eq)]
pub struct RouteTarget {
    pub service: usize,
    /// The route as written in the manifest.
    pub route: String,
}

impl RouteTarget {
    /// The router of a manifest. `position` finds the index of a component's service.
    pub fn router(
        routes: Vec<Route>,
        position: impl Fn(&str) -> Option<usize>,
    ) -> Result<Router<RouteTarget>, RouteError> {
        Router::new(routes.into_iter().filter_map(|Route { pattern, component }| {
            let service = position(&component)?;
            Some((pattern.clone(), RouteTarget { service, route: pattern }))
        }))
    }
}

/// Whether a guest has sent the request. Then its response carries its
/// `Provenance`.
fn is_nested(parts: &Parts) -> bool {
    parts.extensions.get::<NestedRequest>().is_some()
}

/// Whether a guest has named the component, so that the path decides nothing.
fn names_component(parts: &Parts) -> bool {
    parts.extensions.get().is_some_and(|nested: &NestedRequest| nested.component.is_some())
}

/// The body as the guest reads it. From here on, the host drains a body that the guest does not read.
async fn receive(
    parts: &Parts,
    body: WasiBody,
    context: &Arc<RequestContext>,
    limits: &RequestLimits,
) -> Result<WasiBody, RequestError> {
    let withheld = parts.version > Version::HTTP_10 && parts.headers.contains_key(EXPECT) && !body.is_end_stream();
    let body = RequestBody::boxed(body, context, limits.max_body, withheld);
    if content_length(&parts.headers).is_some_and(|length| length > limits.max_body) {
        return Err(RequestError::BodyTooLarge(limits.max_body));
    }
    match withheld && parts.version > Version::HTTP_11 {
        true => request_body::begun(body).await.ok_or(RequestError::ExpectationFailed),
        false => Ok(body),
    }
}

/// Sends a response's head, with its body as far as it is there.
fn respond(
    response: Response<WasiBody>,
    (is_bodiless, recorder): (bool, Option<Recorder>),
    limits: &RequestLimits,
    (call, context, lease): (GuestCall, Arc<RequestContext>, Arc<Lease>),
) -> Result<Response<ResponseBody>, RequestError> {
    let (head, body) = response.into_parts();
    let declared = if is_bodiless { Some(0) } else { content_length(&head.headers) };
    let body = GuestBody::new(body, declared, limits.max_response, recorder, context, lease.clone());
    let (body, is_complete) = if is_bodiless { (body.skip(call), true) } else { body.buffer_small_body(call) };
    if let Some(error) = lease.mark_sent().and_then(|end| error_response::of_end(end, limits)) {
        return Err(error);
    }
    let mut response = Response::from_parts(head, body);
    if !is_complete {
        response.extensions_mut().insert(PermitGuard(lease.permit().clone()));
    }
    Ok(response)
}

/// Refuses a request whose client has left too many responses unread meanwhile.
fn check_unread(request: &Parts) -> Result<(), RequestError> {
    match request.extensions.get::<Unread>().is_some_and(Unread::is_too_much) {
        true => Err(RequestError::Unread),
        false => Ok(()),
    }
}

/// Records the outcome of a response once it has ended. If the outcome fails the canary, the canary serves no further
/// requests. The supervisor, which gets `events`, then ends the trial and records that.
fn record_outcome(
    trial: Trial,
    component: &str,
    events: &Sender<DeploymentEvent>,
    status: StatusCode,
) -> impl FnOnce(ResponseEnd) + Send + use<> {
    let (events, component) = (events.clone(), component.to_owned());
    move |end| {
        let digest = trial.digest();
        if let Some(reason) = trial.record(status.is_server_error(), end) {
            // The supervisor has gone only while the host stops.
            let _ = events.send(DeploymentEvent::CanaryFailed { component, digest, reason });
        }
    }
}
