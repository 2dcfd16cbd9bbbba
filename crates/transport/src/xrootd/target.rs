//! The target of a request after redirects: URL, sessions, and path with credentials.

use crate::authorization::{self, RefusalFacts};
use crate::layers::credential::RequestCredential;
use crate::location::{Location, Protocol};
use crate::network::Network;
use crate::xrootd::SessionPool;
use crate::xrootd::errors;
use hither_auth::Action;
use hither_core::error::{Error, ErrorKind, Failure, Result};
use hither_xrd::wire::{Redirect, RedirectTarget};
use std::sync::Arc;
use tracing::debug;

/// A URL on an XRootD server.
///
/// A server of `root://` may require TLS, and says so at the first connection. From then on its
/// URLs count as `roots://`: this is faster than to start TLS in the middle of a login, and secrets
/// that may be sent over TLS only may be sent now. A server that it redirects to is addressed as if
/// redirected without TLS, and decides for itself.
#[derive(Debug, Clone)]
pub(super) struct XrootdTarget {
    /// The URL that the user or a server gave.
    pub(super) named: Location,
    /// The same URL, over TLS if the server requires it.
    pub(super) location: Location,
    pub(super) sessions: Arc<SessionPool>,
    /// The login words of a redirect.
    words: String,
}

impl XrootdTarget {
    /// The target at the URL of the user.
    pub(super) fn new(named: Location, network: &Network) -> Self {
        Self::at(named, String::new(), network)
    }

    fn at(named: Location, words: String, network: &Network) -> Self {
        let mut location = named.clone();
        let mut sessions = network.sessions(&location, &words);
        if !named.is_tls() && sessions.wants_tls() {
            location = named.over_tls();
            sessions = network.sessions(&location, &words);
        }
        Self { named, location, sessions, words }
    }

    /// The same target, after its server has shown whether it requires TLS.
    pub(super) fn again(&self, network: &Network) -> Self {
        Self::at(self.named.clone(), self.words.clone(), network)
    }

    /// The same target without TLS, if TLS was used because the server required it, and the server
    /// no longer supports TLS.
    pub(super) fn without_tls(&self, error: &Error, network: &Network) -> Option<Self> {
        if self.named.is_tls() || !self.location.is_tls() || !errors::lacks_tls(error) {
            return None;
        }
        network.sessions(&self.named, &self.words).has_no_tls();
        Some(self.again(network))
    }

    /// The target of the remembered redirect for the directory.
    pub(super) fn likely(&self, network: &Network) -> Option<Self> {
        let path = self.location.plain_path();
        let to = self.sessions.redirects().to(&path).map(|(host, port)| (host.to_owned(), port));
        let (host, port) = to?;
        let named =
            self.named.redirected_to_host(&host, port, None, &network.config().credentials).ok()?;
        Some(Self::at(named, String::new(), network))
    }

    /// The target of a redirect.
    pub(super) fn redirected(&self, redirect: &Redirect, network: &Network) -> Result<Self> {
        let from = &self.named;
        let location = match &redirect.target {
            RedirectTarget::Server { host, port } => from.redirected_to_host(
                host,
                *port,
                redirect.opaque.as_deref(),
                &network.config().credentials,
            )?,
            RedirectTarget::Url(text) => from.redirected_to_url(text)?,
        };
        if location.protocol() != Protocol::Xrootd {
            let what =
                format!("{from}: the server redirects to {location}, which is not a root:// URL");
            return Err(Error::new(ErrorKind::Unsupported, what).with_failure(Failure::OneServer));
        }
        debug!(%from, to = %location, "redirected");
        Ok(Self::at(location, redirect.login.clone().unwrap_or_default(), network))
    }

    /// The path for a request, with its opaque information: that of the URL, a token if there is
    /// one, and the servers that were `tried` and failed. Reads credentials.
    pub(super) async fn path(&self, network: &Network, tried: &[String]) -> Result<String> {
        let token = authorization::token(&self.location, network.config()).await?;
        let given = self.location.opaque();
        let has_own = given.as_ref().is_some_and(|given| given.contains("authz="));
        let mut words = Vec::new();
        words.extend(
            token.filter(|_| !has_own).map(|token| format!("authz=Bearer%20{}", token.expose())),
        );
        words.extend(given);
        if !tried.is_empty() {
            words.push(format!("tried={}", tried.join(",")));
        }
        let path = self.location.plain_path();
        Ok(if words.is_empty() { path } else { format!("{path}?{}", words.join("&")) })
    }

    /// Reads the credential again, once per request, if this error says that the server rejected
    /// it. Returns whether another one is available.
    pub(super) async fn renew(
        &self,
        network: &Network,
        error: &Error,
        credential: &mut RequestCredential,
    ) -> bool {
        let location = &self.location;
        let config = network.config();
        match error.kind() {
            ErrorKind::Unauthenticated | ErrorKind::PermissionDenied => {}
            _ => return false,
        }
        credential.prepare(location, config).await.is_ok()
            && credential.renew(location, config).await
    }

    /// The error, with the used credential, if the server rejected `action` because of it.
    pub(super) fn explained(&self, network: &Network, action: Action, error: Error) -> Error {
        let status = match error.kind() {
            ErrorKind::Unauthenticated => 401,
            ErrorKind::PermissionDenied => 403,
            _ => return error,
        };
        let refusal = RefusalFacts { action, challenge: None, is_explained: false };
        let why = authorization::explained(&self.location, network.config(), status, refusal);
        error.map_message(|message| format!("{message}: {why}"))
    }
}

/// The path with these parameters.
pub(super) fn with_words(path: String, words: &str) -> String {
    match words {
        "" => path,
        _ => format!("{path}{}{words}", if path.contains('?') { '&' } else { '?' }),
    }
}
