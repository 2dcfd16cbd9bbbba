//! A token as a server sees it: parsed, then believed if one of its issuer's keys made its signature.
//!
//! What is read before the signature has been verified is only what is needed to find the key: algorithm, name of the key,
//! issuer. What the header says of keys beside that (`jwk`, `jku`, `x5c`, `x5u`) is not looked at, as it comes from whoever
//! made the token. A token with a claim that is named here but cannot be understood, such as an `nbf` that is no number, is
//! refused, not taken as one without that claim.
//!
//! Times, audience and scope are judged later ([`crate::Policy`]), against the clock of each request: so a signature may be
//! verified once and the result kept.

use crate::token::claims::{Claims, MalformedJwt, json, parts};
use crate::token::jwks::{Algorithm, Jwks};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A signed token, not yet believed.
#[derive(Debug)]
pub struct UnverifiedJwt<'a> {
    /// Header and payload, which are what is signed.
    message: &'a str,
    signature: Vec<u8>,
    algorithm: Algorithm,
    key_id: Option<String>,
    issuer: String,
    claims: Claims,
}

/// A token whose signature is right: what it says, its issuer has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedJwt {
    issuer: String,
    claims: Claims,
}

/// Why a token is not believed. None of these says anything that whoever sent it does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwtError {
    /// It is no JWT.
    #[error(transparent)]
    NotAJwt(#[from] MalformedJwt),
    /// Its header is no JSON object with an `alg`, or has critical extensions (RFC 7515 section 4.1.11).
    #[error("its header cannot be understood")]
    Header,
    /// It is signed with something other than RS256 or ES256, or not at all.
    #[error("its algorithm is none of RS256 and ES256")]
    Algorithm,
    /// A claim is not what it should be.
    #[error("its claim {0} cannot be understood")]
    Claim(&'static str),
    /// Its issuer has no such key.
    #[error("its issuer has no such key")]
    UnknownKey,
    /// The signature is wrong.
    #[error("its signature is wrong")]
    Signature,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

impl<'a> UnverifiedJwt<'a> {
    /// Takes a token apart.
    ///
    /// # Errors
    ///
    /// [`JwtError`] for what cannot be a token that is signed as the profiles of WLCG and SciTokens have it.
    pub fn parse(text: &'a str) -> Result<Self, JwtError> {
        let [header, payload, signature] = parts(text)?;
        let message = text.get(..header.len() + 1 + payload.len()).unwrap_or_default();
        let header: Header =
            serde_json::from_slice(&json(header)?).map_err(|_| JwtError::Header)?;
        if header.crit.is_some() {
            return Err(JwtError::Header);
        }
        let algorithm = Algorithm::named(&header.alg).ok_or(JwtError::Algorithm)?;
        let (claims, odd) = Claims::read(&json(payload)?)?;
        if let Some(name) = odd {
            return Err(JwtError::Claim(name));
        }
        let issuer = claims.issuer.clone().ok_or(JwtError::Claim("iss"))?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| MalformedJwt::Damaged)?;
        Ok(Self { message, signature, algorithm, key_id: header.kid, issuer, claims })
    }

    /// Who is said to have made it, in the words of the token.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Whether `keys` has a key that it may be signed with.
    #[must_use]
    pub fn has_key_in(&self, keys: &Jwks) -> bool {
        keys.has(self.key_id.as_deref(), self.algorithm)
    }

    /// Believes it if it is signed by one of its issuer's keys. That `keys` are those of [`UnverifiedJwt::issuer`] is the
    /// caller's part.
    ///
    /// # Errors
    ///
    /// [`JwtError::UnknownKey`] and [`JwtError::Signature`].
    pub fn verify(self, keys: &Jwks) -> Result<VerifiedJwt, JwtError> {
        if !self.has_key_in(keys) {
            return Err(JwtError::UnknownKey);
        }
        let id = self.key_id.as_deref();
        match keys.verify(id, self.algorithm, self.message.as_bytes(), &self.signature) {
            true => Ok(VerifiedJwt { issuer: self.issuer, claims: self.claims }),
            false => Err(JwtError::Signature),
        }
    }
}

impl VerifiedJwt {
    /// Who made it.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// What it says.
    #[must_use]
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// A token that is taken as verified, for tests of what follows.
    #[cfg(test)]
    pub(crate) fn believed(issuer: &str, claims: Claims) -> Self {
        Self { issuer: issuer.to_owned(), claims }
    }
}

#[cfg(test)]
mod tests;
