//! Messages that open a session: versions and abilities, login, required authentication.

use crate::wire::{FieldReader, SessionId, WireError, ability, text};
use bytes::{BufMut, BytesMut};

/// The first request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtocolRequest {
    /// The client's version of the protocol.
    pub version: u32,
    /// [`protocol`](crate::wire::protocol): the client's abilities, and the information it
    /// requests.
    pub flags: u8,
    /// The next request.
    pub expect: u8,
}

/// The response to a protocol request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolResponse {
    /// The server's version of the protocol.
    pub version: u32,
    /// [`server`](crate::wire::server).
    pub flags: u32,
    /// Requests that must be signed, if the client requested them and the server requires
    /// signatures.
    pub signing: Option<Signing>,
}

/// Signing requirements. Level 0 without overrides requires no signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signing {
    /// Version of these rules.
    pub version: u8,
    /// 1: data too; 2: even if the authentication has no key.
    pub options: u8,
    /// 0 none, 1 compatible, 2 standard, 3 intense, 4 pedantic.
    pub level: u8,
    /// Exceptions from the level: request code minus 3000, and 0 never, 1 likely, 2 always.
    pub overrides: Vec<[u8; 2]>,
}

impl Signing {
    /// Returns true if some request has to be signed.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.level > 0 || self.overrides.iter().any(|[_, need]| *need == 2)
    }
}

impl ProtocolResponse {
    /// Decodes the payload: two numbers, then blocks `B` (interfaces to bind to) and `S` (signing).
    /// Unknown blocks are skipped.
    ///
    /// # Errors
    /// There are fewer than 8 bytes, or a block is truncated.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("the answer to the protocol request", payload);
        let version = fields.u32()?;
        let flags = fields.u32()?;
        let mut signing = None;
        while !fields.is_empty() {
            match fields.u8()? {
                b'B' => {
                    fields.u8()?;
                    let length = fields.u16()?;
                    fields.take(length.into())?;
                }
                b'S' => {
                    fields.u8()?;
                    let version = fields.u8()?;
                    let options = fields.u8()?;
                    let level = fields.u8()?;
                    let count = fields.u8()?;
                    let overrides =
                        (0..count).map(|_| fields.array()).collect::<Result<Vec<[u8; 2]>, _>>()?;
                    signing = Some(Signing { version, options, level, overrides });
                }
                // Padding, or a newer block.
                _ => break,
            }
        }
        Ok(Self { version, flags, signing })
    }

    /// Encodes the payload.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_u32(self.version);
        out.put_u32(self.flags);
        if let Some(signing) = &self.signing {
            let overrides = signing.overrides.iter().take(u8::MAX.into());
            let count = u8::try_from(overrides.len()).unwrap_or(u8::MAX);
            out.put_slice(&[b'S', 0, signing.version, signing.options, signing.level, count]);
            overrides.for_each(|pair| out.put_slice(pair));
        }
    }
}

/// A login.
#[derive(Clone, PartialEq, Eq)]
pub struct LoginRequest {
    /// The process id, for the server's log.
    pub process: u32,
    /// The user name; at most 8 bytes are sent.
    pub user: String,
    /// [`ability`].
    pub ability: u8,
    /// Further abilities.
    pub more_ability: u8,
    /// The version and, in the highest bit, whether responses may come later.
    pub version: u8,
    /// Further parameters for the server, as `a=b&c=d`; may contain a redirect's token.
    pub words: String,
}

impl std::fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginRequest")
            .field("user", &self.user)
            .field("ability", &self.ability)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl LoginRequest {
    /// Creates the login of a client with the abilities of this crate.
    #[must_use]
    pub fn new(user: &str, process: u32) -> Self {
        Self {
            process,
            user: user.to_owned(),
            ability: ability::FULL_URL | ability::READ_REDIRECT | ability::REDIRECT_FLAGS,
            more_ability: 0,
            version: ability::LATER_ANSWERS | ability::VERSION,
            words: String::new(),
        }
    }

    pub(crate) fn body(&self) -> [u8; 16] {
        let mut body = [0; 16];
        body[..4].copy_from_slice(&self.process.to_be_bytes());
        for (to, from) in body[4..12].iter_mut().zip(self.user.bytes()) {
            *to = from;
        }
        body[12] = self.more_ability;
        body[13] = self.ability;
        body[14] = self.version;
        body
    }

    pub(crate) fn decode(body: &[u8; 16], payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("a login", body);
        Ok(Self {
            process: fields.u32()?,
            user: text(fields.take(8)?),
            more_ability: fields.u8()?,
            ability: fields.u8()?,
            version: fields.u8()?,
            words: text(payload),
        })
    }
}

/// An authentication method that the server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityMethod {
    /// Its name: `host`, `unix`, `ztn`, `sss`, `gsi`, `krb5`, …
    pub name: String,
    /// The server's parameters, such as `0:4096:`.
    pub parameters: String,
}

/// The response to a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginResponse {
    /// The session id; zeros from servers without one.
    pub session: SessionId,
    /// The offered methods in the server's order of preference. Empty: no authentication is
    /// required.
    pub methods: Vec<SecurityMethod>,
}

/// Maximum number of methods that are read.
const MAX_METHODS: usize = 32;

impl LoginResponse {
    /// Decodes the payload: 16 bytes, then `&P=name,parameters` for each method.
    ///
    /// # Errors
    /// There are 1 to 15 bytes.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        if payload.is_empty() {
            return Ok(Self { session: SessionId::default(), methods: Vec::new() });
        }
        let mut fields = FieldReader::new("the answer to the login", payload);
        let session = SessionId(fields.array()?);
        let methods = text(fields.rest());
        let methods = methods.split("&P=").skip(1).take(MAX_METHODS).map(|method| {
            let (name, parameters) = method.split_once(',').unwrap_or((method, ""));
            SecurityMethod { name: name.to_owned(), parameters: parameters.to_owned() }
        });
        Ok(Self { session, methods: methods.collect() })
    }

    /// Encodes the payload.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&self.session.0);
        for SecurityMethod { name, parameters } in &self.methods {
            let comma = if parameters.is_empty() { "" } else { "," };
            out.put_slice(format!("&P={name}{comma}{parameters}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_come_in_the_servers_order() {
        let text = [&[7; 16][..], b"&P=ztn,0:4096:&P=gsi,v:10600,c:ssl,ca:1&P=unix\0"].concat();
        let answer = LoginResponse::decode(&text).unwrap();
        assert_eq!(answer.session, SessionId([7; 16]));
        let shown: Vec<_> =
            answer.methods.iter().map(|m| (m.name.as_str(), m.parameters.as_str())).collect();
        assert_eq!(shown, [("ztn", "0:4096:"), ("gsi", "v:10600,c:ssl,ca:1"), ("unix", "")]);
        assert_eq!(LoginResponse::decode(&[7; 16]).unwrap().methods, []);
        assert!(LoginResponse::decode(&[7; 15]).is_err());
    }

    #[test]
    fn interfaces_are_skipped_and_signing_is_read() {
        let mut payload = BytesMut::new();
        payload.put_u32(0x511);
        payload.put_u32(0x0030_0001);
        payload.put_slice(b"B\0\0\x08ifaces\0\0");
        payload.put_slice(&[b'S', 0, 0, 1, 2, 1, 14, 2]);
        let answer = ProtocolResponse::decode(&payload).unwrap();
        let signing = answer.signing.unwrap();
        assert!(signing.is_wanted());
        assert_eq!((signing.options, signing.level, &*signing.overrides), (1, 2, &[[14, 2]][..]));
        for end in [9, 15, 21, payload.len() - 1] {
            assert!(ProtocolResponse::decode(&payload[..end]).is_err(), "{end}");
        }
    }
}
