//! The field `X-OC-Mtime` of ownCloud: the time of the last change of a file that a client uploads,
//! in seconds since 1970, here also with fractions. `X-OC-Mtime: accepted` in the response says
//! that the file has it.

use crate::http_error::HttpError;
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use hither_http::date::LAST_SECOND;
use http::{HeaderName, StatusCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const X_OC_MTIME: HeaderName = HeaderName::from_static("x-oc-mtime");

/// The time that the client states; none if it states none.
pub(crate) fn client_mtime(request: &ServerRequest) -> Result<Option<SystemTime>, HttpError> {
    let Some(field) = request.headers.get(X_OC_MTIME) else { return Ok(None) };
    match field.to_str().ok().and_then(parse) {
        Some(time) => Ok(Some(time)),
        None => {
            let what = "X-OC-Mtime must be a number of seconds since 1970, at most 253402300799";
            Err(HttpError::new(StatusCode::BAD_REQUEST, what))
        }
    }
}

/// Says in a response that the file has the time that the client stated.
pub(crate) fn accepted(answer: ServerResponse) -> ServerResponse {
    answer.with(X_OC_MTIME, "accepted")
}

fn parse(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) {
        return None;
    }
    let seconds = seconds.parse().ok().filter(|seconds| *seconds <= LAST_SECOND)?;
    let nanos = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_with_or_without_fractions() {
        for (text, seconds, nanos) in [
            ("0", 0, 0),
            ("1700000000", 1_700_000_000, 0),
            (" 1700000000.5 ", 1_700_000_000, 500_000_000),
            ("1.000000001", 1, 1),
            ("1.0000000019", 1, 1),
            ("253402300799", LAST_SECOND, 0),
        ] {
            let time = UNIX_EPOCH + Duration::new(seconds, nanos);
            assert_eq!(parse(text), Some(time), "{text}");
        }
        for wrong in ["", "-1", "1.", ".5", "1e9", "0x10", "253402300800", "99999999999999999999"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
