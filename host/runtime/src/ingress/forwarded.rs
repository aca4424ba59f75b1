//! The origin of a request: the connection, or the forwarded headers of a trusted proxy.
//!
//! A client's address, scheme and host are the connection's own, or a trusted proxy names them in the header family
//! that the operator has chosen. The host removes all other headers that name a request's origin. It removes trace
//! headers too, unless a trusted proxy sent them. Guests get the address as Spin gives it, in `spin-client-addr`; the
//! host removes all `spin-` headers that a client sent.

use std::borrow::Cow;
use std::iter;
use std::net::{IpAddr, SocketAddr};

use hexad_http::forwarding::{
    FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO, ForwardedFamily, is_forwarding, is_reserved, is_trace,
};
use hexad_http::origin::{CLIENT_ADDRESS, RequestOrigin, client_network};
use http::header::{FORWARDED, HeaderName, HeaderValue};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Request};

use super::listener::{ClientSource, Ingress};
use super::own_cookies::OwnCookie;

/// The remote end of a connection.
#[derive(Debug)]
pub struct Peer {
    socket: SocketAddr,
    scheme: Scheme,
    trusted: bool,
    /// The peer's address as a header, made once for all requests of the connection.
    address: HeaderValue,
}

impl Peer {
    pub fn new(socket: SocketAddr, ingress: &Ingress) -> Self {
        let socket = SocketAddr::new(socket.ip().to_canonical(), socket.port());
        let scheme = match ingress.certificates {
            Some(_) => Scheme::HTTPS,
            None => Scheme::HTTP,
        };
        Self { socket, scheme, trusted: ingress.trusts(socket), address: header(socket) }
    }

    pub fn address(&self) -> IpAddr {
        self.socket.ip()
    }

    /// The peer's network. `None` for a trusted proxy, whose clients have networks of their own.
    pub fn network(&self) -> Option<IpAddr> {
        (!self.trusted).then(|| client_network(self.address()))
    }

    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// The client for the log: behind a trusted peer, the forwarded client; otherwise the peer.
    pub fn source(&self, forwarded: Option<IpAddr>) -> ClientSource {
        match self.network() {
            Some(client) => ClientSource { client: Some(client), proxy: None },
            None => ClientSource { client: forwarded, proxy: Some(self.address()) },
        }
    }

    /// Removes the headers that the peer may not set, and adds the origin to the request.
    pub fn apply_to<B>(&self, request: &mut Request<B>, ingress: &Ingress) {
        let headers = request.headers_mut();
        // Few requests have such a header, so a search comes before any removal.
        let is_untrusted = |name: &HeaderName| match self.trusted {
            true => is_reserved(name) || (is_forwarding(name) && !ingress.forwarding.believes(name)),
            false => is_reserved(name) || is_forwarding(name) || is_trace(name),
        };
        if headers.keys().any(is_untrusted) {
            let untrusted: Vec<_> = headers.keys().filter(|name| is_untrusted(name)).cloned().collect();
            for name in untrusted {
                headers.remove(name);
            }
        }
        OwnCookie::Operator.remove(headers);
        let mut origin = RequestOrigin { client: self.socket.ip(), scheme: self.scheme.clone(), authority: None };
        let mut address = self.address.clone();
        if self.trusted {
            let forwarded = ForwardedHeaders::parse(headers, ingress);
            if let Some(client) = forwarded.client {
                origin.client = client.ip();
                address = header(client);
            }
            origin.scheme = forwarded.scheme.unwrap_or(origin.scheme);
            origin.authority = forwarded.authority;
        }
        headers.insert(CLIENT_ADDRESS, address);
        request.extensions_mut().insert(origin);
    }
}

fn header(address: SocketAddr) -> HeaderValue {
    // An address has only characters that a header may contain.
    HeaderValue::try_from(address.to_string()).unwrap_or(HeaderValue::from_static(""))
}

/// The values of a trusted proxy's forwarded headers.
#[derive(Default)]
struct ForwardedHeaders {
    client: Option<SocketAddr>,
    scheme: Option<Scheme>,
    authority: Option<Authority>,
}

impl ForwardedHeaders {
    fn parse(headers: &HeaderMap, ingress: &Ingress) -> Self {
        let mut forwarded = Self::default();
        let forwarding = ingress.forwarding;
        if forwarding.family == ForwardedFamily::Forwarded {
            // Each proxy's element is vouched for by the next nearer one; the peer is the nearest. The farthest trusted
            // proxy knows best how the client addressed the service.
            for element in forwarded_elements(headers) {
                forwarded.scheme = element.proto.as_deref().and_then(scheme).or(forwarded.scheme);
                let host = element.host.as_deref().filter(|_| forwarding.host);
                forwarded.authority = host.and_then(authority).or(forwarded.authority);
                forwarded.client = element.client.as_deref().and_then(address);
                if forwarded.client.is_none_or(|client| !ingress.trusts(client)) {
                    break;
                }
            }
            return forwarded;
        }
        let addresses: Vec<_> = texts(headers, &FORWARDED_FOR).map(address).collect();
        forwarded.client = first_untrusted(addresses.into_iter().rev(), ingress);
        forwarded.scheme = texts(headers, &FORWARDED_PROTO).last().and_then(scheme);
        // `X-Forwarded-Host` is still here only if the operator believes it.
        forwarded.authority = texts(headers, &FORWARDED_HOST).last().and_then(authority);
        forwarded
    }
}

/// The nearest address that is not a trusted proxy: the addresses behind it may be forged. The farthest if all are
/// trusted. `None` if a nearer address is unreadable.
fn first_untrusted(addresses: impl Iterator<Item = Option<SocketAddr>>, ingress: &Ingress) -> Option<SocketAddr> {
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

/// The elements of an `X-Forwarded` header over all of its lines; the format has no quoted strings. The split is on
/// bytes, so that a client's text before a proxy's element cannot make that unreadable.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let elements = lines.flat_map(|line| line.split(|byte| *byte == b','));
    elements.map(<[u8]>::trim_ascii).filter(|element| !element.is_empty()).map(text)
}

/// The text of an element. An unreadable one is empty, and so neither an address nor a scheme nor a host.
fn text(element: &[u8]) -> &str {
    std::str::from_utf8(element).unwrap_or_default()
}

/// An address with a port, or without one, for which the port is 0.
fn address(text: &str) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = match bare.parse::<IpAddr>() {
        Ok(address) => SocketAddr::new(address, 0),
        Err(_) => text.parse().ok()?,
    };
    // Canonical as a peer's address, so that one client has one name.
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

fn scheme(text: &str) -> Option<Scheme> {
    match text {
        _ if text.eq_ignore_ascii_case("https") => Some(Scheme::HTTPS),
        _ if text.eq_ignore_ascii_case("http") => Some(Scheme::HTTP),
        _ => None,
    }
}

fn authority(text: &str) -> Option<Authority> {
    text.parse().ok().filter(is_host_and_port)
}

/// One element. A parameter is `None` if it is missing or unreadable.
#[derive(Debug, Default, PartialEq, Eq)]
struct ForwardedElement<'a> {
    /// The parameter `for`.
    pub client: Option<Cow<'a, str>>,
    pub proto: Option<Cow<'a, str>>,
    pub host: Option<Cow<'a, str>>,
}

/// The elements of all lines of the `Forwarded` header (RFC 7239), the nearest proxy's first: each proxy adds one.
///
/// A proxy writes its element to the right of its client's text. So the host reads the header from the right: the
/// proxy's own text then decides where a quoted string ends. A quote that the client left open cannot swallow the
/// proxy's element. A quoted string may hold separators, for example in a `Host` that a client has chosen.
fn forwarded_elements(headers: &HeaderMap) -> impl Iterator<Item = ForwardedElement<'_>> {
    let lines = headers.get_all(FORWARDED).iter().rev().map(HeaderValue::as_bytes);
    let elements = lines.flat_map(|line| split_from_right(line, b',')).map(<[u8]>::trim_ascii);
    elements.filter(|element| !element.is_empty()).map(ForwardedElement::parse)
}

impl<'a> ForwardedElement<'a> {
    /// An element with a repeated parameter has no values. A proxy writes each parameter once, so one of them is a
    /// client's, in a value that the proxy did not quote.
    fn parse(element: &'a [u8]) -> Self {
        let (mut client, mut proto, mut host) = (None, None, None);
        for pair in split_from_right(element, b';') {
            let mut parts = pair.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
            let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
            let parameter = match name {
                name if name.eq_ignore_ascii_case(b"for") => &mut client,
                name if name.eq_ignore_ascii_case(b"proto") => &mut proto,
                name if name.eq_ignore_ascii_case(b"host") => &mut host,
                _ => continue,
            };
            if parameter.replace(unquoted(value)).is_some() {
                return Self::default();
            }
        }
        Self { client: client.flatten(), proto: proto.flatten(), host: host.flatten() }
    }
}

/// The parts between the separators that are in no quoted string, from the right.
fn split_from_right(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    iter::from_fn(move || {
        let text = rest.take()?;
        let Some((before, part)) = last_separator(text, separator).and_then(|at| text.split_at_checked(at)) else {
            return Some(text);
        };
        rest = Some(before);
        part.get(1..)
    })
}

fn last_separator(text: &[u8], separator: u8) -> Option<usize> {
    let mut is_quoted = false;
    for (at, byte) in text.iter().enumerate().rev() {
        match *byte {
            b'"' if is_quoted && is_escaped(text.get(..at).unwrap_or_default()) => {}
            b'"' => is_quoted = !is_quoted,
            byte if byte == separator && !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Whether a backslash escapes the character after `before`, in a quoted string. A backslash that is escaped itself
/// does not.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The text of a token or of a quoted string. `None` if it is neither.
fn unquoted(value: &[u8]) -> Option<Cow<'_, str>> {
    let value = std::str::from_utf8(value).ok()?;
    let Some(rest) = value.strip_prefix('"') else {
        return (!value.contains('"')).then_some(Cow::Borrowed(value));
    };
    let quoted = rest.strip_suffix('"')?;
    if !quoted.contains(['"', '\\']) {
        return Some(Cow::Borrowed(quoted));
    }
    let mut text = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            '"' => return None,
            '\\' => characters.next()?,
            character => character,
        });
    }
    Some(Cow::Owned(text))
}

/// Whether a client may address this authority. It has no user name, its port is empty or a number, and brackets
/// contain an IPv6 address.
pub fn is_host_and_port(authority: &Authority) -> bool {
    let (text, host) = (authority.as_str(), authority.host());
    // Rust accepts a number with a plus sign, and a port has none.
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let is_port = |rest: &str| rest.strip_prefix(':').is_some_and(|port| port.is_empty() || is_number(port));
    let is_host = host
        .strip_prefix('[')
        .is_none_or(|host| host.strip_suffix(']').is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok()));
    is_host && text.strip_prefix(host).is_some_and(|rest| rest.is_empty() || is_port(rest))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::listener::IngressOptions;
    use super::*;
    use hexad_http::forwarding::Forwarding;

    const X_FORWARDED: Forwarding = Forwarding { family: ForwardedFamily::XForwarded, host: true };
    const RFC_7239: Forwarding = Forwarding { family: ForwardedFamily::Forwarded, host: true };

    /// The origin and the `spin-client-addr` of a request with these headers.
    fn receive(forwarding: Forwarding, peer: &str, headers: &[(&str, &str)]) -> (Request<()>, RequestOrigin, String) {
        let proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let ingress = Ingress::new(IngressOptions { proxies, forwarding, ..IngressOptions::default() }).unwrap();
        let mut request = Request::new(());
        for (name, value) in headers {
            request
                .headers_mut()
                .append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        Peer::new(peer.parse().unwrap(), &ingress).apply_to(&mut request, &ingress);
        let origin = request.extensions().get::<RequestOrigin>().unwrap().clone();
        let address = request.headers()["spin-client-addr"].to_str().unwrap().to_owned();
        (request, origin, address)
    }

    #[track_caller]
    fn check(peer: &str, headers: &[(&str, &str)], client: &str, scheme: &str, authority: Option<&str>) {
        check_with(X_FORWARDED, peer, headers, client, scheme, authority);
    }

    #[track_caller]
    fn check_with(
        forwarding: Forwarding,
        peer: &str,
        headers: &[(&str, &str)],
        client: &str,
        scheme: &str,
        authority: Option<&str>,
    ) {
        let (_, origin, address) = receive(forwarding, peer, headers);
        assert_eq!(address, client, "{headers:?}");
        assert_eq!(origin.client, client.parse::<SocketAddr>().unwrap().ip());
        assert_eq!((origin.scheme.as_str(), origin.authority.as_ref().map(Authority::as_str)), (scheme, authority));
    }

    #[test]
    fn headers_of_an_untrusted_peer_are_ignored() {
        let forged = [
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil.example"),
            ("x-real-ip", "1.1.1.1"),
            ("forwarded", "for=1.1.1.1;proto=https"),
            ("spin-client-addr", "1.1.1.1:1"),
            ("spin-full-url", "http://evil.example/"),
            ("x-forwarded-prefix", "/a"),
            ("x-original-url", "/admin"),
            ("true-client-ip", "1.1.1.1"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("tracestate", "a=b"),
            ("spinning", "kept"),
        ];
        check("192.0.2.7:5", &forged, "192.0.2.7:5", "http", None);
        check("[::ffff:192.0.2.7]:5", &forged, "192.0.2.7:5", "http", None);
        for forwarding in [X_FORWARDED, RFC_7239] {
            let (request, ..) = receive(forwarding, "192.0.2.7:5", &forged);
            let left: Vec<_> = request.headers().keys().map(HeaderName::as_str).collect();
            assert_eq!(left, ["spinning", "spin-client-addr"]);
        }
    }

    #[test]
    fn of_a_trusted_proxy_only_the_chosen_family_is_believed() {
        let both = [
            ("x-forwarded-for", "192.0.2.7"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "x.example"),
            ("x-forwarded-port", "81"),
            ("x-real-ip", "3.3.3.3"),
            ("forwarded", "for=198.51.100.7;proto=http;host=f.example"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ];
        let proxy = "10.0.0.1:80";
        let no_host = |forwarding| Forwarding { host: false, ..forwarding };
        check_with(X_FORWARDED, proxy, &both, "192.0.2.7:0", "https", Some("x.example"));
        check_with(no_host(X_FORWARDED), proxy, &both, "192.0.2.7:0", "https", None);
        check_with(RFC_7239, proxy, &both, "198.51.100.7:0", "http", Some("f.example"));
        check_with(no_host(RFC_7239), proxy, &both, "198.51.100.7:0", "http", None);
        // The host ignores the other family: a client may have sent it.
        check_with(RFC_7239, proxy, &both[..5], "10.0.0.1:80", "http", None);
        check_with(X_FORWARDED, proxy, &both[5..], "10.0.0.1:80", "http", None);
        let left = |forwarding| {
            let (request, ..) = receive(forwarding, proxy, &both);
            request.headers().keys().map(|name| name.to_string()).collect::<BTreeSet<_>>()
        };
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
        assert_eq!(
            left(Forwarding::default()),
            names(&["x-forwarded-for", "x-forwarded-proto", "traceparent", "spin-client-addr"])
        );
        assert_eq!(left(RFC_7239), names(&["forwarded", "traceparent", "spin-client-addr"]));
    }

    #[test]
    fn a_trusted_proxy_names_the_client() {
        let proxy = "10.0.0.1:80";
        check(proxy, &[], "10.0.0.1:80", "http", None);
        check(proxy, &[("x-forwarded-for", "192.0.2.7")], "192.0.2.7:0", "http", None);
        // The client's own claim is to the left of the address that the proxy saw.
        check(proxy, &[("x-forwarded-for", "1.1.1.1, 192.0.2.7")], "192.0.2.7:0", "http", None);
        check(proxy, &[("x-forwarded-for", "1.1.1.1, 192.0.2.7, 10.0.0.2")], "192.0.2.7:0", "http", None);
        check(proxy, &[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "192.0.2.7")], "192.0.2.7:0", "http", None);
        check(proxy, &[("x-forwarded-for", "10.0.0.3, 10.0.0.2")], "10.0.0.3:0", "http", None);
        check(proxy, &[("x-forwarded-for", "192.0.2.7, unknown")], "10.0.0.1:80", "http", None);
        // A client's text before the address that the proxy saw does not hide that address.
        check(proxy, &[("x-forwarded-for", "\u{ff}, 192.0.2.7")], "192.0.2.7:0", "http", None);
        check(proxy, &[("x-forwarded-for", "192.0.2.7, \u{ff}")], "10.0.0.1:80", "http", None);
        check(proxy, &[("x-forwarded-proto", "https, \u{ff}")], "10.0.0.1:80", "http", None);
        check(proxy, &[("x-forwarded-for", "2001:db8::7")], "[2001:db8::7]:0", "http", None);
        check(proxy, &[("x-forwarded-for", "192.0.2.7:99")], "192.0.2.7:99", "http", None);
        let headers =
            [("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "HTTPS"), ("x-forwarded-host", "app.example")];
        check(proxy, &headers, "192.0.2.7:0", "https", Some("app.example"));
        check(proxy, &[("x-forwarded-host", "a@b"), ("x-forwarded-proto", "ftp")], "10.0.0.1:80", "http", None);
    }

    #[test]
    fn the_forwarded_header_is_parsed() {
        let proxy = "10.0.0.1:80";
        let full =
            [("forwarded", "for=1.1.1.1;proto=http, For=\"[2001:db8::7]:99\";Proto=https;host=\"app.example:81\"")];
        check_with(RFC_7239, proxy, &full, "[2001:db8::7]:99", "https", Some("app.example:81"));
        check_with(RFC_7239, proxy, &[("forwarded", "for=\"[2001:db8::7]\"")], "[2001:db8::7]:0", "http", None);
        let unreadable = [("forwarded", "for=\u{ff}, host=\"\u{ff}\";for=192.0.2.7")];
        check_with(RFC_7239, proxy, &unreadable, "192.0.2.7:0", "http", None);
        check_with(RFC_7239, proxy, &[("forwarded", "for=_hidden;proto=https")], "10.0.0.1:80", "https", None);
        check_with(RFC_7239, proxy, &[("forwarded", "for=192.0.2.7, for=10.0.0.2")], "192.0.2.7:0", "http", None);
        // Behind two trusted proxies, the proxy that the client has reached names the scheme and the host.
        let edge = "for=9.9.9.9;proto=http;host=forged, for=192.0.2.7;proto=https;host=app.example";
        let both = format!("{edge}, for=10.0.0.2;proto=http;host=\"inner:81\"");
        check_with(RFC_7239, proxy, &[("forwarded", &both)], "192.0.2.7:0", "https", Some("app.example"));
        let silent = format!("{edge}, for=10.0.0.2");
        check_with(RFC_7239, proxy, &[("forwarded", &silent)], "192.0.2.7:0", "https", Some("app.example"));
        let inner = [("forwarded", "for=192.0.2.7, for=10.0.0.2;proto=https;host=inner")];
        check_with(RFC_7239, proxy, &inner, "192.0.2.7:0", "https", Some("inner"));
    }

    #[test]
    fn a_host_that_a_client_chose_forges_no_parameter_of_its_proxy() {
        let proxy = "10.0.0.1:80";
        for host in
            ["a;for=203.0.113.9", "a,for=203.0.113.9", "a;proto=https", "a, proto=https", r#"a\";proto=https;b=\""#]
        {
            let line = format!("for=192.0.2.7;host=\"{host}\"");
            let (_, origin, address) = receive(RFC_7239, proxy, &[("forwarded", &line)]);
            assert_eq!((&*address, origin.scheme.as_str()), ("192.0.2.7:0", "http"), "{line}");
        }
        // A repeated parameter shows a proxy that does not quote; then the proxy counts as the client.
        let bare = [("forwarded", "for=192.0.2.7;proto=http;host=a;for=203.0.113.9;proto=https")];
        check_with(RFC_7239, proxy, &bare, "10.0.0.1:80", "http", None);
    }

    /// `for`, `proto` and `host` of each element, or "-", the nearest first.
    fn elements(lines: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        let text = |parameter: Option<Cow<'_, str>>| parameter.map_or("-".to_owned(), Cow::into_owned);
        let parameters =
            |element: ForwardedElement<'_>| [element.client, element.proto, element.host].map(text).join(" ");
        forwarded_elements(&headers).map(parameters).collect()
    }

    #[test]
    fn separators_in_a_quoted_string_separate_nothing() {
        assert_eq!(elements(&[r#"for=a;host="x;for=b""#]), ["a - x;for=b"]);
        assert_eq!(elements(&[r#"for=a;host="x,for=b""#]), ["a - x,for=b"]);
        assert_eq!(elements(&[r#"host="x;proto=https, for=b";for=a"#]), ["a - x;proto=https, for=b"]);
    }

    #[test]
    fn an_escaped_quote_ends_no_string() {
        assert_eq!(elements(&[r#"for=a;host="x\";for=b;by=\"y""#]), [r#"a - x";for=b;by="y"#]);
        assert_eq!(elements(&[r#"for=a;host="\",for=b""#]), [r#"a - ",for=b"#]);
        // The backslash before the last quote is escaped itself, and so are those before the first.
        assert_eq!(elements(&[r#"for=a;host="x\\", for=c;host="y\\""#]), [r"c - y\", r"a - x\"]);
        assert_eq!(elements(&[r#"for=a;host="\\\",for=b""#]), [r#"a - \",for=b"#]);
    }

    #[test]
    fn a_quote_that_a_client_left_open_swallows_no_element_of_a_proxy() {
        let proxies = r#"for=a;host="h""#;
        for client in [r#"""#, r#"for=b;host=""#, r#"for="b"#, r"x\", r#"\""#, r#"host="\"#, r#"for=b;host="x\""#] {
            let found = elements(&[&format!("{client}, {proxies}")]);
            assert_eq!(found[0], "a - h", "{client}");
            let found = elements(&[client, proxies]);
            assert_eq!(found[0], "a - h", "{client}");
            let found = elements(&[&format!("{client}, for=c, {proxies}")]);
            assert_eq!(found[..2], ["a - h", "c - -"], "{client}");
        }
    }

    #[test]
    fn a_value_that_is_not_closed_or_not_escaped_is_unreadable() {
        assert_eq!(elements(&[r#"for=a;host="x"#]), ["- - -"], "the quote opens a string to the left");
        assert_eq!(elements(&[r#"for=a;host="x"y""#]), ["- - -"]);
        assert_eq!(elements(&[r#"for=a;host=x"y""#]), ["a - -"]);
        assert_eq!(elements(&[r#"for=a;host=""#]), ["- - -"]);
        assert_eq!(elements(&[r#"for=a;host="""#]), ["a - "]);
    }

    #[test]
    fn a_parameter_that_occurs_twice_makes_its_element_unreadable() {
        assert_eq!(elements(&["for=c, for=a;host=x;For=b;proto=https"]), ["- - -", "c - -"]);
        assert_eq!(elements(&["for=\u{ff};for=b"])[0], "- - -");
        assert_eq!(elements(&[r#"for=a;host="x";for=b;y="""#]), ["- - -"], "a proxy that does not escape");
        assert_eq!(elements(&["for=a;proto=http;proto=https"]), ["- - -"]);
    }

    #[test]
    fn the_elements_of_all_lines_are_read_nearest_first() {
        assert_eq!(elements(&["for=a, ,for=b;", "", "for=c ; proto = HTTPS"]), ["c HTTPS -", "b - -", "a - -"]);
    }
}
