//! One request at one replica, and at a second one if the first is silent.

use super::dedup_sink::DedupSink;
use super::failure::{FailureScope, classify};
use super::replica::admission::{Admission, Senders};
use super::replica::{ActiveReplica, Running};
use super::selection::Candidates;
use super::{HEDGE_FLOOR_BYTES, Replicas};
use futures_core::future::BoxFuture;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hither_core::error::{Delivery, Error, ErrorKind, Failure, Result};
use hither_core::plan::{Plan, PlanConfig};
use hither_core::source::{PartSink, Request, ResponseMeta};
use hither_core::{Source, range};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Ratio of speeds from which on a faster replica gets a request for the bytes that a slower one
/// sends.
const MUCH_FASTER: f64 = 4.0;
/// Silence after which a request of a bulk job is aborted and its rest goes elsewhere, which costs
/// a connection but repeats no byte.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);

/// The error of a replica that sends nothing.
fn silent(replica: &ActiveReplica, silence: Duration) -> Error {
    let what = format!("{}: no bytes for {} s", replica.name(), silence.as_secs());
    Error::new(ErrorKind::Timeout, what).with_failure(Failure::Interrupted(Delivery::Sent))
}

impl Replicas {
    /// Sends a request to `first`, and to others while those are silent: the first to complete it
    /// wins. Adds all of them to `tried`; returns the errors of all of them.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) async fn attempt(
        &self,
        first: &Arc<ActiveReplica>,
        request: &Request,
        dedup: &DedupSink,
        tried: &mut Vec<Arc<ActiveReplica>>,
    ) -> std::result::Result<ResponseMeta, Vec<(Arc<ActiveReplica>, Error)>> {
        let mut running = FuturesUnordered::new();
        running.push(self.ask(first, dedup.rest(request), dedup));
        let mut errors = Vec::new();
        let mut before = dedup.received_bytes();
        let mut silence = Duration::ZERO;
        let mut is_silent = false;
        loop {
            let timeout = self.hedge_timeout(first);
            match select(running.next(), self.clock().sleep(timeout)).await {
                Either::Left((Some((replica, Ok(response))), _)) => {
                    if is_silent && !Arc::ptr_eq(&replica, first) {
                        // Later requests need not wait for it as long.
                        self.record_failure(first, &silent(first, silence));
                    }
                    return Ok(self.settle(&replica, response));
                }
                Either::Left((Some((replica, Err(error))), _)) => {
                    errors.push((replica, error));
                    if running.is_empty() || dedup.is_refuted() {
                        return Err(errors);
                    }
                    continue;
                }
                Either::Left((None, _)) => return Err(errors),
                Either::Right(_) => {}
            }
            let now = dedup.received_bytes();
            let speed = (now - before) as f64 / timeout.as_secs_f64().max(1e-6);
            before = now;
            silence = if speed > 0.0 { Duration::ZERO } else { silence + timeout };
            let rest = dedup.rest(request);
            let Some(other) = self.choose(tried, Candidates::OtherSites, rest.requested_bytes())
            else {
                continue;
            };
            let faster = other.speed().is_some_and(|other| other > MUCH_FASTER * speed);
            if rest.ranges.is_empty() && rest.tail == 0 {
                continue;
            }
            if silence >= GIVE_UP_AFTER && self.is_bulk() {
                let error = silent(first, silence);
                self.record_failure(first, &error);
                errors.push((Arc::clone(first), error));
                return Err(errors);
            }
            if (speed == 0.0 || faster) && self.may_hedge(&rest) {
                is_silent |= speed == 0.0;
                tried.push(Arc::clone(&other));
                running.push(self.ask(&other, rest, dedup));
            }
        }
    }

    /// Silence after which a request is hedged.
    fn hedge_timeout(&self, replica: &ActiveReplica) -> Duration {
        let latency = replica.source().link().latency().unwrap_or_default();
        self.config.hedge_after.max(latency * 8)
    }

    /// Returns true if `rest` may be requested twice, and charges it then.
    fn may_hedge(&self, rest: &Request) -> bool {
        let bytes = range::total_bytes(&rest.ranges).saturating_add(rest.tail);
        let mut state = self.state();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float cast saturates, which is what is meant"
        )]
        let allowed = HEDGE_FLOOR_BYTES
            .saturating_add((state.delivered_bytes as f64 * self.config.waste) as u64);
        let fits = state.hedged_bytes.saturating_add(bytes) <= allowed;
        if fits {
            state.hedged_bytes += bytes;
        }
        fits
    }

    /// One request at one replica, cut to its limits; records speed or failure of the replica.
    fn ask<'a>(
        &'a self,
        replica: &Arc<ActiveReplica>,
        request: Request,
        dedup: &DedupSink,
    ) -> BoxFuture<'a, (Arc<ActiveReplica>, Result<ResponseMeta>)> {
        let replica = Arc::clone(replica);
        let dedup = dedup.clone();
        Box::pin(async move {
            let running = Arc::new(replica.enter(request.requested_bytes()));
            let started = self.clock().now();
            let before = dedup.received_bytes();
            let result = match self.same_file(&replica).await {
                Ok(()) => self.ask_in_pieces(&replica, &running, request, &dedup).await,
                Err(error) => Err(error),
            };
            drop(running);
            let bytes = dedup.received_bytes().saturating_sub(before);
            self.state().delivered_bytes += bytes;
            match &result {
                Ok(_) => {
                    self.health.record_success(&replica.site());
                    replica.took(bytes, self.clock().now().saturating_sub(started));
                }
                Err(error) => self.record_failure(&replica, error),
            }
            (replica, result)
        })
    }

    async fn ask_in_pieces(
        &self,
        replica: &Arc<ActiveReplica>,
        running: &Arc<Running>,
        request: Request,
        dedup: &DedupSink,
    ) -> Result<ResponseMeta> {
        let size = self.state().size;
        if request.ranges.is_empty() && request.tail == 0 {
            // All bytes arrived before the replica that sent them failed.
            return Ok(ResponseMeta { size, ..ResponseMeta::default() });
        }
        let request_version = request.version.clone();
        // The validator of the request is the first replica's: the reader got it from there or from
        // the store.
        let bound = || request.version.validator().map(str::to_owned);
        let given = request.validator.or_else(bound);
        let senders = self.compared_senders();
        let admission = Admission::new(replica, &self.first, given.as_deref(), senders);
        let admission = Arc::new(admission);
        let validator = given.filter(|_| Arc::ptr_eq(replica, &self.first));
        let version = replica.version();
        let is_first = Arc::ptr_eq(replica, &self.first);
        let at_senders = self.size_of_senders(replica, request.size.is_some())?;
        let size = request.size.or(size).or(at_senders);
        // An unknown size does not count as the same size.
        let needs_size = !is_first && size.is_some();
        let sink = || -> PartSink {
            let mut sink = dedup.sink(replica.number, running);
            let here = version.clone();
            let asked = request_version.clone();
            let sender = Arc::clone(replica);
            let admission = Arc::clone(&admission);
            let mut is_bound = false;
            Box::new(move |part| {
                if needs_size && here.size() != size || !admission.is_given() {
                    return;
                }
                if here.size().is_none() {
                    sender.sent_unsized.store(true, Ordering::Relaxed);
                }
                // Before the first byte is delivered, as by a source that is one server. A
                // contradiction shows with the complete response, which is bound as well.
                if !std::mem::replace(&mut is_bound, true) {
                    let validator = here.validator().filter(|_| is_first);
                    drop(asked.bind(&sender.name(), here.size(), validator));
                }
                sink(part);
            })
        };
        let with_size = |response| match version.size() {
            None if needs_size => {
                let what = format!("{}: the server does not state the size", replica.name());
                Err(Error::new(ErrorKind::Protocol, what))
            }
            Some(here) if needs_size && Some(here) != size => {
                let what = format!("{}: the file has {here} bytes there", replica.name());
                Err(Error::new(ErrorKind::Changed, what))
            }
            _ => Ok(response),
        };
        let fetch = async |request: Request| {
            let all = running.arrived().saturating_add(request.requested_bytes());
            let kept = running.all_kept();
            let fetched = replica.source().fetch(request, sink()).await.and_then(with_size);
            let fetched = admission.outcome().and(fetched);
            let is_changed = |error: &Error| error.kind() == ErrorKind::Changed;
            // Fewer bytes are completed by another replica that has the same version.
            if fetched.as_ref().is_err_and(is_changed)
                && running.arrived() >= all
                && running.all_kept() > kept
            {
                dedup.refute();
            }
            fetched
        };
        let limits = replica.source().limits();
        let whole = Request { validator, size, version: version.clone(), ..request };
        if whole.tail > 0 || limits.allow(&whole.ranges) {
            return fetch(whole).await;
        }
        let mut total = ResponseMeta::default();
        for ranges in Plan::new(&whole.ranges, &limits, &PlanConfig::default()).requests {
            let piece = Request { ranges, ..whole.clone() };
            let response = fetch(piece).await?;
            let unasked_bytes = total.unasked_bytes + response.unasked_bytes;
            total = ResponseMeta { unasked_bytes, ..response };
        }
        Ok(total)
    }

    /// The replicas that have sent bytes, unless a checksum of the file or of its pieces decides
    /// about all bytes at the end.
    fn compared_senders(&self) -> Option<Senders> {
        let state = self.state();
        let is_verified =
            state.pieces.is_some() || state.checksum.is_some() && state.origins.is_some();
        (!is_verified).then(|| Arc::clone(&self.senders))
    }

    /// The size of the file at another replica that has sent bytes of it. Fails if one has sent
    /// some before it stated the size: nothing shows that this one has the same. The size of the
    /// first one may be that of the request (`is_sized`).
    fn size_of_senders(&self, replica: &ActiveReplica, is_sized: bool) -> Result<Option<u64>> {
        let mut size = None;
        for other in self.state().replicas.iter().filter(|it| it.number != replica.number) {
            let here = other.version().size();
            let is_known = here.is_some() || is_sized && other.number == self.first.number;
            if other.sent_unsized.load(Ordering::Relaxed) && !is_known {
                let what = format!(
                    "{}: {} has sent bytes without telling the size, so that nothing shows whether \
                     both are the same file",
                    replica.name(),
                    other.name()
                );
                return Err(Error::new(ErrorKind::Protocol, what));
            }
            size = size.or_else(|| here.filter(|_| other.report().bytes > 0));
        }
        Ok(size)
    }

    /// Compares checksums before a replica other than the first is used, where both are known. A
    /// bulk job compares the bytes themselves: its replicas need not wait until their servers have
    /// read the whole file for its checksum.
    async fn same_file(&self, replica: &Arc<ActiveReplica>) -> Result<()> {
        if self.is_bulk() {
            return Ok(());
        }
        let expected = self.state().checksum.clone();
        let (Some(expected), Some(digest)) = (expected, replica.digest()) else {
            return Ok(());
        };
        if Arc::ptr_eq(replica, &self.first) || replica.compared.load(Ordering::Relaxed) {
            return Ok(());
        }
        // A server that fails to compute it may still serve the file; the sizes are compared in any
        // case.
        let reported = digest.checksum(expected.algorithm()).await.ok().flatten();
        let has_size = reported.is_some();
        match reported.filter(|reported| *reported != expected) {
            Some(reported) => Err(Error::new(
                ErrorKind::Changed,
                format!("{}: the checksum is {reported}, expected {expected}", replica.name()),
            )),
            None => {
                replica.is_equal.store(has_size, Ordering::Relaxed);
                replica.compared.store(true, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    pub(super) fn record_failure(&self, replica: &Arc<ActiveReplica>, error: &Error) {
        replica.failed(error);
        match classify(error) {
            FailureScope::Request | FailureScope::Staging => {}
            FailureScope::File => {
                // A single replica is not excluded: the error states the reason, and the next read
                // may try again.
                if self.state().replicas.len() > 1 {
                    replica.exclude(error.clone());
                    self.note(format!("replica excluded: {error}"));
                }
            }
            FailureScope::Server | FailureScope::Chance => {
                if self.health.record_error(&replica.site(), error) && self.has_several() {
                    self.note(format!("server skipped for a while: {error}"));
                }
            }
        }
    }
}
