//! A request whose head was read: method, path, header, and the body that follows.

use crate::authorization::authorizer::{AccessRequest, Action};
use crate::backend::path::NamespacePath;
use crate::connection::incoming_body::IncomingBody;
use crate::connection::peer::Peer;
use crate::http_error::HttpError;
use http::header::{self, HeaderMap};
use http::uri::Authority;
use http::{Method, StatusCode};

/// A request of a client.
#[derive(Debug)]
pub(crate) struct ServerRequest {
    pub(crate) method: Method,
    pub(crate) path: NamespacePath,
    /// The query string of the target.
    pub(crate) query: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: IncomingBody,
    pub(crate) peer: Peer,
    /// The host that the client addressed, with the port if it named one.
    pub(crate) host: Option<Authority>,
}

impl ServerRequest {
    /// The text of a header field, if it exists and is text.
    pub(crate) fn text(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
    }

    /// The access that the authorizer decides about: `action` on `path`, by this client.
    pub(crate) fn access<'a>(
        &'a self,
        path: &'a NamespacePath,
        action: Action,
    ) -> AccessRequest<'a> {
        AccessRequest {
            action,
            path: path.path(),
            headers: &self.headers,
            peer: self.peer.address,
            is_secure: self.peer.is_secure,
            certificate: self.peer.certificate.as_ref(),
        }
    }

    /// The field `Overwrite` (RFC 4918 section 10.6): true unless it says `F`.
    pub(crate) fn overwrites(&self) -> Result<bool, HttpError> {
        match self.text("overwrite") {
            None => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("t") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("f") => Ok(false),
            Some(_) => Err(HttpError::new(StatusCode::BAD_REQUEST, "overwrite is neither T nor F")),
        }
    }
}
