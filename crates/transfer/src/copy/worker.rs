//! A worker: takes the next task from the queue, and carries it out ([`attempt`]).
//!
//! Small files from listings have no worker: each is a task of its own, from its opening to its
//! final name. The number of these tasks is limited by the servers
//! ([`hither_core::Source::max_small_files`], [`hither_core::Upload::max_small_files`]), the memory
//! budget and the limits of the job. A file that waits for the disk and its name does not count.

use crate::copy::attempt;
use crate::copy::context::CopyContext;
use crate::copy::queue::NextTask;
use crate::tree::{fetch_batch, send_batch};
use hither_core::{Error, ErrorKind};
use hither_tune::SAMPLE_INTERVAL;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

/// Interval at which an idle worker searches for a piece to split.
const SPLIT_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the workers and the tasks of small files until no work is left.
pub(crate) async fn run_all(shared: &Arc<CopyContext>) {
    let budget = &shared.resources.budget;
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
            running.spawn(attempt::copy_small(Arc::clone(shared), item, slot));
        }
        tokio::select! {
            ended = running.join_next() => {
                match ended {
                    None => return,
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        let failure = Error::new(ErrorKind::Local, "a worker of the copy panicked").with_source(error);
                        shared.results().failed("the copy".to_owned(), failure);
                        return;
                    }
                }
            }
            () = shared.concurrency.job().more_workers() => {}
            _ = samples.tick(), if shared.concurrency.is_tuning() => shared.concurrency.sample(),
            () = shared.resources.options.control.changed.notified() => {}
            () = shared.queue.small_changed() => {}
            () = budget.room(), if !budget.has_room() => {}
        }
    }
}

async fn run_worker(shared: Arc<CopyContext>, worker: usize) {
    loop {
        let mut changed = pin!(shared.queue.changed());
        // Enabled before the queue is read, so that no change in between is missed.
        changed.as_mut().enable();
        if worker > shared.concurrency.workers() {
            // Parked, until the limit rises or nothing is left to do.
            if shared.queue.is_over() {
                return;
            }
            drop(tokio::time::timeout(SPLIT_INTERVAL, changed).await);
            continue;
        }
        match shared.queue.take(shared.work_request(worker), shared.concurrency.file_limits()) {
            NextTask::Over => {
                shared.queue.more();
                return;
            }
            NextTask::Wait => {
                // An idle worker searches again from time to time, because a slow piece shows only
                // with time.
                let began = Instant::now();
                drop(tokio::time::timeout(SPLIT_INTERVAL, changed).await);
                shared.resources.progress.fetch.starved(began.elapsed());
            }
            NextTask::Open(item) => attempt::begin(&shared, *item).await,
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
                attempt::fetch_piece(&shared, worker, &file, &piece).await;
                shared.concurrency.job().end_piece();
            }
        }
    }
}

#[cfg(test)]
mod tests;
