//! Which headers of a trusted proxy the host believes, and which no client may send.

use http::HeaderName;
use http::header::FORWARDED;

pub const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The header family in which a trusted proxy names a request's client.
///
/// A proxy sets one family and passes on what a client sent in the other, so the host believes only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ForwardedFamily {
    /// `X-Forwarded-For`, `-Proto` and, if the operator chose it, `-Host`.
    #[default]
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// The headers of a trusted proxy that the host believes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    pub family: ForwardedFamily,
    /// Whether the proxy names the host that the client addressed. Most proxies pass on the client's `Host` and leave
    /// `X-Forwarded-Host` as the client sent it.
    pub host: bool,
}

impl Forwarding {
    /// Whether a trusted proxy may set the header.
    pub fn believes(&self, name: &HeaderName) -> bool {
        match self.family {
            ForwardedFamily::Forwarded => *name == FORWARDED,
            ForwardedFamily::XForwarded => {
                [FORWARDED_FOR, FORWARDED_PROTO].contains(name) || (self.host && *name == FORWARDED_HOST)
            }
        }
    }
}

/// The prefix of headers that only the host may set.
const RESERVED_PREFIX: &str = "spin-";

/// The prefix of a header family that has no complete list.
const X_FORWARDED: &str = "x-forwarded";

/// Headers in which some proxies name the client, or the URL that the client asked for.
const OTHERS: [&str; 26] = [
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-original-host",
    "x-original-url",
    "x-rewrite-url",
    "x-url-scheme",
    "x-host",
    "true-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
    "front-end-https",
    "forwarded-for",
    "via-client-ip",
    "x-proxyuser-ip",
    "x-scheme",
    "client-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "fly-client-ip",
    "x-appengine-user-ip",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-envoy-external-address",
    "x-forward-for",
];

/// Headers that make a request part of a client's trace.
const TRACE: [&str; 2] = ["traceparent", "tracestate"];

/// Whether only the host may set the header.
pub fn is_reserved(name: &HeaderName) -> bool {
    name.as_str().starts_with(RESERVED_PREFIX)
}

/// Whether the header names the origin of a request.
pub fn is_forwarding(name: &HeaderName) -> bool {
    let text = name.as_str();
    // Most names fail this test.
    text.starts_with(['x', 'f', 't', 'c', 'v'])
        && (text.starts_with(X_FORWARDED) || *name == FORWARDED || OTHERS.contains(&text))
}

/// Whether the header names a trace.
pub fn is_trace(name: &HeaderName) -> bool {
    TRACE.contains(&name.as_str())
}
