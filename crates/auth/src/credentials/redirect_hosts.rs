//! Hosts to which credentials may follow a redirect.

use crate::error::{AuthError, Result};
use crate::origin::Origin;

/// A host, or all hosts of a domain: `pool1.site.org`, `pool1.site.org:8443`, `*.site.org`,
/// `*.site.org:8443`.
///
/// The star means one or more whole labels before the domain, but not the domain itself. A pattern
/// without a port matches every port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// Without the star and its dot.
    name: String,
    below: bool,
    port: Option<u16>,
}

impl HostPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// [`AuthError::Invalid`] for other forms, and for `*` alone, which would match every host.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = || AuthError::Invalid {
            text: text.to_owned(),
            why: "is not a host pattern, expected `host`, `host:port` or `*.domain`",
        };
        let (name, below) = match text.trim().strip_prefix("*.") {
            Some(domain) => (domain, true),
            None => (text.trim(), false),
        };
        let (name, port) = match name.rsplit_once(':') {
            // An IPv6 address has colons of its own.
            Some((_, port)) if name.ends_with(']') || port.is_empty() => (name, None),
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, Some(port.parse().map_err(|_| invalid())?))
            }
            _ => (name, None),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if name.is_empty() || name.starts_with('.') || !name.chars().all(allowed) {
            return Err(invalid());
        }
        Ok(Self { name, below, port })
    }

    /// Returns true if the pattern matches `origin`.
    #[must_use]
    pub fn matches(&self, origin: &Origin) -> bool {
        let host = if self.below {
            let front = origin.host().strip_suffix(self.name.as_str());
            front.and_then(|front| front.strip_suffix('.')).is_some_and(|front| !front.is_empty())
        } else {
            origin.host() == self.name
        };
        host && self.port.is_none_or(|port| port == origin.port())
    }

    /// Returns true if the pattern matches one port only.
    #[must_use]
    pub fn names_port(&self) -> bool {
        self.port.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_take_whole_labels() {
        for (pattern, url, matches) in [
            ("site.org", "https://site.org/", true),
            ("Site.ORG", "https://site.org:8443/", true),
            ("site.org:8443", "https://site.org:8443/", true),
            ("site.org:8443", "https://site.org/", false),
            ("*.site.org", "https://pool1.site.org/", true),
            ("*.site.org", "https://a.b.site.org:1/", true),
            ("*.site.org", "https://site.org/", false),
            ("*.site.org", "https://evilsite.org/", false),
            ("*.site.org", "https://site.org.evil.org/", false),
            ("site.org", "https://xsite.org/", false),
            ("*.site.org:81", "https://a.site.org:82/", false),
            ("::1", "http://[::1]:81/", true),
            ("[::1]:81", "http://[::1]:81/", true),
            ("[::1]:81", "http://[::1]:82/", false),
        ] {
            let origin = Origin::parse(url).unwrap();
            assert_eq!(
                HostPattern::parse(pattern).unwrap().matches(&origin),
                matches,
                "{pattern} {url}"
            );
        }
    }

    #[test]
    fn patterns_that_match_everybody_are_rejected() {
        for pattern in ["*", "", "*.", "*.*", "**", ".org", "ho st", "host:99999", "https://host"] {
            assert!(HostPattern::parse(pattern).is_err(), "{pattern:?}");
        }
    }
}
