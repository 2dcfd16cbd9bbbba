//! Credentials of a session, and advice if the server accepts none of them.

use crate::wire::SecurityMethod;
use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;

/// Maximum size of a token, unless the server states another.
const MAX_TOKEN_BYTES: usize = 4096;

/// A credential for authentication.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// The address of the client (`host`).
    Host,
    /// A claimed user name (`unix`): for servers that trust their network.
    Unix {
        /// The user name.
        user: String,
        /// The group name.
        group: String,
    },
    /// A token (`ztn`); sent over TLS only.
    Token(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.method())
    }
}

impl Credential {
    /// The name of its method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Unix { .. } => "unix",
            Self::Token(_) => "ztn",
        }
    }

    /// The name of its method in requests.
    pub(crate) fn wire_name(&self) -> [u8; 4] {
        let mut name = [0; 4];
        for (to, from) in name.iter_mut().zip(self.method().bytes()) {
            *to = from;
        }
        name
    }

    /// The payload for the server.
    pub(crate) fn payload(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Host => out.put_slice(b"host\0"),
            Self::Unix { user, group } => {
                out.put_slice(b"unix\0");
                let blank = if group.is_empty() { "" } else { " " };
                out.put_slice(format!("{user}{blank}{group}\0").as_bytes());
            }
            Self::Token(token) => {
                // Version 0, `T` for a token, two zeros; the length counts the NUL. obstacle()
                // bounds it.
                out.put_slice(b"ztn\0\0T\0\0");
                out.put_u16(u16::try_from(token.len() + 1).unwrap_or(u16::MAX));
                out.put_slice(token.as_bytes());
                out.put_u8(0);
            }
        }
        out.freeze()
    }

    /// Returns the reason why it cannot be used with a server that offers this method; `None` if it
    /// can.
    pub(crate) fn obstacle(
        &self,
        offered: Option<&SecurityMethod>,
        in_tls: bool,
    ) -> Option<String> {
        let Self::Token(token) = self else { return None };
        let limit = offered.and_then(|method| method.parameters.split(':').nth(1)?.parse().ok());
        let limit = limit.unwrap_or(MAX_TOKEN_BYTES).min(usize::from(u16::MAX) - 1);
        if !in_tls {
            return Some("tokens are sent over TLS only: use roots://".to_owned());
        }
        let length = token.len();
        (length > limit)
            .then(|| format!("the token has {length} bytes, the server accepts {limit}"))
    }
}

/// Advice for a user without an accepted credential.
pub(crate) fn advice(method: &str) -> &'static str {
    match method {
        "ztn" => "provide a token",
        "gsi" => "gsi (X.509 proxies) is not implemented: ask the site for tokens or for https",
        "sss" => "sss (a shared secret) is not implemented: ask the site for tokens",
        "krb5" => "krb5 (Kerberos) is not implemented: ask the site for tokens",
        "unix" => "provide a user name",
        "host" => "the server decides by address: ask the site to allow this host",
        _ => "this method is not implemented",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_those_of_the_protocol() {
        assert_eq!(&Credential::Host.payload()[..], b"host\0");
        let unix = Credential::Unix { user: "ann".into(), group: "users".into() };
        assert_eq!(&unix.payload()[..], b"unix\0ann users\0");
        assert_eq!(&Credential::Token("abc".into()).payload()[..], b"ztn\0\0T\0\0\0\x04abc\0");
        assert_eq!(unix.wire_name(), *b"unix");
        assert_eq!(Credential::Token(String::new()).wire_name(), *b"ztn\0");
    }

    #[test]
    fn tokens_stay_out_of_the_clear_and_out_of_messages() {
        let token = Credential::Token("secret".into());
        let offered = SecurityMethod { name: "ztn".into(), parameters: "0:5:".into() };
        assert!(token.obstacle(None, false).unwrap().contains("roots://"));
        assert!(token.obstacle(Some(&offered), true).unwrap().contains("5"));
        assert_eq!(token.obstacle(None, true), None);
        assert!(!format!("{token:?}").contains("secret"));
    }
}
