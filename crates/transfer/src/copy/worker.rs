//! A worker: takes the next task from the queue, opens a file, fetches a piece, or finishes a file.
//!
//! Small files out of listings have no worker: each is a task of its own from its opening to its
//! name. They begin as others end, as many at a time as the servers take
//! ([`hither_core::Source::max_small_files`], [`hither_core::Upload::max_small_files`]), the budget
//! of memory has room for, and the limits of the job allow. A file that waits for the disk and its
//! name is not counted.

use crate::copy::concurrency::{moved_files, servers_of};
use crate::copy::context::{CopyContext, SmallSlot};
use crate::copy::queue::NextTask;
use crate::file::finish::Finished;
use crate::file::open::OpenResult;
use crate::file::piece::Piece;
use crate::file::{CopyItem, FileCopy, fetch, finish, open};
use crate::server_actions::third_party::{self, MoveResult};
use crate::tree::{fetch_batch, send_batch};
use hither_core::{Clock, DirEntry, Error, ErrorKind, FileKind};
use hither_tune::{SAMPLE_INTERVAL, SmallFileLimits};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

/// Pauses before attempts for a whole file are longer than those before single requests by this.
const FILE_PAUSES: u32 = 4;
/// Interval at which an idle worker looks for a piece to split.
const LOOK_AROUND: Duration = Duration::from_millis(20);

/// Runs as many workers and small files as help by now, until nothing is left to do.
pub(crate) async fn run_all(shared: &Arc<CopyContext>) {
    let mut running = JoinSet::new();
    let mut started = 0;
    let mut samples = tokio::time::interval(SAMPLE_INTERVAL);
    samples.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while started < shared.concurrency.workers() {
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
            () = shared.concurrency.job().more_workers() => {}
            _ = samples.tick(), if shared.concurrency.is_tuning() => shared.concurrency.sample(),
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
        if worker > shared.concurrency.workers() {
            // Parked, until the limit rises or nothing is left to do.
            if shared.queue.is_over() {
                return;
            }
            drop(tokio::time::timeout(LOOK_AROUND, changed).await);
            continue;
        }
        match shared.queue.take(
            worker,
            shared.concurrency.file_limits(),
            shared.concurrency.workers(),
        ) {
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
                shared.concurrency.job().begin_piece();
                shared.fetch(worker, &file, &piece).await;
                shared.concurrency.job().end_piece();
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
            self.concurrency.moves_between(&servers_of(&item));
            self.concurrency.begin_move();
            let moved = third_party::run(self, &**mover, &item).await;
            self.concurrency.end_move();
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

    /// Adapts the number of small files at a time to what the servers of this one take.
    async fn note_small_files(&self, file: &FileCopy) {
        if self.queue.has_small() {
            file.source.expect_small_files();
        }
        let by_target = file.max_small_uploads().await.unwrap_or(usize::MAX);
        let limits = SmallFileLimits { by_target, is_local: file.item.local.is_some() };
        let files = moved_files(file, self.options.bandwidth.as_ref());
        self.concurrency.opened_small(&files, &limits);
    }

    /// Adapts the number of workers to what the link of `file` is worth.
    fn add_workers(&self, file: &FileCopy) {
        self.concurrency.opened(&moved_files(file, self.options.bandwidth.as_ref()));
    }

    /// Waits with a file that servers have refused to move beside the others of this job. Returns
    /// the number of the others.
    pub(crate) async fn wait_to_move(&self, after: Duration) -> usize {
        let others = self.concurrency.refuse_move();
        tokio::time::sleep(after).await;
        self.concurrency.begin_move();
        others
    }
}
