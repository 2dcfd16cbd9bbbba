//! Proxy selection, by the conventions of `http_proxy` and its kin.
//!
//! There is no specification. This follows curl: a proxy per scheme, one for all others, and a list
//! of hosts that are reached directly, in which `example.org` and `.example.org` both mean the
//! domain and all below it, a network may be given as `192.168.0.0/16`, a port may follow after a
//! colon, and `*` means everything.
//!
//! The matcher of hyper-util is not a replacement: it ignores a proxy URL that it cannot use, so
//! that traffic would silently bypass the proxy, and its list of hosts has no ports, spaces or `*.`
//! prefixes.

use crate::location::{Location, Protocol};
use base64::Engine;
use hither_core::error::{Error, ErrorKind, Result};
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use std::fmt;
use std::net::IpAddr;
use url::Url;

/// The proxies. None by default.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    direct: Vec<Direct>,
}

/// A proxy.
#[derive(Clone)]
pub(crate) struct Proxy {
    host: String,
    port: u16,
    authorization: Option<HeaderValue>,
}

/// A rule for hosts that need no proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Direct {
    All,
    /// A domain and all below it, with an optional port.
    Domain(String, Option<u16>),
    /// An address, the length of the network's prefix in bits, and an optional port.
    Network(IpAddr, u8, Option<u16>),
}

impl Proxies {
    /// The proxies for `http://` and `https://`, the proxy for both where they have none of their
    /// own, and the list of hosts that need none, separated by commas or spaces. Empty text is no
    /// proxy.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for an invalid URL, [`ErrorKind::Unsupported`] for a proxy that does
    /// not speak HTTP.
    pub fn new(
        http: Option<&str>,
        https: Option<&str>,
        all: Option<&str>,
        no_proxy: Option<&str>,
    ) -> Result<Self> {
        let one = |own: Option<&str>| {
            own.or(all).filter(|text| !text.trim().is_empty()).map(Proxy::parse).transpose()
        };
        let words = no_proxy.unwrap_or_default().split([',', ' ']).map(str::trim);
        let direct = words.filter(|word| !word.is_empty()).map(Direct::parse).collect();
        Ok(Self { http: one(http)?, https: one(https)?, direct })
    }

    /// The proxy for `location`; `None` for other protocols than HTTP.
    pub(crate) fn to(&self, location: &Location) -> Option<&Proxy> {
        let proxy = match (location.protocol(), location.is_tls()) {
            (Protocol::Http, true) => &self.https,
            (Protocol::Http, false) => &self.http,
            // The conventions are about HTTP only.
            (Protocol::Xrootd, _) => return None,
        };
        let direct = |rule: &Direct| rule.covers(location.host(), location.port());
        proxy.as_ref().filter(|_| !self.direct.iter().any(direct))
    }
}

impl Proxy {
    fn parse(text: &str) -> Result<Self> {
        let invalid = |what: &str| {
            // The text may hold a password.
            Error::new(
                ErrorKind::Invalid,
                format!("the proxy URL is invalid: {what}, expected http://host:port"),
            )
        };
        let text = text.trim();
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&whole).map_err(|error| invalid("not a URL").with_source(error))?;
        if url.scheme() != "http" {
            let what = format!(
                "proxies of scheme {:?} are not supported: use an http:// proxy",
                url.scheme()
            );
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
            return Err(invalid("it has no host"));
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self {
            host,
            port: url.port_or_known_default().unwrap_or(80),
            authorization: basic(&url)?,
        })
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The value of `Proxy-Authorization` (RFC 7617), if the URL had a user and password.
    pub(crate) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }
}

fn basic(url: &Url) -> Result<Option<HeaderValue>> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    let value = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
    let mut value = HeaderValue::try_from(value).map_err(|error| {
        Error::new(
            ErrorKind::Invalid,
            "the proxy's user and password contain characters that cannot be sent",
        )
        .with_source(error)
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "http://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "http://{}:{}", self.host, self.port)
        }
    }
}

// Without the password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Direct {
    fn parse(word: &str) -> Self {
        if word == "*" {
            return Self::All;
        }
        let (host, port) = split_port(word);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let (network, bits) = match host.split_once('/') {
            Some((network, bits)) => (network, bits.parse().ok()),
            None => (host, None),
        };
        match network.parse::<IpAddr>() {
            Ok(address) => Self::Network(address, bits.unwrap_or(u8::MAX), port),
            Err(_) => {
                let domain = host.trim_start_matches("*.").trim_matches('.');
                Self::Domain(domain.to_ascii_lowercase(), port)
            }
        }
    }

    fn covers(&self, host: &str, port: u16) -> bool {
        let of_port = |rule: &Option<u16>| rule.is_none_or(|rule| rule == port);
        match self {
            Self::All => true,
            Self::Domain(domain, rule) => {
                let host = host.trim_end_matches('.').to_ascii_lowercase();
                let below = host.strip_suffix(domain.as_str());
                let within = below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
                !domain.is_empty() && within && of_port(rule)
            }
            Self::Network(network, bits, rule) => {
                host.parse().is_ok_and(|address| shares(*network, address, *bits)) && of_port(rule)
            }
        }
    }
}

/// `host:port`, where an IPv6 address without brackets has no port.
fn split_port(word: &str) -> (&str, Option<u16>) {
    let Some((host, port)) = word.rsplit_once(':') else { return (word, None) };
    let is_v6 = host.contains(':') && !host.ends_with(']');
    match port.parse() {
        Ok(port) if !is_v6 => (host, Some(port)),
        _ => (word, None),
    }
}

/// Returns whether two addresses agree in their first bits.
fn shares(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    let differ = match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            u128::from(one.to_bits() ^ other.to_bits()).wrapping_shl(96)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => one.to_bits() ^ other.to_bits(),
        _ => return false,
    };
    differ == 0 || differ.leading_zeros() >= u32::from(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(no_proxy: &str) -> Proxies {
        Proxies::new(Some("proxy:3128"), None, Some("http://other"), Some(no_proxy)).unwrap()
    }

    fn to(proxies: &Proxies, url: &str) -> Option<String> {
        proxies.to(&Location::parse(url).unwrap()).map(ToString::to_string)
    }

    #[test]
    fn each_scheme_has_its_proxy_or_that_for_all() {
        let proxies = proxies("");
        assert_eq!(to(&proxies, "http://host/").unwrap(), "http://proxy:3128");
        assert_eq!(to(&proxies, "https://host/").unwrap(), "http://other:80");
        assert_eq!(to(&Proxies::default(), "http://host/"), None);
        let none = Proxies::new(Some(""), Some(" "), None, None).unwrap();
        assert_eq!(to(&none, "http://host/"), None);
    }

    #[test]
    fn hosts_of_the_list_are_reached_directly() {
        let listed =
            proxies("example.org, .dot.test *.star.test 10.0.0.0/8,::1,[2001:db8::1]:81,one:8080");
        for (url, direct) in [
            ("http://example.org/", true),
            ("http://a.EXAMPLE.org./", true),
            ("http://badexample.org/", false),
            ("http://dot.test/", true),
            ("http://x.star.test/", true),
            ("http://10.200.3.4/", true),
            ("http://11.0.0.1/", false),
            ("http://[::1]:99/", true),
            ("http://[2001:db8::1]:81/", true),
            ("http://[2001:db8::1]:82/", false),
            ("http://one:8080/", true),
            ("http://one/", false),
        ] {
            assert_eq!(to(&listed, url).is_none(), direct, "{url}");
        }
        assert_eq!(to(&proxies("x,*"), "http://anything/"), None);
    }

    #[test]
    fn networks_end_at_their_bit() {
        let one = "192.168.1.1".parse().unwrap();
        let other = "192.168.1.2".parse().unwrap();
        assert!(shares(one, other, 30) && !shares(one, other, 31));
        assert!(shares(one, one, u8::MAX) && shares(one, other, 0));
        assert!(!shares(one, "::1".parse().unwrap(), 0));
    }

    #[test]
    fn user_and_password_are_decoded_sent_and_never_printed() {
        let proxies = Proxies::new(Some("http://me:p%40ss@proxy:1"), None, None, None).unwrap();
        let location = Location::parse("http://host/").unwrap();
        let proxy = proxies.to(&location).unwrap();
        assert_eq!(proxy.authorization().unwrap(), "Basic bWU6cEBzcw==");
        let printed = format!("{proxy} {proxies:?}");
        assert!(!printed.contains("p%40ss") && !printed.contains("bWU6"), "{printed}");
    }

    #[test]
    fn odd_proxies_are_refused_without_telling_their_secrets() {
        for (text, kind) in [
            ("socks5://me:secret@h:1", ErrorKind::Unsupported),
            ("https://me:secret@h", ErrorKind::Unsupported),
            ("http://me:secret@h:99999", ErrorKind::Invalid),
            ("http://me:secret@", ErrorKind::Invalid),
        ] {
            let error = Proxies::new(None, None, Some(text), None).unwrap_err();
            assert_eq!(error.kind(), kind, "{text}");
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }
}
