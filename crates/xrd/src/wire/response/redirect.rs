//! Redirects to other servers.

use crate::wire::{FieldReader, WireError, text, wire_length};
use bytes::{BufMut, BytesMut};

/// The target of a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectTarget {
    /// Another server of the same protocol.
    Server {
        /// Its name or address, as sent: an IPv6 address has its brackets.
        host: String,
        /// Its port; 0 if none was sent, which means the default.
        port: u16,
    },
    /// A whole URL, possibly of another protocol.
    Url(String),
}

/// A redirect: `port` and `host[?opaque[?login]]`, or a negative number and a URL.
#[derive(Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The target.
    pub target: RedirectTarget,
    /// Parameters to append to the path there, behind a `?` (or `&`); may contain authorizations.
    pub opaque: Option<String>,
    /// Parameters to append to the login there; may contain secrets too.
    pub login: Option<String>,
    /// The flags of a URL redirect; otherwise 0.
    pub flags: u32,
}

impl std::fmt::Debug for Redirect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { target, opaque, login, flags } = self;
        let shown = match target {
            RedirectTarget::Server { host, port } => format!("{host}:{port}"),
            RedirectTarget::Url(url) => url.split('?').next().unwrap_or_default().to_owned(),
        };
        f.debug_struct("Redirect")
            .field("target", &shown)
            .field("opaque", &opaque.as_ref().map(|_| ".."))
            .field("login", &login.as_ref().map(|_| ".."))
            .field("flags", flags)
            .finish()
    }
}

impl Redirect {
    /// Creates a redirect to a server, with nothing to append.
    #[must_use]
    pub fn to(host: impl Into<String>, port: u16) -> Self {
        let target = RedirectTarget::Server { host: host.into(), port };
        Self { target, opaque: None, login: None, flags: 0 }
    }

    /// Decodes the payload.
    ///
    /// # Errors
    /// There are fewer than 4 bytes, a port above 65,535, no host, or characters that no host or
    /// URL has.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("a redirect", payload);
        let port = fields.i32()?;
        let place = text(fields.rest());
        if place.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') || place.is_empty() {
            return Err(WireError::text(
                "the target of a redirect",
                place.as_bytes(),
                "a host or URL",
            ));
        }
        if port < 0 {
            // The number carries the flags, inverted so that it is negative.
            let flags = (!port).unsigned_abs();
            return Ok(Self {
                target: RedirectTarget::Url(place),
                opaque: None,
                login: None,
                flags,
            });
        }
        let port = u16::try_from(port)
            .map_err(|_| WireError::number("the port of a redirect", port, "at most 65535"))?;
        let mut words = place.splitn(3, '?');
        let host = words.next().unwrap_or_default().to_owned();
        if host.is_empty() || host.contains(['/', '@']) {
            return Err(WireError::text("the host of a redirect", host.as_bytes(), "a host"));
        }
        let mut word = || words.next().filter(|word| !word.is_empty()).map(str::to_owned);
        let opaque = word();
        let login = word();
        Ok(Self { target: RedirectTarget::Server { host, port }, opaque, login, flags: 0 })
    }

    /// Encodes the payload.
    ///
    /// # Errors
    /// The text has 2 GiB or more.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), WireError> {
        let place = match &self.target {
            RedirectTarget::Url(url) => {
                let flags = wire_length("the flags of a redirect", self.flags as usize)?;
                out.put_i32(!flags);
                url.clone()
            }
            RedirectTarget::Server { host, port } => {
                out.put_i32((*port).into());
                let login =
                    self.login.as_ref().map_or_else(String::new, |login| format!("?{login}"));
                match &self.opaque {
                    Some(opaque) => format!("{host}?{opaque}{login}"),
                    None if login.is_empty() => host.clone(),
                    None => format!("{host}?{login}"),
                }
            }
        };
        out.put_slice(place.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(port: i32, place: &str) -> Result<Redirect, WireError> {
        Redirect::decode(&[&port.to_be_bytes()[..], place.as_bytes()].concat())
    }

    #[test]
    fn hosts_tokens_and_urls_are_distinguished() {
        let plain = decode(1094, "data.example.org").unwrap();
        assert_eq!(plain, Redirect::to("data.example.org", 1094));
        let full = decode(1094, "[::1]?org.x=1&y=2?secret").unwrap();
        assert_eq!(full.opaque.as_deref(), Some("org.x=1&y=2"));
        assert_eq!(full.login.as_deref(), Some("secret"));
        assert!(!format!("{full:?}").contains("secret"));
        let only_login = decode(1, "h??t").unwrap();
        assert_eq!((only_login.opaque, only_login.login.as_deref()), (None, Some("t")));
        let url = decode(-1, "root://h:1//p?a=b").unwrap();
        assert_eq!(url.target, RedirectTarget::Url("root://h:1//p?a=b".into()));
        assert_eq!(decode(!0x1000, "root://h").unwrap().flags, 0x1000);
    }

    #[test]
    fn nonsense_is_an_error() {
        for (port, place) in
            [(70_000, "h"), (1, ""), (1, "a b"), (1, "h/x"), (1, "u@h"), (1, "?x"), (-1, "x\ny")]
        {
            assert!(decode(port, place).is_err(), "{port} {place:?}");
        }
        assert!(Redirect::decode(&[0, 0, 1]).is_err());
    }
}
