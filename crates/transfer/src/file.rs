//! One file on its way.
//!
//! Workers take [`Piece`]s of it and bring bytes; what has come in a row is written (see
//! `write.rs`). Three kinds of targets differ in what a write may be: a local file takes any bytes
//! at any place; what is uploaded goes in whole blocks, on some servers in order; the standard
//! output takes bytes in order.

pub(crate) mod block_map;
pub(crate) mod fetch;
pub(crate) mod finish;
pub(crate) mod identify;
pub(crate) mod kernel_copy;
pub(crate) mod open;
pub(crate) mod partial_file;
pub(crate) mod piece;
pub(crate) mod piece_buffer;
pub(crate) mod prefix_sum;
pub(crate) mod sequencer;
pub(crate) mod suspects;
pub(crate) mod upload_range;
pub(crate) mod upload_sink;
pub(crate) mod version;
pub(crate) mod write;
use crate::copy::bandwidth_limiter::Directions;
use crate::copy::context::{CopyContext, SmallSlot};
use crate::copy::target_directory::TargetDirectory;
use crate::destination::{CopyPath, Target};
use crate::file::block_map::{BlockChecksums, BlockMap};
use crate::file::partial_file::PartialFile;
use crate::file::piece::Piece;
use crate::file::prefix_sum::PrefixSum;
use crate::file::sequencer::Sequencer;
use crate::file::suspects::Trials;
use crate::file::upload_range::UploadRange;
use crate::file::version::FileVersion;
use crate::journal::Known;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::endpoint::RangeSupport;
use hither_core::storage::replica_set::PieceChecksums;
use hither_core::sync::lock;
use hither_core::{
    Backoff, DirEntry, Error, ErrorKind, ReplicaSet, Result, Source, Storage, Upload,
    VersionBinding, range, validators_differ,
};
use hither_load::straggler::SplitRule;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::RwLock;
use tokio::task::JoinHandle;
use tracing::debug;

/// A file to be copied.
#[derive(Debug, Clone)]
pub(crate) struct CopyItem {
    pub(crate) storage: Arc<dyn Storage>,
    /// From the storage's root.
    pub(crate) path: String,
    /// For messages.
    pub(crate) name: String,
    /// The same on this machine, if it is here.
    pub(crate) local: Option<PathBuf>,
    /// Its directory entry, if known.
    pub(crate) entry: Option<DirEntry>,
    /// Its permissions, if its server tells.
    pub(crate) mode: Option<u32>,
    pub(crate) target: Target,
    /// The directory that the target is in, if it is one of a tree.
    pub(crate) directory: Option<Arc<TargetDirectory>>,
    /// It changed once already while it was copied.
    pub(crate) restarted: bool,
    /// Attempts that failed.
    pub(crate) backoff: Backoff,
    /// It is copied as a whole, as a task of its own.
    pub(crate) is_small: bool,
    /// Only this much of it is copied.
    pub(crate) range: Option<Arc<UploadRange>>,
}

impl CopyItem {
    /// The directions in which it moves through this machine.
    pub(crate) fn directions(&self) -> Directions {
        Directions { down: self.local.is_none(), up: matches!(self.target, Target::Remote(..)) }
    }

    /// The file at `source`, of which nothing was copied yet.
    pub(crate) fn new(source: CopyPath, entry: Option<DirEntry>, target: Target) -> Self {
        Self {
            name: source.name(),
            storage: source.storage,
            path: source.path,
            local: source.local,
            entry,
            mode: None,
            target,
            directory: None,
            restarted: false,
            backoff: Backoff::default(),
            is_small: false,
            range: None,
        }
    }

    /// The bytes to be copied of a file of `size` bytes.
    pub(crate) fn bytes(&self, size: u64) -> u64 {
        self.range.as_ref().map_or(size, |part| range::len(&part.range))
    }
}

/// A server's checksum of a file, being asked for.
pub(crate) type Asking = JoinHandle<Result<Option<Checksum>>>;

/// Where the bytes go.
#[derive(Debug)]
pub(crate) enum Sink {
    Part(PartialFile),
    /// None once it is committed.
    Upload(RwLock<Option<Box<dyn Upload>>>),
    Output,
    Discard,
}

/// A file that is being copied.
#[derive(Debug)]
pub(crate) struct FileCopy {
    pub(crate) shared: Arc<CopyContext>,
    pub(crate) item: CopyItem,
    /// The name of the target: the journal's key.
    pub(crate) key: String,
    pub(crate) source: Arc<dyn Source>,
    /// The same as `source`, where there may be further replicas.
    pub(crate) replicas: Option<Arc<dyn ReplicaSet>>,
    /// An earlier run has left bytes of it, which are not compared again.
    pub(crate) is_resumed: bool,
    /// Checksums of pieces, by which blocks are compared.
    pub(crate) pieces: Option<Arc<PieceChecksums>>,
    /// Times that blocks came wrong, by their starts.
    pub(crate) rejections: Mutex<BTreeMap<u64, u32>>,
    /// Bytes of such blocks that progress still counts as done.
    pub(crate) rejected_bytes: AtomicU64,
    /// The last write took less than [`write::QUICK`].
    pub(crate) writes_are_quick: AtomicBool,
    pub(crate) trials: Mutex<Option<Trials>>,
    /// The version as the journal has it.
    journaled: Mutex<Option<FileVersion>>,
    pub(crate) version: FileVersion,
    /// Size in bytes.
    pub(crate) size: u64,
    pub(crate) sink: Sink,
    /// Checksum algorithm of the whole file.
    pub(crate) algorithm: Option<Algorithm>,
    /// An interruption costs more than a block.
    pub(crate) is_journaled: bool,
    /// For targets that take blocks in order.
    pub(crate) order: Option<Sequencer>,
    /// Most pieces that may be on their way at the same time.
    pub(crate) max_pieces: usize,
    /// An upload takes bytes in writes of any length.
    pub(crate) takes_any_bytes: bool,
    /// The right of a small file to be fetched, until it is written.
    pub(crate) slot: Mutex<Option<SmallSlot>>,
    /// The checksum of the file, where it has to be computed in order while the bytes pass.
    pub(crate) chain: Option<Mutex<Hasher>>,
    /// The same where they come in any order.
    pub(crate) prefix: Option<PrefixSum>,
    /// The server's checksum, being asked for.
    asking: Mutex<Option<Asking>>,
    server_checksum: Mutex<Option<Checksum>>,
    validator: Mutex<Option<String>>,
    /// The version that all requests read.
    pub(crate) binding: VersionBinding,
    /// Token of an upload.
    pub(crate) token: Mutex<Option<String>>,
    state: Mutex<FileCopyState>,
}

/// State of the bytes of a file.
#[derive(Debug)]
pub(crate) struct FileCopyState {
    pub(crate) blocks: BlockMap,
    running: Vec<Arc<Piece>>,
    pub(crate) over: bool,
    /// Checksums of the blocks as they came the first time, when the file is fetched again because
    /// its checksum was wrong.
    pub(crate) before: Option<BTreeMap<u64, Checksum>>,
    /// Blocks that came differently the second time.
    pub(crate) damaged: Vec<u64>,
}

impl FileCopyState {
    pub(crate) fn new(blocks: BlockMap) -> Self {
        Self { blocks, running: Vec::new(), over: false, before: None, damaged: Vec::new() }
    }
}

/// Round-trip time below which a worker that ends later than the others does not matter.
const MIN_BALANCING_RTT: Duration = Duration::from_millis(2);
/// The same where replicas may have links of very different rates: a slow one may need any time.
const REPLICA_BALANCING_RTT: Duration = Duration::from_millis(20);
/// The smallest rest of a piece, in bytes, that is taken from a slow replica.
const MIN_TAKEN_BYTES: u64 = 16 << 10;
/// Times that the rest of a piece may take longer than a new request for it until it is taken
/// whole.
const MUCH_SLOWER: f64 = 4.0;

impl FileCopy {
    /// The next piece for `worker` to fetch, if there is one that nobody has taken. If after this
    /// file there is nothing more (`is_last`), it is as large as will be done when all others are.
    pub(crate) fn take(&self, worker: usize, is_last: bool) -> Option<Arc<Piece>> {
        let mut state = self.state();
        if state.over || state.running.len() >= self.max_pieces {
            return None;
        }
        let range = match self.source.endpoint().ranges {
            // A server that knows no ranges sends everything for every question: there must be only
            // one.
            RangeSupport::Whole => state.blocks.take_rest(),
            _ => {
                let max_bytes = if is_last { self.share(worker, &state) } else { u64::MAX };
                state.blocks.take(max_bytes)
            }
        };
        range.map(|range| self.start(&mut state, worker, range, Duration::ZERO))
    }

    fn share(&self, worker: usize, state: &FileCopyState) -> u64 {
        let Some(rtt) = self.balancing_rtt() else { return u64::MAX };
        if self.is_exact() {
            return u64::MAX;
        }
        let in_flight: u64 = state.running.iter().map(|piece| piece.buffer.progress().1).sum();
        let left_bytes = state.blocks.untaken_bytes() + in_flight;
        self.shared.rates.piece_bytes(worker, self.shared.concurrency.workers(), left_bytes, rtt)
    }

    /// The latency by which pieces are balanced; none if that does not pay.
    fn balancing_rtt(&self) -> Option<Duration> {
        let latency = self.source.link().latency();
        match &self.replicas {
            Some(replicas) if replicas.usable().len() > 1 => {
                Some(latency.unwrap_or_default().max(REPLICA_BALANCING_RTT))
            }
            _ if self.shared.concurrency.has_more_workers() => {
                Some(latency.unwrap_or_default().max(MIN_BALANCING_RTT))
            }
            _ => latency.filter(|latency| *latency >= MIN_BALANCING_RTT),
        }
    }

    /// Splits off the later half of the slowest piece for an idle worker, by [`SplitRule::COPY`].
    /// All that is missing of it is taken if its replica is much slower than the others.
    ///
    /// A piece that was taken from a silent one may be silent for twice as long. Else, where a
    /// queue on the path is longer than the latency that was measured, idle workers would take the
    /// same bytes from each other for ever, each before the first one has arrived.
    pub(crate) fn split_slowest_piece(&self, worker: usize) -> Option<Arc<Piece>> {
        let rtt = self.balancing_rtt()?;
        let best = self.replicas.as_ref().and_then(|replicas| replicas.best_speed());
        let rule = match best {
            Some(_) => SplitRule { min_bytes: MIN_TAKEN_BYTES, ..SplitRule::COPY },
            None => SplitRule::COPY,
        };
        let is_part = self.shared.options.control.is_part();
        if is_part || self.is_exact() || self.source.endpoint().ranges == RangeSupport::Whole {
            return None;
        }
        let now = self.source.clock().now();
        let mut state = self.state();
        if state.over || !state.blocks.all_taken() {
            return None;
        }
        let pieces = state.running.iter().filter(|piece| piece.is_judged(now));
        let pieces = pieces.map(|piece| (piece.progress(), piece));
        let slowest = rule.slowest(pieces, now, rtt)?;
        let is_slow = best.is_some_and(|rate| slowest.is_slower_than(rate / MUCH_SLOWER, now));
        let patience = slowest.patience_of_next(now);
        let given = slowest.buffer.give(if is_slow { 0.0 } else { 0.5 });
        if given.is_empty() {
            return None;
        }
        slowest.cut_off.wake();
        let offset = given.start;
        let bytes = range::len(&given);
        debug!(file = self.item.name, offset, bytes, "slowest piece split for an idle worker");
        Some(self.start(&mut state, worker, given, patience))
    }

    /// Takes what is missing of the pieces of workers above `workers` back, for others to fetch.
    /// Their connections end with that, and their share of the path is free at once.
    pub(crate) fn take_back(&self, workers: usize) {
        if self.is_exact() || self.source.endpoint().ranges == RangeSupport::Whole {
            return;
        }
        let mut state = self.state();
        let FileCopyState { blocks, running, .. } = &mut *state;
        for piece in running.iter().filter(|piece| piece.worker > workers) {
            blocks.put_back(piece.buffer.give(0.0));
            piece.cut_off.wake();
        }
    }

    fn start(
        &self,
        state: &mut FileCopyState,
        worker: usize,
        range: Range<u64>,
        patience: Duration,
    ) -> Arc<Piece> {
        let sent = self.source.clock().now();
        let piece = Arc::new(Piece::new(worker, range, sent, patience));
        state.running.push(Arc::clone(&piece));
        piece
    }

    /// Records that `worker` has completed a piece. Returns true if that made the file complete:
    /// the caller then has to finish it.
    pub(crate) fn ended(&self, worker: usize, piece: &Arc<Piece>) -> bool {
        let took = self.source.clock().now().saturating_sub(piece.sent);
        self.shared.rates.note(worker, piece.buffer.progress().0, took);
        let mut state = self.state();
        state.running.retain(|running| !Arc::ptr_eq(running, piece));
        self.claim(&mut state)
    }

    /// Returns true if the file is complete and no worker finishes it yet; the caller then has to.
    pub(crate) fn is_to_be_finished(&self) -> bool {
        self.claim(&mut self.state())
    }

    fn claim(&self, state: &mut FileCopyState) -> bool {
        let complete = !state.over && state.running.is_empty() && state.blocks.is_complete();
        state.over |= complete;
        complete
    }

    /// The file has failed, and nothing more of it is fetched. Whether it had not before.
    pub(crate) fn give_up(&self) -> bool {
        self.order.iter().for_each(Sequencer::fail);
        !std::mem::replace(&mut self.state().over, true)
    }

    /// It is uploaded by one request, in order.
    pub(crate) fn is_stream(&self) -> bool {
        self.order.is_some() && matches!(self.sink, Sink::Upload(_))
    }

    /// A worker has a piece of it.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.state().running.is_empty()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().over
    }

    /// Nobody wants to see the bytes: they are counted and dropped.
    pub(crate) fn is_blind(&self) -> bool {
        matches!(self.sink, Sink::Discard) && self.algorithm.is_none()
    }

    /// Its bytes do not pass through this process.
    pub(crate) fn is_local_copy(&self) -> bool {
        self.item.local.is_some() && self.algorithm.is_none() && matches!(self.sink, Sink::Part(_))
    }

    /// It is copied as a whole, beside many others. Its room in memory was taken beforehand.
    pub(crate) fn is_small(&self) -> bool {
        self.item.is_small
    }

    /// Lets another small file begin.
    pub(crate) fn free_slot(&self) {
        lock(&self.slot).take();
    }

    /// `bytes` have arrived, and need room in memory.
    pub(crate) fn hold(&self, bytes: u64) {
        if !self.is_small() {
            self.shared.budget.hold(bytes);
        }
    }

    /// `bytes` are written, or of no use.
    pub(crate) fn release(&self, bytes: u64) {
        if !self.is_small() {
            self.shared.budget.release(bytes);
        }
    }

    /// Most small files that may be uploaded at a time, if this is an upload.
    pub(crate) async fn max_small_uploads(&self) -> Option<usize> {
        let Sink::Upload(upload) = &self.sink else { return None };
        let most = upload.read().await.as_ref().map_or(0, |upload| upload.max_small_files());
        Some(if most > 0 { most } else { self.shared.concurrency.workers() })
    }

    /// Writes must be whole blocks.
    pub(crate) fn is_exact(&self) -> bool {
        let needs_blocks = match self.sink {
            Sink::Upload(_) => !self.takes_any_bytes,
            Sink::Output => true,
            Sink::Part(_) | Sink::Discard => false,
        };
        needs_blocks || self.order.is_some() || self.is_small()
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        self.state().blocks.block_bytes()
    }

    /// Validator that requests carry, so that a change of the file is noticed.
    pub(crate) fn validator(&self) -> Option<String> {
        lock(&self.validator).clone()
    }

    /// Compares what an answer says about the file with what is known of it.
    pub(crate) fn check_response(&self, response: &hither_core::ResponseMeta) -> Result<()> {
        let changed = |was: String, is: String| {
            let message = format!(
                "{} changed while it was copied (it was {was}, now it is {is})",
                self.item.name
            );
            Err(Error::new(ErrorKind::Changed, message))
        };
        if let Some(size) = response.size.filter(|size| *size != self.size) {
            return changed(format!("{} bytes", self.size), format!("{size} bytes"));
        }
        let Some(seen) = &response.validator else { return Ok(()) };
        let mut validator = lock(&self.validator);
        match &*validator {
            Some(known) if validators_differ(known, seen) => changed(known.clone(), seen.clone()),
            // A strong one says more than a weak one. The source has compared them.
            Some(known) if !known.starts_with("W/") || !seen.starts_with('"') => Ok(()),
            _ => {
                *validator = Some(seen.clone());
                Ok(())
            }
        }
    }

    /// Bytes that were counted and dropped where they came in are as good as written.
    pub(crate) fn dropped(&self, range: Range<u64>) {
        let mut state = self.state();
        let pieces: Vec<_> = state.blocks.within_blocks(range).collect();
        for piece in pieces {
            state.blocks.written(piece, BlockChecksums::of([], false));
        }
    }

    /// Notes in the journal what is known about the version of a file with replicas by now: a
    /// later attempt may find others of them.
    pub(crate) fn note_version(&self) {
        let (Some(_), Some(journal)) = (&self.replicas, self.journal()) else { return };
        let version = self.version_now();
        let mut journaled = lock(&self.journaled);
        if journaled.as_ref() != Some(&version) {
            journal.version(&self.key, &version);
            *journaled = Some(version);
        }
    }

    /// The version, with what is known about it by now.
    pub(crate) fn version_now(&self) -> FileVersion {
        let Some(replicas) = &self.replicas else { return self.version.clone() };
        let checksum = replicas.expected_checksum().or_else(|| self.server_checksum());
        FileVersion {
            checksum: checksum.map(|sum| sum.to_string()).or_else(|| self.version.checksum.clone()),
            replicas: replicas.validators(),
            ..self.version.clone()
        }
    }

    /// The journal, for targets that an interruption leaves something of.
    pub(crate) fn journal(&self) -> Option<&crate::journal::Journal> {
        let is_persistent = matches!(self.sink, Sink::Part(_) | Sink::Upload(_));
        self.shared.journal.as_ref().filter(|_| is_persistent && self.is_journaled)
    }

    pub(crate) fn written_bytes(&self) -> u64 {
        self.state().blocks.written_bytes()
    }

    /// The server is being asked for its checksum.
    pub(crate) fn set_asking(&self, asking: Asking) {
        *lock(&self.asking) = Some(asking);
    }

    /// The question, if its answer has not been taken yet.
    pub(crate) fn take_asking(&self) -> Option<Asking> {
        lock(&self.asking).take()
    }

    /// The server has told this checksum, or that it cannot.
    pub(crate) fn set_server_checksum(&self, server_checksum: Option<Checksum>) {
        *lock(&self.server_checksum) = server_checksum;
    }

    /// The server's checksum.
    pub(crate) fn server_checksum(&self) -> Option<Checksum> {
        lock(&self.server_checksum).clone()
    }

    /// The checksum of what has passed in order.
    pub(crate) fn chained(&self) -> Option<Checksum> {
        Some(lock(self.chain.as_ref()?).clone().finish())
    }

    /// The record for the next attempt to resume from.
    pub(crate) fn resumable(&self) -> Known {
        let part = lock(&self.token).clone();
        let blocks = self.state().blocks.whole_blocks();
        Known { version: self.version.clone(), part, blocks, done: None }
    }

    /// Returns true if the bytes written so far help the next attempt.
    pub(crate) async fn can_go_on(&self) -> bool {
        match &self.sink {
            // Others write the rest of a file of which this is a range.
            Sink::Part(_) if self.item.range.is_some() => true,
            Sink::Part(_) => !self.state().blocks.whole_blocks().is_empty(),
            Sink::Upload(upload) => {
                upload.read().await.as_ref().is_some_and(|upload| upload.token().is_some())
            }
            Sink::Output | Sink::Discard => false,
        }
    }

    /// The checksums of the whole file, as far as they were computed on the way.
    pub(crate) fn checksums(&self) -> Option<BlockChecksums> {
        self.state().blocks.checksums()
    }

    /// Begins again, because the bytes were not what they should be. False if that was done before.
    pub(crate) fn fetch_again(&self) -> bool {
        let mut state = self.state();
        if state.before.is_some() {
            return false;
        }
        let before = state.blocks.begin_again();
        state.before = Some(before);
        state.over = false;
        self.order.iter().for_each(|order| order.advance(0));
        if let Some(chain) = &self.chain {
            let mut chain = lock(chain);
            *chain = Hasher::new(chain.algorithm());
        }
        true
    }

    /// Blocks that came differently the second time, if there was one.
    pub(crate) fn damaged(&self) -> Option<Vec<u64>> {
        let state = self.state();
        state.before.is_some().then(|| state.damaged.clone())
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, FileCopyState> {
        lock(&self.state)
    }
}
