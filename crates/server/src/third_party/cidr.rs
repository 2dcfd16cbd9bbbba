//! Address blocks (CIDR), and the addresses that are public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A block of addresses (RFC 4632).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    base: IpAddr,
    prefix: u8,
}

impl Cidr {
    const fn v4(a: u8, b: u8, c: u8, prefix: u8) -> Self {
        Self { base: IpAddr::V4(Ipv4Addr::new(a, b, c, 0)), prefix }
    }

    const fn v6(a: u16, b: u16, c: u16, prefix: u8) -> Self {
        Self { base: IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)), prefix }
    }

    /// Reads `10.0.0.0/8`, `fd00::/8`, or an address alone.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (base, prefix) = match text.trim().split_once('/') {
            Some((base, prefix)) => (base.parse().ok()?, Some(prefix.parse().ok()?)),
            None => (text.trim().parse().ok()?, None),
        };
        let width = width(base);
        let prefix = prefix.unwrap_or(width);
        (prefix <= width).then_some(Self { base, prefix })
    }

    /// The number of leading bits that its addresses have in common.
    #[must_use]
    pub fn prefix_bits(&self) -> u8 {
        self.prefix
    }

    /// Returns true if the block contains an address. An IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        if width(address) != width(self.base) {
            return false;
        }
        let rest = u32::from(width(address) - self.prefix);
        let network = |address| bits(address).checked_shr(rest).unwrap_or(0);
        network(address) == network(self.base)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// IPv4 addresses that are not public: those of the IANA special-purpose registry (RFC 6890 and its
/// successors), multicast and reserved ones.
const NOT_PUBLIC_V4: [Cidr; 14] = [
    Cidr::v4(0, 0, 0, 8),
    Cidr::v4(10, 0, 0, 8),
    Cidr::v4(100, 64, 0, 10),
    Cidr::v4(127, 0, 0, 8),
    Cidr::v4(169, 254, 0, 16),
    Cidr::v4(172, 16, 0, 12),
    Cidr::v4(192, 0, 0, 24),
    Cidr::v4(192, 0, 2, 24),
    Cidr::v4(192, 88, 99, 24),
    Cidr::v4(192, 168, 0, 16),
    Cidr::v4(198, 18, 0, 15),
    Cidr::v4(198, 51, 100, 24),
    Cidr::v4(203, 0, 113, 24),
    Cidr::v4(224, 0, 0, 3),
];
/// IPv6 addresses assigned for global unicast, and special-purpose ones among them.
const GLOBAL_V6: Cidr = Cidr::v6(0x2000, 0, 0, 3);
const NOT_PUBLIC_V6: [Cidr; 3] =
    [Cidr::v6(0x2001, 0, 0, 23), Cidr::v6(0x2001, 0xdb8, 0, 32), Cidr::v6(0x3fff, 0, 0, 20)];
/// Addresses with an embedded IPv4 address, at the end (RFC 6052) or after the first 16 bits
/// (RFC 3056): traffic goes to the latter.
const TRANSLATED: Cidr = Cidr::v6(0x64, 0xff9b, 0, 96);
const SIX_TO_FOUR: Cidr = Cidr::v6(0x2002, 0, 0, 16);

/// Addresses of organisations' own networks: RFC 1918, RFC 6598 and RFC 4193.
const PRIVATE: [Cidr; 5] = [
    Cidr::v4(10, 0, 0, 8),
    Cidr::v4(100, 64, 0, 10),
    Cidr::v4(172, 16, 0, 12),
    Cidr::v4(192, 168, 0, 16),
    Cidr::v6(0xfc00, 0, 0, 7),
];

/// Returns true for an address of an organisation's own network.
pub(crate) fn is_private(address: IpAddr) -> bool {
    PRIVATE.iter().any(|block| block.contains(address))
}

/// Returns true for a public address: a client that makes this server connect to it gains nothing.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(_) => !NOT_PUBLIC_V4.iter().any(|block| block.contains(address)),
        IpAddr::V6(v6) if TRANSLATED.contains(address) => {
            let [.., a, b, c, d] = v6.octets();
            is_public(Ipv4Addr::new(a, b, c, d).into())
        }
        IpAddr::V6(v6) if SIX_TO_FOUR.contains(address) => {
            let [_, _, a, b, c, d, ..] = v6.octets();
            is_public(Ipv4Addr::new(a, b, c, d).into())
        }
        IpAddr::V6(_) => {
            GLOBAL_V6.contains(address)
                && !NOT_PUBLIC_V6.iter().any(|block| block.contains(address))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_globally_reachable_addresses_are_public() {
        for (address, public) in [
            ("1.1.1.1", true),
            ("9.255.255.255", true),
            ("11.0.0.0", true),
            ("172.15.255.255", true),
            ("172.16.0.0", false),
            ("172.31.255.255", false),
            ("172.32.0.0", true),
            ("127.1.2.3", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("100.128.0.1", true),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("fe80::1", false),
            ("fd12::1", false),
            ("ff02::1", false),
            ("2001:db8::1", false),
            ("2001::1", false),
            ("2a00:1450::1", true),
            ("::ffff:127.0.0.1", false),
            ("::ffff:1.1.1.1", true),
            ("::127.0.0.1", false),
            ("64:ff9b::10.0.0.1", false),
            ("64:ff9b::101:101", true),
            ("64:ff9b:1::101:101", false),
            ("2002:7f00:1::", false),
            ("2002:a00:1::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        }
    }

    #[test]
    fn blocks_are_parsed_with_and_without_a_prefix_length() {
        let holds = |block: &str, address: &str| {
            Cidr::parse(block).unwrap().contains(address.parse().unwrap())
        };
        assert!(holds("10.0.0.0/8", "10.255.0.1") && !holds("10.0.0.0/8", "11.0.0.0"));
        assert!(holds("10.1.2.3", "10.1.2.3") && !holds("10.1.2.3", "10.1.2.4"));
        assert!(holds("0.0.0.0/0", "1.2.3.4") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("::/0", "::1") && !holds("::/0", "::ffff:1.2.3.4"));
        assert!(holds("fd00::/8", "fdff::1") && !holds("fd00::/8", "fe00::1"));
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "a", "10.0.0.0/-1", "10.0.0.0/8/8"] {
            assert_eq!(Cidr::parse(text), None, "{text}");
        }
    }

    proptest! {
        /// Every spelling of a private address is private.
        #[test]
        fn no_embedding_makes_a_private_address_public(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let [a, b, c, d] = v4.octets();
            let v4_public = is_public(v4.into());
            prop_assert_eq!(is_public(v4.to_ipv6_mapped().into()), v4_public);
            let pair = |x, y| u16::from_be_bytes([x, y]);
            let translated = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, pair(a, b), pair(c, d));
            prop_assert_eq!(is_public(translated.into()), v4_public);
            let tunnelled = Ipv6Addr::new(0x2002, pair(a, b), pair(c, d), 0, 0, 0, 0, 1);
            prop_assert_eq!(is_public(tunnelled.into()), v4_public);
            prop_assert!(!(v4.is_private() || v4.is_loopback() || v4.is_link_local()) || !v4_public);
        }
    }
}
