//! The addresses to which a federation follows its endpoints.
//!
//! A client of a federation reads through it, and an endpoint may redirect the federation anywhere:
//! to services of its own machine and network, whose responses the client would then get. So an
//! endpoint is followed to public addresses; to private ones (RFC 1918, RFC 4193, RFC 6598) if it
//! has such an address itself; and to others, as those of this machine and link-local ones, only
//! where the configuration names them. The address of a connection counts, as with
//! [`crate::third_party::egress_rules`].

use crate::third_party::cidr::{Cidr, is_private, is_public};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use hither_transport::{EgressFilter, Location};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Mutex;

/// The rule for the connections of a federation. It outlives a reload of the configuration.
#[derive(Debug, Default)]
pub struct RelayEgress(Mutex<RelayRules>);

#[derive(Debug, Default)]
struct RelayRules {
    /// Servers that the configuration names.
    named: HashSet<String>,
    networks: Vec<Cidr>,
    /// Endpoints that have private addresses.
    private: HashSet<String>,
}

impl RelayEgress {
    /// Replaces the URLs of servers and the networks of the configuration.
    pub fn configure<'a>(&self, urls: impl Iterator<Item = &'a str>, networks: Vec<Cidr>) {
        let origin = |url| Location::parse(url).ok().map(|it: Location| it.origin());
        let named = urls.filter_map(origin).collect();
        *lock(&self.0) = RelayRules { named, networks, private: HashSet::new() };
    }
}

impl EgressFilter for RelayEgress {
    fn pass(&self, location: &Location, address: SocketAddr) -> Result<()> {
        let address = address.ip();
        let mut rules = lock(&self.0);
        let named_by = location.named_by();
        if !location.is_elsewhere() {
            if is_private(address) {
                rules.private.insert(named_by);
            }
            return Ok(());
        }
        if is_public(address)
            || rules.named.contains(&location.origin())
            || rules.networks.iter().any(|block| block.contains(address))
            || is_private(address) && rules.private.contains(&named_by)
        {
            return Ok(());
        }
        let what = format!(
            "{named_by} redirects to {}, which has no public address: [federation] networks allows \
             others",
            location.host()
        );
        Err(Error::new(ErrorKind::PermissionDenied, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_followed_to_where_it_is_and_to_public_addresses() {
        let rules = RelayEgress::default();
        let networks = vec![Cidr::parse("192.168.7.0/24").unwrap()];
        rules.configure(["http://b.example:81/x"].into_iter(), networks);
        for (endpoint, at, target, to, passes) in [
            ("http://a.example/x", "198.41.0.4", "http://c.example/y", "198.41.0.5", true),
            ("http://a.example/x", "198.41.0.4", "http://c.example/y", "10.0.0.5", false),
            ("http://a.example/x", "198.41.0.4", "http://c.example/y", "127.0.0.1", false),
            ("http://a.example/x", "198.41.0.4", "http://c.example/y", "169.254.169.254", false),
            ("http://a.example/x", "198.41.0.4", "http://c.example/y", "::1", false),
            ("http://a.example/x", "198.41.0.4", "http://c.example/y", "::ffff:127.0.0.1", false),
            ("http://a.example/x", "198.41.0.4", "http://c.example/y", "192.168.7.9", true),
            ("http://a.example/x", "198.41.0.4", "http://b.example:81/y", "127.0.0.1", true),
            ("http://a.example/x", "198.41.0.4", "http://b.example:82/y", "127.0.0.1", false),
            ("http://p.example/x", "10.0.0.4", "https://c.example/y", "172.16.0.5", true),
            ("http://p.example/x", "10.0.0.4", "https://c.example/y", "169.254.169.254", false),
            ("http://l.example/x", "127.0.0.1", "http://l.example:82/y", "127.0.0.1", false),
            ("http://l.example/x", "127.0.0.1", "http://l.example/y", "127.0.0.1", true),
            ("root://a.example/x", "198.41.0.4", "root://c.example//y", "127.0.0.1", false),
        ] {
            let endpoint = Location::parse(endpoint).unwrap();
            let socket = |address: &str| SocketAddr::new(address.parse().unwrap(), 80);
            rules.pass(&endpoint, socket(at)).unwrap();
            let redirected = endpoint.join(target).unwrap();
            let outcome = rules.pass(&redirected, socket(to));
            assert_eq!(outcome.is_ok(), passes, "{endpoint} {target} {to}");
        }
    }
}
