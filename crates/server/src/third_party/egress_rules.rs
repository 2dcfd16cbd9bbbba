//! Which servers this one connects to when a client tells it to.
//!
//! A client that may write one file must not come to speak through this server with others that it cannot reach itself: the
//! machine's own services, those of its network, the ones that hand out a machine's credentials at link-local addresses.
//! What counts is the address that a connection is made to, looked at when it is made ([`Gate`]): a name that resolves to
//! something else at the second look gains nothing, nor does a redirect. Scheme, host and port are looked at before that, and
//! again behind each redirect.
//!
//! A refusal names the host, never what it resolved to: names that only a network's own servers resolve are its affair.

use crate::third_party::cidr::{Cidr, is_public};
use hither_auth::{HostPattern, Origin};
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::{EgressFilter, Location, Protocol};
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// See the module above.
#[derive(Debug, Default)]
pub(crate) struct EgressRules {
    /// All hosts if there are none.
    pub(crate) hosts: Vec<HostPattern>,
    /// Where the pattern of the host names none.
    pub(crate) ports: Vec<RangeInclusive<u16>>,
    /// Those that are allowed although they are not public.
    pub(crate) networks: Vec<Cidr>,
    /// Whether `http` is allowed.
    pub(crate) clear_text: bool,
}

impl EgressRules {
    /// Fails unless that server may be spoken to, as far as its name tells.
    pub(crate) fn check(&self, location: &Location) -> Result<()> {
        let host = location.host();
        if location.protocol() != Protocol::Http {
            return refused("third-party copies use https only".to_owned());
        }
        if !location.is_tls() && !self.clear_text {
            return refused(format!(
                "connections to {host} without TLS are not allowed by [third_party]"
            ));
        }
        let scheme = if location.is_tls() { "https" } else { "http" };
        let origin = Origin::new(scheme, host, location.port());
        let mut meant = self.hosts.iter().filter(|pattern| pattern.matches(&origin)).peekable();
        if !self.hosts.is_empty() && meant.peek().is_none() {
            return refused(format!(
                "connections to {host} are not allowed by [third_party] hosts"
            ));
        }
        let port = location.port();
        let is_named = meant.any(HostPattern::names_port);
        match is_named || self.ports.iter().any(|ports| ports.contains(&port)) {
            true => Ok(()),
            false => refused(format!(
                "connections to {host}:{port} are not allowed by [third_party] ports"
            )),
        }
    }
}

impl EgressFilter for EgressRules {
    fn pass(&self, location: &Location, address: SocketAddr) -> Result<()> {
        self.check(location)?;
        let address = address.ip();
        match is_public(address) || self.networks.iter().any(|block| block.contains(address)) {
            true => Ok(()),
            false => refused(format!(
                "{} has no public address, and [third_party] does not allow others",
                location.host()
            )),
        }
    }
}

fn refused(what: String) -> Result<()> {
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
    fn hosts_ports_and_networks_are_those_that_are_named() {
        let settings = r#"
            hosts = ["*.context.org", "host:80"]
            ports = ["443"]
            networks = ["10.0.0.0/8", "::1"]
            clear_text = true
        "#;
        for (url, address, passed) in [
            ("https://a.context.org/f", "10.1.2.3", true),
            ("https://a.context.org:444/f", "10.1.2.3", false),
            ("https://a.context.org.evil.org/f", "10.1.2.3", false),
            ("https://a.context.org/f", "192.168.0.1", false),
            ("https://a.context.org/f", "::ffff:10.1.2.3", true),
            ("http://host/f", "::1", true),
            ("https://host/f", "::1", false),
        ] {
            assert_eq!(passes(settings, url, address), passed, "{url} {address}");
        }
    }
}
