//! Credentials in requests, their renewal, and the explanation of a rejected request.
//!
//! Every [`Location`] knows the origin of the URL that the user gave, also behind redirects: the
//! credentials were meant for that origin. `hither-auth` decides what to send. This module adds it
//! to requests, reads it again on a thread that may block, and asks `hither-auth` for an
//! explanation when a server rejects a request. [`credential`](crate::layers::credential) decides
//! when it is renewed.

use crate::config::TransportConfig;
use crate::http::server_reason::{self, is_reason, quoted_reason};
use crate::location::Location;
use hither_auth::{Action, AuthError, Authorization, RejectedRequest, Secret, TokenGeneration};
use hither_core::error::{Error, ErrorKind, Result};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use std::time::SystemTime;
use tracing::debug;

/// The credential for requests to `location`.
pub(crate) fn authorization(location: &Location, config: &TransportConfig) -> Authorization {
    let credentials = location.credentials(&config.credentials);
    let found = credentials.authorization(
        location.original_origin(),
        &location.current_origin(),
        SystemTime::now(),
    );
    match found {
        // A password would be disclosed to servers that the user does not know.
        Authorization::Ready(value, generation)
            if location.is_in_federation() && !value.expose().starts_with("Bearer ") =>
        {
            Authorization::Nothing(generation)
        }
        found => found,
    }
}

/// The value of the `Authorization` field, if there is a credential to send.
pub(crate) fn header(location: &Location, config: &TransportConfig) -> Option<HeaderValue> {
    let Authorization::Ready(value, _) = authorization(location, config) else { return None };
    let mut value = HeaderValue::from_str(value.expose()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The bare token for `location`, if the credential is a token.
///
/// # Errors
///
/// As [`prepared`].
pub(crate) async fn token(location: &Location, config: &TransportConfig) -> Result<Option<Secret>> {
    let Authorization::Ready(value, _) = prepared(location, config).await? else { return Ok(None) };
    Ok(value.expose().strip_prefix("Bearer ").map(Secret::new))
}

/// Reads the credential that a request to `location` needs, and returns it.
///
/// # Errors
///
/// [`ErrorKind::Unauthenticated`] if a credential was configured and cannot be read.
pub(crate) async fn prepared(
    location: &Location,
    config: &TransportConfig,
) -> Result<Authorization> {
    match authorization(location, config) {
        Authorization::NeedsRefresh(serial) => {
            refresh(location, config, serial).await?;
            Ok(authorization(location, config))
        }
        known => Ok(known),
    }
}

/// Reads the credential again after a request with `used` was rejected. Returns whether it is
/// another one.
pub(crate) async fn renewed(
    location: &Location,
    config: &TransportConfig,
    used: &Authorization,
) -> bool {
    // An error here is explained together with the rejection.
    let _failed = refresh(location, config, used.generation()).await;
    let renewed = match (authorization(location, config), used) {
        (Authorization::Ready(now, _), Authorization::Ready(before, _)) => now != *before,
        (Authorization::Ready(..), _) => true,
        _ => false,
    };
    debug!(url = %location, renewed, "credential rejected, read again");
    renewed
}

/// Returns whether a server rejected a request because of its credential.
pub(crate) fn is_refused(error: &Error) -> bool {
    error.kind() == ErrorKind::Unauthenticated
}

async fn refresh(
    location: &Location,
    config: &TransportConfig,
    serial: TokenGeneration,
) -> Result<()> {
    let credentials = location.credentials(&config.credentials);
    let refresh = move || credentials.refresh(serial, SystemTime::now());
    match tokio::task::spawn_blocking(refresh).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(unusable(location, error)),
        Err(error) => Err(Error::new(ErrorKind::Cancelled, "reading a credential was cancelled")
            .with_source(error)),
    }
}

/// The error for a credential that cannot be used.
pub(crate) fn unusable(location: &Location, error: AuthError) -> Error {
    let what = format!("{location}: its credential cannot be used");
    Error::new(ErrorKind::Unauthenticated, what).with_source(error)
}

/// The error for 401 and 403, with the likely reason; `None` for other statuses.
pub(crate) fn refusal(
    location: &Location,
    config: &TransportConfig,
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<Error> {
    let kind = match status {
        StatusCode::UNAUTHORIZED => ErrorKind::Unauthenticated,
        StatusCode::FORBIDDEN => ErrorKind::PermissionDenied,
        _ => return None,
    };
    let challenge = headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    let fields = config.fields.fields().values();
    let given = location.fields(&config.credentials).into_iter().flat_map(HeaderMap::values);
    let secrets = server_reason::secret_texts(fields.chain(given), location);
    let blanked = challenge.and_then(|text| server_reason::without(text, secrets));
    let quoted = quoted_reason(headers, body);
    // Servers of hither state the same in both.
    let is_quoted = is_reason(&quoted);
    let challenge = blanked.as_deref().or(challenge).filter(|_| !is_quoted);
    let is_explained = is_quoted || challenge.is_some_and(|it| it.contains("error_description="));
    let refusal = RefusalFacts { action: action(method), challenge, is_explained };
    let why = explained(location, config, status.as_u16(), refusal);
    let why = if why.is_empty() { why } else { format!(": {why}") };
    let reason = status.canonical_reason().unwrap_or_default();
    let code = status.as_u16();
    let advice = location.token_advice();
    Some(Error::new(
        kind,
        format!("{location}: the server responded with {code} ({reason}){quoted}{why}{advice}"),
    ))
}

/// The facts of a refusal besides its status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusalFacts<'a> {
    pub(crate) action: Action,
    /// The field `WWW-Authenticate`.
    pub(crate) challenge: Option<&'a str>,
    /// The server has stated its reason.
    pub(crate) is_explained: bool,
}

/// The likely reason why a server rejected a request with an error that corresponds to the HTTP
/// status `status`.
pub(crate) fn explained(
    location: &Location,
    config: &TransportConfig,
    status: u16,
    refusal: RefusalFacts<'_>,
) -> String {
    let RefusalFacts { action, challenge, is_explained } = refusal;
    let requested = location.original_origin();
    let at = &location.current_origin();
    let path = location.path();
    let refusal = RejectedRequest { requested, at, action, path, status, challenge, is_explained };
    location.credentials(&config.credentials).explain_rejection(&refusal, SystemTime::now())
}

/// The permission that a method needs, in the terms of tokens.
fn action(method: &Method) -> Action {
    match method.as_str() {
        "GET" | "HEAD" | "OPTIONS" => Action::Read,
        "PROPFIND" => Action::List,
        "MKCOL" | "PUT" | "POST" => Action::Create,
        _ => Action::Modify,
    }
}
