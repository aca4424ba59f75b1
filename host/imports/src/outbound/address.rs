//! Which addresses are public. A component reaches other addresses only if its manifest names them.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The IPv4 networks that are not public: IANA's special-purpose registry, and multicast.
#[rustfmt::skip]
const NON_PUBLIC_V4: [([u8; 4], u8); 16] = [
    ([0, 0, 0, 0], 8),       // this network
    ([10, 0, 0, 0], 8),      // private
    ([100, 64, 0, 0], 10),   // carrier-grade NAT; some clouds keep their metadata service here
    ([127, 0, 0, 0], 8),     // loopback
    ([168, 63, 129, 16], 32), // a cloud's platform service, answered by the hypervisor host
    ([169, 254, 0, 0], 16),  // link-local: the metadata services of most clouds
    ([172, 16, 0, 0], 12),   // private
    ([192, 0, 0, 0], 24),    // protocol assignments; a metadata service at .192
    ([192, 0, 2, 0], 24),    // documentation
    ([192, 88, 99, 0], 24),  // 6to4 relays
    ([192, 168, 0, 0], 16),  // private
    ([198, 18, 0, 0], 15),   // benchmarks
    ([198, 51, 100, 0], 24), // documentation
    ([203, 0, 113, 0], 24),  // documentation
    ([224, 0, 0, 0], 4),     // multicast
    ([240, 0, 0, 0], 4),     // reserved, and broadcast
];

/// IPv6 addresses outside of this network are not public: loopback, unspecified, IPv4-mapped and
/// -compatible, NAT64, unique local, link-local, site-local and multicast addresses.
const PUBLIC_V6: ([u16; 8], u8) = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// The networks within [`PUBLIC_V6`] that are not public either.
#[rustfmt::skip]
const NON_PUBLIC_V6: [([u16; 8], u8); 4] = [
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),     // protocol assignments: Teredo, benchmarks, ORCHID
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),     // 6to4, which embeds an IPv4 address
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),     // documentation
];

/// Whether an address is on the public Internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !non_public_v4().any(|network| network.contains(&address)),
        IpAddr::V6(address) => public_v6().contains(&address) && !non_public_v6().any(|n| n.contains(&address)),
    }
}

/// Whether a network has no public address.
pub fn has_no_public_address(network: &IpNet) -> bool {
    match network {
        IpNet::V4(network) => non_public_v4().any(|special| special.contains(network)),
        IpNet::V6(network) => {
            let overlaps = public_v6().contains(network) || network.contains(&public_v6());
            !overlaps || non_public_v6().any(|special| special.contains(network))
        }
    }
}

fn non_public_v4() -> impl Iterator<Item = Ipv4Net> {
    NON_PUBLIC_V4.into_iter().map(|(address, bits)| Ipv4Net::new_assert(address.into(), bits))
}

fn public_v6() -> Ipv6Net {
    let (address, bits) = PUBLIC_V6;
    Ipv6Net::new_assert(address.into(), bits)
}

fn non_public_v6() -> impl Iterator<Item = Ipv6Net> {
    NON_PUBLIC_V6.into_iter().map(|(address, bits)| Ipv6Net::new_assert(address.into(), bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_purpose_addresses_are_not_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2001:200::1",
            "2600:1f00::1",
            "2a00:1450:4001::1",
            "2001:db7::1",
            "2003::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            // Each form of an IPv6 address that can embed one of the addresses above.
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:8.8.8.8",
            "::ffff:0:127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a9fe:a9fe",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:a9fe:a9fe::1",
            "2002:7f00:1::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "fe80::a9fe:a9fe",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_network_with_a_public_address_is_told_from_one_without() {
        for (network, expected) in [
            ("10.0.0.0/8", true),
            ("10.1.2.0/24", true),
            ("127.0.0.1/32", true),
            ("172.16.0.0/12", true),
            ("172.0.0.0/8", false),
            ("0.0.0.0/0", false),
            ("8.8.8.0/24", false),
            ("::1/128", true),
            ("fd00::/8", true),
            ("::/0", false),
            ("2001:db8:1::/48", true),
            ("2600::/16", false),
        ] {
            assert_eq!(has_no_public_address(&network.parse().unwrap()), expected, "{network}");
        }
    }
}
