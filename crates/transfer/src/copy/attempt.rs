//! Attempts to copy a file: it is opened, its pieces are fetched, it is finished. The outcome
//! decides whether it is done, failed, or copied again.
//!
//! A [`FileCopy`] opens, fetches and finishes. Only this module decides what follows its end: the
//! record in the summary, the place in the queue and the next attempt.

use crate::copy::concurrency::{moved_files, servers_of};
use crate::copy::context::CopyContext;
use crate::copy::small_slot::SmallSlot;
use crate::file::blocks::piece::Piece;
use crate::file::finish::Finished;
use crate::file::item::CopyItem;
use crate::file::open::OpenResult;
use crate::file::{FileCopy, fetch, finish, open};
use crate::server_actions::third_party::{self, MoveResult};
use hither_core::{Clock, DirEntry, Error, ErrorKind, FileKind, Result};
use hither_tune::SmallFileLimits;
use std::sync::Arc;

/// The factor by which pauses before attempts for a whole file are longer than those before single
/// requests.
const FILE_PAUSES: u32 = 4;

/// Opens a file for workers, and finishes it if no byte of it has to be fetched.
pub(crate) async fn begin(shared: &CopyContext, item: CopyItem) {
    let Some(file) = open_file(shared, item, None).await else { return };
    adapt_workers(shared, &file);
    shared.queue.opened(Arc::clone(&file));
    if file.blocks().is_to_be_finished() {
        finish_file(shared, &file).await;
    }
}

/// Copies a small file.
pub(crate) async fn copy_small(shared: Arc<CopyContext>, item: CopyItem, slot: SmallSlot) {
    let shared = &*shared;
    let Some(file) = open_file(shared, item, Some(slot)).await else { return };
    adapt_small_files(shared, &file).await;
    if file.blocks().is_to_be_finished() {
        finish_file(shared, &file).await;
    }
    while let Some(piece) = file.take(shared.work_request(0), false) {
        fetch_piece(shared, 0, &file, &piece).await;
    }
}

/// Fetches a piece, and finishes the file if that completes it.
pub(crate) async fn fetch_piece(
    shared: &CopyContext,
    worker: usize,
    file: &Arc<FileCopy>,
    piece: &Arc<Piece>,
) {
    let result = fetch::run(file, piece).await;
    file.release(piece.buffer.waiting_bytes());
    if file.discards_bytes() {
        file.blocks().dropped(piece.buffer.arrived());
    }
    match result {
        Ok(()) if file.ended(worker, piece) => finish_file(shared, file).await,
        Ok(()) if file.is_small() => {}
        // For the workers that wait because no more pieces of this file may be in flight.
        Ok(()) => {
            // Replicas join one by one, and only then are their links measured.
            if file.source().replicas().is_some() {
                adapt_workers(shared, file);
            }
            shared.queue.more();
        }
        Err(error) => {
            if file.give_up() {
                fail(shared, file, error).await;
            }
        }
    }
}

/// Opens a file. Returns none if that has ended its copy.
async fn open_file(
    shared: &CopyContext,
    item: CopyItem,
    slot: Option<SmallSlot>,
) -> Option<Arc<FileCopy>> {
    if move_by_servers(shared, &item).await {
        shared.queue.closed(false, None, None);
        return None;
    }
    let is_small = item.is_small;
    match open::open(&shared.resources, item.clone(), slot).await {
        Ok(OpenResult::File(file)) => return Some(file),
        Ok(OpenResult::Skipped(bytes)) => {
            shared.results().skipped(bytes);
            shared.queue.closed(is_small, None, None);
        }
        Err(error) => {
            let again = next_attempt(shared, &item, &error).await;
            if again.is_none() {
                shared.results().failed(item.name, error);
            }
            shared.queue.closed(is_small, None, again);
        }
    }
    None
}

/// Has the servers move a file, if they are to. Returns false if it goes through this machine.
async fn move_by_servers(shared: &CopyContext, item: &CopyItem) -> bool {
    let Some(mover) = &shared.resources.options.third_party else { return false };
    shared.concurrency.moves_between(&servers_of(item));
    match third_party::run(shared, &**mover, item).await {
        Ok(MoveResult::FallBack) => return false,
        Ok(MoveResult::Skipped) => {
            shared.results().summary().files_skipped += 1;
            shared.resources.progress.done_file();
        }
        Ok(MoveResult::Moved) => {
            shared.resources.progress.done_file();
            shared.results().confirm_unseen(false, shared.resources.journal.as_ref()).await;
        }
        Err(error) => shared.results().failed(item.name.clone(), error),
    }
    true
}

/// The item of the next attempt, after a pause; none if no attempt is left or none can succeed.
async fn next_attempt(shared: &CopyContext, item: &CopyItem, error: &Error) -> Option<CopyItem> {
    let resources = &shared.resources;
    let mut policy = resources.options.retry;
    policy.attempts = resources.options.attempts;
    policy.min_pause *= FILE_PAUSES;
    policy.max_pause *= FILE_PAUSES;
    let mut backoff = item.backoff.clone();
    let pause = backoff.next(&policy, error.retry_anew(), false, &resources.clock)?;
    let attempt = backoff.failures() + 1;
    resources.results.note(format!("{error}: attempt {attempt} of {}", policy.attempts));
    resources.clock.sleep(pause).await;
    Some(CopyItem { backoff, ..item.clone() })
}

async fn finish_file(shared: &CopyContext, file: &Arc<FileCopy>) {
    let results = shared.results();
    let progress = &shared.resources.progress;
    match finish::finish(file).await {
        Ok(Finished::Done) => {
            results.copied(file.item().bytes(file.source().size()));
            results.note_folder(file.item().target.folder());
            progress.done_file();
            results.confirm_unseen(false, shared.resources.journal.as_ref()).await;
            shared.queue.closed(file.is_small(), Some(file), None);
        }
        Ok(Finished::Again(bytes)) => {
            progress.undone_bytes(bytes);
            results.note_resent(bytes);
            shared.queue.more();
        }
        Err(error) => fail(shared, file, error).await,
    }
}

/// Ends the copy of a file that failed. If the source changed, it is copied anew, once.
async fn fail(shared: &CopyContext, file: &Arc<FileCopy>, error: Error) {
    let resources = &shared.resources;
    let item = file.item();
    file.free_slot();
    let is_whole = item.range.is_none();
    // Another copy finds the same changed target.
    let is_source = resources.options.expected.is_none();
    let again = error.kind() == ErrorKind::Changed && !item.restarted && is_whole && is_source;
    let can_go_on = resources.journal.is_some() && file.can_go_on().await;
    if again || !can_go_on {
        file.abandon().await;
        // The journal may name what is removed now, or what the server has removed.
        if let Some(journal) = resources.journal.as_ref().filter(|_| is_whole) {
            journal.file(file.key(), &file.resumable().version, None);
        }
    }
    if let Some(item) = next_attempt(shared, item, &error).await {
        resources.progress.undone_bytes(file.blocks().written_bytes());
        if let Some(journal) = resources.journal.as_ref().filter(|_| can_go_on) {
            journal.put_back(file.key().to_owned(), file.resumable());
        }
        shared.queue.closed(file.is_small(), Some(file), Some(item));
        return;
    }
    let restarted = if again { stat_again(shared, item, error).await } else { Err(error) };
    let next = match restarted {
        Ok(item) => {
            resources.progress.undone_bytes(file.blocks().written_bytes());
            Some(item)
        }
        Err(error) => {
            file.note_replicas();
            let error = if can_go_on { finish::leave(file, error).await } else { error };
            let is_kept = can_go_on && file.blocks().written_bytes() > 0;
            resources.results.summary().files_kept += u64::from(is_kept);
            resources.results.failed(item.name.clone(), error);
            None
        }
    };
    shared.queue.closed(file.is_small(), Some(file), next);
}

/// The file once more, as the server states it now by the method that listed it: the response that
/// differed from the listing may be the one that is wrong.
async fn stat_again(shared: &CopyContext, item: &CopyItem, error: Error) -> Result<CopyItem> {
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
    shared.results().note(format!("{error}: copied again"));
    Ok(CopyItem { entry, restarted: true, is_small: false, ..item.clone() })
}

/// Adapts the number of workers to the link of `file`.
fn adapt_workers(shared: &CopyContext, file: &FileCopy) {
    let limiter = shared.resources.options.bandwidth.as_ref();
    shared.concurrency.opened(&moved_files(file, limiter));
}

/// Adapts the number of concurrent small files to the limits of this file's servers.
async fn adapt_small_files(shared: &CopyContext, file: &FileCopy) {
    if shared.queue.has_small() {
        file.source().source().expect_small_files();
    }
    let by_target = match file.target().max_small_uploads().await {
        None => usize::MAX,
        // The server does not say.
        Some(0) => shared.concurrency.workers(),
        Some(most) => most,
    };
    let limits = SmallFileLimits { by_target, is_local: file.item().local.is_some() };
    let limiter = shared.resources.options.bandwidth.as_ref();
    shared.concurrency.opened_small(&moved_files(file, limiter), &limits);
}

#[cfg(test)]
mod tests;
