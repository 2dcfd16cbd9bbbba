//! One request at one replica, and at a second one if the first is silent.

use super::failure::{FailureScope, classify};
use super::replica::ActiveReplica;
use super::selection::Among;
use super::{HEDGE_FLOOR_BYTES, Replicas};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Plan, PlanConfig};
use crate::source::{Part, PartSink, Request, ResponseMeta};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::{Source, range};
use futures_core::future::BoxFuture;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Ratio of speeds from which on a faster replica is asked for the bytes that a slower one sends.
const MUCH_FASTER: f64 = 4.0;

/// Sink of one request for the parts from all replicas; hands on no byte twice.
#[derive(Clone)]
pub(super) struct DedupSink(Arc<Mutex<Spout>>);

struct Spout {
    sink: PartSink,
    received: Vec<Range<u64>>,
    received_bytes: u64,
}

impl DedupSink {
    pub(super) fn new(sink: PartSink) -> Self {
        Self(Arc::new(Mutex::new(Spout { sink, received: Vec::new(), received_bytes: 0 })))
    }

    fn spout(&self) -> MutexGuard<'_, Spout> {
        lock(&self.0)
    }

    /// A sink for the parts from `member`.
    fn sink(&self, member: &Arc<ActiveReplica>) -> PartSink {
        let tee = self.clone();
        let member = Arc::clone(member);
        Box::new(move |part: Part| {
            member.delivered(part.bytes.len() as u64);
            tee.spout().accept(part);
        })
    }

    fn received_bytes(&self) -> u64 {
        self.spout().received_bytes
    }

    /// The part of a request that has not arrived; the whole of one with a tail, since only the
    /// response tells where the tail lies.
    fn rest(&self, request: &Request) -> Request {
        if request.tail > 0 {
            return request.clone();
        }
        let ranges = range::difference(&request.ranges, &self.spout().received);
        Request { ranges, ..request.clone() }
    }
}

impl Spout {
    fn accept(&mut self, part: Part) {
        let whole = part.offset..part.offset.saturating_add(part.bytes.len() as u64);
        // Nearly always in order and without overlap: then nothing is to be cut.
        let fresh = match self.received.last_mut() {
            None => vec![whole],
            Some(last) if last.end == whole.start => {
                last.end = whole.end;
                self.received_bytes += range::len(&whole);
                return (self.sink)(part);
            }
            Some(last) if last.end < whole.start => {
                self.received_bytes += range::len(&whole);
                self.received.push(whole);
                return (self.sink)(part);
            }
            Some(_) => range::difference(std::slice::from_ref(&whole), &self.received),
        };
        for piece in &fresh {
            self.received_bytes += range::len(piece);
            let start = usize::try_from(piece.start - part.offset).unwrap_or(usize::MAX);
            let end = usize::try_from(piece.end - part.offset).unwrap_or(usize::MAX);
            let bytes = part.bytes.slice(start.min(part.bytes.len())..end.min(part.bytes.len()));
            (self.sink)(Part { offset: piece.start, bytes });
        }
        self.received.extend(fresh);
        self.received = range::merged(&self.received, 0);
    }
}

impl Replicas {
    /// Sends a request to `first`, and to others while those are silent: the first to bring
    /// everything wins. Adds all of them to `tried`; returns the errors of all of them.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) async fn attempt(
        &self,
        first: &Arc<ActiveReplica>,
        request: &Request,
        tee: &DedupSink,
        tried: &mut Vec<Arc<ActiveReplica>>,
    ) -> std::result::Result<ResponseMeta, Vec<Error>> {
        let mut running = FuturesUnordered::new();
        running.push(self.ask(first, tee.rest(request), tee));
        let mut errors = Vec::new();
        let mut before = tee.received_bytes();
        loop {
            let timeout = self.hedge_timeout(first);
            match select(running.next(), self.clock().sleep(timeout)).await {
                Either::Left((Some((member, Ok(answer))), _)) => {
                    return Ok(self.settle(&member, answer));
                }
                Either::Left((Some((_, Err(error))), _)) => {
                    errors.push(error);
                    if running.is_empty() {
                        return Err(errors);
                    }
                    continue;
                }
                Either::Left((None, _)) => return Err(errors),
                Either::Right(_) => {}
            }
            let now = tee.received_bytes();
            let speed = (now - before) as f64 / timeout.as_secs_f64().max(1e-6);
            before = now;
            let Some(other) = self.choose(tried, Among::Healthy) else { continue };
            let faster = other.speed().is_some_and(|other| other > MUCH_FASTER * speed);
            let rest = tee.rest(request);
            if rest.ranges.is_empty() && rest.tail == 0 {
                continue;
            }
            if (speed == 0.0 || faster) && self.may_hedge(&rest) {
                tried.push(Arc::clone(&other));
                running.push(self.ask(&other, rest, tee));
            }
        }
    }

    /// Silence after which a request is hedged.
    fn hedge_timeout(&self, member: &ActiveReplica) -> Duration {
        let rtt = member.source().link().rtt.unwrap_or_default();
        self.config.hedge_after.max(rtt * 8)
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
        member: &Arc<ActiveReplica>,
        request: Request,
        tee: &DedupSink,
    ) -> BoxFuture<'a, (Arc<ActiveReplica>, Result<ResponseMeta>)> {
        let member = Arc::clone(member);
        let tee = tee.clone();
        Box::pin(async move {
            let running = member.enter();
            let started = self.clock().now();
            let before = tee.received_bytes();
            let result = match self.same_file(&member).await {
                Ok(()) => self.ask_in_pieces(&member, request, &tee).await,
                Err(error) => Err(error),
            };
            drop(running);
            let bytes = tee.received_bytes().saturating_sub(before);
            self.state().delivered_bytes += bytes;
            match &result {
                Ok(_) => {
                    self.health.record_success(member.site());
                    member.took(bytes, self.clock().now().saturating_sub(started));
                }
                Err(error) => self.record_failure(&member, error),
            }
            (member, result)
        })
    }

    async fn ask_in_pieces(
        &self,
        member: &Arc<ActiveReplica>,
        request: Request,
        tee: &DedupSink,
    ) -> Result<ResponseMeta> {
        let size = self.state().size;
        if request.ranges.is_empty() && request.tail == 0 {
            // All of it arrived before the replica that sent it failed.
            return Ok(ResponseMeta { size, ..ResponseMeta::default() });
        }
        let own = member.validator();
        // The validator of the request is the first replica's: the reader got it from there or from
        // the store.
        let given = request.validator.filter(|_| Arc::ptr_eq(member, &self.first));
        let validator = own.or(given);
        let limits = member.source().limits();
        let whole = Request { validator, size: request.size.or(size), ..request };
        if whole.tail > 0 || limits.allow(&whole.ranges) {
            return member.source().fetch(whole, tee.sink(member)).await;
        }
        let mut total = ResponseMeta::default();
        for ranges in Plan::new(&whole.ranges, &limits, &PlanConfig::default()).requests {
            let piece = Request { ranges, ..whole.clone() };
            let answer = member.source().fetch(piece, tee.sink(member)).await?;
            let unasked_bytes = total.unasked_bytes + answer.unasked_bytes;
            total = ResponseMeta { unasked_bytes, ..answer };
        }
        Ok(total)
    }

    /// Compares checksums before a replica other than the first is used, where both are known.
    async fn same_file(&self, member: &Arc<ActiveReplica>) -> Result<()> {
        let expected = self.state().checksum.clone();
        let (Some(expected), Some(digest)) = (expected, member.digest()) else {
            return Ok(());
        };
        if Arc::ptr_eq(member, &self.first) || member.compared.load(Ordering::Relaxed) {
            return Ok(());
        }
        // A server that fails at this may still serve the file; the sizes are compared in any case.
        let told = digest.checksum(expected.algorithm()).await.ok().flatten();
        match told.filter(|told| *told != expected) {
            Some(told) => Err(Error::new(
                ErrorKind::Changed,
                format!("{}: the checksum is {told}, expected {expected}", member.name()),
            )),
            None => {
                member.compared.store(true, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    fn record_failure(&self, member: &Arc<ActiveReplica>, error: &Error) {
        member.failed();
        match classify(error) {
            FailureScope::Request | FailureScope::Staging => {}
            FailureScope::File => {
                // A single replica stays: the error says all, and the next read may try again.
                if self.state().members.len() > 1 {
                    member.exclude(error.clone());
                    self.notice(format!("replica excluded: {error}"));
                }
            }
            FailureScope::Server | FailureScope::Chance => {
                if self.health.record_error(member.site(), error) {
                    self.notice(format!("server skipped for a while: {error}"));
                }
            }
        }
    }
}
