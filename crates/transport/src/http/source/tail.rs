//! The tail of a file of unknown size.
//!
//! The first request for a file asks for its head and its tail at once, the tail by suffix
//! (`bytes=0-511,-8000`). Not every server supports that: some know no suffix, some send one range
//! at a time. The missing ranges are then requested in another way, as soon as a response has shown
//! which one works: by position, once any response (if necessary to a HEAD) has reported the size;
//! in two parallel requests, where one cannot hold both. Bytes that arrived are not requested
//! again.

use super::HttpSource;
use super::targets::HttpTarget;
use crate::authorization;
use crate::http::request;
use crate::layers::credential::RequestCredential;
use crate::layers::redirects::{Attempts, MAX_HTTP_REDIRECTS};
use crate::layers::target_memory::CurrentTarget;
use crate::pool::observation::{ExchangeOutcome, ExchangeResult, RangeBehavior};
use futures_util::future::join_all;
use hither_core::endpoint::RangeSupport;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use hither_core::{Part, PartSink, Plan, PlanConfig, Request, ResponseMeta, range};
use std::sync::{Arc, Mutex};

/// The maximum number of responses, without redirects. Until then each shows something new: no
/// suffix, one range only, no range, or a length that is halved until it works, which parallel
/// requests may delay.
const MAX_ROUNDS: usize = 32;

/// The progress of a request with a tail.
struct Tail {
    /// The missing ranges.
    left: Request,
    size: Option<u64>,
    answer: ResponseMeta,
    attempts: Attempts,
}

/// A sink that several requests share.
type SharedSink = Arc<Mutex<PartSink>>;

/// Reads what `request` asks for, including its tail.
pub(crate) async fn fetch(
    source: &HttpSource,
    request: Request,
    sink: PartSink,
) -> Result<ResponseMeta> {
    let sink: SharedSink = Arc::new(Mutex::new(sink));
    let size = request.size;
    let mut attempts = Attempts::new(source.location(), MAX_HTTP_REDIRECTS);
    attempts.count()?;
    let mut tail = Tail { left: request, size, answer: ResponseMeta::default(), attempts };
    for _ in 0..MAX_ROUNDS + MAX_HTTP_REDIRECTS {
        let (current, _asking) = source.targets.next().await?;
        let target = &current.target;
        tail.locate();
        let requests = match tail.next(source, target) {
            requests if !requests.is_empty() => requests,
            _ if tail.left.tail == 0 => return Ok(ResponseMeta { size: tail.size, ..tail.answer }),
            _ => {
                let meta = head(target).await?;
                let name = target.location.to_string();
                tail.left.version.bind(&name, meta.size, meta.validator.as_deref())?;
                tail.note_answer(&meta);
                continue;
            }
        };
        let result = join_all(requests.iter().map(|request| async {
            let mut sink = to(&sink);
            source.exchange(target, request, &mut sink).await
        }));
        for (request, result) in requests.iter().zip(result.await) {
            tail.note(source, &current, request, result)?;
        }
    }
    Err(Error::new(
        ErrorKind::Protocol,
        format!(
            "{}: the end of the file cannot be read: neither a suffix range nor a range by position worked",
            source.location()
        ),
    ))
}

/// Sends a HEAD request, where no other response reports the size.
async fn head(target: &HttpTarget) -> Result<ResponseMeta> {
    let HttpTarget { location, pool, .. } = target;
    let ask = async || {
        let mut connection = pool.acquire().await?;
        let (meta, _) = request::head(&mut connection, location, pool).await?;
        connection.give_back();
        Ok(meta)
    };
    let mut credential = RequestCredential::default();
    credential.prepare(location, pool.config()).await?;
    let mut answer = ask().await;
    let is_rejected = answer.as_ref().is_err_and(authorization::is_refused);
    if is_rejected && credential.renew(location, pool.config()).await {
        answer = ask().await;
    }
    let meta = answer?;
    if meta.size.is_none() {
        return Err(Error::new(
            ErrorKind::Protocol,
            format!("{location}: the server does not report the size of the file"),
        ));
    }
    Ok(meta)
}

/// A sink for one of several requests.
fn to(sink: &SharedSink) -> PartSink {
    let sink = Arc::clone(sink);
    Box::new(move |part: Part| {
        let mut sink = lock(&sink);
        sink(part);
    })
}

impl Tail {
    /// Turns the tail into a range, once the size is known.
    fn locate(&mut self) {
        let Some(size) = self.size else { return };
        if self.left.tail > 0 {
            self.left.ranges.push(size.saturating_sub(self.left.tail)..size);
            self.left.tail = 0;
        }
        for range in &mut self.left.ranges {
            range.end = range.end.min(size);
        }
        self.left.ranges = range::merged(&self.left.ranges, 0);
    }

    /// The next requests, which can be sent in parallel. Empty if nothing is missing, or if the
    /// size is needed first.
    fn next(&self, source: &HttpSource, target: &HttpTarget) -> Vec<Request> {
        let server = target.pool.server();
        let limits = source.limits_at(target);
        let Request { ranges, tail, .. } = &self.left;
        // No range is sent, and the length of the response shows where the tail begins.
        let whole = server.ranges() == RangeSupport::Whole || source.has_whole_file();
        // A suffix cannot be split: one that is longer than the server sends at a time needs the
        // size first.
        let by_suffix = *tail > 0 && server.takes_suffix() && *tail <= limits.max_total_bytes;
        let together = range::total_bytes(ranges).saturating_add(*tail) <= limits.max_total_bytes;
        if *tail > 0 && (whole || by_suffix && together && ranges.len() < limits.max_ranges) {
            return vec![self.left.clone()];
        }
        let plan = Plan::new(ranges, &limits, &PlanConfig::default());
        let part = |ranges, tail| Request { ranges, tail, ..self.left.clone() };
        let mut requests: Vec<_> =
            plan.requests.into_iter().map(|ranges| part(ranges, 0)).collect();
        if by_suffix {
            requests.push(part(Vec::new(), *tail));
        }
        requests
    }

    fn note(
        &mut self,
        source: &HttpSource,
        current: &CurrentTarget<HttpTarget>,
        request: &Request,
        result: ExchangeResult,
    ) -> Result<()> {
        let CurrentTarget { target: HttpTarget { location: from, .. }, turn, .. } = current;
        self.size = result.size.or(self.size);
        let was_too_much = matches!(result.finding, Some(RangeBehavior::TooMany));
        let done = match result.outcome {
            Ok(ExchangeOutcome::Complete(answer)) => {
                self.note_answer(&answer);
                source.targets.arrived();
                true
            }
            Ok(ExchangeOutcome::Redirect(to)) => {
                self.attempts.count()?;
                source.targets.follow(*turn, to);
                false
            }
            // The capabilities of the server were updated: there is another way.
            Err(error) if was_too_much || error.kind() == ErrorKind::TooLarge => false,
            Err(error) => return Err(source.targets.fall_back(*turn, from, error)),
        };
        let got = if done { &request.ranges } else { &result.delivered };
        self.left.ranges = range::difference(&range::merged(&self.left.ranges, 0), got);
        if done && request.tail > 0 {
            self.left.tail = 0;
        }
        Ok(())
    }

    fn note_answer(&mut self, answer: &ResponseMeta) {
        if answer.size.is_some() {
            self.size = answer.size;
            self.answer.is_size_counted = answer.is_size_counted;
        }
        self.answer.unasked_bytes += answer.unasked_bytes;
        if answer.validator.is_some() {
            self.answer.validator.clone_from(&answer.validator);
        }
    }
}
