//! Third-party copies: two servers move a file between them, and this machine monitors it.
//!
//! A [`ThirdPartyMover`] knows which servers can do that, and how. This module has the part that is
//! common to all protocols: existing targets are treated as in every copy, and after the move sizes
//! and checksums of both ends are compared. A server with a limit of concurrent copies refuses
//! more: then fewer are requested at a time, and a refused one waits for its turn.

use crate::copy::context::CopyContext;
use crate::copy::resources::CopyResources;
use crate::destination::Target;
use crate::file::existing::is_to_be_skipped;
use crate::file::identify::size_by_response;
use crate::file::item::CopyItem;
use crate::file::version::FileVersion;
use crate::options::{OverwritePolicy, Verify};
use crate::server_actions::{ThirdPartyMove, ThirdPartyMover};
use crate::summary::FileChecksum;
use hither_checksum::Checksum;
use hither_core::retry::{self, Failed};
use hither_core::storage::is_same_version;
use hither_core::{DirEntry, Error, ErrorKind, Result, Retry, Storage};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::debug;

/// Outcome of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoveResult {
    Moved,
    /// The existing target is kept.
    Skipped,
    /// The file is to be copied through this machine.
    FallBack,
}

/// Moves a file, if its target is on a server.
pub(crate) async fn run(
    shared: &CopyContext,
    mover: &dyn ThirdPartyMover,
    item: &CopyItem,
) -> Result<MoveResult> {
    let moved = async {
        let Target::Remote(target, target_path) = &item.target else {
            let what = format!("{}: a third-party copy needs two servers", item.target.name());
            return Err(Error::new(ErrorKind::Unsupported, what));
        };
        let CopyResources { options, clock, progress, .. } = &*shared.resources;
        let mut entry = match &item.entry {
            Some(entry) => entry.clone(),
            None => item.storage.stat(&item.path).await?,
        };
        // The target's server may have the same wrong size from there, and then an empty file.
        if entry.size == Some(0) {
            entry.size = size_by_response(&options.retry, &*item.storage, &item.path).await?;
        }
        progress.found_bytes(entry.counted_bytes().saturating_sub(item.counted_bytes()));
        let attempt = || async {
            shared.concurrency.begin_move();
            let moved = move_between(shared, mover, item, &entry, &**target, target_path).await;
            let is_refused = |error: &Error| matches!(error.retry(), Retry::Later { .. });
            if !moved.as_ref().is_err_and(is_refused) {
                shared.concurrency.end_move();
                return moved.map_err(Failed::finally);
            }
            let server = item.target.server();
            shared
                .results()
                .note_once(format!("{server} moves no more files at a time: others wait"));
            // Its turn comes while other files of this job are being moved.
            let others = shared.concurrency.refuse_move();
            moved.map_err(|error| Failed::from(error).after_progress(others > 0))
        };
        retry::run(&options.retry, clock, attempt).await
    };
    match moved.await {
        Err(error) if mover.falls_back(&error) => {
            shared.results().note_once(format!("copied through this machine: {error}"));
            Ok(MoveResult::FallBack)
        }
        result => result,
    }
}

async fn move_between(
    shared: &CopyContext,
    mover: &dyn ThirdPartyMover,
    item: &CopyItem,
    entry: &DirEntry,
    target: &dyn Storage,
    target_path: &str,
) -> Result<MoveResult> {
    let key = item.target.name();
    let Some(size) = entry.size else {
        let what = format!("{}: the server does not state the size of the file", item.name);
        return Err(Error::new(ErrorKind::Unsupported, what));
    };
    let version = FileVersion::of(entry);
    let known = shared.resources.journal.as_ref().and_then(|journal| journal.known(&key));
    if is_to_be_skipped(shared.resources.options.existing, item, &version, known.as_ref()).await? {
        shared.resources.progress.done_bytes(size);
        return Ok(MoveResult::Skipped);
    }
    let file = ThirdPartyMove {
        source: &*item.storage,
        source_path: &item.path,
        target,
        target_path,
        size,
        overwrite: shared.resources.options.existing.replaces(),
    };
    let counted = Arc::new(AtomicU64::new(0));
    let moved = {
        let counted = Arc::clone(&counted);
        let progress = Arc::clone(&shared.resources.progress);
        // Markers may come twice, and count bytes that are written twice.
        Arc::new(move |bytes: u64| {
            let bytes = bytes.min(size);
            let before = counted.fetch_max(bytes, Ordering::Relaxed);
            progress.moved_by_servers(bytes.saturating_sub(before));
        })
    };
    let result = async {
        let before = match shared.resources.options.existing {
            // An existing file would have been kept.
            OverwritePolicy::Keep => Before::Absent,
            existing if existing.replaces() => Before::look(item, target, target_path).await,
            _ => Before::Unknown,
        };
        mover.move_file(file, moved).await?;
        verify(shared, item, &file, &before).await
    };
    let result = result.await;
    let counted = counted.load(Ordering::Relaxed);
    match result {
        Ok(seen) => {
            shared.resources.progress.moved_by_servers(size.saturating_sub(counted));
            debug!(file = item.name, bytes = size, "file moved by the servers");
            let mut tally = shared.results().summary();
            tally.files += 1;
            tally.bytes += size;
            drop(tally);
            if let Some(journal) = &shared.resources.journal {
                journal.done(&key, &version, &FileVersion::of(&seen));
            }
            if item.is_of_tree {
                shared.results().note_name(&item.target, item.name.clone(), Some((version, size)));
            }
            Ok(MoveResult::Moved)
        }
        Err(error) => {
            shared.resources.progress.undone_bytes(counted);
            Err(error)
        }
    }
}

/// The file at the target before the move.
enum Before {
    Absent,
    There(DirEntry),
    Unknown,
}

impl Before {
    /// Returns the entry at the target now. For many files of a directory it is taken from a
    /// listing.
    async fn look(item: &CopyItem, target: &dyn Storage, path: &str) -> Self {
        if let Some(directory) = item.directory.as_ref().filter(|_| item.backoff.failures() == 0)
            && let Some(listed) = directory.listed(path).await
        {
            return listed.map_or(Self::Absent, Self::There);
        }
        match target.stat(path).await {
            Ok(entry) => Self::There(entry),
            Err(error) if error.kind() == ErrorKind::NotFound => Self::Absent,
            Err(_) => Self::Unknown,
        }
    }

    /// Returns true if `seen` may be the file from before the move: no property shows that it was
    /// replaced.
    fn may_be(&self, seen: &DirEntry) -> bool {
        matches!(self, Self::There(old) if is_same_version(old, seen) == Some(true))
    }

    /// Returns true if `seen` was surely not there before.
    fn is_replaced_by(&self, seen: &DirEntry) -> bool {
        match self {
            Self::Absent => true,
            Self::There(old) => is_same_version(old, seen) == Some(false),
            Self::Unknown => false,
        }
    }
}

/// Compares size and checksum of both ends: of a small file only if that is requested, or if the
/// target looks as it did `before`, so that the move may not have been carried out. A wrong file is
/// removed, if it is certainly the one that was moved: a server may have confirmed a move that it
/// did not carry out.
async fn verify(
    shared: &CopyContext,
    item: &CopyItem,
    file: &ThirdPartyMove<'_>,
    before: &Before,
) -> Result<DirEntry> {
    let seen = file.target.stat(file.target_path).await?;
    let wrong = if seen.size == Some(file.size) {
        let options = &shared.resources.options;
        let must_compare = options.verify.is_explicit() || before.may_be(&seen);
        let wants_checksum = must_compare || file.size >= options.block_bytes;
        match options.verify.algorithm().filter(|_| wants_checksum) {
            None => None,
            Some(algorithm) => {
                let there = file.target.checksum(file.target_path, algorithm);
                let here = async {
                    match &options.verify {
                        Verify::Value(value) => Ok(Some(value.clone())),
                        _ => file.source.checksum(file.source_path, algorithm).await,
                    }
                };
                let (there, here) = futures_util::join!(there, here);
                // A server without a checksum is not a failure: most have none.
                compare(shared, item, there.ok().flatten(), here.ok().flatten(), must_compare)
            }
        }
    } else {
        Some(format!("{} arrived, expected {}", seen.shown_size(), file.size))
    };
    let Some(wrong) = wrong else { return Ok(seen) };
    // The next job notices another size by itself; and the file may be one of another client.
    let is_removed = seen.size == Some(file.size)
        && before.is_replaced_by(&seen)
        && file.target.remove_version(&seen).await.unwrap_or_default();
    let left = if is_removed { "" } else { ", and is left there" };
    Err(Error::new(ErrorKind::Corrupt, format!("{}: {wrong}{left}", item.target.name())))
}

/// Notes the checksum of the target. Returns what is wrong with it.
fn compare(
    shared: &CopyContext,
    item: &CopyItem,
    there: Option<Checksum>,
    expected: Option<Checksum>,
    must_compare: bool,
) -> Option<String> {
    let is_known = there.is_some() && expected.is_some();
    if must_compare && !is_known {
        let name = item.target.name();
        shared.results().note(format!("{name}: not compared, because a server tells no checksum"));
    }
    let checksum = there?;
    let compared = expected.is_some();
    if let Some(expected) = expected.filter(|expected| *expected != checksum) {
        return Some(format!("the server states {checksum}, expected {expected}"));
    }
    shared.results().note_checksum(FileChecksum { target: item.target.name(), checksum, compared });
    None
}

#[cfg(test)]
mod tests;
