//! The rule for everything in a request that may be a secret.
//!
//! Secrets are tokens, passwords, client certificates, fields that the user adds, signatures of
//! object stores, fields that a server passes on to another one, and tokens in the query of a URL.
//! All of them are meant for the origin of the URL that the user gave. They go to another origin
//! only where the configuration allows that, and never from TLS to clear text
//! ([`Location::may_receive_credentials`]). It does not matter what led to the other origin: a
//! redirect, a Metalink document of a server or on this machine, `Link` fields, or a director.
//!
//! A request that can do without its secret goes on without it: the fields of [`request::builder`],
//! the words of [`without_tokens`]. A field that belongs to the request itself is marked as
//! sensitive where it is made; a redirect of such a request to an origin that may not get it is an
//! error ([`check_redirect`]).
//!
//! [`request::builder`]: crate::http::request::builder

use super::{Asked, Location, literal, without_secrets};
use hither_auth::{Credentials, Origin};
use hither_core::error::{Error, ErrorKind, Result};
use http::HeaderMap;
use std::sync::Arc;
use url::Url;

/// Words of a query that are tokens: of WLCG and SciTokens (`authz`, `access_token`).
const TOKEN_WORDS: [&str; 2] = ["authz", "access_token"];

impl Location {
    /// Parses a URL of a document on this machine. Who wrote the document is not known, so its URLs
    /// are those of nobody: credentials go to their servers only where they may follow redirects. A
    /// user and password in it are ignored.
    ///
    /// # Errors
    ///
    /// As [`Location::parse`]; [`ErrorKind::Unsupported`] for a federation, whose servers get
    /// tokens.
    pub fn of_document(text: &str) -> Result<Self> {
        let url = Url::parse(&literal(text)).map_err(|error| {
            let text = without_secrets(text);
            Error::new(ErrorKind::Invalid, format!("{text:?} is not a URL: {error}"))
        })?;
        Self::from_url(url, Some(Arc::new(Asked::new(Origin::document()))))
    }

    /// The origin of the URL that the user gave.
    #[must_use]
    pub(crate) fn original_origin(&self) -> &Origin {
        &self.asked.origin
    }

    /// The origin of the URL that the user gave, for messages and as a key.
    #[must_use]
    pub fn named_by(&self) -> String {
        self.asked.origin.to_string()
    }

    /// Returns true if a redirect or a document led here from a URL of another origin.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        self.asked.origin != self.current_origin()
    }

    /// Returns whether credentials for the original origin may be sent here.
    #[must_use]
    pub(crate) fn may_receive_credentials(&self, credentials: &Credentials) -> bool {
        credentials.may_follow(self.original_origin(), &self.current_origin())
    }

    /// `credentials`, with the user and password of the URL, if there are any.
    #[must_use]
    pub(crate) fn credentials(&self, credentials: &Credentials) -> Credentials {
        if self.asked.signed {
            return Credentials::default();
        }
        match &self.asked.basic {
            Some(basic) => credentials.for_url(self.asked.origin.clone(), basic.clone()),
            None => credentials.clone(),
        }
    }

    /// The same URL, to which no token or password is sent: requests are signed by other means, or
    /// concern nobody in particular.
    #[must_use]
    pub(crate) fn without_credentials(self) -> Self {
        Self { asked: Arc::new(Asked { signed: true, ..Asked::clone(&self.asked) }), ..self }
    }

    /// The same URL, with fields that every HTTP request has in place of the default ones: to its
    /// server, and to those to which credentials may follow a redirect.
    #[must_use]
    pub fn with_fields(self, mut fields: HeaderMap) -> Self {
        // They may be secrets.
        fields.values_mut().for_each(|value| value.set_sensitive(true));
        Self { asked: Arc::new(Asked { fields, ..Asked::clone(&self.asked) }), ..self }
    }

    /// These fields, if they may be sent here.
    #[must_use]
    pub(crate) fn fields(&self, credentials: &Credentials) -> Option<&HeaderMap> {
        let fields = Some(&self.asked.fields).filter(|fields| !fields.is_empty())?;
        self.may_receive_credentials(credentials).then_some(fields)
    }

    /// Returns true if the URL has a query, which may be a token.
    pub(crate) fn has_query(&self) -> bool {
        self.url.query().is_some()
    }
}

/// Fails if a request with `fields`, redirected from `from` to `to`, has one that is not meant for
/// the server there.
///
/// # Errors
///
/// [`ErrorKind::PermissionDenied`].
pub(crate) fn check_redirect(
    fields: &HeaderMap,
    from: &Location,
    to: &Location,
    credentials: &Credentials,
) -> Result<()> {
    if to.may_receive_credentials(credentials) || !fields.values().any(|it| it.is_sensitive()) {
        return Ok(());
    }
    let what = format!(
        "{from}: the server redirects to {}, which may not get the credentials of this request: \
         if that is right, use the URL or the endpoint of that server",
        to.origin()
    );
    Err(Error::new(ErrorKind::PermissionDenied, what))
}

/// A query without the words that are tokens.
pub(crate) fn without_tokens(query: &str) -> String {
    let is_token = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        TOKEN_WORDS.iter().any(|token| name.eq_ignore_ascii_case(token))
    };
    query.split('&').filter(|word| !is_token(word)).collect::<Vec<_>>().join("&")
}
