//! Scheme, host and port (RFC 6454): the servers that a credential is bound to.

use crate::error::{AuthError, Result};
use std::fmt;
use std::net::IpAddr;
use url::Url;

/// Scheme, host and port of a URL. Credentials are bound to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    /// The origin of a URL.
    ///
    /// # Errors
    ///
    /// [`AuthError::Invalid`] for text that is not a URL, and for URLs without a host or a known
    /// port.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = || AuthError::Invalid {
            text: text.split(['?', '#']).next().unwrap_or_default().to_owned(),
            why: "is not a URL with a host, expected https://host/…",
        };
        Url::parse(text).ok().and_then(|url| Self::of(&url)).ok_or_else(invalid)
    }

    /// The origin of a parsed URL; `None` if it has no host or no known port.
    #[must_use]
    pub fn of(url: &Url) -> Option<Self> {
        let host = url.host_str().filter(|host| !host.is_empty())?;
        let port = url.port_or_known_default().or_else(|| xrootd_port(url.scheme()))?;
        Some(Self::new(url.scheme(), host, port))
    }

    /// Builds an origin from its parts; `host` with or without the brackets of IPv6.
    #[must_use]
    pub fn new(scheme: &str, host: &str, port: u16) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        Self { scheme: scheme.to_ascii_lowercase(), host, port }
    }

    /// The origin of URLs in a local document. No server has this origin, so credentials are sent
    /// only to servers to which they may follow.
    #[must_use]
    pub fn document() -> Self {
        Self { scheme: String::new(), host: String::new(), port: 0 }
    }

    /// Returns true for [`Origin::document`].
    #[must_use]
    pub fn is_document(&self) -> bool {
        self.host.is_empty()
    }

    /// The host name or address: lower case, IPv6 without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns true if the scheme uses TLS.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self.scheme.as_str(), "https" | "roots")
    }

    /// Returns false if this origin uses plain text and `other` uses TLS.
    pub(crate) fn is_as_safe_as(&self, other: &Self) -> bool {
        self.is_encrypted() || !other.is_encrypted()
    }

    /// Returns true if the host is this machine, so that no other machine can read the traffic.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => self.host == "localhost" || self.host.ends_with(".localhost"),
        }
    }
}

/// The default port of XRootD's schemes, which URL parsers do not know.
fn xrootd_port(scheme: &str) -> Option<u16> {
    matches!(scheme, "root" | "roots").then_some(1094)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.scheme.as_str(), self.port) {
            ("", _) => f.write_str("a document"),
            ("http", 80) | ("https", 443) | ("root" | "roots", 1094) => {
                write!(f, "{}://{host}", self.scheme)
            }
            (scheme, port) => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_this_machine_only() {
        for (url, loopback) in [
            ("http://127.0.0.1:81/", true),
            ("http://127.9.9.9/", true),
            ("http://[::1]/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://localhost/", true),
            ("http://LOCALHOST./", true),
            ("http://x.localhost/", true),
            ("http://localhost.evil.org/", false),
            ("http://127.0.0.1.evil.org/", false),
            ("http://10.0.0.1/", false),
            ("http://[::2]/", false),
        ] {
            assert_eq!(Origin::parse(url).unwrap().is_loopback(), loopback, "{url}");
        }
    }

    #[test]
    fn equal_origins_written_differently_are_equal() {
        let plain = Origin::parse("https://Host.org/a").unwrap();
        assert_eq!(plain, Origin::parse("https://me:pw@host.org:443/b?c").unwrap());
        assert_ne!(plain, Origin::parse("https://host.org:8443/").unwrap());
        assert_ne!(plain, Origin::parse("http://host.org:443/").unwrap());
        assert_eq!(Origin::parse("http://[::1]:81/").unwrap().to_string(), "http://[::1]:81");
        assert_eq!(plain.to_string(), "https://host.org");
    }

    #[test]
    fn an_error_does_not_show_the_query() {
        let error = Origin::parse("nonsense?authz=hush").unwrap_err();
        assert!(!error.to_string().contains("hush"), "{error}");
    }
}
