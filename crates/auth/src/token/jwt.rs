//! A token on a server: parsed, then verified with the keys of its issuer.
//!
//! Before the signature has been verified, only the fields that select the key are used: algorithm,
//! key id, issuer. Keys in the header (`jwk`, `jku`, `x5c`, `x5u`) are ignored, because they come
//! from the author of the token. A token is rejected if a claim that this crate knows has a wrong
//! type, such as an `nbf` that is not a number; it is not accepted as a token without that claim.
//!
//! Times, audience and scope are checked later ([`crate::Policy`]), against the clock at each
//! request. So a signature may be verified once and the result cached.

use crate::token::claims::{Claims, MalformedJwt, json, parts};
use crate::token::jwks::{Algorithm, Jwks};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A signed token whose signature has not been verified.
#[derive(Debug)]
pub struct UnverifiedJwt<'a> {
    /// Header and payload: the signed bytes.
    message: &'a str,
    signature: Vec<u8>,
    algorithm: Algorithm,
    key_id: Option<String>,
    issuer: String,
    claims: Claims,
}

/// A token with a verified signature: its claims are those of its issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedJwt {
    issuer: String,
    claims: Claims,
}

/// Reason why a token is rejected. The messages reveal nothing that the sender does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwtError {
    /// The token is not a JWT.
    #[error(transparent)]
    NotAJwt(#[from] MalformedJwt),
    /// The header is not a JSON object with an `alg`, or has critical extensions (RFC 7515 section
    /// 4.1.11).
    #[error("its header is malformed or has critical extensions")]
    Header,
    /// The token is signed with an algorithm other than RS256 or ES256, or not at all.
    #[error("its algorithm is neither RS256 nor ES256")]
    Algorithm,
    /// A claim is missing or has an unexpected type.
    #[error("its claim {0} is missing or has an unexpected type")]
    Claim(&'static str),
    /// The issuer's key set has no key with this id and algorithm.
    #[error("its issuer has no such key")]
    UnknownKey,
    /// The signature is invalid.
    #[error("its signature is invalid")]
    Signature,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

impl<'a> UnverifiedJwt<'a> {
    /// Parses a token.
    ///
    /// # Errors
    ///
    /// [`JwtError`] for tokens that are not signed by the rules of the WLCG and SciTokens profiles.
    pub fn parse(text: &'a str) -> Result<Self, JwtError> {
        let [header, payload, signature] = parts(text)?;
        let message = text.get(..header.len() + 1 + payload.len()).unwrap_or_default();
        let header: Header =
            serde_json::from_slice(&json(header)?).map_err(|_| JwtError::Header)?;
        if header.crit.is_some() {
            return Err(JwtError::Header);
        }
        let algorithm = Algorithm::named(&header.alg).ok_or(JwtError::Algorithm)?;
        let (claims, unexpected) = Claims::read(&json(payload)?)?;
        if let Some(name) = unexpected {
            return Err(JwtError::Claim(name));
        }
        let issuer = claims.issuer.clone().ok_or(JwtError::Claim("iss"))?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| MalformedJwt::Damaged)?;
        Ok(Self { message, signature, algorithm, key_id: header.kid, issuer, claims })
    }

    /// The claimed issuer.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns true if `keys` contains a key that may have signed the token.
    #[must_use]
    pub fn has_key_in(&self, keys: &Jwks) -> bool {
        keys.has(self.key_id.as_deref(), self.algorithm)
    }

    /// Verifies the signature with the issuer's keys. The caller ensures that `keys` are those of
    /// [`UnverifiedJwt::issuer`].
    ///
    /// # Errors
    ///
    /// [`JwtError::UnknownKey`] and [`JwtError::Signature`].
    pub fn verify(self, keys: &Jwks) -> Result<VerifiedJwt, JwtError> {
        if !self.has_key_in(keys) {
            return Err(JwtError::UnknownKey);
        }
        let id = self.key_id.as_deref();
        if keys.verify(id, self.algorithm, self.message.as_bytes(), &self.signature) {
            Ok(VerifiedJwt { issuer: self.issuer, claims: self.claims })
        } else {
            Err(JwtError::Signature)
        }
    }
}

impl VerifiedJwt {
    /// The issuer.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The claims.
    #[must_use]
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Creates a token that is treated as verified, for tests of later steps.
    #[cfg(test)]
    pub(crate) fn believed(issuer: &str, claims: Claims) -> Self {
        Self { issuer: issuer.to_owned(), claims }
    }
}

#[cfg(test)]
mod tests;
