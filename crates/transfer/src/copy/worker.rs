//! A worker: takes the next task from the queue, opens a file, fetches a piece, or finishes a file.
//!
//! Small files out of listings have no worker: each is a task of its own from its opening to its
//! name. They begin as others end, as many at a time as the servers take
//! ([`hither_core::Source::max_small_files`], [`hither_core::Upload::max_small_files`]), the budget
//! of memory has room for, and the limits of the job allow. A file that waits for the disk and its
//! name is not counted.

use crate::copy::context::{CopyContext, SmallSlot};
use crate::copy::queue::{MAX_FOUND, NextTask};
use crate::copy::tuning::{self, THIRD_PARTY_LATENCY, TunedFiles, WorkerSample};
use crate::file::finish::Finished;
use crate::file::open::OpenResult;
use crate::file::piece::Piece;
use crate::file::{CopyItem, FileCopy, Sink, fetch, finish, open};
use crate::server_actions::third_party::{self, MoveResult};
use crate::tree::{fetch_batch, send_batch};
use hither_core::{Clock, DirEntry, Error, ErrorKind, FileKind, Source};
use hither_load::connections;
use hither_tune::{Observation, PathSignal, StageTimes, TunedKnob};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tracing::debug;

/// Pauses before attempts for a whole file are longer than those before single requests by this.
const FILE_PAUSES: u32 = 4;
/// Interval at which an idle worker looks for a piece to split.
const LOOK_AROUND: Duration = Duration::from_millis(20);

/// Runs as many workers and small files as help by now, until nothing is left to do.
pub(crate) async fn run_all(shared: &Arc<CopyContext>) {
    let mut running = JoinSet::new();
    let mut started = 0;
    let mut samples = tokio::time::interval(tuning::INTERVAL);
    samples.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while started < shared.workers() {
            started += 1;
            running.spawn(run_worker(Arc::clone(shared), started));
        }
        while let Some((item, slot)) = shared.next_small() {
            running.spawn(run_small(Arc::clone(shared), item, slot));
        }
        tokio::select! {
            ended = running.join_next() => {
                match ended {
                    None => return,
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        let failure = Error::new(ErrorKind::Local, "a worker of the copy panicked").with_source(error);
                        shared.failed("the copy".to_owned(), failure);
                        return;
                    }
                }
            }
            () = shared.workers_changed.notified() => {}
            _ = samples.tick(), if shared.tuning.is_running() => shared.sample_tuners(),
            () = shared.options.control.changed.notified() => {}
            () = shared.queue.small_changed() => {}
            () = shared.budget.room(), if !shared.budget.has_room() => {}
        }
    }
}

async fn run_worker(shared: Arc<CopyContext>, worker: usize) {
    loop {
        let mut changed = pin!(shared.queue.changed());
        // Enabled before the queue is asked, so that no change in between is missed.
        changed.as_mut().enable();
        if worker > shared.workers() {
            // Parked, until the limit rises or nothing is left to do.
            if shared.queue.is_over() {
                return;
            }
            drop(tokio::time::timeout(LOOK_AROUND, changed).await);
            continue;
        }
        match shared.queue.take(worker, shared.file_limits(), shared.workers()) {
            NextTask::Over => {
                shared.queue.more();
                return;
            }
            NextTask::Wait => {
                // An idle worker looks again from time to time: a slow piece shows only with time.
                let began = Instant::now();
                drop(tokio::time::timeout(LOOK_AROUND, changed).await);
                shared.progress.fetch.starved(began.elapsed());
            }
            NextTask::Open(item) => {
                if let Some(file) = shared.open(*item, None).await {
                    shared.add_workers(&file);
                    shared.queue.opened(Arc::clone(&file));
                    if file.is_to_be_finished() {
                        shared.finish(&file).await;
                    }
                }
            }
            NextTask::Batch(batch) => {
                if batch.root.is_sent() {
                    send_batch::run(&shared, batch).await;
                } else {
                    fetch_batch::run(&shared, batch).await;
                }
                shared.queue.ended_batch();
            }
            NextTask::Piece(file, piece) => {
                shared.fetching.fetch_add(1, Ordering::AcqRel);
                shared.fetch(worker, &file, &piece).await;
                shared.fetching.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

/// Copies a small file.
async fn run_small(shared: Arc<CopyContext>, item: CopyItem, slot: SmallSlot) {
    let Some(file) = shared.open(item, Some(slot)).await else { return };
    shared.note_small_files(&file).await;
    if file.is_to_be_finished() {
        shared.finish(&file).await;
    }
    while let Some(piece) = file.take(0, false) {
        shared.fetch(0, &file, &piece).await;
    }
}

impl CopyContext {
    /// Opens a file. None if that has ended its copy.
    async fn open(
        self: &Arc<Self>,
        item: CopyItem,
        slot: Option<SmallSlot>,
    ) -> Option<Arc<FileCopy>> {
        if let Some(mover) = &self.options.third_party {
            self.tune_third_party(&item);
            self.moving.fetch_add(1, Ordering::AcqRel);
            let moved = third_party::run(self, &**mover, &item).await;
            self.moving.fetch_sub(1, Ordering::AcqRel);
            match moved {
                Ok(MoveResult::FallBack) => {}
                result => {
                    match result {
                        Ok(MoveResult::Skipped) => {
                            self.tally().files_skipped += 1;
                            self.progress.done_file();
                        }
                        Ok(_) => self.progress.done_file(),
                        Err(error) => self.failed(item.name, error),
                    }
                    self.queue.closed(false, None, None);
                    return None;
                }
            }
        }
        let is_small = item.is_small;
        match open::open(self, item.clone(), slot).await {
            Ok(OpenResult::File(file)) => return Some(file),
            Ok(OpenResult::Skipped(bytes)) => {
                self.skipped(bytes);
                self.queue.closed(is_small, None, None);
            }
            Err(error) => {
                let again = self.next_attempt(&item, &error).await;
                if again.is_none() {
                    self.failed(item.name, error);
                }
                self.queue.closed(is_small, None, again);
            }
        }
        None
    }

    /// The file once more, after a while, if another attempt is left and may succeed.
    async fn next_attempt(&self, item: &CopyItem, error: &Error) -> Option<CopyItem> {
        let mut policy = self.options.retry;
        policy.attempts = self.options.attempts;
        policy.min_pause *= FILE_PAUSES;
        policy.max_pause *= FILE_PAUSES;
        let mut backoff = item.backoff.clone();
        let pause = backoff.next(&policy, error.retry_anew(), false, &self.clock)?;
        let attempt = backoff.failures() + 1;
        self.note(format!("{error}: attempt {attempt} of {}", policy.attempts));
        self.clock.sleep(pause).await;
        Some(CopyItem { backoff, ..item.clone() })
    }

    async fn fetch(self: &Arc<Self>, worker: usize, file: &Arc<FileCopy>, piece: &Arc<Piece>) {
        let result = fetch::run(file, piece).await;
        file.release(piece.buffer.waiting_bytes());
        if file.is_blind() {
            file.dropped(piece.buffer.arrived());
        }
        match result {
            Ok(()) if file.ended(worker, piece) => self.finish(file).await,
            Ok(()) if file.is_small() => {}
            // For the workers that wait because no more pieces of this file may be in flight.
            Ok(()) => {
                // Replicas join in one by one, and show then what their links are worth.
                if file.replicas.is_some() {
                    self.add_workers(file);
                }
                self.queue.more();
            }
            Err(error) => {
                if file.give_up() {
                    self.lost(file, error).await;
                }
            }
        }
    }

    async fn finish(self: &Arc<Self>, file: &Arc<FileCopy>) {
        match finish::finish(file).await {
            Ok(Finished::Done) => {
                self.note_done(file);
                if let Some(folder) = file.item.target.folder() {
                    let mut folders = self.folders();
                    if !folders.contains(folder) {
                        folders.insert(folder.to_owned());
                    }
                }
                self.progress.done_file();
                self.look_at_unseen(false).await;
                self.queue.closed(file.is_small(), Some(file), None);
            }
            Ok(Finished::Again(bytes)) => {
                self.progress.undone_bytes(bytes);
                self.tally().bytes_resent += bytes;
                self.queue.more();
            }
            Err(error) => self.lost(file, error).await,
        }
    }

    fn note_done(&self, file: &FileCopy) {
        let mut tally = self.tally();
        tally.files += 1;
        tally.bytes += file.item.bytes(file.size);
    }

    /// Ends the copy of a file that failed. If the source changed, it is copied anew, once.
    async fn lost(self: &Arc<Self>, file: &Arc<FileCopy>, error: Error) {
        file.free_slot();
        let is_whole = file.item.range.is_none();
        // Of a target that has changed, another copy finds the same.
        let is_source = self.options.expected.is_none();
        let again =
            error.kind() == ErrorKind::Changed && !file.item.restarted && is_whole && is_source;
        let can_go_on = self.journal.is_some() && file.can_go_on().await;
        if again || !can_go_on {
            finish::abandon(file).await;
        }
        if let Some(item) = self.next_attempt(&file.item, &error).await {
            self.progress.undone_bytes(file.written_bytes());
            if let Some(journal) = self.journal.as_ref().filter(|_| can_go_on) {
                journal.put_back(file.key.clone(), file.resumable());
            }
            self.queue.closed(file.is_small(), Some(file), Some(item));
            return;
        }
        let restarted = if again { self.asked_again(&file.item, error).await } else { Err(error) };
        let item = match restarted {
            Ok(item) => {
                self.progress.undone_bytes(file.written_bytes());
                Some(item)
            }
            Err(error) => {
                file.note_replicas();
                let error = if can_go_on { finish::leave(file, error).await } else { error };
                self.tally().files_kept += u64::from(can_go_on && file.written_bytes() > 0);
                self.failed(file.item.name.clone(), error);
                None
            }
        };
        self.queue.closed(file.is_small(), Some(file), item);
    }

    /// The file once more, as the server states it now by the method that listed it: the response
    /// that differed from the listing may be the one that is wrong.
    async fn asked_again(&self, item: &CopyItem, error: Error) -> Result<CopyItem, Error> {
        let mut entry = None;
        // A file of this machine is opened, and shows its version then.
        if let Some(listed) = item.entry.as_ref().filter(|_| item.local.is_none()) {
            let now = item.storage.stat(&item.path).await.map_err(|_| error.clone())?;
            if now.kind != FileKind::File || listed.size.is_some() && now.size.is_none() {
                return Err(error);
            }
            // The tag of a listing may be another than that of the file.
            entry = Some(DirEntry { validator: None, ..now });
        }
        self.note(format!("{error}: copied again"));
        Ok(CopyItem { entry, restarted: true, is_small: false, ..item.clone() })
    }

    /// Adapts the number of small files under way to what the servers of this one take by now.
    async fn note_small_files(&self, file: &FileCopy) {
        let source = &*file.source;
        if self.queue.has_small() {
            source.expect_small_files();
        }
        let by_source = match file.item.local {
            Some(_) => usize::MAX,
            None => connections::for_small_files(&source.link(), source.max_small_files()),
        };
        let by_target = file.max_small_uploads().await.unwrap_or(usize::MAX);
        let by_bandwidth = self.workers_by_bandwidth(file);
        let small = match by_source.min(by_target) {
            usize::MAX => connections::MIN_SMALL_FILES,
            small => small,
        };
        let small = small.min(by_bandwidth).max(1);
        let is_tuned = self.options.control.is_tuned() && file.item.local.is_none();
        let tuned = if is_tuned && by_bandwidth == usize::MAX {
            let max = source.max_small_files().min(by_target).min(MAX_FOUND / 2);
            let done = self.progress.figures().files_done;
            self.tuning.small_files(&self.tuned_files(file, done), small, max)
        } else {
            small
        };
        self.small_files.store(tuned.max(1), Ordering::Release);
    }

    /// The most workers that the limit of bandwidth keeps going.
    fn workers_by_bandwidth(&self, file: &FileCopy) -> usize {
        let limiter = self.options.bandwidth.as_ref();
        limiter.map_or(usize::MAX, |limiter| limiter.max_workers(file.item.directions()))
    }

    /// Adapts the number of workers to what the link of `file` is worth.
    fn add_workers(&self, file: &FileCopy) {
        let by_bandwidth = self.workers_by_bandwidth(file);
        let cap = self.options.max_workers.min(by_bandwidth).max(1);
        // An upload limits the blocks in flight itself; other targets take any number.
        let by_target = if file.is_exact() { file.max_pieces } else { 1 };
        let by_path = match &file.replicas {
            Some(replicas) => replicas.bulk_connections(cap),
            None => connections::for_bulk(&file.source.link(), cap),
        };
        let wanted = by_path.max(by_target.min(cap));
        let is_tuned = self.options.control.is_tuned() && by_bandwidth == usize::MAX;
        let was_running = self.tuning.is_running();
        let tuned = match &file.sink {
            Sink::Upload(_) if is_tuned => self.tune_uploads(file, wanted),
            _ if is_tuned && file.item.local.is_none() && !file.is_exact() => {
                let files = self.tuned_files(file, self.progress.figures().bytes_arrived);
                self.tuning.workers(&files, wanted, self.options.max_workers)
            }
            _ => wanted,
        };
        self.raise_workers(Some(&*file.source), tuned);
        if !was_running {
            // Whoever runs the workers begins to take samples.
            self.workers_changed.notify_one();
        }
    }

    /// Adapts the number of files, or blocks of them, that are uploaded at a time to what other
    /// numbers have brought. Returns the number of workers, which is `wanted` by rule.
    fn tune_uploads(&self, file: &FileCopy, wanted: usize) -> usize {
        let Some(memory) = &self.options.tuning else { return wanted };
        // A worker holds the block that it sends and the next one.
        let by_memory = self.options.budget_bytes / (2 * file.block_bytes()).max(1);
        let by_memory = usize::try_from(by_memory).unwrap_or(usize::MAX);
        let files = self.tuned_files(file, memory.upload_state().confirmed_bytes);
        if !file.is_stream() {
            let max = self.options.max_workers.min(by_memory).max(wanted);
            return self.tuning.uploads(&files, TunedKnob::Blocks, wanted, max);
        }
        // One is interrupted as a whole, so there are not more of them than help.
        let blocks = file.size.div_ceil(file.block_bytes().max(1));
        let by_blocks = wanted / usize::try_from(blocks).unwrap_or(usize::MAX).max(1);
        let rule = connections::MIN_BULK.max(by_blocks).min(self.options.max_workers).max(1);
        let max = self.options.max_workers.min(by_memory).max(rule);
        let streams = self.tuning.uploads(&files, TunedKnob::Uploads, rule, max);
        self.uploads.store(streams, Ordering::Release);
        streams.max(wanted)
    }

    /// Adapts the number of files that servers move at a time to what other numbers have brought.
    fn tune_third_party(&self, item: &CopyItem) {
        if self.options.control.workers().is_some() {
            return;
        }
        let servers = format!("{} {}", item.storage.name(), item.target.server());
        let max = self.options.max_workers;
        let rule = connections::MIN_BULK.min(max);
        let done = self.progress.bytes_moved_by_servers();
        let was_running = self.tuning.is_running();
        let memory = self.options.tuning.as_deref();
        let files = self.tuning.third_party_files(&servers, memory, rule, max, done);
        self.raise_workers(None, files);
        if !was_running {
            self.workers_changed.notify_one();
        }
    }

    /// Waits with a file that servers have refused to move beside the others of this job, of which
    /// fewer are asked for from now on. Returns their number.
    pub(crate) async fn wait_to_move(&self, after: Duration) -> usize {
        let others = self.moving.fetch_sub(1, Ordering::AcqRel).saturating_sub(1);
        self.tuning.refused_more(others);
        tokio::time::sleep(after).await;
        self.moving.fetch_add(1, Ordering::AcqRel);
        others
    }

    fn tuned_files<'a>(&'a self, file: &'a FileCopy, done: u64) -> TunedFiles<'a> {
        TunedFiles {
            source: &file.source,
            servers: format!("{} {}", file.item.storage.name(), file.item.target.server()),
            size: file.size,
            is_replicated: file.replicas.as_ref().is_some_and(|it| it.usable().len() > 1),
            memory: self.options.tuning.as_deref(),
            done,
        }
    }

    /// The totals of what workers have brought, for the tuner of `knob`.
    fn observation(&self, knob: TunedKnob, signal: PathSignal) -> Observation {
        let stages: StageTimes = self.progress.fetch.times().into();
        let seen = Observation {
            stages,
            workers: self.workers(),
            active: self.fetching.load(Ordering::Acquire),
            ..Observation::default()
        };
        match knob {
            TunedKnob::Connections | TunedKnob::SmallFiles => {
                Observation { done: self.progress.figures().bytes_arrived, signal, ..seen }
            }
            TunedKnob::ThirdPartyFiles => Observation {
                done: self.progress.bytes_moved_by_servers(),
                latency: THIRD_PARTY_LATENCY,
                active: 0,
                ..seen
            },
            TunedKnob::Uploads | TunedKnob::Blocks => {
                let memory = self.options.tuning.as_deref();
                let state = memory.map_or_else(Default::default, |it| it.upload_state());
                let is_whole = knob == TunedKnob::Uploads;
                Observation {
                    done: state.confirmed_bytes,
                    latency: state.latency,
                    // Writing is what is measured.
                    stages: StageTimes { blocked: Duration::ZERO, ..stages },
                    active: if is_whole { self.queue.in_hand() } else { seen.active },
                    signal: state.signal,
                    ..seen
                }
            }
        }
    }

    /// Adapts workers and small files to what other numbers of them have brought.
    fn sample_tuners(&self) {
        let memory = self.options.tuning.as_deref();
        let signal = memory.map_or_else(PathSignal::default, |it| it.path_signal());
        let knob = self.tuning.knob();
        let sample =
            knob.and_then(|knob| self.tuning.sample_workers(self.observation(knob, signal)));
        if let Some(sample) = sample {
            self.apply(&sample);
        }
        let figures = self.progress.figures();
        let is_full = !self.budget.has_room();
        let has_small = self.queue.has_small();
        let files = self.tuning.sample_small_files(figures.files_done, is_full, has_small, signal);
        if let Some(files) = files {
            self.small_files.store(files, Ordering::Release);
        }
    }

    fn apply(&self, sample: &WorkerSample) {
        let WorkerSample { source, knob, setting, is_shared } = sample;
        let workers = *setting;
        if *knob == TunedKnob::Uploads {
            self.uploads.store(workers, Ordering::Release);
            // Those above it go on, so that no server waits for the rest of a file.
            return self.raise_workers(None, workers);
        }
        let before = self.workers.load(Ordering::Acquire);
        if workers < before {
            debug!(workers, before, is_shared, "workers parked");
            self.workers.store(workers, Ordering::Release);
            if *is_shared {
                self.queue.take_back(workers);
            }
        } else {
            self.raise_workers(source.as_deref(), workers);
        }
    }

    /// Raises the number of workers to what the link of `source` is worth, at least to `min` and at
    /// most to `max`.
    pub(crate) fn add_workers_for(&self, source: &dyn Source, min: usize, max: usize) {
        let cap = self.options.max_workers.min(max).max(1);
        let wanted = connections::for_bulk(&source.link(), cap).max(min.min(cap));
        self.raise_workers(Some(source), wanted);
    }

    fn raise_workers(&self, source: Option<&dyn Source>, wanted: usize) {
        let before = self.workers.fetch_max(wanted, Ordering::AcqRel);
        if wanted > before {
            let name = source.map(Source::name);
            debug!(workers = wanted, before, source = name, "workers added");
            if let Some(source) = source {
                source.preconnect(wanted.min(source.max_connections()));
            }
            self.workers_changed.notify_one();
        }
    }
}
