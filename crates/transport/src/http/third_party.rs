//! Third-party copy over HTTP (WLCG): two servers move a file between them.
//!
//! A `COPY` goes to one of the two, the active one: to the target, which fetches the file (a pull),
//! or to the source, which sends it (a push). The token for the other one goes along in
//! `TransferHeaderAuthorization`, but only over TLS, or where the other server gets it without TLS
//! as well. The response arrives in lines while the copy lasts: markers, which state its progress,
//! and at last the outcome. A response that ends without one is a failure, whatever its status.
//!
//! Dropping the call closes the connection, which makes the active server stop the copy.

use crate::authorization;
use crate::http::call::{BodyWatcher, HttpRequest};
use crate::http::server_reason::{self, quoted};
use crate::http::{request, status_error};
use crate::location::Location;
use crate::network::Network;
use crate::network::third_party::{MAX_STALL, ThirdPartyCopy, ThirdPartyMode};
use hither_auth::Authorization;
use hither_core::error::{Delivery, Effect, Error, ErrorKind, Failure, Result, Retry};
use hither_core::sync::lock;
use http::{HeaderValue, Method, StatusCode};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The longest line that is parsed; the rest of a longer one is dropped.
const MAX_LINE: usize = 4096;
/// The largest number of stripes whose bytes are counted.
const MAX_STRIPES: usize = 1024;
/// The shortest pause before a copy that a busy server has refused is requested again.
const MIN_REFUSAL_PAUSE: Duration = Duration::from_secs(1);
/// The pause where the server asks for a longer one than the longest pause before a retry.
const MAX_REFUSAL_PAUSE: Duration = Duration::from_secs(60);
/// The time without a marker after which a copy fails: servers send one at least every 30 s.
const SILENCE: Duration = Duration::from_secs(180);

impl Network {
    /// Starts a third-party copy of a file and waits for it. Calls `moved` with the bytes moved so
    /// far.
    ///
    /// # Errors
    ///
    /// As [`Network::call`]; [`ErrorKind::Unsupported`] if the active server does no such copies;
    /// otherwise the failure that it states.
    pub(crate) async fn http_third_party_copy(
        &self,
        copy: &ThirdPartyCopy,
        moved: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<()> {
        let (active, other, field) = match copy.mode {
            ThirdPartyMode::Pull => (&copy.target, &copy.source, "source"),
            ThirdPartyMode::Push => (&copy.source, &copy.target, "destination"),
        };
        let report = Arc::new(Mutex::new(MarkerReader::default()));
        let into = Arc::clone(&report);
        let watcher = BodyWatcher::new(SILENCE, MAX_STALL, move |bytes| {
            let mut reader = lock(&into);
            if reader.take(bytes) {
                moved(reader.moved());
            }
            reader.is_further()
        });
        let method = Method::from_bytes(b"COPY").unwrap_or_default();
        let mut call = HttpRequest::new(method, active.clone())
            .with("overwrite", if copy.overwrite { "T" } else { "F" })
            .with("credential", "none")
            .with("x-no-delegate", "true")
            .with("requirechecksumverification", "false");
        // Its query may be a token.
        call.headers.insert(field, secret_value(other, &other.absolute())?);
        if let Some(token) = self.passed_on(active, other).await? {
            call.headers.insert("transferheaderauthorization", token);
        }
        call.watcher = Some(watcher);
        let sent = call.headers.clone();
        // It lowers the number of copies at a time.
        call.is_paced = true;
        let reply = self.call(call).await.map_err(|error| match lock(&report).furthest {
            bytes if error.kind() == ErrorKind::Timeout => {
                error.context(format!("the third-party copy stopped after {bytes} bytes"))
            }
            _ => error,
        })?;
        // RFC 4918 section 9.8.5: the destination is on a server to which this one does not copy.
        let is_refused =
            copy.mode == ThirdPartyMode::Push && reply.status == StatusCode::BAD_GATEWAY;
        match reply.status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::ACCEPTED => {}
            status if is_refused || status_error::lacks_method(status) => {
                let what = format!("{active}: the server does no third-party copies");
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            StatusCode::PRECONDITION_FAILED if !copy.overwrite => {
                let what = format!("{} exists already", copy.target);
                return Err(Error::new(ErrorKind::AlreadyExists, what));
            }
            // A copy waits for others to end, which takes a second at least, and no other server
            // can do it. The retry policy attempts it again after this pause (`Retry::Later`).
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                let error = status_error::of_response(&reply, "COPY");
                let after = match error.retry() {
                    Retry::Busy { after } => after.max(MIN_REFUSAL_PAUSE),
                    _ => MAX_REFUSAL_PAUSE,
                };
                return Err(error.with_failure(Failure::Staging { after }));
            }
            _ => return Err(status_error::of_response(&reply, "COPY")),
        }
        let mut reader = lock(&report);
        reader.take(b"\n");
        match reader.outcome.take() {
            Some(Outcome::Success) => Ok(()),
            Some(Outcome::Failure(why)) => {
                let secrets = request::secrets(active, &sent, &self.pool(active));
                Err(failure(active, &server_reason::without(&why, secrets).unwrap_or(why)))
            }
            None => {
                let what = format!(
                    "{active}: the report of the third-party copy ended without its outcome"
                );
                Err(Error::new(ErrorKind::Unavailable, what)
                    .with_failure(Failure::Interrupted(Delivery::Sent))
                    .of_request(Effect::Change, "COPY"))
            }
        }
    }

    /// The credential for `other` as the active server passes it on.
    async fn passed_on(&self, active: &Location, other: &Location) -> Result<Option<HeaderValue>> {
        let pool = self.pool(other);
        let ready = match authorization::prepared(other, pool.config()).await? {
            Authorization::Ready(value, _) => Some(value),
            _ => None,
        };
        let has_secret = ready.is_some() || other.has_query();
        if has_secret && other.is_tls() && !active.is_tls() {
            let what = format!(
                "{active}: the token for {} would pass over a connection without TLS: use https://",
                other.origin()
            );
            return Err(Error::new(ErrorKind::PermissionDenied, what));
        }
        ready.map(|value| secret_value(other, value.expose())).transpose()
    }
}

/// A field that is meant for the active server of a copy from or to `other`.
fn secret_value(other: &Location, text: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        let what = format!("the credential for {} is not valid in a header", other.origin());
        Error::new(ErrorKind::Unauthenticated, what)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The error for the failure that a server states in its report.
fn failure(active: &Location, why: &str) -> Error {
    let lower = why.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let kind = if says(&["checksum"]) {
        ErrorKind::Corrupt
    } else if says(&["does not exist", "404", "no such file"]) {
        ErrorKind::NotFound
    } else if says(&["no space", "507"]) {
        ErrorKind::NoSpace
    } else {
        ErrorKind::Unavailable
    };
    Error::new(kind, format!("{active}: the third-party copy failed{}", quoted(why)))
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure(String),
}

/// Reads the report of a copy, line by line.
#[derive(Debug, Default)]
struct MarkerReader {
    line: Vec<u8>,
    stripe: u64,
    /// Bytes by stripe.
    stripes: BTreeMap<u64, u64>,
    /// The most bytes that were moved so far.
    furthest: u64,
    outcome: Option<Outcome>,
}

impl MarkerReader {
    /// Takes the next bytes. Returns true if a marker ended in them.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let mut marked = false;
        for byte in bytes {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    marked |= self.end_line(String::from_utf8_lossy(&line).trim());
                }
                _ if self.line.len() < MAX_LINE => self.line.push(*byte),
                _ => {}
            }
        }
        marked
    }

    fn end_line(&mut self, line: &str) -> bool {
        let lower = line.to_ascii_lowercase();
        if lower.starts_with("success") {
            // A failure is final.
            self.outcome.get_or_insert(Outcome::Success);
        } else if ["failure", "failed", "aborted"].iter().any(|word| lower.starts_with(word)) {
            self.outcome = Some(Outcome::Failure(reason(line)));
        } else if let Some((name, value)) = lower.split_once(':') {
            let number = value.trim().parse().ok();
            match (name.trim(), number) {
                ("stripe index", Some(stripe)) => self.stripe = stripe,
                ("stripe bytes transferred", Some(bytes))
                    if self.stripes.len() < MAX_STRIPES
                        || self.stripes.contains_key(&self.stripe) =>
                {
                    self.stripes.insert(self.stripe, bytes);
                }
                _ => {}
            }
        }
        lower == "end"
    }

    /// Returns true if more bytes have been moved than ever before. A server that counts the same
    /// bytes again and again makes no progress.
    fn is_further(&mut self) -> bool {
        let before = self.furthest;
        self.furthest = before.max(self.moved());
        self.furthest > before
    }

    fn moved(&self) -> u64 {
        self.stripes.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// The words after the first.
fn reason(line: &str) -> String {
    line.split_once([':', ' ']).map_or(line, |(_, rest)| rest).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> (u64, Option<Outcome>, usize) {
        let mut reader = MarkerReader::default();
        let marks = pieces.iter().filter(|piece| reader.take(piece.as_bytes())).count();
        (reader.moved(), reader.outcome.take(), marks)
    }

    #[test]
    fn markers_of_all_stripes_are_added_and_the_last_line_is_the_outcome() {
        let marker = |stripe: u64, bytes: u64| {
            format!(
                "Perf Marker\n    Timestamp: 1\n    Stripe Index: {stripe}\n    \
                 Stripe Bytes Transferred: {bytes}\n    Total Stripe Count: 2\nEnd\n"
            )
        };
        let text = marker(0, 5) + &marker(1, 70) + &marker(0, 6) + "success: Created\n";
        let (head, tail) = text.split_at(150);
        assert_eq!(read(&[head, tail]), (76, Some(Outcome::Success), 2));
    }

    #[test]
    fn only_more_bytes_than_ever_before_are_progress() {
        let mut reader = MarkerReader::default();
        let progress = [0, 5, 5, 3, 5, 6].map(|bytes| {
            reader.take(format!("Stripe Bytes Transferred: {bytes}\nEnd\n").as_bytes());
            reader.is_further()
        });
        assert_eq!(progress, [false, true, false, false, false, true]);
    }

    #[test]
    fn failures_are_quoted_and_nothing_is_kept_without_bound() {
        for (text, why) in [
            ("failure: no\u{7} space\n", "no\u{7} space"),
            ("failed to open\n", "to open"),
            ("aborted: client\n", "client"),
            ("failure: once\nsuccess: Created\n", "once"),
        ] {
            assert_eq!(read(&[text]).1, Some(Outcome::Failure(why.to_owned())), "{text:?}");
        }
        let mut reader = MarkerReader::default();
        for n in 0..3 * MAX_STRIPES {
            reader.take(format!("Stripe Index: {n}\nStripe Bytes Transferred: 1\n").as_bytes());
        }
        reader.take(&vec![b'x'; 3 * MAX_LINE]);
        assert_eq!((reader.stripes.len(), reader.line.len()), (MAX_STRIPES, MAX_LINE));
        assert_eq!(read(&["Perf Marker\nEnd\n"]), (0, None, 1));
    }
}
