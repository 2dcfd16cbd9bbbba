//! The sink of a request that several replicas respond to.

use super::origins::Origins;
use super::replica::Running;
use hither_core::range;
use hither_core::source::{Part, PartSink, Request};
use hither_core::sync::lock;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// Sink of one request for the parts from all replicas; delivers no byte twice.
#[derive(Clone)]
pub(super) struct DedupSink(Arc<Mutex<DedupState>>);

struct DedupState {
    sink: PartSink,
    /// Record of the senders, if one is kept.
    origins: Option<Arc<Mutex<Origins>>>,
    received: Vec<Range<u64>>,
    received_bytes: u64,
    /// Delivered bytes are of another version, as the end of a response has shown after all of its
    /// bytes.
    is_refuted: bool,
}

impl DedupSink {
    pub(super) fn new(sink: PartSink, origins: Option<Arc<Mutex<Origins>>>) -> Self {
        let received = Vec::new();
        let state = DedupState { sink, origins, received, received_bytes: 0, is_refuted: false };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, DedupState> {
        lock(&self.0)
    }

    /// A sink for the parts that `running` receives from the replica of this number.
    pub(super) fn sink(&self, replica: usize, running: &Arc<Running>) -> PartSink {
        let dedup = self.clone();
        let running = Arc::clone(running);
        Box::new(move |part: Part| {
            running.delivered(part.bytes.len() as u64);
            running.kept(dedup.state().accept(part, replica));
        })
    }

    pub(super) fn received_bytes(&self) -> u64 {
        self.state().received_bytes
    }

    /// Records that delivered bytes are of another version.
    pub(super) fn refute(&self) {
        self.state().is_refuted = true;
    }

    /// Returns true if delivered bytes are of another version: no replica can complete the request.
    pub(super) fn is_refuted(&self) -> bool {
        self.state().is_refuted
    }

    /// The part of a request that has not arrived; the whole of one with a tail, since only the
    /// response states where the tail lies.
    pub(super) fn rest(&self, request: &Request) -> Request {
        if request.tail > 0 {
            return request.clone();
        }
        let ranges = range::difference(&request.ranges, &self.state().received);
        Request { ranges, ..request.clone() }
    }
}

impl DedupState {
    /// Delivers the bytes that have not arrived before, and returns their number.
    fn accept(&mut self, part: Part, replica: usize) -> u64 {
        let bytes = part.bytes.len() as u64;
        let whole = part.offset..part.offset.saturating_add(part.bytes.len() as u64);
        // Nearly always in order and without overlap: then nothing has to be removed.
        let fresh = match self.received.last_mut() {
            None => vec![whole],
            Some(last) if last.end == whole.start => {
                last.end = whole.end;
                self.record(&whole, replica);
                (self.sink)(part);
                return bytes;
            }
            Some(last) if last.end < whole.start => {
                self.record(&whole, replica);
                self.received.push(whole);
                (self.sink)(part);
                return bytes;
            }
            Some(_) => range::difference(std::slice::from_ref(&whole), &self.received),
        };
        for piece in &fresh {
            self.record(piece, replica);
            let start = usize::try_from(piece.start - part.offset).unwrap_or(usize::MAX);
            let end = usize::try_from(piece.end - part.offset).unwrap_or(usize::MAX);
            let bytes = part.bytes.slice(start.min(part.bytes.len())..end.min(part.bytes.len()));
            (self.sink)(Part { offset: piece.start, bytes });
        }
        let kept = range::total_bytes(&fresh);
        self.received.extend(fresh);
        self.received = range::merged(&self.received, 0);
        kept
    }

    fn record(&mut self, piece: &Range<u64>, replica: usize) {
        self.received_bytes += range::len(piece);
        if let Some(origins) = &self.origins {
            lock(origins).record(piece, replica);
        }
    }
}
