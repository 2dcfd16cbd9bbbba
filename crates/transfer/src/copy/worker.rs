//! A worker: takes the next task from the queue, opens a file, fetches a piece, or finishes a file.

use crate::copy::context::CopyContext;
use crate::copy::queue::NextTask;
use crate::file::finish::Finished;
use crate::file::open::OpenResult;
use crate::file::{CopyItem, FileCopy, Piece, fetch, finish, open};
use hither_core::tune::connections;
use hither_core::{Error, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;
use tracing::debug;

/// Interval at which an idle worker looks for a piece to split.
const LOOK_AROUND: Duration = Duration::from_millis(20);

/// Runs as many workers as help by now, until nothing is left to do.
pub(crate) async fn run_all(shared: &Arc<CopyContext>) {
    let mut running = JoinSet::new();
    let mut started = 0;
    loop {
        while started < shared.workers() {
            started += 1;
            running.spawn(run_worker(Arc::clone(shared), started));
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
        }
    }
}

async fn run_worker(shared: Arc<CopyContext>, worker: usize) {
    loop {
        let mut changed = pin!(shared.queue.changed());
        // Enabled before the queue is asked, so that no change in between is missed.
        changed.as_mut().enable();
        match shared.queue.take(worker) {
            NextTask::Over => {
                shared.queue.more();
                return;
            }
            NextTask::Wait => {
                // An idle worker looks again from time to time: a slow piece shows only with time.
                drop(tokio::time::timeout(LOOK_AROUND, changed).await);
            }
            NextTask::Open(item) => shared.open(item).await,
            NextTask::Piece(file, piece) => shared.fetch(worker, &file, &piece).await,
        }
    }
}

impl CopyContext {
    async fn open(self: &Arc<Self>, item: CopyItem) {
        match open::open(self, item.clone()).await {
            Ok(OpenResult::File(file)) => {
                self.add_workers(&file);
                self.queue.opened(Arc::clone(&file));
                if file.is_to_be_finished() {
                    self.finish(&file).await;
                }
            }
            Ok(OpenResult::Skipped(bytes)) => {
                self.tally().files_skipped += 1;
                self.progress.done_bytes(bytes);
                self.progress.done_file();
                self.queue.closed(None, None);
            }
            Err(error) => {
                self.failed(item.name, error);
                self.queue.closed(None, None);
            }
        }
    }

    async fn fetch(self: &Arc<Self>, worker: usize, file: &Arc<FileCopy>, piece: &Arc<Piece>) {
        let result = fetch::run(file, piece).await;
        self.budget.release(piece.buffer.waiting_bytes());
        if file.is_blind() {
            file.dropped(piece.buffer.arrived());
        }
        match result {
            Ok(()) if file.ended(worker, piece) => self.finish(file).await,
            // For the workers that wait because no more pieces of this file may be in flight.
            Ok(()) => self.queue.more(),
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
                let mut tally = self.tally();
                tally.files += 1;
                tally.bytes += file.version.size;
                drop(tally);
                if let Some(folder) = file.item.target.folder() {
                    self.folders().insert(folder.to_owned());
                }
                self.progress.done_file();
                self.queue.closed(Some(file), None);
            }
            Ok(Finished::Again) => {
                self.progress.undone_bytes(file.version.size);
                self.tally().bytes_resent += file.version.size;
                self.queue.more();
            }
            Err(error) => self.lost(file, error).await,
        }
    }

    /// Ends the copy of a file that failed. If the source changed, it is copied anew, once.
    async fn lost(self: &Arc<Self>, file: &Arc<FileCopy>, error: Error) {
        let again = error.kind() == ErrorKind::Changed && !file.item.restarted;
        let can_go_on = self.journal.is_some() && file.can_go_on().await;
        if again || !can_go_on {
            finish::abandon(file).await;
        }
        let item = again.then(|| {
            self.progress.undone_bytes(file.written_bytes());
            self.note(format!("{error}: copied again"));
            CopyItem { entry: None, restarted: true, ..file.item.clone() }
        });
        if item.is_none() {
            self.failed(file.item.name.clone(), error);
        }
        self.queue.closed(Some(file), item);
    }

    /// Raises the number of workers to what the link of `file` is worth.
    fn add_workers(&self, file: &FileCopy) {
        let link = file.source.link();
        let cap = self.options.max_workers.max(1);
        // An upload limits the blocks in flight itself; other targets take any number.
        let by_target = if file.is_exact() { file.max_pieces.min(cap) } else { 1 };
        let wanted = connections::for_bulk(&link, cap).max(by_target);
        let before = self.workers.fetch_max(wanted, Ordering::AcqRel);
        if wanted > before {
            debug!(workers = wanted, before, file = file.item.name, "workers added");
            file.source.preconnect(wanted.min(file.source.max_connections()));
            self.workers_changed.notify_one();
        }
    }
}
