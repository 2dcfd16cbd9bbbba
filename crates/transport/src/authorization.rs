//! What goes with a request so that the server lets it pass, and why one did not.
//!
//! Every [`Location`] knows the origin of the URL that the user gave, also behind redirects: it is that one for which
//! credentials were meant. What to send is decided in `hither-auth`; here it is put into requests, renewed on a thread
//! that may wait, and asked what to say when a server refuses.
//!
//! A request that is refused with 401 is sent once more if another credential can be had: a token may have been renewed
//! or revoked since it was read. Nothing of a refused request was delivered, so nothing is lost or delivered twice.

use crate::config::TransportConfig;
use crate::location::Location;
use hither_auth::{Action, AuthError, Authorization, RejectedRequest, Secret, TokenGeneration};
use hither_core::error::{Error, ErrorKind, Result};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use std::time::SystemTime;
use tracing::debug;

/// What may go with requests to `location`.
pub(crate) fn authorization(location: &Location, config: &TransportConfig) -> Authorization {
    let credentials = location.credentials(&config.credentials);
    credentials.authorization(
        location.original_origin(),
        &location.current_origin(),
        SystemTime::now(),
    )
}

/// The value of the field `Authorization`, if there is something to send.
pub(crate) fn header(location: &Location, config: &TransportConfig) -> Option<HeaderValue> {
    let Authorization::Ready(value, _) = authorization(location, config) else { return None };
    let mut value = HeaderValue::from_str(value.expose()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The token for `location`, bare, if that is what there is to send.
///
/// # Errors
///
/// As [`prepared`].
pub(crate) async fn token(location: &Location, config: &TransportConfig) -> Result<Option<Secret>> {
    let Authorization::Ready(value, _) = prepared(location, config).await? else { return Ok(None) };
    Ok(value.expose().strip_prefix("Bearer ").map(Secret::new))
}

/// Reads what has to be read before a request can be made, and returns what will be sent with it.
///
/// # Errors
///
/// [`ErrorKind::Unauthenticated`] if a credential was given or named and cannot be had.
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

/// After a request with `used` was refused: whether another credential is at hand now.
pub(crate) async fn renewed(
    location: &Location,
    config: &TransportConfig,
    used: &Authorization,
) -> bool {
    // What cannot be had now is explained with the refusal.
    let _failed = refresh(location, config, used.generation()).await;
    let renewed = match (authorization(location, config), used) {
        (Authorization::Ready(now, _), Authorization::Ready(before, _)) => now != *before,
        (Authorization::Ready(..), _) => true,
        _ => false,
    };
    debug!(url = %location, renewed, "credential rejected, read again");
    renewed
}

/// Whether a server refused a request for want of a credential.
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

/// The error for 401 and 403, with the likely reason; none for other statuses.
pub(crate) fn refusal(
    location: &Location,
    config: &TransportConfig,
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Error> {
    let kind = match status {
        StatusCode::UNAUTHORIZED => ErrorKind::Unauthenticated,
        StatusCode::FORBIDDEN => ErrorKind::PermissionDenied,
        _ => return None,
    };
    let challenge = headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    let why = explained(location, config, action(method), status.as_u16(), challenge);
    let reason = status.canonical_reason().unwrap_or_default();
    let code = status.as_u16();
    Some(Error::new(
        kind,
        format!("{location}: the server responded with {code} ({reason}): {why}"),
    ))
}

/// The likely reason of a refusal that means what `status` does in HTTP.
pub(crate) fn explained(
    location: &Location,
    config: &TransportConfig,
    action: Action,
    status: u16,
    challenge: Option<&str>,
) -> String {
    let asked = location.original_origin();
    let at = &location.current_origin();
    let refusal = RejectedRequest { asked, at, action, path: location.path(), status, challenge };
    location.credentials(&config.credentials).explain_rejection(&refusal, SystemTime::now())
}

/// What a method wants to do, in the words of tokens.
fn action(method: &Method) -> Action {
    match method.as_str() {
        "GET" | "HEAD" | "OPTIONS" => Action::Read,
        "PROPFIND" => Action::List,
        "MKCOL" | "PUT" | "POST" => Action::Create,
        _ => Action::Modify,
    }
}
