//! One replica of a file: its load, speed, version, and exclusion.

pub(super) mod admission;

use super::failure::{FailureScope, classify};
use super::rate_meter::RateMeter;
use futures_core::future::BoxFuture;
use hither_checksum::{Algorithm, Checksum};
use hither_core::SourceReport;
use hither_core::error::{Error, ErrorKind, Failure, Result};
use hither_core::source::{Source, VersionBinding};
use hither_core::sync::lock;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Requests the checksum of a file from its server; none if the server states none.
pub trait ChecksumQuery: Send + Sync + fmt::Debug {
    /// One round trip.
    fn checksum(&self, algorithm: Algorithm) -> BoxFuture<'_, Result<Option<Checksum>>>;

    /// Compares the version in the last response with that of the bytes that were read: a file that
    /// changed meanwhile is [`ErrorKind::Changed`](hither_core::ErrorKind::Changed).
    fn check_version<'a>(&'a self, _: &'a VersionBinding) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns true if the server is known to state checksums.
    fn has_checksums(&self) -> bool {
        false
    }
}

/// A replica of a file.
#[derive(Debug, Clone)]
pub struct Replica {
    /// Source of its bytes.
    pub source: Arc<dyn Source>,
    /// Its server: replicas on one server fail together.
    pub server: String,
    /// Query of its checksum.
    pub digest: Option<Arc<dyn ChecksumQuery>>,
}

/// Factor on the wait of a replica that accepts no more requests at present.
const FULL: f64 = 1e3;

/// A replica in use.
#[derive(Debug)]
pub(super) struct ActiveReplica {
    /// Its number, in the order in which replicas became known.
    pub(super) number: usize,
    replica: Replica,
    /// Requests in flight.
    running: AtomicUsize,
    /// Bytes requested that have not arrived, and the rate at which they arrive.
    pub(super) meter: RateMeter,
    /// Bytes that it delivered, by the server that sent them.
    bytes: Mutex<BTreeMap<String, u64>>,
    failures: AtomicU64,
    /// The last request has failed at a server that is silent, busy or out of order.
    would_wait: AtomicBool,
    /// The error for which it was excluded.
    excluded: Mutex<Option<Error>>,
    /// Bytes were delivered before the server had stated the size of its file.
    pub(super) sent_unsized: AtomicBool,
    /// The checksum was compared, or cannot be compared.
    pub(super) compared: AtomicBool,
    /// The checksum is that of the catalogue.
    pub(super) is_equal: AtomicBool,
    /// Only a response of a server names it.
    is_found: bool,
    version: Mutex<VersionBinding>,
    /// Bytes per second of its requests, smoothed.
    speed: Mutex<Option<f64>>,
}

impl ActiveReplica {
    pub(super) fn new(number: usize, replica: Replica, is_found: bool) -> Self {
        Self {
            number,
            replica,
            running: AtomicUsize::new(0),
            meter: RateMeter::default(),
            bytes: Mutex::default(),
            failures: AtomicU64::new(0),
            would_wait: AtomicBool::new(false),
            excluded: Mutex::new(None),
            sent_unsized: AtomicBool::new(false),
            compared: AtomicBool::new(false),
            is_equal: AtomicBool::new(false),
            is_found,
            version: Mutex::default(),
            speed: Mutex::new(None),
        }
    }

    pub(super) fn source(&self) -> &dyn Source {
        &*self.replica.source
    }

    pub(super) fn digest(&self) -> Option<&dyn ChecksumQuery> {
        self.replica.digest.as_deref()
    }

    pub(super) fn name(&self) -> String {
        self.replica.source.name()
    }

    /// The server of its URL.
    pub(super) fn server(&self) -> &str {
        &self.replica.server
    }

    /// The server that its requests are sent to: that of its URL, or where a redirect led.
    pub(super) fn site(&self) -> String {
        self.source().redirected_to().unwrap_or_else(|| self.server().to_owned())
    }

    /// The error for which it was excluded, if it was.
    pub(super) fn excluded(&self) -> Option<Error> {
        lock(&self.excluded).clone()
    }

    pub(super) fn exclude(&self, error: Error) {
        *lock(&self.excluded) = Some(error);
    }

    pub(super) fn has_room(&self) -> bool {
        self.running.load(Ordering::Relaxed) < self.source().max_requests()
    }

    /// Expected wait of one more request, in arbitrary units; `usual` is the speed where none is
    /// known.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn wait(&self, usual: f64) -> f64 {
        let ahead = self.running.load(Ordering::Relaxed) + 1;
        let most = self.source().max_requests().max(1);
        // Up to the maximum no request waits for another; the number in flight still shows which
        // replica is less busy.
        let queue = if ahead > most { FULL } else { 1.0 };
        queue * ahead as f64 / self.speed().unwrap_or(usual).max(1.0)
    }

    pub(super) fn speed(&self) -> Option<f64> {
        *lock(&self.speed)
    }

    /// Records `bytes` that arrived.
    pub(super) fn delivered(&self, bytes: u64) {
        *lock(&self.bytes).entry(self.site()).or_default() += bytes;
        self.meter.arrived(bytes, self.source().clock().now());
    }

    /// The time that `bytes` more would take to arrive after those already requested, in seconds;
    /// `usual` is the rate where none is known.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn time_to_bring(&self, bytes: u64, usual: f64) -> f64 {
        let queue = if self.has_room() { 1.0 } else { FULL };
        let ahead = self.meter.outstanding_bytes().saturating_add(bytes);
        queue * ahead as f64 / self.rate().unwrap_or(usual).max(1.0)
    }

    /// Bytes per second that it sends, over all requests together.
    pub(super) fn rate(&self) -> Option<f64> {
        self.meter.rate(self.source().clock().now())
    }

    pub(super) fn failed(&self, error: &Error) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let is_broken = matches!(error.failure(), Failure::Interrupted(_) | Failure::Garbled)
            && error.kind() != ErrorKind::Timeout;
        let would_wait = !is_broken && classify(error) != FailureScope::File;
        self.would_wait.store(would_wait, Ordering::Relaxed);
    }

    /// Returns true if the server is not likely to answer at once: the last request to it failed,
    /// and not by a broken connection or because of the file.
    pub(super) fn would_wait(&self) -> bool {
        self.would_wait.load(Ordering::Relaxed)
    }

    /// Records that a request received `bytes` in `took`.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn took(&self, bytes: u64, took: Duration) {
        const NEW_SHARE: f64 = 0.3;
        self.would_wait.store(false, Ordering::Relaxed);
        let seen = bytes as f64 / took.as_secs_f64().max(1e-6);
        let mut speed = lock(&self.speed);
        *speed = Some(speed.map_or(seen, |old| old + NEW_SHARE * (seen - old)));
    }

    /// The version of its responses.
    pub(super) fn version(&self) -> VersionBinding {
        lock(&self.version).clone()
    }

    /// Returns true if more than the size shows that this is the same file as `first`: the checksum
    /// of the catalogue, or a strong entity tag or a date that both servers state.
    pub(super) fn agrees_with(&self, first: &Self) -> bool {
        self.is_equal.load(Ordering::Relaxed) || self.version().agrees_with(&first.version())
    }

    /// Returns true if the user, a catalogue that the user named, or its checksum says that this is
    /// the file. Servers name replicas by static fields, and may be wrong.
    pub(super) fn is_trusted(&self) -> bool {
        !self.is_found || self.is_equal.load(Ordering::Relaxed)
    }

    pub(super) fn forget_version(&self) {
        *lock(&self.version) = VersionBinding::default();
        self.sent_unsized.store(false, Ordering::Relaxed);
        self.source().forget_version();
    }

    /// Counts a request for `bytes` as in flight until dropped.
    pub(super) fn enter(self: &Arc<Self>, bytes: u64) -> Running {
        let before = self.running.fetch_add(1, Ordering::Relaxed);
        self.meter.request_sent(bytes, before == 0, self.source().clock().now());
        Running {
            replica: Arc::clone(self),
            bytes,
            arrived: AtomicU64::new(0),
            kept: AtomicU64::new(0),
        }
    }

    pub(super) fn report(&self) -> SourceReport {
        SourceReport {
            name: self.name(),
            bytes: lock(&self.bytes).values().sum(),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    /// The counters of each server that its bytes came from, and of the one of its URL.
    pub(super) fn server_reports(&self) -> Vec<SourceReport> {
        let mut bytes = lock(&self.bytes).clone();
        let bytes_of_own = bytes.remove(self.server()).unwrap_or_default();
        let of = |(name, bytes)| SourceReport { name, bytes, failures: 0 };
        let own = (self.server().to_owned(), bytes_of_own);
        let own = SourceReport { failures: self.report().failures, ..of(own) };
        std::iter::once(own).chain(bytes.into_iter().map(of)).collect()
    }
}

/// A request in flight at a replica.
#[derive(Debug)]
pub(super) struct Running {
    replica: Arc<ActiveReplica>,
    bytes: u64,
    arrived: AtomicU64,
    /// Bytes that no other replica had sent before.
    kept: AtomicU64,
}

impl Running {
    /// Records `bytes` of the response.
    pub(super) fn delivered(&self, bytes: u64) {
        self.arrived.fetch_add(bytes, Ordering::Relaxed);
        self.replica.delivered(bytes);
    }

    /// Records `bytes` of the response that no other replica had sent before.
    pub(super) fn kept(&self, bytes: u64) {
        self.kept.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes of the response that no other replica had sent before.
    pub(super) fn all_kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// The bytes of the response so far.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.replica.running.fetch_sub(1, Ordering::Relaxed);
        let missing = self.bytes.saturating_sub(*self.arrived.get_mut());
        self.replica.meter.gave_up(missing);
    }
}
