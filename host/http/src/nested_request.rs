//! Requests that guests send to their own application, and the properties that they inherit from the request that the
//! guest serves.
//!
//! A client's request has the depth 0, a request of its guest the depth 1, and so on up to [`MAX_DEPTH`]. Each limit of
//! concurrent work has separate permits for each depth ([`DepthLimits`]). A request holds permits of its depth and
//! waits for requests of the next depth only. So requests never wait for each other in a circle, however often
//! components call each other or themselves (decision 0024).

use std::array;
use std::sync::Arc;

use hexad_limits::anonymous_work::ClientWork;
use hexad_limits::concurrency_limit::ConcurrencyLimit;
use hexad_telemetry::request_id::X_REQUEST_ID;
use http::header::{HOST, HeaderValue};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, Request, Uri, Version};

use crate::forwarding::{is_forwarding, is_reserved};
use crate::origin::{CLIENT_ADDRESS, RequestOrigin};
use crate::response_cache::Dependencies;

/// The greatest depth. A guest at this depth gets 508 for a request of its own.
pub const MAX_DEPTH: usize = 4;

/// How many guests wait for a request, at most [`MAX_DEPTH`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth(usize);

/// The extension that marks a request of a guest.
#[derive(Clone, Debug)]
pub struct NestedRequest {
    pub depth: Depth,
    /// The component that the guest has named. `None` if the path decides.
    pub component: Option<String>,
    /// The account of the client's work, in which this request counts too.
    pub work: Option<Arc<ClientWork>>,
}

/// The request would be deeper than [`MAX_DEPTH`].
#[derive(Debug)]
pub struct TooDeep;

/// The properties that a guest's own requests inherit: the origin, the id, and the service's address as the client
/// wrote it.
#[derive(Debug)]
pub struct ParentRequest {
    depth: Depth,
    origin: Option<RequestOrigin>,
    client_address: Option<HeaderValue>,
    id: Option<HeaderValue>,
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    /// Where the host records the guest's reads, if the response may be cached.
    dependencies: Option<Arc<Dependencies>>,
    work: Option<Arc<ClientWork>>,
}

impl ParentRequest {
    /// `parts` has an absolute URI. If the response may be cached, the host records the guest's reads in
    /// `dependencies`, and `parts` has only the headers that the response may depend on. No cached response contains
    /// the request's id.
    pub fn of(
        parts: &Parts,
        id: Option<HeaderValue>,
        dependencies: Option<Arc<Dependencies>>,
        work: Option<Arc<ClientWork>>,
    ) -> Self {
        Self {
            depth: Depth::of(parts),
            origin: parts.extensions.get().cloned(),
            client_address: parts.headers.get(CLIENT_ADDRESS).cloned(),
            id,
            scheme: parts.uri.scheme().cloned(),
            authority: parts.uri.authority().cloned(),
            dependencies,
            work,
        }
    }

    pub fn depth(&self) -> Depth {
        self.depth
    }

    pub fn dependencies(&self) -> Option<&Arc<Dependencies>> {
        self.dependencies.as_ref()
    }

    /// Turns a guest's request into a request of this request's client. It goes to the named component, or to the
    /// component of its path. The host removes the guest's own claims about the origin.
    pub fn adopt<B>(&self, request: Request<B>, component: Option<&str>) -> Result<Request<B>, TooDeep> {
        let depth = self.depth.next().ok_or(TooDeep)?;
        let (mut parts, body) = request.into_parts();
        let forged: Vec<HeaderName> =
            parts.headers.keys().filter(|name| is_reserved(name) || is_forwarding(name)).cloned().collect();
        for name in forged {
            parts.headers.remove(name);
        }
        for (name, value) in [(CLIENT_ADDRESS, &self.client_address), (X_REQUEST_ID, &self.id)] {
            if let Some(value) = value {
                parts.headers.insert(name, value.clone());
            }
        }
        // The URI has the authority instead.
        parts.headers.remove(HOST);
        parts.uri = self.uri(&parts.uri);
        parts.version = Version::HTTP_11;
        parts.extensions.clear();
        if let Some(origin) = &self.origin {
            parts.extensions.insert(origin.clone());
        }
        parts.extensions.insert(NestedRequest {
            depth,
            component: component.map(str::to_owned),
            work: self.work.clone(),
        });
        Ok(Request::from_parts(parts, body))
    }

    /// The path and query of `target` at the address that the client used. So URLs in responses are valid for the
    /// client.
    fn uri(&self, target: &Uri) -> Uri {
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(self.scheme.clone().unwrap_or(Scheme::HTTP));
        uri.authority = Some(self.authority.clone().unwrap_or(Authority::from_static("localhost")));
        uri.path_and_query = Some(target.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")));
        // All parts are set, so this does not fail.
        Uri::from_parts(uri).unwrap_or_default()
    }
}

impl Depth {
    /// The depth of a request that the host handles.
    pub fn of(parts: &Parts) -> Self {
        parts.extensions.get().map(|nested: &NestedRequest| nested.depth).unwrap_or_default()
    }

    fn next(self) -> Option<Self> {
        (self.0 < MAX_DEPTH).then_some(Self(self.0 + 1))
    }
}

/// A limit of concurrent work, with separate permits for each depth.
#[derive(Debug)]
pub struct DepthLimits {
    /// For requests of clients.
    outer: ConcurrencyLimit,
    nested: [ConcurrencyLimit; MAX_DEPTH],
}

impl DepthLimits {
    pub fn new(limit: impl Fn() -> ConcurrencyLimit) -> Self {
        Self { outer: limit(), nested: array::from_fn(|_| limit()) }
    }

    /// The limit of requests of this depth.
    pub fn at(&self, depth: Depth) -> &ConcurrencyLimit {
        depth.0.checked_sub(1).and_then(|index| self.nested.get(index)).unwrap_or(&self.outer)
    }

    pub fn taken(&self) -> usize {
        self.all().map(ConcurrencyLimit::taken).sum()
    }

    pub fn waiting(&self) -> usize {
        self.all().map(ConcurrencyLimit::waiting).sum()
    }

    fn all(&self) -> impl Iterator<Item = &ConcurrencyLimit> {
        std::iter::once(&self.outer).chain(&self.nested)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use hexad_limits::concurrency_limit::HOST;

    fn served(uri: &str) -> Parts {
        let request = Request::get(uri).header(CLIENT_ADDRESS, "192.0.2.7:5").header(X_REQUEST_ID, "id-1");
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_guest_cannot_forge_the_client_of_a_nested_request() {
        let served = served("https://forge.test/page");
        let parent = ParentRequest::of(&served, served.headers.get(X_REQUEST_ID).cloned(), None, None);
        let request = Request::get("http://self.alt/api?q=1")
            .header("spin-client-addr", "127.0.0.1:1")
            .header("x-forwarded-for", "127.0.0.1")
            .header("x-request-id", "mine")
            .header("accept", "text/html");
        let nested = parent.adopt(request.body(()).unwrap(), None).unwrap();
        assert_eq!(nested.uri(), "https://forge.test/api?q=1");
        let headers: Vec<_> = nested.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(headers.len(), 3);
        assert_eq!(nested.headers()[CLIENT_ADDRESS], "192.0.2.7:5");
        assert_eq!(nested.headers()[X_REQUEST_ID], "id-1");
    }

    #[test]
    fn depth_ends_at_its_bound() {
        let mut parts = served("http://forge.test/");
        for depth in 1..=MAX_DEPTH {
            let request = Request::get("http://self.alt/").body(()).unwrap();
            parts = ParentRequest::of(&parts, None, None, None).adopt(request, None).unwrap().into_parts().0;
            assert_eq!(Depth::of(&parts), Depth(depth));
        }
        assert!(
            ParentRequest::of(&parts, None, None, None)
                .adopt(Request::get("http://self.alt/").body(()).unwrap(), None)
                .is_err()
        );
    }

    #[test]
    fn a_depth_does_not_take_the_permits_of_another() {
        let limits = DepthLimits::new(|| ConcurrencyLimit::new(1, Duration::ZERO, 0));
        let held: Vec<_> = (0..=MAX_DEPTH).map(|depth| limits.at(Depth(depth)).try_acquire(HOST).unwrap()).collect();
        assert_eq!(limits.taken(), MAX_DEPTH + 1);
        assert!(limits.at(Depth(2)).try_acquire(HOST).is_none());
        drop(held);
        assert_eq!(limits.taken(), 0);
    }
}
