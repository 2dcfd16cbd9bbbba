//! The public keys of an issuer: a JSON Web Key Set (RFC 7517), reduced to the usable keys.
//!
//! The profiles of WLCG and SciTokens sign with RS256 and ES256 (RFC 7518 section 3.1), so RSA keys
//! of 2,048 to 8,192 bits and keys of the curve P-256 are kept. All others are skipped, because a
//! set may contain keys for other purposes. The algorithm belongs to the key and never comes from
//! the token: for a token with the algorithm `none`, or `HS256` with the public key as the secret,
//! there is no matching key.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

/// Maximum size of a key set document.
pub(crate) const MAX_SET_BYTES: usize = 256 << 10;
/// Maximum number of keys that are kept of a set. Issuers have two or three.
const MAX_KEYS: usize = 64;
/// Maximum number of keys that are tried for one token.
const MAX_TRIED: usize = 4;
/// Maximum size of an RSA number: 8,192 bits.
const MAX_NUMBER: usize = 1_024;
/// Size of a P-256 coordinate in bytes.
const COORDINATE: usize = 32;

/// Signature algorithm of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// ECDSA over P-256 with SHA-256.
    Es256,
}

impl Algorithm {
    /// The algorithm of this name in a token; `None` if it is unsupported.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }
}

/// The public keys of one issuer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Jwks {
    keys: Vec<Key>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
}

/// Reason why a document contains no usable keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwksError {
    /// The document has more than 256 KiB.
    #[error("the key set is larger than 262144 bytes")]
    TooLong,
    /// The document is not a JSON object with a list `keys`.
    #[error("the document is not a JSON Web Key Set (RFC 7517)")]
    Malformed,
    /// No key in it is for RS256 or ES256.
    #[error("the key set has no key for RS256 or ES256")]
    Nothing,
}

#[derive(Deserialize)]
struct WireSet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct WireKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Jwks {
    /// Parses a key set.
    ///
    /// # Errors
    ///
    /// [`JwksError`] if none of its keys is usable.
    pub fn parse(json: &[u8]) -> Result<Self, JwksError> {
        if json.len() > MAX_SET_BYTES {
            return Err(JwksError::TooLong);
        }
        let set: WireSet = serde_json::from_slice(json).map_err(|_| JwksError::Malformed)?;
        let keys = set.keys.into_iter().filter_map(Key::of).take(MAX_KEYS).collect::<Vec<_>>();
        if keys.is_empty() { Err(JwksError::Nothing) } else { Ok(Self { keys }) }
    }

    /// Returns true if the set has a key for a token with this key id, or without one.
    pub(crate) fn has(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        self.fitting(id, algorithm).next().is_some()
    }

    /// Returns true if one of the matching keys made `signature` of `message`.
    pub(crate) fn verify(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let mut keys = self.fitting(id, algorithm).take(MAX_TRIED);
        keys.any(|key| key.material.verify(message, signature))
    }

    /// The keys that match an id. If the token or the key has no id, all keys of the algorithm
    /// match.
    fn fitting(&self, id: Option<&str>, algorithm: Algorithm) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(move |key| {
            key.material.algorithm() == algorithm
                && match (id, key.id.as_deref()) {
                    (Some(wanted), Some(id)) => wanted == id,
                    _ => true,
                }
        })
    }
}

impl Key {
    /// Decodes a key; returns `None` if it is not usable.
    fn of(value: Value) -> Option<Self> {
        let wire: WireKey = serde_json::from_value(value).ok()?;
        if wire.purpose.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let material = match wire.kty.as_str() {
            "RSA" => {
                let modulus = number(&wire.n?)?;
                let exponent = number(&wire.e?)?;
                Material::Rsa { modulus, exponent }
            }
            "EC" if wire.crv.as_deref() == Some("P-256") => {
                let x = coordinate(&wire.x?)?;
                let y = coordinate(&wire.y?)?;
                Material::P256([&[4], x.as_slice(), y.as_slice()].concat())
            }
            _ => return None,
        };
        let fits = wire.alg.is_none_or(|alg| alg == material.algorithm().name());
        fits.then_some(Self { id: wire.kid, material })
    }
}

impl Material {
    fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
        }
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
        }
        .is_ok()
    }
}

/// Decodes an integer without leading zeros, as the verifier requires.
fn number(text: &str) -> Option<Vec<u8>> {
    if text.len() > 2 * MAX_NUMBER {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let number = bytes.get(zeros..)?;
    (!number.is_empty() && number.len() <= MAX_NUMBER).then(|| number.to_vec())
}

fn coordinate(text: &str) -> Option<Vec<u8>> {
    if text.len() > 2 * COORDINATE {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
    (bytes.len() == COORDINATE).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: &str = r#""kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0""#;

    fn set(keys: &str) -> Result<Jwks, JwksError> {
        Jwks::parse(format!(r#"{{"keys":[{keys}]}}"#).as_bytes())
    }

    #[test]
    fn keys_of_other_kinds_are_skipped() {
        for other in [
            r#"{"kty":"oct","k":"c2VjcmV0","kid":"a"}"#,
            r#"{"kty":"OKP","crv":"Ed25519","x":"AA"}"#,
            r#"{"kty":"EC","crv":"P-384","x":"AA","y":"AA"}"#,
            r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
            r#"{"kty":"RSA","n":"AA","e":"AQAB"}"#,
            r#"{"kty":"RSA","n":"!","e":"AQAB"}"#,
            r#"{"kty":7}"#,
            "17",
            &format!(r#"{{{POINT},"use":"enc"}}"#),
            &format!(r#"{{{POINT},"alg":"RS256"}}"#),
        ] {
            assert_eq!(set(other), Err(JwksError::Nothing), "{other}");
            let both = set(&format!(r#"{other},{{{POINT},"kid":"k","alg":"ES256"}}"#)).unwrap();
            assert_eq!(both.keys.len(), 1);
        }
    }

    #[test]
    fn a_key_is_found_by_id_and_algorithm() {
        let named = set(&format!(r#"{{{POINT},"kid":"k"}}"#)).unwrap();
        assert!(named.has(Some("k"), Algorithm::Es256) && named.has(None, Algorithm::Es256));
        assert!(!named.has(Some("l"), Algorithm::Es256) && !named.has(Some("k"), Algorithm::Rs256));
        let unnamed = set(&format!("{{{POINT}}}")).unwrap();
        assert!(unnamed.has(Some("k"), Algorithm::Es256));
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for text in ["", "{}", "[]", r#"{"keys":{}}"#, r#"{"keys":[]"#] {
            assert_eq!(Jwks::parse(text.as_bytes()), Err(JwksError::Malformed), "{text}");
        }
        assert_eq!(set(""), Err(JwksError::Nothing));
        assert_eq!(Jwks::parse(&vec![b' '; MAX_SET_BYTES + 1]), Err(JwksError::TooLong));
        let deep = "[".repeat(100_000);
        assert_eq!(set(&deep), Err(JwksError::Malformed));
        let many = vec![format!("{{{POINT}}}"); MAX_KEYS + 9].join(",");
        assert_eq!(set(&many).unwrap().keys.len(), MAX_KEYS);
    }
}
