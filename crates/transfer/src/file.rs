//! One file on its way.
//!
//! A [`FileCopy`] has four parts, and each owns its state:
//!
//! | part | holds |
//! |---|---|
//! | [source] | replicas, version, and which replica is asked next |
//! | [target] | partial file, upload or output, and the order of writes |
//! | [blocks] | the bytes that are not taken, in flight, and written |
//! | [checks] | checksums, and blocks that came wrong |
//!
//! It is [opened](open). Workers [fetch] its pieces and [write] contiguous bytes, and the worker
//! that completes it [finishes](finish) it. It knows no queue and makes no further attempt:
//! `copy/attempt.rs` decides what follows its end.

pub(crate) mod blocks;
pub(crate) mod checks;
pub(crate) mod existing;
pub(crate) mod fetch;
pub(crate) mod finish;
pub(crate) mod identify;
pub(crate) mod item;
pub(crate) mod open;
pub(crate) mod source;
pub(crate) mod target;
pub(crate) mod upload_range;
pub(crate) mod upload_sink;
pub(crate) mod version;
pub(crate) mod write;

use crate::copy::resources::CopyResources;
use crate::copy::small_slot::SmallSlot;
use crate::file::blocks::piece::Piece;
use crate::file::blocks::{FileBlocks, IdleWorker};
use crate::file::checks::FileChecks;
use crate::file::item::CopyItem;
use crate::file::source::FileSource;
use crate::file::target::{FileTarget, Sink};
use crate::file::version::FileVersion;
use crate::journal::{Journal, Known};
use crate::options::Verify;
use hither_checksum::Checksum;
use hither_core::endpoint::RangeSupport;
use hither_core::sync::lock;
use hither_core::{Error, ErrorKind, Result, range};
use std::sync::{Arc, Mutex};
use tokio::task::spawn_blocking;
use tracing::debug;

/// A file that is being copied.
#[derive(Debug)]
pub(crate) struct FileCopy {
    resources: Arc<CopyResources>,
    item: CopyItem,
    /// The name of the target: the journal's key.
    key: String,
    source: FileSource,
    target: FileTarget,
    blocks: FileBlocks,
    checks: FileChecks,
    /// The file is larger than a block, so the journal records its blocks.
    is_journaled: bool,
    /// The version as the journal has it.
    journaled: Mutex<Option<FileVersion>>,
    /// The right of a small file to be fetched, until it is written.
    slot: Mutex<Option<SmallSlot>>,
}

/// The request of a worker for a piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkRequest {
    /// The number of the worker.
    pub(crate) number: usize,
    /// The number of workers that run.
    pub(crate) workers: usize,
    /// Measurements have shown that more workers than the rule for the link help.
    pub(crate) has_more_workers: bool,
}

impl FileCopy {
    pub(crate) fn item(&self) -> &CopyItem {
        &self.item
    }

    /// The name of the target: the journal's key.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn source(&self) -> &FileSource {
        &self.source
    }

    pub(crate) fn target(&self) -> &FileTarget {
        &self.target
    }

    pub(crate) fn blocks(&self) -> &FileBlocks {
        &self.blocks
    }

    /// The next piece for a worker to fetch, if one is left. If no file follows this one
    /// (`is_last`), the piece has the size that lets all workers end at the same time.
    pub(crate) fn take(&self, request: WorkRequest, is_last: bool) -> Option<Arc<Piece>> {
        let WorkRequest { number, workers, has_more_workers } = request;
        let share = |left_bytes| {
            let rtt = self.source.balancing_rtt(has_more_workers).filter(|_| is_last);
            let rates = &self.resources.rates;
            rtt.map_or(u64::MAX, |rtt| rates.piece_bytes(number, workers, left_bytes, rtt))
        };
        self.blocks.take(number, self.source.now(), self.source.ranges(), share)
    }

    /// Splits off the later half of the slowest piece for an idle worker.
    pub(crate) fn split_slowest_piece(&self, request: WorkRequest) -> Option<Arc<Piece>> {
        let rtt = self.source.balancing_rtt(request.has_more_workers)?;
        let is_part = self.resources.options.control.is_part();
        if is_part || self.source.ranges() == RangeSupport::Whole {
            return None;
        }
        let best_speed = self.source.best_speed();
        let idle = IdleWorker { number: request.number, now: self.source.now(), rtt, best_speed };
        let piece = self.blocks.split_slowest(idle)?;
        let missing = piece.buffer.missing();
        let offset = missing.start;
        let bytes = range::len(&missing);
        debug!(file = self.item.name, offset, bytes, "slowest piece split for an idle worker");
        Some(piece)
    }

    /// Takes the missing parts of the pieces of workers above `workers` back, for others to fetch.
    pub(crate) fn take_back(&self, workers: usize) {
        if self.source.ranges() != RangeSupport::Whole {
            self.blocks.take_back(workers);
        }
    }

    /// Records that `worker` has completed a piece. Returns true if that made the file complete:
    /// the caller then has to finish it.
    pub(crate) fn ended(&self, worker: usize, piece: &Arc<Piece>) -> bool {
        let took = self.source.now().saturating_sub(piece.sent);
        self.resources.rates.note(worker, piece.buffer.progress().0, took);
        self.blocks.ended(piece)
    }

    /// Ends fetching, because the file has failed. Returns true the first time.
    pub(crate) fn give_up(&self) -> bool {
        // In this order: a writer that waits for its turn fails as a consequence, and must not be
        // the first to report.
        let is_first = self.blocks.give_up();
        self.target.fail();
        is_first
    }

    /// Returns true if the target discards the bytes: they are only counted.
    pub(crate) fn discards_bytes(&self) -> bool {
        self.target.discards() && self.checks.algorithm().is_none()
    }

    /// Returns true if its bytes do not pass through this process.
    fn is_local_copy(&self) -> bool {
        let is_summed = self.checks.algorithm().is_some();
        self.item.local.is_some() && !is_summed && self.target.part().is_some()
    }

    /// Returns true if it is copied as a whole, concurrently with many others. Its memory was
    /// reserved beforehand.
    pub(crate) fn is_small(&self) -> bool {
        self.item.is_small
    }

    /// Lets another small file begin.
    pub(crate) fn free_slot(&self) {
        lock(&self.slot).take();
    }

    /// Takes memory for `bytes` that have arrived.
    fn hold(&self, bytes: u64) {
        if !self.is_small() {
            self.resources.budget.hold(bytes);
        }
    }

    /// Frees the memory of `bytes` that are written or discarded.
    pub(crate) fn release(&self, bytes: u64) {
        if !self.is_small() {
            self.resources.budget.release(bytes);
        }
    }

    /// The journal, if an interruption leaves written bytes at the target.
    fn journal(&self) -> Option<&Journal> {
        let is_kept = self.target.is_persistent() && self.is_journaled;
        self.resources.journal.as_ref().filter(|_| is_kept)
    }

    /// Records the version of a file with replicas in the journal as it is known now, because a
    /// later attempt may find other replicas.
    fn note_version(&self) {
        let (Some(_), Some(journal)) = (self.source.replicas(), self.journal()) else { return };
        let version = self.version_now();
        let mut journaled = lock(&self.journaled);
        if journaled.as_ref() != Some(&version) {
            journal.version(&self.key, &version);
            *journaled = Some(version);
        }
    }

    /// The version, with what is known about it now.
    fn version_now(&self) -> FileVersion {
        self.source.version_now(self.checks.stated())
    }

    /// The checksum that the catalogue states of a file whose pieces were all compared.
    fn known_by_pieces(&self) -> Option<Checksum> {
        let was_given = matches!(self.resources.options.verify, Verify::Value(_));
        let replicas = self.source.replicas().filter(|_| !was_given)?;
        self.checks.known_by_pieces(&**replicas)
    }

    /// Adds the bytes of each replica, and the reasons for exclusions, to the summary.
    pub(crate) fn note_replicas(&self) {
        let Some(replicas) = self.source.replicas() else { return };
        let results = &self.resources.results;
        replicas.notices().into_iter().for_each(|notice| results.note_once(notice));
        if replicas.reports().len() > 1 {
            results.note_sources(replicas.server_reports());
        }
    }

    /// The record for the next attempt to resume from.
    pub(crate) fn resumable(&self) -> Known {
        let blocks = self.blocks.whole_blocks();
        let version = self.source.version().clone();
        Known { version, part: self.target.token(), blocks, done: None }
    }

    /// Returns true if the bytes written so far help the next attempt.
    pub(crate) async fn can_go_on(&self) -> bool {
        match self.target.sink() {
            // Other processes write the rest of a file when this copies a range of it.
            Sink::Part(_) if self.item.range.is_some() => true,
            Sink::Part(_) => !self.blocks.whole_blocks().is_empty(),
            Sink::Upload(upload) => {
                upload.read().await.as_ref().is_some_and(|upload| upload.token().is_some())
            }
            Sink::Output | Sink::Discard => false,
        }
    }

    /// Removes what was written.
    pub(crate) async fn abandon(&self) {
        self.target.abandon(self.item.range.is_some()).await;
    }

    /// Runs `work` where it may block.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let file = Arc::clone(self);
        let work = move || work(&file);
        let done = if self.is_small() {
            self.resources.blocking.run(work).await
        } else {
            spawn_blocking(work).await.ok()
        };
        done.unwrap_or_else(|| Err(Error::new(ErrorKind::Local, "a writing thread panicked")))
    }
}
