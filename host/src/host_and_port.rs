//! The authorities that a client may name.

use http::uri::Authority;

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
