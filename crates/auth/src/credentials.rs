//! What to send where, renewed in time.
//!
//! One [`Credentials`] belongs to one client; nothing is shared between two of them, so identities in one process do not
//! mix. For each origin that a user named, one credential is chosen, the most deliberate first: name and password in the
//! URL; a token that somebody gave or named; a name and password; an entry of `.netrc`; a token that lay in a default
//! place. Servers after a redirect get the same credential or none, never another one.
//!
//! **Renewal.** Answering what to send is done on threads that must not wait, so it never reads a file. If a token has
//! not been read yet, or should be read again, the answer is [`Authorization::NeedsRefresh`], and the caller calls
//! [`Credentials::refresh`] on a thread that may wait. A token is read again when half of the time that it had left when
//! it was read has passed, at the latest 60 s before its end; and once more after the server has refused it, as it may
//! have been revoked or the clocks differ. A source that then still has the old one is asked again after 5 s. A renewal
//! that fails is an error only once the old token has expired: the file may just be being written.
//!
//! Many requests notice at the same time. Each answer carries a [`TokenGeneration`], the number of the token; a refresh of a token
//! that is no longer the current one returns at once. So one command runs, however many requests wait for it.

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
use crate::private_file::{self, FileModeCheck};
use crate::secret::Secret;
use crate::token::claims::{Claims, MalformedJwt};
use crate::token::source::{DiscoveredToken, TokenSource};
use crate::x509::client_certificate::ClientCertificate;
use crate::x509::trust_anchors::TrustAnchors;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// A token is renewed this long before its end, in seconds, if it lives that long.
const MARGIN: i64 = 60;
/// A source that had nothing better is left alone for so many seconds.
const PAUSE: i64 = 5;

/// The number of a token, to tell whether it is still the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenGeneration(u64);

/// What to put into the `Authorization` field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    /// This value.
    Ready(Secret, TokenGeneration),
    /// No such field.
    Nothing(TokenGeneration),
    /// First call [`Credentials::refresh`], then ask again.
    NeedsRefresh(TokenGeneration),
}

impl Authorization {
    /// The number of the token that was looked at.
    #[must_use]
    pub fn serial(&self) -> TokenGeneration {
        match self {
            Self::Ready(_, serial) | Self::Nothing(serial) | Self::NeedsRefresh(serial) => *serial,
        }
    }
}

/// Why a credential stays at home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithholdReason {
    /// A redirect led to a host that is not allowed to get it.
    Redirected,
    /// Everybody on the way could read it.
    Plain,
}

/// The credential chosen for an origin.
#[derive(Debug, Clone)]
pub(crate) enum ChosenCredential {
    Basic(Basic, &'static str),
    Token(Arc<CachedToken>),
    Nothing,
}

/// A token that was read.
#[derive(Debug)]
pub(crate) struct CachedToken {
    pub(crate) token: Secret,
    pub(crate) place: String,
    pub(crate) claims: Result<Claims, MalformedJwt>,
    /// When it was first read.
    read: i64,
}

impl CachedToken {
    /// The second from which it should be read again.
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

/// The credentials of a client. Clones are the same credentials.
#[derive(Debug, Clone)]
pub struct Credentials {
    shared: Arc<Shared>,
    /// Name and password that stood in a URL, and the origin of that URL.
    of_url: Option<Arc<(Origin, Basic)>>,
}

#[derive(Debug)]
struct Shared {
    config: CredentialConfig,
    state: Mutex<State>,
    /// Held while files are read or a command runs.
    reading: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    serial: u64,
    held: Option<Arc<CachedToken>>,
    netrc: Netrc,
    /// When the sources were last read.
    read: Option<i64>,
    /// What was wrong with them then, for the explanation of a refusal.
    problems: Vec<String>,
}

impl Default for Credentials {
    fn default() -> Self {
        Self::new(CredentialConfig::default())
    }
}

impl Credentials {
    /// Credentials as configured. Nothing is read yet.
    #[must_use]
    pub fn new(config: CredentialConfig) -> Self {
        let shared = Shared { config, state: Mutex::default(), reading: Mutex::default() };
        Self { shared: Arc::new(shared), of_url: None }
    }

    /// The same credentials for a URL of `origin` in which a user name and a password stand.
    #[must_use]
    pub fn for_url(&self, origin: Origin, basic: Basic) -> Self {
        let of_url = Some(Arc::new((origin, basic)));
        Self { shared: Arc::clone(&self.shared), of_url }
    }

    pub(crate) fn config(&self) -> &CredentialConfig {
        &self.shared.config
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to send to `at` for a URL of `asked`. Does not wait.
    ///
    /// The two differ after a redirect; then there is nothing to send unless [`Credentials::may_follow`].
    #[must_use]
    pub fn authorization(&self, asked: &Origin, at: &Origin, now: SystemTime) -> Authorization {
        let now = seconds(now);
        let state = self.state();
        let serial = TokenGeneration(state.serial);
        if self.is_empty() || self.withheld(asked, at).is_some() {
            return Authorization::Nothing(serial);
        }
        if state.read.is_none() && !self.is_settled(asked) {
            return Authorization::NeedsRefresh(serial);
        }
        match self.chosen(&state, asked) {
            ChosenCredential::Basic(basic, _) => Authorization::Ready(basic.header(), serial),
            ChosenCredential::Token(held) if self.is_due(&state, &held, now) => {
                Authorization::NeedsRefresh(serial)
            }
            ChosenCredential::Token(held) => {
                let value = zeroize::Zeroizing::new(format!("Bearer {}", held.token.expose()));
                Authorization::Ready(Secret::new(value.as_str()), serial)
            }
            ChosenCredential::Nothing => Authorization::Nothing(serial),
        }
    }

    /// Reads the sources again, unless somebody has since the token of `serial`. Returns whether the token is now another
    /// one. May wait for files and a command: not for threads that drive sockets.
    ///
    /// # Errors
    ///
    /// Why there is no usable token although one was given or named. A token that is still valid is kept instead.
    pub fn refresh(&self, serial: TokenGeneration, now: SystemTime) -> Result<bool> {
        let now = seconds(now);
        let shared = &self.shared;
        let _reading = shared.reading.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let state = self.state();
            if state.serial != serial.0 {
                return Ok(true);
            }
            let source = shared.config.token.as_ref();
            let again =
                state.read.is_some_and(|read| (read..read.saturating_add(PAUSE)).contains(&now));
            // After a refusal, every request of a job comes here; one process for all of them is enough.
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
                match &state.held {
                    Some(held) if !held.expired(now) => {
                        state.read = Some(now);
                        Ok(false)
                    }
                    _ => Err(error),
                }
            }
        }
    }

    /// Who we are to `asked`, as a name for caches: hexadecimal digits that reveal nothing, and the empty text for
    /// nobody. Reads the sources if they have not been read: may wait, as [`Credentials::refresh`].
    #[must_use]
    pub fn cache_partition(&self, asked: &Origin, now: SystemTime) -> String {
        let mut identity = CachePartition::default();
        let serial = {
            let state = self.state();
            (state.read.is_none() && !self.is_empty()).then_some(TokenGeneration(state.serial))
        };
        let failed = serial.is_some_and(|serial| self.refresh(serial, now).is_err());
        match self.chosen(&self.state(), asked) {
            // It is wanted and not there: whatever is read, it is not shared with those who go without.
            ChosenCredential::Nothing if failed => identity.add("unknown", &[]),
            ChosenCredential::Nothing => {}
            ChosenCredential::Basic(basic, _) => identity.add("basic", &[basic.user()]),
            ChosenCredential::Token(held) => {
                let handed_in = matches!(self.config().token, Some(TokenSource::Value(_)));
                match held.claims.as_ref().map(|claims| (&claims.issuer, &claims.subject)) {
                    Ok((Some(issuer), Some(subject))) if !handed_in => {
                        identity.add("token of", &[issuer, subject]);
                    }
                    _ => identity.add("token", &[held.token.expose()]),
                }
            }
        }
        if asked.is_encrypted() {
            match self.load_certificate(now, &mut Vec::new()) {
                Ok(None) => {}
                Ok(Some(certificate)) => {
                    let summary = &certificate.summary;
                    identity.add("certificate", &[&summary.subject, &summary.issuer]);
                }
                Err(_) => identity.add("unknown certificate", &[]),
            }
        }
        identity.name()
    }

    /// Whether there may be a certificate.
    #[must_use]
    pub fn has_certificate(&self) -> bool {
        self.config().certificate.is_some()
    }

    /// The certificate to show to `at`, if it asks, for a URL of `asked`. Reads files.
    ///
    /// # Errors
    ///
    /// Why the certificate or proxy that somebody named cannot be used: not readable, readable by others, expired, or
    /// with an encrypted key.
    pub fn client_certificate(
        &self,
        asked: &Origin,
        at: &Origin,
        now: SystemTime,
    ) -> Result<Option<ClientCertificate>> {
        match at.is_encrypted() && self.withheld(asked, at).is_none() {
            true => self.load_certificate(now, &mut Vec::new()),
            false => Ok(None),
        }
    }

    /// Whom to trust as a server. Reads files.
    ///
    /// # Errors
    ///
    /// As [`crate::TrustConfig::load`].
    pub fn trust_anchors(&self) -> Result<TrustAnchors> {
        self.config().trust.load()
    }

    /// Whether what is meant for `asked` may be shown to `at`, where a redirect leads.
    #[must_use]
    pub fn may_follow(&self, asked: &Origin, at: &Origin) -> bool {
        asked == at || self.config().follow.iter().any(|pattern| pattern.matches(at))
    }

    pub(crate) fn withheld(&self, asked: &Origin, at: &Origin) -> Option<WithholdReason> {
        if !self.may_follow(asked, at) {
            return Some(WithholdReason::Redirected);
        }
        let safe = at.is_encrypted() || at.is_loopback() || self.config().over_plain_http;
        (!safe).then_some(WithholdReason::Plain)
    }

    /// The credential for URLs of `asked`, as far as the sources have been read, and what was wrong with them.
    pub(crate) fn chosen_for(&self, asked: &Origin) -> (ChosenCredential, Vec<String>) {
        let state = self.state();
        (self.chosen(&state, asked), state.problems.clone())
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

    fn chosen(&self, state: &State, asked: &Origin) -> ChosenCredential {
        if let Some(basic) = self.basic_of_url(asked) {
            return ChosenCredential::Basic(basic.clone(), "the URL");
        }
        let config = self.config();
        let explicit = config.token.as_ref().is_some_and(TokenSource::is_explicit);
        let token = state.held.as_ref();
        if let Some(held) = token.filter(|_| explicit) {
            return ChosenCredential::Token(Arc::clone(held));
        }
        if let Some(basic) = &config.basic {
            return ChosenCredential::Basic(basic.clone(), "the configuration");
        }
        if let Some(basic) = state.netrc.entry(asked.host()) {
            return ChosenCredential::Basic(basic.clone(), ".netrc");
        }
        token.map_or(ChosenCredential::Nothing, |held| ChosenCredential::Token(Arc::clone(held)))
    }

    fn basic_of_url(&self, asked: &Origin) -> Option<&Basic> {
        let (origin, basic) = self.of_url.as_deref()?;
        (origin == asked).then_some(basic)
    }

    /// Whether no file has to be read to know what to send to `asked`.
    fn is_settled(&self, asked: &Origin) -> bool {
        let config = self.config();
        let explicit = config.token.as_ref().is_some_and(TokenSource::is_explicit);
        self.basic_of_url(asked).is_some() || !explicit && config.basic.is_some()
    }

    /// Whether there is nothing that could ever be sent in a header.
    fn is_empty(&self) -> bool {
        let config = self.config();
        self.of_url.is_none()
            && config.token.is_none()
            && config.basic.is_none()
            && config.netrc.is_none()
    }

    fn is_due(&self, state: &State, held: &CachedToken, now: i64) -> bool {
        let fixed = self.config().token.as_ref().is_some_and(TokenSource::is_fixed);
        let rested =
            state.read.is_none_or(|read| !(read..read.saturating_add(PAUSE)).contains(&now));
        !fixed && rested && held.due().is_some_and(|due| now >= due)
    }

    fn read_netrc(&self, problems: &mut Vec<String>) -> Netrc {
        let config = self.config();
        let Some(path) = &config.netrc else { return Netrc::default() };
        let guard = FileModeCheck { owner: Some(config.uid), link: true };
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

impl State {
    /// Takes what was found. Returns whether it is another token than before.
    fn replace(&mut self, found: Option<DiscoveredToken>, now: i64) -> bool {
        let same = match (&self.held, &found) {
            (Some(held), Some(found)) => held.token == found.token,
            (None, None) => self.serial > 0,
            _ => false,
        };
        if !same {
            self.serial += 1;
            self.held = found.map(|DiscoveredToken { token, place }| {
                let claims = Claims::decode(&token);
                Arc::new(CachedToken { token, place, claims, read: now })
            });
        }
        !same
    }
}

/// Seconds since 1970; before that, below zero.
pub(crate) fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |s| -s),
    }
}

#[cfg(test)]
mod tests;
