//! Credentials of one client: the choice of a credential for each server, and renewal.
//!
//! One [`Credentials`] belongs to one client; two of them share no state, so that identities in one
//! process do not mix. Each origin of a URL from the user gets one credential, in this order of
//! precedence: name and password in the URL; a token that was given or named explicitly; a
//! configured name and password; an entry of `.netrc`; a token from a default path. Servers after a
//! redirect get the same credential or none, never another one.
//!
//! **Renewal.** [`Credentials::authorization`] is called on threads that must not block, so it
//! never reads a file. If a token has not been read yet, or should be read again, it returns
//! [`Authorization::NeedsRefresh`], and the caller calls [`Credentials::refresh`] on a thread that
//! may block. A token is read again 60 s before it expires; if its remaining lifetime was less than
//! 120 s when it was read, after half of that. It is read once more after a server has rejected it,
//! because it may have been revoked or the clocks may differ. If the source still has the old
//! token, it is read again after 5 s. A failed renewal is an error only once the old token has
//! expired: another program may be writing the file at that moment.
//!
//! Many requests need the renewal at the same time. Each [`Authorization`] contains a
//! [`TokenGeneration`], the number of the token; a refresh of a token that is no longer current
//! returns immediately. So the command runs once for all waiting requests.

pub(crate) mod basic;
pub(crate) mod cache_partition;
pub(crate) mod config;
pub(crate) mod explain_rejection;
pub(crate) mod netrc;
pub(crate) mod redirect_hosts;

use crate::credentials::basic::Basic;
use crate::credentials::cache_partition::CachePartition;
use crate::credentials::config::CredentialConfig;
use crate::credentials::netrc::Netrc;
use crate::error::Result;
use crate::origin::Origin;
use crate::private_file::{self, FileAccess, FileModeCheck};
use crate::secret::Secret;
use crate::token::claims::{Claims, MalformedJwt};
use crate::token::source::{DiscoveredToken, TokenSource};
use crate::x509::client_certificate::ClientCertificate;
use crate::x509::trust_anchors::TrustAnchors;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Time before its expiry at which a token is renewed, in seconds; less if it is short-lived.
const MARGIN: i64 = 60;
/// Time after which a source without a newer token is read again, in seconds.
const PAUSE: i64 = 5;

/// The number of a token. It shows whether the token is still current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenGeneration(u64);

/// The `Authorization` field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    /// The value of the field.
    Ready(Secret, TokenGeneration),
    /// The request has no such field.
    Nothing(TokenGeneration),
    /// Call [`Credentials::refresh`], then call [`Credentials::authorization`] again.
    NeedsRefresh(TokenGeneration),
}

impl Authorization {
    /// The number of the token that was used.
    #[must_use]
    pub fn generation(&self) -> TokenGeneration {
        match self {
            Self::Ready(_, generation)
            | Self::Nothing(generation)
            | Self::NeedsRefresh(generation) => *generation,
        }
    }
}

/// Reason why a credential is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithholdReason {
    /// A redirect led to a host that may not receive it.
    Redirected,
    /// The connection is not encrypted.
    Plain,
}

/// The credential chosen for an origin.
#[derive(Debug, Clone)]
pub(crate) enum ChosenCredential {
    Basic(Basic, &'static str),
    Token(Arc<CachedToken>),
    Nothing,
}

/// A token from its source.
#[derive(Debug)]
pub(crate) struct CachedToken {
    pub(crate) token: Secret,
    pub(crate) place: String,
    pub(crate) claims: Result<Claims, MalformedJwt>,
    /// Time of its first read, in seconds since 1970.
    read: i64,
}

impl CachedToken {
    /// Time from which the token should be read again, in seconds since 1970.
    fn due(&self) -> Option<i64> {
        let expires = self.claims.as_ref().ok()?.expires?;
        let left = expires.saturating_sub(self.read).max(0);
        Some(expires.saturating_sub(MARGIN.min(left / 2)))
    }

    fn expired(&self, now: i64) -> bool {
        self.claims
            .as_ref()
            .is_ok_and(|claims| claims.expires.is_some_and(|expires| now >= expires))
    }
}

/// The credentials of a client. Clones share their state.
#[derive(Debug, Clone)]
pub struct Credentials {
    shared: Arc<CredentialsInner>,
    /// Name and password from a URL, and the origin of that URL.
    of_url: Option<Arc<(Origin, Basic)>>,
}

#[derive(Debug)]
struct CredentialsInner {
    config: CredentialConfig,
    state: Mutex<TokenState>,
    /// Locked while files are read or a command runs.
    reading: Mutex<()>,
}

#[derive(Debug, Default)]
struct TokenState {
    generation: u64,
    cached: Option<Arc<CachedToken>>,
    netrc: Netrc,
    /// Time of the last read of the sources, in seconds since 1970.
    read: Option<i64>,
    /// Problems of the sources at that time, for the explanation of rejected requests.
    problems: Vec<String>,
}

impl Default for Credentials {
    fn default() -> Self {
        Self::new(CredentialConfig::default())
    }
}

impl Credentials {
    /// Creates credentials as configured. Reads nothing yet.
    #[must_use]
    pub fn new(config: CredentialConfig) -> Self {
        let shared =
            CredentialsInner { config, state: Mutex::default(), reading: Mutex::default() };
        Self { shared: Arc::new(shared), of_url: None }
    }

    /// Returns the same credentials for a URL of `origin` that contains a user name and a password.
    #[must_use]
    pub fn for_url(&self, origin: Origin, basic: Basic) -> Self {
        let of_url = Some(Arc::new((origin, basic)));
        Self { shared: Arc::clone(&self.shared), of_url }
    }

    pub(crate) fn config(&self) -> &CredentialConfig {
        &self.shared.config
    }

    fn state(&self) -> MutexGuard<'_, TokenState> {
        lock(&self.shared.state)
    }

    /// Returns the `Authorization` field for `at` for a URL of `requested`. Does not block.
    ///
    /// The two origins differ after a redirect. Then no credential is sent unless
    /// [`Credentials::may_follow`] allows it.
    #[must_use]
    pub fn authorization(&self, requested: &Origin, at: &Origin, now: SystemTime) -> Authorization {
        let now = seconds(now);
        let state = self.state();
        let generation = TokenGeneration(state.generation);
        if self.is_empty() || self.withheld(requested, at).is_some() {
            return Authorization::Nothing(generation);
        }
        if state.read.is_none() && !self.is_settled(requested) {
            return Authorization::NeedsRefresh(generation);
        }
        match self.chosen(&state, requested) {
            ChosenCredential::Basic(basic, _) => Authorization::Ready(basic.header(), generation),
            ChosenCredential::Token(cached) if self.is_due(&state, &cached, now) => {
                Authorization::NeedsRefresh(generation)
            }
            ChosenCredential::Token(cached) => {
                let value = zeroize::Zeroizing::new(format!("Bearer {}", cached.token.expose()));
                Authorization::Ready(Secret::new(value.as_str()), generation)
            }
            ChosenCredential::Nothing => Authorization::Nothing(generation),
        }
    }

    /// Reads the sources again, unless that has happened since the token of `generation`. Returns
    /// true if the token has changed. Blocks on files and a command: do not call it on threads that
    /// drive sockets.
    ///
    /// # Errors
    ///
    /// There is no usable token although one was given or named explicitly. While the old token is
    /// valid, it is kept, and there is no error.
    pub fn refresh(&self, generation: TokenGeneration, now: SystemTime) -> Result<bool> {
        let now = seconds(now);
        let shared = &self.shared;
        let _reading = lock(&shared.reading);
        {
            let state = self.state();
            if state.generation != generation.0 {
                return Ok(true);
            }
            let source = shared.config.token.as_ref();
            let again =
                state.read.is_some_and(|read| (read..read.saturating_add(PAUSE)).contains(&now));
            // After a rejection every request of a job calls this function; one run of the command
            // is sufficient for all of them.
            if state.read.is_some() && source.is_some_and(TokenSource::is_fixed)
                || again && source.is_some_and(TokenSource::is_command)
            {
                return Ok(false);
            }
        }
        let mut problems = Vec::new();
        let netrc = self.read_netrc(&mut problems);
        let found = match &shared.config.token {
            Some(source) => source.fetch(shared.config.uid, &mut problems),
            None => Ok(None),
        };
        let mut state = self.state();
        state.netrc = netrc;
        match found {
            Ok(found) => {
                state.read = Some(now);
                state.problems = problems;
                Ok(state.replace(found, now))
            }
            Err(error) => {
                problems.push(error.line());
                state.problems = problems;
                match &state.cached {
                    Some(cached) if !cached.expired(now) => {
                        state.read = Some(now);
                        Ok(false)
                    }
                    _ => Err(error),
                }
            }
        }
    }

    /// Returns a cache key for the user's identity towards `requested`: hexadecimal digits that
    /// reveal nothing, empty without credentials and without `fields`, which are sent with every
    /// request. Reads the sources if they have not been read: blocks like [`Credentials::refresh`].
    #[must_use]
    pub fn cache_partition(&self, requested: &Origin, fields: &[&str], now: SystemTime) -> String {
        let mut partition = CachePartition::default();
        if !fields.is_empty() {
            partition.add("fields", fields);
        }
        let generation = {
            let state = self.state();
            (state.read.is_none() && !self.is_empty()).then_some(TokenGeneration(state.generation))
        };
        let failed = generation.is_some_and(|generation| self.refresh(generation, now).is_err());
        match self.chosen(&self.state(), requested) {
            // A configured credential is missing: its cache must not be shared with users without
            // credentials.
            ChosenCredential::Nothing if failed => partition.add("unknown", &[]),
            ChosenCredential::Nothing => {}
            ChosenCredential::Basic(basic, _) => partition.add("basic", &[basic.user()]),
            ChosenCredential::Token(cached) => {
                let handed_in = matches!(self.config().token, Some(TokenSource::Value(_)));
                match cached.claims.as_ref().map(|claims| (&claims.issuer, &claims.subject)) {
                    Ok((Some(issuer), Some(subject))) if !handed_in => {
                        partition.add("token of", &[issuer, subject]);
                    }
                    _ => partition.add("token", &[cached.token.expose()]),
                }
            }
        }
        if requested.is_encrypted() {
            match self.load_certificate(now, &mut Vec::new()) {
                Ok(None) => {}
                Ok(Some(certificate)) => {
                    let summary = &certificate.summary;
                    partition.add("certificate", &[&summary.subject, &summary.issuer]);
                }
                Err(_) => partition.add("unknown certificate", &[]),
            }
        }
        partition.name()
    }

    /// Returns true if a certificate is configured.
    #[must_use]
    pub fn has_certificate(&self) -> bool {
        self.config().certificate.is_some()
    }

    /// Returns the certificate for `at`, if it requests one, for a URL of `requested`. Reads files.
    ///
    /// # Errors
    ///
    /// The explicitly named certificate or proxy cannot be used: it is not readable, other users
    /// can read it, it has expired, or its key is encrypted.
    pub fn client_certificate(
        &self,
        requested: &Origin,
        at: &Origin,
        now: SystemTime,
    ) -> Result<Option<ClientCertificate>> {
        if at.is_encrypted() && self.withheld(requested, at).is_none() {
            self.load_certificate(now, &mut Vec::new())
        } else {
            Ok(None)
        }
    }

    /// Returns the authorities for the verification of servers. Reads files.
    ///
    /// # Errors
    ///
    /// As [`crate::TrustConfig::load`].
    pub fn trust_anchors(&self) -> Result<TrustAnchors> {
        self.config().trust.load()
    }

    /// Returns true if `at` may get a credential for `requested`; never from TLS to plain text.
    #[must_use]
    pub fn may_follow(&self, requested: &Origin, at: &Origin) -> bool {
        requested == at || at.is_as_safe_as(requested) && self.config().lets_follow(at)
    }

    pub(crate) fn withheld(&self, requested: &Origin, at: &Origin) -> Option<WithholdReason> {
        if !self.may_follow(requested, at) {
            return Some(WithholdReason::Redirected);
        }
        let safe = at.is_encrypted() || at.is_loopback() || self.config().over_plain_http;
        (!safe).then_some(WithholdReason::Plain)
    }

    /// Returns the credential for URLs of `requested`, as far as the sources have been read, and
    /// the problems of the sources.
    pub(crate) fn chosen_for(&self, requested: &Origin) -> (ChosenCredential, Vec<String>) {
        let state = self.state();
        (self.chosen(&state, requested), state.problems.clone())
    }

    pub(crate) fn load_certificate(
        &self,
        now: SystemTime,
        problems: &mut Vec<String>,
    ) -> Result<Option<ClientCertificate>> {
        let config = self.config();
        match &config.certificate {
            Some(source) => source.load(config.uid, seconds(now), problems),
            None => Ok(None),
        }
    }

    fn chosen(&self, state: &TokenState, requested: &Origin) -> ChosenCredential {
        if let Some(basic) = self.basic_of_url(requested) {
            return ChosenCredential::Basic(basic.clone(), "the URL");
        }
        let config = self.config();
        let explicit = config.token.as_ref().is_some_and(TokenSource::is_explicit);
        let token = state.cached.as_ref();
        if let Some(cached) = token.filter(|_| explicit) {
            return ChosenCredential::Token(Arc::clone(cached));
        }
        if let Some(basic) = &config.basic {
            return ChosenCredential::Basic(basic.clone(), "the configuration");
        }
        if let Some(basic) = state.netrc.entry(requested.host()) {
            return ChosenCredential::Basic(basic.clone(), ".netrc");
        }
        token
            .map_or(ChosenCredential::Nothing, |cached| ChosenCredential::Token(Arc::clone(cached)))
    }

    fn basic_of_url(&self, requested: &Origin) -> Option<&Basic> {
        let (origin, basic) = self.of_url.as_deref()?;
        (origin == requested).then_some(basic)
    }

    /// Returns true if the credential for `requested` is known without reading a file.
    fn is_settled(&self, requested: &Origin) -> bool {
        let config = self.config();
        let explicit = config.token.as_ref().is_some_and(TokenSource::is_explicit);
        self.basic_of_url(requested).is_some() || !explicit && config.basic.is_some()
    }

    /// Returns true if no source for an `Authorization` field is configured.
    fn is_empty(&self) -> bool {
        let config = self.config();
        self.of_url.is_none()
            && config.token.is_none()
            && config.basic.is_none()
            && config.netrc.is_none()
    }

    fn is_due(&self, state: &TokenState, cached: &CachedToken, now: i64) -> bool {
        let fixed = self.config().token.as_ref().is_some_and(TokenSource::is_fixed);
        let rested =
            state.read.is_none_or(|read| !(read..read.saturating_add(PAUSE)).contains(&now));
        !fixed && rested && cached.due().is_some_and(|due| now >= due)
    }

    fn read_netrc(&self, problems: &mut Vec<String>) -> Netrc {
        let config = self.config();
        let Some(path) = &config.netrc else { return Netrc::default() };
        let guard = FileModeCheck { access: FileAccess::Private(config.uid), link: true };
        match private_file::read(".netrc", path, guard, netrc::MAX_BYTES) {
            Ok(content) => std::str::from_utf8(&content).map(Netrc::parse).unwrap_or_default(),
            Err(error) => {
                if path.exists() {
                    problems.push(error.line());
                }
                Netrc::default()
            }
        }
    }
}

impl TokenState {
    /// Stores the token from the source. Returns true if it differs from the previous one.
    fn replace(&mut self, found: Option<DiscoveredToken>, now: i64) -> bool {
        let same = match (&self.cached, &found) {
            (Some(cached), Some(found)) => cached.token == found.token,
            (None, None) => self.generation > 0,
            _ => false,
        };
        if !same {
            self.generation += 1;
            self.cached = found.map(|DiscoveredToken { token, place }| {
                let claims = Claims::decode(&token);
                Arc::new(CachedToken { token, place, claims, read: now })
            });
        }
        !same
    }
}

/// Locks a mutex. After a panic its value is still consistent: no change of it is partial.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seconds since 1970; negative for earlier times.
pub(crate) fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |s| -s),
    }
}

#[cfg(test)]
mod tests;
