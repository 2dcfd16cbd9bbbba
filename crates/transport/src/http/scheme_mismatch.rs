//! What servers put into the body of a 400 when a request came over the wrong kind of connection.
//!
//! The status alone would be taken for too many ranges, and the same mistake made again with fewer. nginx, Apache, Go's
//! server (Caddy and many others) and lighttpd each have a sentence of their own.

use crate::pool::Pool;
use hither_core::error::Error;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

/// The sentences are at the beginning.
const MAX_BYTES: usize = 4 * 1024;

/// A 400 that is not about the request, put into words. The third clock runs over all of its body.
pub(crate) async fn explained(body: Incoming, pool: &Pool) -> Option<Error> {
    let explains = pool.explains();
    let patience = pool.config().no_progress_timeout;
    let reading = Limited::new(body, MAX_BYTES).collect();
    let text = tokio::time::timeout(patience, reading).await.ok()?.ok()?.to_bytes();
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
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
