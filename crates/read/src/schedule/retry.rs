//! End of a request: completion, or a retry of its rest.

use super::{Ended, FetchEvent, Reader};
use futures_core::future::BoxFuture;
use hither_core::error::retry::{self, Backoff, RetryPolicy};
use hither_core::error::{Error, ErrorKind, Result, Retry};
use hither_core::plan::{Plan, PlanConfig};
use hither_core::source::Request;
use hither_core::{Limits, range};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Wanted bytes in a failed response that count as progress, however many were requested.
const MIN_PROGRESS_BYTES: u64 = 4096;

/// The failures of a reader's requests.
#[derive(Default)]
pub(super) struct ReaderBackoff {
    backoff: Backoff,
    /// The pause after a failure, in which nothing is sent.
    pub(super) pause: Option<BoxFuture<'static, ()>>,
}

impl fmt::Debug for ReaderBackoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReaderBackoff").field("backoff", &self.backoff).finish_non_exhaustive()
    }
}

impl Reader<'_> {
    /// Settles a request that has ended: it is complete, or its rest is planned again.
    pub(super) fn conclude(&mut self, id: u64, ended: Ended) -> Option<FetchEvent> {
        let urgent = self.urgent_ids.remove(&id);
        let in_flight = self.requests.remove(&id)?;
        let result = ended?;
        let (request, received) = in_flight.finish();
        let missing = range::difference(&request.ranges, &received);
        let error = match result {
            Ok(response) => {
                self.response.unasked_bytes += response.unasked_bytes;
                self.response.size = response.size.or(self.response.size);
                if response.validator.is_some() {
                    self.response.validator.clone_from(&response.validator);
                }
                // With a tail, the size of the file was not known when its head was requested.
                if missing.is_empty() || request.tail > 0 {
                    self.failures.backoff = Backoff::default();
                    self.plan_again();
                    return Some(FetchEvent::Response(response));
                }
                self.incomplete(&missing)
            }
            Err(error) => error,
        };
        match self.again(request, &missing, error, urgent) {
            Ok(()) => None,
            Err(error) => {
                let bytes = range::total_bytes(&missing);
                self.unreleased_bytes = self.unreleased_bytes.saturating_sub(bytes);
                Some(FetchEvent::Failed { error, ranges: missing })
            }
        }
    }

    /// The error of a server that ended its response without having delivered everything.
    fn incomplete(&self, missing: &[Range<u64>]) -> Error {
        let bytes = range::total_bytes(missing);
        let end = missing.last().map_or(0, |range| range.end);
        match self.response.size.filter(|&size| end > size) {
            Some(size) => Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{}: bytes up to {end} are wanted, but the file has only {size}: it is truncated",
                    self.source.name()
                ),
            ),
            None => Error::new(
                ErrorKind::Protocol,
                format!("{}: the response lacks {bytes} requested bytes", self.source.name()),
            ),
        }
    }

    /// Plans the queued requests again if the source's limits have changed since.
    fn plan_again(&mut self) {
        let limits = self.source.limits();
        if self.planned_with.replace(limits).is_none_or(|before| before == limits) {
            return;
        }
        let config = self.plan_config(PlanConfig::for_connections(self.connections));
        let queue = std::mem::take(&mut self.queue);
        self.queue = self.planned_again(queue, &limits, &config);
        let urgent = std::mem::take(&mut self.urgent);
        self.urgent = self.planned_again(urgent, &limits, &config);
    }

    fn planned_again(
        &self,
        queue: VecDeque<Request>,
        limits: &Limits,
        config: &PlanConfig,
    ) -> VecDeque<Request> {
        let (mut tails, plain): (VecDeque<_>, VecDeque<_>) =
            queue.into_iter().partition(|request| request.tail > 0);
        let ranges: Vec<_> = plain.into_iter().flat_map(|request| request.ranges).collect();
        tails.extend(self.requests_of(Plan::new(&ranges, limits, config)));
        tails
    }

    pub(super) fn requests_of(&self, plan: Plan) -> Vec<Request> {
        plan.requests.into_iter().map(|ranges| self.request(ranges)).collect()
    }

    pub(super) fn request(&self, ranges: Vec<Range<u64>>) -> Request {
        let validator = self.validator.clone();
        let version = self.version.clone();
        Request { ranges, validator, version, ..Request::default() }
    }

    fn queue_of(&mut self, urgent: bool) -> &mut VecDeque<Request> {
        if urgent { &mut self.urgent } else { &mut self.queue }
    }

    /// A plan for the missing ranges of a request together with the next one in the queue: where
    /// every response is cut short, sending the missing ranges alone would double the number of
    /// requests.
    fn topped_up(&mut self, missing: &[Range<u64>], alone: Plan, urgent: bool) -> Plan {
        let one = matches!(alone.requests.as_slice(), [_]);
        let queue = self.queue_of(urgent);
        let Some(next) = queue.pop_front_if(|next| one && next.tail == 0) else {
            return alone;
        };
        let both = [missing, &next.ranges].concat();
        Plan::new(&both, &self.source.limits(), &self.plan_config(PlanConfig::default()))
    }

    /// The policy for a request that has failed. A failure of the server affects all connections
    /// together.
    fn policy(&self) -> RetryPolicy {
        let requests = self.running.len() + self.queue.len() + self.urgent.len() + 1;
        let failing = u32::try_from(requests).unwrap_or(u32::MAX).min(self.connections_in_use());
        let attempts = self.config.retry.attempts.saturating_mul(failing);
        let mut policy = self.config.retry;
        policy.attempts = attempts;
        policy
    }

    fn again(
        &mut self,
        request: Request,
        missing: &[Range<u64>],
        error: Error,
        urgent: bool,
    ) -> Result<()> {
        let requested = range::total_bytes(&request.ranges).saturating_add(request.tail);
        let config = self.plan_config(PlanConfig::default());
        let plan = Plan::new(missing, &self.source.limits(), &config);
        // The source has learned from it to request less at a time.
        let smaller = plan.requests.len() > 1;
        let got = range::total_bytes(&request.ranges).saturating_sub(range::total_bytes(missing));
        let splittable = request.ranges.len() > 1 || request.tail > 0 && !request.ranges.is_empty();
        let retry = match (error.kind(), error.retry()) {
            (ErrorKind::TooLarge, _) if splittable || smaller || got > 0 => Retry::AtOnce,
            (ErrorKind::TooLarge, _) => Retry::Never,
            (_, retry) => retry,
        };
        // Unwanted bytes are not progress, nor are a few of many: else requests to a server that
        // sends no more per connection would never end. A request with a tail is sent again as a
        // whole.
        let useful = request.tail == 0 && got > 0 && got >= MIN_PROGRESS_BYTES.min(requested / 16);
        let pause = match retry {
            // It is another request.
            Retry::AtOnce | Retry::SameServer { after: Duration::ZERO }
                if smaller && request.tail == 0 && !useful =>
            {
                Some(Duration::ZERO)
            }
            retry => {
                let policy = self.policy();
                self.failures.backoff.next(&policy, retry, useful, self.source.clock())
            }
        };
        self.plan_again();
        let Some(pause) = pause else { return Err(error) };
        retry::note(&error, retry, pause);
        if !pause.is_zero() {
            self.failures.pause = Some(self.source.clock().sleep(pause));
        }
        self.retries += 1;
        self.unreleased_bytes = self.unreleased_bytes.saturating_sub(requested);
        if request.tail > 0 {
            self.queue_of(urgent).push_front(request);
            return Ok(());
        }
        // The parts that arrived stay charged until the consumer releases them.
        self.unreleased_bytes += requested.saturating_sub(range::total_bytes(missing));
        let plan = self.topped_up(missing, plan, urgent);
        for ranges in plan.requests.into_iter().rev() {
            let rest = Request { ranges, tail: 0, ..request.clone() };
            self.queue_of(urgent).push_front(rest);
        }
        Ok(())
    }
}
