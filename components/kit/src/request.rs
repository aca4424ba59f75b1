//! A request as plain values.

use crate::body::Body;
use crate::params::Params;
use crate::path;
use http::header::{AsHeaderName, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Method};
use std::cell::{LazyCell, OnceCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// The header in which Spin and hexad pass the client's address and port to a component.
static CLIENT_ADDRESS: HeaderName = HeaderName::from_static("spin-client-addr");

/// The scheme and authority that a request was sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// `http` or `https`.
    pub scheme: String,
    /// The host and the port.
    pub authority: String,
}

/// An origin that is read on first use. Reading takes two calls of the host, and most requests do not need it.
pub type LazyOrigin = Rc<LazyCell<Origin, Box<dyn FnOnce() -> Origin>>>;

impl Origin {
    /// An origin with known values.
    pub fn known(scheme: &str, authority: &str) -> LazyOrigin {
        let origin = Origin { scheme: scheme.to_owned(), authority: authority.to_owned() };
        Rc::new(LazyCell::new(Box::new(|| origin)))
    }
}

/// A request.
pub struct Request {
    pub method: Method,
    pub origin: LazyOrigin,
    /// The path without the query, percent-encoded and normalized ([`path::normalize`]).
    pub path: String,
    /// The raw query without the question mark; may be empty.
    pub query: String,
    pub headers: HeaderMap,
    pub body: Body,
    /// The cached result of [`Self::client_address`].
    pub(crate) client_address: OnceCell<Option<String>>,
}

impl Request {
    /// A request without headers and body, to `http://localhost`.
    pub fn new(method: Method, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Request {
            method,
            origin: Origin::known("http", "localhost"),
            path: path::normalize(path).into_owned(),
            query: query.into(),
            headers: HeaderMap::new(),
            body: Body::Empty,
            client_address: OnceCell::new(),
        }
    }

    /// The first value of a header; `None` if it is not visible ASCII.
    pub fn header(&self, name: impl AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The client's address; `None` if the host does not pass it. An IPv6 address is reduced to its /64 network,
    /// because a client can use all addresses of its network.
    pub fn client_address(&self) -> Option<&str> {
        self.client_address.get_or_init(|| self.parse_client_address()).as_deref()
    }

    fn parse_client_address(&self) -> Option<String> {
        // A header of this name from the client comes before the host's, so the last one counts.
        let value = self.headers.get_all(&CLIENT_ADDRESS).iter().next_back()?.to_str().ok()?;
        let address = value.parse::<SocketAddr>().map(|address| address.ip()).or_else(|_| value.parse()).ok()?;
        Some(match (address, address.to_canonical()) {
            // An IPv4 address has only one text form.
            (IpAddr::V4(_), _) => value.split(':').next()?.to_owned(),
            (_, IpAddr::V4(mapped)) => mapped.to_string(),
            (_, IpAddr::V6(address)) => {
                let [a, b, c, d, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
        })
    }

    /// The parameters of the query string.
    pub fn params(&self) -> Params {
        Params::parse(&self.query)
    }

    /// `Content-Length`, if it was sent.
    pub fn content_length(&self) -> Option<u64> {
        self.header(CONTENT_LENGTH)?.parse().ok()
    }

    /// The media type of the body in lower case, without its parameters.
    pub fn media_type(&self) -> Option<String> {
        let value = self.header(CONTENT_TYPE)?;
        Some(value.split(';').next()?.trim().to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn splits_the_target_once() {
        let request = Request::new(Method::GET, "/a?b=c?d");
        assert_eq!((request.path.as_str(), request.query.as_str()), ("/a", "b=c?d"));
    }

    #[test]
    fn the_path_is_normal_and_the_query_as_it_was_sent() {
        let request = Request::new(Method::GET, "//api/v4//features/?a=//");
        assert_eq!((request.path.as_str(), request.query.as_str()), ("/api/v4/features", "a=//"));
    }

    #[test]
    fn media_types_lose_their_parameters() {
        let mut request = Request::new(Method::PUT, "/");
        assert_eq!(request.media_type(), None);
        request.headers.insert("content-type", HeaderValue::from_static("Application/JSON; charset=utf-8"));
        assert_eq!(request.media_type().as_deref(), Some("application/json"));
    }

    #[test]
    fn the_clients_address_is_the_one_that_the_host_passes() {
        for (told, expected) in [
            (vec![], None),
            (vec!["192.0.2.7:50000"], Some("192.0.2.7")),
            (vec!["192.0.2.7"], Some("192.0.2.7")),
            (vec!["[::ffff:192.0.2.7]:5"], Some("192.0.2.7")),
            (vec!["[2001:db8:1:2:3:4:5:6]:5"], Some("2001:db8:1:2::/64")),
            (vec!["198.51.100.1:1", "192.0.2.7:50000"], Some("192.0.2.7")),
            (vec!["somebody"], None),
        ] {
            let mut request = Request::new(Method::GET, "/");
            for value in &told {
                request.headers.append("spin-client-addr", HeaderValue::from_static(value));
            }
            assert_eq!(request.client_address(), expected, "{told:?}");
        }
    }
}
