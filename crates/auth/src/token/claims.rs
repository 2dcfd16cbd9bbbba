//! The claims of a token (RFC 7519), unverified.
//!
//! The server verifies the signature: if a client accepted a forged token, the server would reject
//! it. So nothing here decides what is allowed. A client reads the claims to renew a token in time,
//! to separate users in caches, and to tell the user which claim a server probably rejected.
//!
//! A token may also be a macaroon or an opaque string. Its claims are then unknown, which is not an
//! error.

use crate::secret::Secret;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;
use zeroize::Zeroizing;

/// Maximum length of a token. Servers rarely accept more than 16 KiB of header.
pub(crate) const MAX_TOKEN: usize = 64 << 10;

/// The claims of a JWT that are relevant for storage (WLCG profile 1.2, SciTokens 2.0).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claims {
    /// `iss`: the issuer.
    pub issuer: Option<String>,
    /// `sub`: the subject, usually the user.
    pub subject: Option<String>,
    /// `aud`: the servers that may accept the token; empty if it has no such claim.
    pub audience: Vec<String>,
    /// `scope`: the words of the scope. `None` if the token has no such claim.
    pub scope: Option<Vec<String>>,
    /// `exp`: time from which the token is invalid, in seconds since 1970.
    pub expires: Option<i64>,
    /// `nbf`: time before which the token is invalid, in seconds since 1970.
    pub not_before: Option<i64>,
    /// `iat`: time at which the token was issued, in seconds since 1970.
    pub issued: Option<i64>,
    /// `wlcg.groups`: the groups that the holder belongs to; empty if the token has no such claim.
    pub groups: Vec<String>,
}

/// Reason why a token's claims cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedJwt {
    /// The token does not have the form of a JWT: opaque, or a macaroon.
    #[error("it is not a JWT (perhaps a macaroon), so its claims cannot be read")]
    Opaque,
    /// The token is encrypted for the server (JWE).
    #[error("it is encrypted for the server (JWE), so its claims cannot be read")]
    Encrypted,
    /// The token has three parts, but one of them is not base64url of a JSON object.
    #[error(
        "it looks like a JWT but cannot be decoded: it may have been cut or altered when copied"
    )]
    Damaged,
    /// The token has more than 64 KiB.
    #[error("it is longer than 65536 bytes, the maximum for a token")]
    TooLong,
}

/// The claims as in the JSON.
#[derive(Deserialize)]
struct Wire {
    iss: Option<Value>,
    sub: Option<Value>,
    aud: Option<Value>,
    scope: Option<Value>,
    exp: Option<Value>,
    nbf: Option<Value>,
    iat: Option<Value>,
    #[serde(rename = "wlcg.groups")]
    groups: Option<Value>,
}

/// Splits a signed token into header, payload and signature.
pub(crate) fn parts(text: &str) -> Result<[&str; 3], MalformedJwt> {
    if text.len() > MAX_TOKEN {
        return Err(MalformedJwt::TooLong);
    }
    let mut parts = text.split('.');
    let (Some(header), Some(payload), Some(signature)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(MalformedJwt::Opaque);
    };
    match parts.count() {
        0 => Ok([header, payload, signature]),
        2 => Err(MalformedJwt::Encrypted),
        _ => Err(MalformedJwt::Opaque),
    }
}

/// Decodes a part of a token to JSON.
pub(crate) fn json(part: &str) -> Result<Zeroizing<Vec<u8>>, MalformedJwt> {
    let plain =
        URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).map_err(|_| MalformedJwt::Damaged)?;
    Ok(Zeroizing::new(plain))
}

impl Claims {
    /// Reads the claims of a token. Ignores a claim of an unexpected type.
    ///
    /// # Errors
    ///
    /// [`MalformedJwt`] for other kinds of tokens, and for corrupt ones.
    pub fn decode(token: &Secret) -> Result<Self, MalformedJwt> {
        let [_header, payload, _signature] = parts(token.expose())?;
        Ok(Self::read(&json(payload)?)?.0)
    }

    /// Reads the claims of a payload. Also returns the name of a claim that was ignored because of
    /// its type.
    pub(crate) fn read(json: &[u8]) -> Result<(Self, Option<&'static str>), MalformedJwt> {
        let wire: Wire = serde_json::from_slice(json).map_err(|_| MalformedJwt::Damaged)?;
        let mut reading = Reading { unexpected: None };
        let one = |text| vec![text];
        let divided = |text: String| text.split_whitespace().map(str::to_owned).collect();
        let claims = Self {
            issuer: reading.claim("iss", wire.iss, text_of),
            subject: reading.claim("sub", wire.sub, text_of),
            audience: reading.claim("aud", wire.aud, |aud| words(aud, one)).unwrap_or_default(),
            scope: reading.claim("scope", wire.scope, |scope| words(scope, divided)),
            expires: reading.claim("exp", wire.exp, |exp| seconds(&exp)),
            not_before: reading.claim("nbf", wire.nbf, |nbf| seconds(&nbf)),
            issued: reading.claim("iat", wire.iat, |iat| seconds(&iat)),
            groups: reading
                .claim("wlcg.groups", wire.groups, |groups| words(groups, one))
                .unwrap_or_default(),
        };
        Ok((claims, reading.unexpected))
    }
}

/// Reads claims, and records a claim with an unexpected type.
struct Reading {
    unexpected: Option<&'static str>,
}

impl Reading {
    fn claim<T>(
        &mut self,
        name: &'static str,
        value: Option<Value>,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> Option<T> {
        let read = read(value?);
        if read.is_none() {
            self.unexpected = Some(name);
        }
        read
    }
}

fn text_of(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// Reads a claim that is one text, split by `divide`, or a list of texts.
fn words(value: Value, divide: impl Fn(String) -> Vec<String>) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(divide(text)),
        Value::Array(list) => Some(list.into_iter().filter_map(text_of).collect()),
        _ => None,
    }
}

/// Reads a NumericDate (RFC 7519 section 2), which may have a fraction. Ignores times out of range.
fn seconds(value: &Value) -> Option<i64> {
    let whole = value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "just checked to be far within the range"
        )]
        (number.abs() < 1e15).then_some(number as i64)
    })?;
    (whole.unsigned_abs() < 1_000_000_000_000_000).then_some(whole)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A token with these claims and a meaningless signature.
    pub(crate) fn jwt(claims: &str) -> Secret {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        Secret::new(format!("{}.{}.c2ln", part(r#"{"alg":"ES256"}"#), part(claims)))
    }

    #[test]
    fn claims_are_read_in_all_their_forms() {
        let claims = Claims::decode(&jwt(
            r#"{"iss":"https://i","sub":"me","aud":["https://a","b"],"scope":"storage.read:/ x","exp":1700000000.9,"nbf":-5}"#,
        ))
        .unwrap();
        assert_eq!(claims.issuer.as_deref(), Some("https://i"));
        assert_eq!(claims.subject.as_deref(), Some("me"));
        assert_eq!(claims.audience, ["https://a", "b"]);
        assert_eq!(claims.scope.unwrap(), ["storage.read:/", "x"]);
        assert_eq!((claims.expires, claims.not_before), (Some(1_700_000_000), Some(-5)));

        let unexpected = jwt(
            r#"{"aud":"ANY","scope":["read:/a","write:/b",3],"exp":"soon","nbf":1e300,"sub":7}"#,
        );
        let unexpected = Claims::decode(&unexpected).unwrap();
        assert_eq!(
            (unexpected.audience, unexpected.expires, unexpected.not_before),
            (vec!["ANY".to_owned()], None, None)
        );
        assert_eq!(
            (unexpected.scope.unwrap(), unexpected.subject),
            (vec!["read:/a".to_owned(), "write:/b".to_owned()], None)
        );
        assert_eq!(Claims::decode(&jwt("{}")).unwrap(), Claims::default());
        assert_eq!(Claims::decode(&jwt(r#"{"exp":9223372036854775807}"#)).unwrap().expires, None);
    }

    #[test]
    fn tokens_that_are_no_jwt_are_named() {
        for (text, reason) in [
            ("", MalformedJwt::Opaque),
            ("MDAxY2xvY2F0aW9uIHNpdGU", MalformedJwt::Opaque),
            ("a.b", MalformedJwt::Opaque),
            ("a.b.c.d", MalformedJwt::Opaque),
            ("a.b.c.d.e", MalformedJwt::Encrypted),
            ("a.b.c", MalformedJwt::Damaged),
            ("a.!.c", MalformedJwt::Damaged),
            ("..", MalformedJwt::Damaged),
        ] {
            assert_eq!(Claims::decode(&Secret::new(text)), Err(reason), "{text:?}");
        }
        assert_eq!(
            Claims::decode(&Secret::new("x".repeat(MAX_TOKEN + 1))),
            Err(MalformedJwt::TooLong)
        );
        let deep = format!(r#"{{"aud":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(Claims::decode(&jwt(&deep)), Err(MalformedJwt::Damaged));
        let whole = jwt(r#"{"sub":"me"}"#);
        let cut = whole.expose().replace(".ey", ".e");
        assert_eq!(Claims::decode(&Secret::new(cut)), Err(MalformedJwt::Damaged));
    }

    proptest! {
        #[test]
        fn any_text_is_decoded_or_refused(text in ".{0,200}", json in "[\\[\\]{}\":,a-z0-9.e-]{0,80}") {
            let _refused = Claims::decode(&Secret::new(text.clone()));
            let _refused = Claims::decode(&Secret::new(format!("{text}.{text}.{text}")));
            let _refused = Claims::decode(&jwt(&json));
        }
    }
}
