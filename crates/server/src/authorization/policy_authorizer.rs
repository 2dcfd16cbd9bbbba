//! The authorizer of a server with `[auth]`: the token and the certificate of a request become a
//! [`Principal`], and a [`Policy`] decides.
//!
//! A signature is verified once for each token, not once for each request: verified tokens are kept
//! by their SHA-256 as long as the keys are the same, at most [`MAX_VERIFIED`] of them. Times,
//! audience and scopes are checked each time.
//!
//! Decisions do not wait. Keys that are missing are fetched before, by
//! [`prepare`](Authorizer::prepare), once for all requests that need them.

use crate::authorization::authorizer::{
    AccessRequest, Action, Authorizer, Decision, PrepareFuture,
};
use crate::authorization::jwks_cache::{JwksCache, JwksRefresh};
use crate::authorization::oidc_discovery::KeyDiscovery;
use hither_auth::{Denial, Jwks, Policy, PresentedToken, Principal, UnverifiedJwt, VerifiedJwt};
use hither_core::sync::lock;
use http::StatusCode;
use http::header::{self, HeaderMap};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::{debug, trace, warn};

/// The maximum number of verified tokens that are kept.
const MAX_VERIFIED: usize = 8_192;
/// The realm in a challenge.
const REALM: &str = "hither";

/// The authorizer of a server with `[auth]`; see the module above.
#[derive(Debug)]
pub(crate) struct PolicyAuthorizer {
    policy: Policy,
    /// False if the server is read-only.
    write: bool,
    shared: Arc<PolicyState>,
    verified: Mutex<VerifiedTokens>,
}

#[derive(Debug)]
struct PolicyState {
    ring: Mutex<JwksCache>,
    /// Held while keys are fetched that requests wait for: one issuer at a time.
    asking: tokio::sync::Mutex<()>,
    discovery: Arc<dyn KeyDiscovery>,
}

/// Verified tokens by their SHA-256, with the keys that verified their signature.
#[derive(Debug, Default)]
struct VerifiedTokens {
    young: HashMap<[u8; 32], (Arc<Jwks>, Arc<VerifiedJwt>)>,
    old: HashMap<[u8; 32], (Arc<Jwks>, Arc<VerifiedJwt>)>,
}

impl VerifiedTokens {
    fn find(&self, sum: &[u8; 32], keys: &Arc<Jwks>) -> Option<Arc<VerifiedJwt>> {
        let (with, token) = self.young.get(sum).or_else(|| self.old.get(sum))?;
        Arc::ptr_eq(with, keys).then(|| Arc::clone(token))
    }

    fn keep(&mut self, sum: [u8; 32], keys: Arc<Jwks>, token: Arc<VerifiedJwt>) {
        if self.young.len() >= MAX_VERIFIED / 2 {
            trace!(evicted = self.old.len(), "verified tokens evicted");
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(sum, (keys, token));
    }
}

impl PolicyAuthorizer {
    pub(crate) fn new(
        policy: Policy,
        write: bool,
        ring: JwksCache,
        discovery: Arc<dyn KeyDiscovery>,
    ) -> Self {
        let ring = Mutex::new(ring);
        let asking = tokio::sync::Mutex::new(());
        let shared = Arc::new(PolicyState { ring, asking, discovery });
        Self { policy, write, shared, verified: Mutex::default() }
    }

    fn identity(&self, asking: &AccessRequest<'_>, now: u64) -> Principal {
        let token = match bearer(asking.headers) {
            Bearer::Nothing => PresentedToken::Nothing,
            Bearer::Odd => PresentedToken::Invalid,
            Bearer::Token(text) => {
                self.verified(text, now).map_or(PresentedToken::Invalid, PresentedToken::Token)
            }
        };
        Principal { token, certificate: asking.certificate.map(Arc::clone) }
    }

    fn verified(&self, text: &str, now: u64) -> Option<Arc<VerifiedJwt>> {
        let token = UnverifiedJwt::parse(text).ok()?;
        let keys = self.shared.ring().keys(token.issuer(), now).map(Arc::clone)?;
        let sum: [u8; 32] = Sha256::digest(text).into();
        let remembered = || lock(&self.verified);
        if let Some(token) = remembered().find(&sum, &keys) {
            return Some(token);
        }
        let token = Arc::new(token.verify(&keys).ok()?);
        remembered().keep(sum, keys, Arc::clone(&token));
        Some(token)
    }
}

impl Authorizer for PolicyAuthorizer {
    fn prepare(&self, headers: &HeaderMap) -> Option<PrepareFuture> {
        let Bearer::Token(text) = bearer(headers) else { return None };
        let token = UnverifiedJwt::parse(text).ok()?;
        let (need, now) = self.shared.need(&token);
        let shared = Arc::clone(&self.shared);
        let issuer = token.issuer().to_owned();
        match need {
            JwksRefresh::Nothing => None,
            JwksRefresh::Soon => {
                // Recorded immediately, so that the next request does not fetch as well.
                self.shared.ring().begin(&issuer, now);
                tokio::spawn(async move { shared.ask(&issuer).await });
                None
            }
            JwksRefresh::Now => {
                let text = text.to_owned();
                Some(Box::pin(async move {
                    let _turn = shared.asking.lock().await;
                    // Another request may have fetched them meanwhile.
                    if let Ok(token) = UnverifiedJwt::parse(&text)
                        && shared.need(&token).0 == JwksRefresh::Now
                    {
                        shared.ask(&issuer).await;
                    }
                }))
            }
        }
    }

    fn decide(&self, asking: &AccessRequest<'_>) -> Decision {
        let now = seconds();
        let identity = self.identity(asking, now);
        let action = match asking.action {
            Action::Read => hither_auth::Action::Read,
            Action::Create => hither_auth::Action::Create,
            Action::Modify => hither_auth::Action::Modify,
        };
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        match self.policy.authorize(&identity, action, asking.path, now) {
            Err(denial) => refused(&denial, action, asking.path),
            Ok(()) if asking.action != Action::Read && !self.write => Decision::Refused {
                status: StatusCode::FORBIDDEN,
                reason: "this server is read-only".to_owned(),
                challenge: None,
            },
            Ok(()) => Decision::Allowed,
        }
    }

    fn writes(&self) -> bool {
        self.write && self.policy.lets_write()
    }

    /// False: a grant covers a folder and everything below it.
    fn hides(&self) -> bool {
        false
    }

    fn name(&self, asking: &AccessRequest<'_>) -> Result<String, Decision> {
        let now = seconds();
        let identity = self.identity(asking, now);
        let name = self.policy.name(&identity, i64::try_from(now).unwrap_or(i64::MAX));
        name.map_err(|denial| refused(&denial, hither_auth::Action::Read, asking.path))
    }
}

impl PolicyState {
    fn ring(&self) -> MutexGuard<'_, JwksCache> {
        lock(&self.ring)
    }

    fn need(&self, token: &UnverifiedJwt<'_>) -> (JwksRefresh, u64) {
        let ring = self.ring();
        let now = seconds();
        let fits = ring.keys(token.issuer(), now).is_some_and(|keys| token.has_key_in(keys));
        (ring.need(token.issuer(), fits, now), now)
    }

    async fn ask(&self, issuer: &str) {
        self.ring().begin(issuer, seconds());
        let keys = self.discovery.keys(issuer).await;
        match &keys {
            Ok(_) => debug!(issuer, "keys of the issuer fetched"),
            Err(error) => warn!(issuer, %error, "keys of the issuer cannot be fetched"),
        }
        self.ring().done(issuer, keys.ok(), seconds());
    }
}

/// The content of the field `Authorization`.
enum Bearer<'a> {
    Nothing,
    Token(&'a str),
    /// Several fields, or credentials other than a bearer token.
    Odd,
}

fn bearer(headers: &HeaderMap) -> Bearer<'_> {
    let mut fields = headers.get_all(header::AUTHORIZATION).iter();
    let Some(field) = fields.next() else { return Bearer::Nothing };
    let text = field.to_str().ok().and_then(|text| text.split_once(' '));
    match text {
        Some((scheme, token))
            if scheme.eq_ignore_ascii_case("bearer") && fields.next().is_none() =>
        {
            Bearer::Token(token.trim())
        }
        _ => Bearer::Odd,
    }
}

fn refused(denial: &Denial, action: hither_auth::Action, path: &str) -> Decision {
    let reason = denial.to_string();
    let (status, challenge) = match denial {
        Denial::Unauthenticated { shown: false } => (StatusCode::UNAUTHORIZED, String::new()),
        Denial::Unauthenticated { shown: true } => {
            (StatusCode::UNAUTHORIZED, r#", error="invalid_token""#.to_owned())
        }
        Denial::InvalidToken(_) => {
            let why = described(&reason);
            (
                StatusCode::UNAUTHORIZED,
                format!(r#", error="invalid_token", error_description="{why}""#),
            )
        }
        Denial::Forbidden(_) => {
            let why = described(&reason);
            let scope = action.scope(path);
            let challenge = format!(
                r#", error="insufficient_scope", error_description="{why}", scope="{scope}""#
            );
            (StatusCode::FORBIDDEN, challenge)
        }
    };
    let challenge = Some(format!(r#"Bearer realm="{REALM}"{challenge}"#));
    Decision::Refused { status, reason, challenge }
}

/// The text as an `error_description` may have it (RFC 6750 section 3): ASCII without quotes and
/// backslashes.
fn described(text: &str) -> String {
    let plain = |c| if matches!(c, ' '..='~') && !matches!(c, '"' | '\\') { c } else { '?' };
    text.chars().map(plain).collect()
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
