//! The end of a file whose size is not known.
//!
//! The first request for a file asks for its head and its tail at once, the tail by suffix (`bytes=0-511,-8000`). Not
//! every server takes that: some know no suffix, some send one range at a time. Then what is missing is asked for in
//! another way, as soon as an answer has shown which: by position, once any answer has told the size, that to a HEAD if
//! need be; in two requests side by side where one cannot hold both. What arrived is not asked for again.

use crate::authorization;
use crate::http::request;
use crate::http::source::{HttpSource, HttpTarget};
use crate::pool::observation::{ExchangeOutcome, ExchangeResult};
use crate::redirect::{Attempts, MAX_HTTP_REDIRECTS};
use futures_util::future::join_all;
use hither_core::endpoint::RangeSupport;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use hither_core::{Part, PartSink, Plan, PlanConfig, Request, ResponseMeta, range};
use std::sync::{Arc, Mutex};

/// Answers after which nothing new can have been learned: no suffix, one range only, no range, and a length that is halved until
/// it is answered, which others that ask at the same time may hold up; redirects not counted.
const MAX_ROUNDS: usize = 32;

/// A request with a tail, as far as it has come.
struct Tail {
    /// What is missing.
    left: Request,
    size: Option<u64>,
    answer: ResponseMeta,
    attempts: Attempts,
}

/// Takes parts from several requests.
type SharedSink = Arc<Mutex<PartSink>>;

/// Reads what `request` asks for, its tail included.
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
        let place = source.place();
        source.wait_retry_after(&place).await;
        tail.place();
        let requests = match tail.next(source, &place) {
            requests if !requests.is_empty() => requests,
            _ if tail.left.tail == 0 => return Ok(ResponseMeta { size: tail.size, ..tail.answer }),
            _ => {
                tail.note_answer(&head(&place).await?);
                continue;
            }
        };
        let settled = join_all(requests.iter().map(|request| async {
            let mut sink = to(&sink);
            source.exchange(&place, request, &mut sink).await
        }));
        for (request, settled) in requests.iter().zip(settled.await) {
            tail.note(source, &place, request, settled)?;
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

/// The size, where no answer but that to a HEAD would tell it.
async fn head(place: &HttpTarget) -> Result<ResponseMeta> {
    let HttpTarget { location, pool, .. } = place;
    let used = authorization::prepared(location, pool.config()).await?;
    let ask = async || {
        let mut connection = pool.acquire().await?;
        let told = request::head(&mut connection, location, pool).await?;
        connection.give_back();
        Ok(told)
    };
    let told = match ask().await {
        Err(error) if authorization::is_refused(&error) => {
            if authorization::renewed(location, pool.config(), &used).await {
                ask().await?
            } else {
                return Err(error);
            }
        }
        result => result?,
    };
    if told.size.is_none() {
        return Err(Error::new(
            ErrorKind::Protocol,
            format!("{location}: the server does not report the size of the file"),
        ));
    }
    Ok(told)
}

/// A sink of its own for one of several requests.
fn to(sink: &SharedSink) -> PartSink {
    let sink = Arc::clone(sink);
    Box::new(move |part: Part| {
        let mut sink = lock(&sink);
        sink(part);
    })
}

impl Tail {
    /// Once the size is known, the tail is a range like others.
    fn place(&mut self) {
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

    /// What to ask for next, in requests that can be sent together; none if nothing is left, or nothing can be asked for
    /// without the size.
    fn next(&self, source: &HttpSource, place: &HttpTarget) -> Vec<Request> {
        let server = place.pool.server();
        let limits = source.limits_at(place);
        let Request { ranges, tail, .. } = &self.left;
        // No range is sent at all, and the length of the answer tells where the tail begins.
        let whole = server.ranges() == RangeSupport::Whole || source.has_whole_file();
        // A suffix cannot be cut: one that is more than the server sends at a time is placed first, by the size.
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
        place: &HttpTarget,
        request: &Request,
        settled: ExchangeResult,
    ) -> Result<()> {
        self.size = settled.size.or(self.size);
        let done = match settled.outcome {
            Ok(ExchangeOutcome::Complete(answer)) => {
                self.note_answer(&answer);
                source.arrived();
                true
            }
            Ok(ExchangeOutcome::Redirect(reference)) => {
                self.attempts.count()?;
                source.follow(&place.location, &reference)?;
                false
            }
            // The record of the server has changed by it: there is another way.
            Err(error) if error.kind() == ErrorKind::TooLarge => false,
            Err(error) => return Err(source.turn_back(&place.location, error)),
        };
        let got = if done { &request.ranges } else { &settled.delivered };
        self.left.ranges = range::difference(&range::merged(&self.left.ranges, 0), got);
        if done && request.tail > 0 {
            self.left.tail = 0;
        }
        Ok(())
    }

    fn note_answer(&mut self, answer: &ResponseMeta) {
        self.size = answer.size.or(self.size);
        self.answer.unasked_bytes += answer.unasked_bytes;
        if answer.validator.is_some() {
            self.answer.validator.clone_from(&answer.validator);
        }
    }
}
