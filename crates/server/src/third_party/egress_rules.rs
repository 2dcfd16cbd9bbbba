//! The servers to which this one connects for a third-party copy.
//!
//! A client that may write one file must not reach, through this server, hosts that it cannot reach
//! itself: services of this machine and its network, or those that hand out a machine's credentials
//! at link-local addresses. The rules apply to the address of a connection when it is made
//! ([`EgressFilter`]), so neither a redirect nor a name that later resolves to another address
//! circumvents them. Scheme, host and port are checked before that, and again after each redirect.
//!
//! Errors name the host and never its address: how a private name server resolves a name is secret.

use crate::third_party::cidr::{Cidr, is_public};
use hither_auth::{HostPattern, Origin};
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::{EgressFilter, Location, Protocol};
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// The allowed hosts, ports and addresses.
#[derive(Debug, Default)]
pub(crate) struct EgressRules {
    /// Allowed hosts; all if empty.
    pub(crate) hosts: Vec<HostPattern>,
    /// Allowed ports of hosts whose pattern names none.
    pub(crate) ports: Vec<RangeInclusive<u16>>,
    /// Allowed networks without public addresses.
    pub(crate) networks: Vec<Cidr>,
    /// Allows `http`.
    pub(crate) clear_text: bool,
}

impl EgressRules {
    /// Fails unless scheme, host and port of a location are allowed.
    pub(crate) fn check(&self, location: &Location) -> Result<()> {
        let host = location.host();
        if location.protocol() != Protocol::Http {
            return not_allowed("third-party copies use https only".to_owned());
        }
        if !location.is_tls() && !self.clear_text {
            return not_allowed(format!(
                "connections to {host} without TLS are not allowed by [third_party]"
            ));
        }
        let scheme = if location.is_tls() { "https" } else { "http" };
        let origin = Origin::new(scheme, host, location.port());
        let mut matching = self.hosts.iter().filter(|pattern| pattern.matches(&origin)).peekable();
        if !self.hosts.is_empty() && matching.peek().is_none() {
            return not_allowed(format!(
                "connections to {host} are not allowed by [third_party] hosts"
            ));
        }
        let port = location.port();
        let is_named = matching.any(HostPattern::names_port);
        if is_named || self.ports.iter().any(|ports| ports.contains(&port)) {
            return Ok(());
        }
        not_allowed(format!("connections to {host}:{port} are not allowed by [third_party] ports"))
    }
}

impl EgressFilter for EgressRules {
    fn pass(&self, location: &Location, address: SocketAddr) -> Result<()> {
        self.check(location)?;
        let address = address.ip();
        if is_public(address) || self.networks.iter().any(|block| block.contains(address)) {
            return Ok(());
        }
        not_allowed(format!(
            "{} has no public address, and [third_party] does not allow others",
            location.host()
        ))
    }
}

fn not_allowed(what: String) -> Result<()> {
    Err(Error::new(ErrorKind::PermissionDenied, what))
}

#[cfg(test)]
mod tests {
    use crate::third_party::settings::ThirdPartySettings;
    use hither_transport::{EgressFilter, Location};

    fn passes(settings: &str, url: &str, address: &str) -> bool {
        let settings: ThirdPartySettings = toml::from_str(settings).unwrap();
        let location = Location::parse(url).unwrap();
        let address = (address.parse::<std::net::IpAddr>().unwrap(), location.port()).into();
        settings.host_rules().unwrap().pass(&location, address).is_ok()
    }

    #[test]
    fn by_default_public_hosts_are_reached_over_tls() {
        for (url, address, passed) in [
            ("https://se.example/f", "198.41.0.4", true),
            ("https://se.example:8443/f", "2001:503:ba3e::2:30", true),
            ("http://se.example:8080/f", "198.41.0.4", false),
            ("root://se.example/f", "198.41.0.4", false),
            ("https://se.example:22/f", "198.41.0.4", false),
            ("https://se.example/f", "127.0.0.1", false),
            ("https://se.example/f", "::1", false),
            ("https://se.example/f", "169.254.169.254", false),
            ("https://se.example/f", "::ffff:10.0.0.1", false),
        ] {
            assert_eq!(passes("", url, address), passed, "{url} {address}");
        }
    }

    #[test]
    fn only_named_hosts_ports_and_networks_are_allowed() {
        let settings = r#"
            hosts = ["*.example.org", "host:80"]
            ports = ["443"]
            networks = ["10.0.0.0/8", "::1"]
            clear_text = true
        "#;
        for (url, address, passed) in [
            ("https://a.example.org/f", "10.1.2.3", true),
            ("https://a.example.org:444/f", "10.1.2.3", false),
            ("https://a.example.org.evil.org/f", "10.1.2.3", false),
            ("https://a.example.org/f", "192.168.0.1", false),
            ("https://a.example.org/f", "::ffff:10.1.2.3", true),
            ("http://host/f", "::1", true),
            ("https://host/f", "::1", false),
        ] {
            assert_eq!(passes(settings, url, address), passed, "{url} {address}");
        }
    }
}
