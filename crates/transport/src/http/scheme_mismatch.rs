//! Detection of responses to HTTP on a TLS port.
//!
//! A server responds with 400 there. The status alone would look like too many ranges, and the same
//! mistake would be repeated with fewer. nginx, Apache, Go's server (Caddy and many others) and
//! lighttpd each have their own sentence in the body.

use crate::pool::Pool;
use hither_core::error::Error;
use http::StatusCode;

/// Explains a 400 that is not about the request, from its body.
pub(crate) fn explained(status: StatusCode, body: &[u8], pool: &Pool) -> Option<Error> {
    if status != StatusCode::BAD_REQUEST {
        return None;
    }
    let explains = pool.explains();
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    let says = |sentences: &[&str]| sentences.iter().any(|sentence| text.contains(sentence));
    if says(&[
        "plain http request was sent to https port",
        "speaking plain http to an ssl-enabled server port",
        "sent an http request to an https server",
    ]) {
        return Some(explains.plain());
    }
    if says(&["no required ssl certificate was sent"]) {
        return Some(explains.no_certificate());
    }
    says(&["the ssl certificate error"]).then(|| explains.bad_certificate("it is not valid there"))
}
