//! Where something is by the last redirect, and what to say there.

use crate::access;
use crate::location::{Location, Protocol};
use crate::network::Network;
use crate::xrootd::Sessions;
use hither_auth::Action;
use hither_core::error::{Error, ErrorKind, Result, Retry};
use hither_xrd::wire::{Redirect, RedirectTarget};
use std::sync::Arc;

/// Redirects followed for one request: what the protocol's own client does.
pub(super) const MOST_REDIRECTS: usize = 16;

/// A name on a server.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) location: Location,
    pub(super) sessions: Arc<Sessions>,
}

impl Place {
    /// Where the user said.
    pub(super) fn new(location: Location, network: &Network) -> Self {
        let sessions = network.sessions(&location, "");
        Self { location, sessions }
    }

    /// Where a server sent to.
    pub(super) fn redirected(&self, redirect: &Redirect, network: &Network) -> Result<Self> {
        let from = &self.location;
        let location = match &redirect.target {
            RedirectTarget::Server { host, port } => {
                from.moved(host, *port, redirect.opaque.as_deref())?
            }
            RedirectTarget::Url(text) => from.moved_to(text)?,
        };
        if location.protocol() != Protocol::Xrootd {
            let what =
                format!("{from}: the server redirects to {location}, which is no XRootD server");
            return Err(Error::new(ErrorKind::Unsupported, what).with_retry(Retry::OtherServer));
        }
        let words = redirect.login.as_deref().unwrap_or_default();
        let sessions = network.sessions(&location, words);
        Ok(Self { location, sessions })
    }

    /// The path as it goes into a request, with what stands behind `?`: what the URL has there, a token if there is one, and
    /// the servers that were `tried` in vain. Reads credentials.
    pub(super) async fn path(&self, network: &Network, tried: &[String]) -> Result<String> {
        let token = access::token(&self.location, network.config()).await?;
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

    /// The server has refused who we are with this error: whether there is another credential now.
    pub(super) async fn renewed(&self, network: &Network, error: &Error) -> bool {
        if !matches!(error.kind(), ErrorKind::Unauthenticated | ErrorKind::PermissionDenied) {
            return false;
        }
        match access::prepared(&self.location, network.config()).await {
            Ok(used) => access::renewed(&self.location, network.config(), &used).await,
            Err(_) => false,
        }
    }

    /// The error, which says which credential was used if the server refused `action` for it.
    pub(super) fn explained(&self, network: &Network, action: Action, error: Error) -> Error {
        let status = match error.kind() {
            ErrorKind::Unauthenticated => 401,
            ErrorKind::PermissionDenied => 403,
            _ => return error,
        };
        let why = access::explained(&self.location, network.config(), action, status, None);
        Error::new(error.kind(), format!("{error}: {why}")).with_retry(error.retry())
    }
}

/// The error for a chain of redirects from `first` that has no end.
pub(super) fn in_a_circle(first: &Location) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("{first}: more than {MOST_REDIRECTS} redirects, probably in a circle"),
    )
}
