//! What a request says of its way here, and how much of that is believed.
//!
//! A client's address, scheme and host are the connection's own. `X-Forwarded-For`, `-Proto` and
//! `-Host`, or `Forwarded` (RFC 7239), are believed when a trusted proxy sent them, and dropped when
//! anybody else did. Guests get the address as Spin gives it, in `spin-client-addr`; headers of
//! that family that a client made up are dropped.

use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, HeaderName, HeaderValue};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Request};

use super::Ingress;

/// Where a component reads the address of a request's client, as Spin words it.
pub const CLIENT_ADDRESS: HeaderName = HeaderName::from_static("spin-client-addr");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const OTHERS: [HeaderName; 3] = [
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-prefix"),
    HeaderName::from_static("x-real-ip"),
];

/// Headers that a host gives to its guests.
const HOSTS_OWN: &str = "spin-";

/// The other end of a connection.
#[derive(Debug)]
pub struct Client {
    peer: SocketAddr,
    scheme: Scheme,
    trusted: bool,
    /// The peer as a header, made once for all requests of the connection.
    address: HeaderValue,
}

/// How a request came here. The request has it among its extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Who sent it: the peer, or whom a trusted proxy names.
    pub client: IpAddr,
    pub scheme: Scheme,
    /// What a trusted proxy says that the client addressed.
    pub authority: Option<Authority>,
}

impl Client {
    pub fn new(peer: SocketAddr, ingress: &Ingress) -> Self {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let scheme = match ingress.certificates {
            Some(_) => Scheme::HTTPS,
            None => Scheme::HTTP,
        };
        Self { peer, scheme, trusted: ingress.trusts(peer), address: header(peer) }
    }

    /// Makes the headers of a request true, and notes how it came.
    pub fn receive<B>(&self, request: &mut Request<B>, ingress: &Ingress) {
        let headers = request.headers_mut();
        // Few requests have one of these, so looking is cheaper than removing.
        let is_false = |name: &HeaderName| is_hosts_own(name) || (!self.trusted && speaks_of_the_way(name));
        if headers.keys().any(is_false) {
            let made_up: Vec<_> = headers.keys().filter(|name| is_false(name)).cloned().collect();
            for name in made_up {
                headers.remove(name);
            }
        }
        let mut arrival = Arrival { client: self.peer.ip(), scheme: self.scheme.clone(), authority: None };
        let mut address = self.address.clone();
        if self.trusted {
            let said = Said::of(headers, ingress);
            if let Some(client) = said.client {
                arrival.client = client.ip();
                address = header(client);
            }
            arrival.scheme = said.scheme.unwrap_or(arrival.scheme);
            arrival.authority = said.authority;
        }
        headers.insert(CLIENT_ADDRESS, address);
        request.extensions_mut().insert(arrival);
    }
}

fn is_hosts_own(name: &HeaderName) -> bool {
    name.as_str().starts_with(HOSTS_OWN)
}

/// Whether it is for a trusted proxy to say.
fn speaks_of_the_way(name: &HeaderName) -> bool {
    name.as_str().starts_with(['f', 'x'])
        && ([FORWARDED, FORWARDED_FOR, FORWARDED_PROTO, FORWARDED_HOST].contains(name) || OTHERS.contains(name))
}

fn header(address: SocketAddr) -> HeaderValue {
    // An address has no character that a header may not have.
    HeaderValue::try_from(address.to_string()).unwrap_or(HeaderValue::from_static(""))
}

/// What a trusted proxy says.
#[derive(Default)]
struct Said {
    client: Option<SocketAddr>,
    scheme: Option<Scheme>,
    authority: Option<Authority>,
}

impl Said {
    fn of(headers: &HeaderMap, ingress: &Ingress) -> Self {
        let mut said = Self::default();
        if headers.contains_key(FORWARDED) {
            let hops = list(headers, &FORWARDED).map(Hop::parse).collect::<Vec<_>>();
            let addresses = hops.iter().rev().map(|hop| hop.address);
            said.client = first_stranger(addresses, ingress);
            if let Some(last) = hops.last() {
                said.scheme = last.scheme.and_then(scheme);
                said.authority = last.host.and_then(authority);
            }
            return said;
        }
        let addresses: Vec<_> = list(headers, &FORWARDED_FOR).map(address).collect();
        said.client = first_stranger(addresses.into_iter().rev(), ingress);
        said.scheme = list(headers, &FORWARDED_PROTO).last().and_then(scheme);
        said.authority = list(headers, &FORWARDED_HOST).last().and_then(authority);
        said
    }
}

/// The first of the addresses, nearest first, that is no trusted proxy: whoever is behind it can
/// have written the rest. The farthest if all are trusted; none from where one cannot be read.
fn first_stranger(addresses: impl Iterator<Item = Option<SocketAddr>>, ingress: &Ingress) -> Option<SocketAddr> {
    let mut found = None;
    for address in addresses {
        let address = address?;
        found = Some(address);
        if !ingress.trusts(address) {
            break;
        }
    }
    found
}

/// The elements of a header that is a list, over all of its lines.
fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|element| !element.is_empty())
}

/// One element of `Forwarded`.
#[derive(Default)]
struct Hop<'a> {
    address: Option<SocketAddr>,
    scheme: Option<&'a str>,
    host: Option<&'a str>,
}

impl<'a> Hop<'a> {
    fn parse(element: &'a str) -> Self {
        let mut hop = Self::default();
        for (name, value) in element.split(';').filter_map(|pair| pair.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim() {
                name if name.eq_ignore_ascii_case("for") => hop.address = address(value),
                name if name.eq_ignore_ascii_case("proto") => hop.scheme = Some(value),
                name if name.eq_ignore_ascii_case("host") => hop.host = Some(value),
                _ => {}
            }
        }
        hop
    }
}

/// An address with or without a port, which is 0 then.
fn address(text: &str) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(address) => Some(SocketAddr::new(address, 0)),
        Err(_) => text.parse().ok(),
    }
}

fn scheme(text: &str) -> Option<Scheme> {
    match text {
        _ if text.eq_ignore_ascii_case("https") => Some(Scheme::HTTPS),
        _ if text.eq_ignore_ascii_case("http") => Some(Scheme::HTTP),
        _ => None,
    }
}

fn authority(text: &str) -> Option<Authority> {
    text.parse().ok().filter(|authority: &Authority| !authority.as_str().contains('@'))
}

#[cfg(test)]
mod tests {
    use super::super::IngressOptions;
    use super::*;

    /// The arrival and the `spin-client-addr` of a request with these headers.
    fn receive(peer: &str, headers: &[(&str, &str)]) -> (Request<()>, Arrival, String) {
        let proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let ingress = Ingress::new(IngressOptions { proxies, ..IngressOptions::default() }).unwrap();
        let mut request = Request::new(());
        for (name, value) in headers {
            request.headers_mut().append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        Client::new(peer.parse().unwrap(), &ingress).receive(&mut request, &ingress);
        let arrival = request.extensions().get::<Arrival>().unwrap().clone();
        let address = request.headers()["spin-client-addr"].to_str().unwrap().to_owned();
        (request, arrival, address)
    }

    #[track_caller]
    fn check(peer: &str, headers: &[(&str, &str)], client: &str, scheme: &str, authority: Option<&str>) {
        let (_, arrival, address) = receive(peer, headers);
        assert_eq!(address, client, "{headers:?}");
        assert_eq!(arrival.client, client.parse::<SocketAddr>().unwrap().ip());
        assert_eq!((arrival.scheme.as_str(), arrival.authority.as_ref().map(Authority::as_str)), (scheme, authority));
    }

    #[test]
    fn a_stranger_is_believed_nothing() {
        let forged = [
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil.example"),
            ("x-real-ip", "1.1.1.1"),
            ("forwarded", "for=1.1.1.1;proto=https"),
            ("spin-client-addr", "1.1.1.1:1"),
            ("spin-full-url", "http://evil.example/"),
            ("spinning", "kept"),
        ];
        check("192.0.2.7:5", &forged, "192.0.2.7:5", "http", None);
        check("[::ffff:192.0.2.7]:5", &forged, "192.0.2.7:5", "http", None);
        let (request, ..) = receive("192.0.2.7:5", &forged);
        let left: Vec<_> = request.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["spinning", "spin-client-addr"]);
    }

    #[test]
    fn a_trusted_proxy_says_who_the_client_is() {
        let proxy = "10.0.0.1:80";
        check(proxy, &[], "10.0.0.1:80", "http", None);
        check(proxy, &[("x-forwarded-for", "192.0.2.7")], "192.0.2.7:0", "http", None);
        // What the client claimed itself is to the left of what the proxy saw.
        check(proxy, &[("x-forwarded-for", "1.1.1.1, 192.0.2.7")], "192.0.2.7:0", "http", None);
        check(proxy, &[("x-forwarded-for", "1.1.1.1, 192.0.2.7, 10.0.0.2")], "192.0.2.7:0", "http", None);
        check(proxy, &[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "192.0.2.7")], "192.0.2.7:0", "http", None);
        check(proxy, &[("x-forwarded-for", "10.0.0.3, 10.0.0.2")], "10.0.0.3:0", "http", None);
        check(proxy, &[("x-forwarded-for", "192.0.2.7, unknown")], "10.0.0.1:80", "http", None);
        check(proxy, &[("x-forwarded-for", "2001:db8::7")], "[2001:db8::7]:0", "http", None);
        check(proxy, &[("x-forwarded-for", "192.0.2.7:99")], "192.0.2.7:99", "http", None);
        let headers =
            [("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "HTTPS"), ("x-forwarded-host", "app.example")];
        check(proxy, &headers, "192.0.2.7:0", "https", Some("app.example"));
        check(proxy, &[("x-forwarded-host", "a@b"), ("x-forwarded-proto", "ftp")], "10.0.0.1:80", "http", None);
    }

    #[test]
    fn forwarded_is_read_as_the_standard_says() {
        let proxy = "10.0.0.1:80";
        let full =
            [("forwarded", "for=1.1.1.1;proto=http, For=\"[2001:db8::7]:99\";Proto=https;host=\"app.example:81\"")];
        check(proxy, &full, "[2001:db8::7]:99", "https", Some("app.example:81"));
        check(proxy, &[("forwarded", "for=\"[2001:db8::7]\"")], "[2001:db8::7]:0", "http", None);
        check(proxy, &[("forwarded", "for=_hidden;proto=https")], "10.0.0.1:80", "https", None);
        check(proxy, &[("forwarded", "for=192.0.2.7, for=10.0.0.2")], "192.0.2.7:0", "http", None);
    }
}
