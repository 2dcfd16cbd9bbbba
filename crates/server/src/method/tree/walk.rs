//! Everything below a directory by name, in the order of [`hither_http::tree::WalkOrder`].
//!
//! Directories are listed one after the other while the client reads; the names of one of them and
//! of the directories that wait are in memory, and count as those of any listing. Links to files
//! are followed where the client may read their targets. Links to directories are left out: they
//! may lead in a circle.

use super::{RecordSource, TreeStream, entry};
use crate::backend::Details;
use crate::backend::path::MAX_DEPTH;
use crate::http_error::HttpError;
use crate::method::streamed_listing::{BATCH_ENTRIES, below};
use crate::response::buffer_pool::{ChargePurpose, ConnectionMemory, MemoryCharge};
use bytes::Bytes;
use hither_core::storage::join;
use hither_http::tree::TreeEntry;
use http::StatusCode;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use tokio::time::Instant;

/// The size of a buffer: a thousand names.
const BUFFER_BYTES: usize = 64 << 10;
/// The space for the records of a batch of names, most of which are short.
const BATCH_ROOM: usize = 32 << 10;

/// The state of a walk.
#[derive(Debug)]
pub(super) struct Walk {
    /// The position after which the walk begins; empty once it was found.
    after: String,
    /// The directories that are to be listed, the next one last.
    waiting: Vec<Waiting>,
    /// The paths of files that are to be named.
    files: VecDeque<String>,
    /// The names to report as failed, encoded, each with the reason.
    refused: Vec<(String, &'static str)>,
    charge: MemoryCharge,
}

#[derive(Debug)]
struct Waiting {
    /// The path relative to the directory of the request.
    path: String,
    /// True if the client has its record already.
    is_named: bool,
}

impl Walk {
    pub(super) fn new(after: String, memory: &Arc<ConnectionMemory>) -> Self {
        let root = Waiting { path: String::new(), is_named: true };
        let charge = MemoryCharge::new(memory, ChargePurpose::Listing);
        let waiting = vec![root];
        Self { after, waiting, files: VecDeque::new(), refused: Vec::new(), charge }
    }

    /// Lists a directory: its files are to be named next, then its directories.
    async fn list(&mut self, tree: &TreeStream, directory: &str) -> Result<(), HttpError> {
        let path = below(tree.request.path.path(), directory);
        let max = tree.context.limits().names;
        let context = &tree.context;
        let listing = context.follow(&tree.request, &path, |files, path| files.list(path, max));
        let entries = listing.await?.entries;
        if entries.len() > max {
            let what = format!("the directory has more than {max} entries, the limit of listings");
            return Err(HttpError::new(StatusCode::FORBIDDEN, what));
        }
        let skipped = Skipped::of(&self.after, directory);
        let mut directories = Vec::new();
        for entry in entries {
            tokio::task::consume_budget().await;
            let relative = join(directory, &entry.name);
            if !tree.filter.shows(&below(tree.request.path.path(), &relative)) {
                continue;
            }
            if let Some(why) = entry.refusal {
                // They come before all others, so the client has them if it has any.
                if matches!(skipped, Skipped::Nothing) {
                    self.refused.push((relative, why));
                }
                continue;
            }
            match (entry.is_directory, skipped.names(&entry.name, entry.is_directory)) {
                (_, None) => {}
                (true, Some(is_named)) => directories.push(Waiting { path: relative, is_named }),
                (false, Some(_)) => self.files.push_back(relative),
            }
        }
        self.waiting.extend(directories.into_iter().rev());
        Ok(())
    }

    /// The memory of all names.
    fn bytes(&self) -> usize {
        let waiting = self.waiting.iter().map(|one| one.path.capacity() + size_of::<Waiting>());
        let files = self.files.iter().map(|path| path.capacity() + size_of::<String>());
        let refused = self.refused.iter().map(|(path, _)| path.capacity() + size_of::<String>());
        waiting.chain(files).chain(refused).sum()
    }

    /// Names the next files.
    async fn files(&mut self, tree: &mut TreeStream, out: &mut Vec<u8>) -> io::Result<()> {
        let count = self.files.len().min(BATCH_ENTRIES);
        let names: Vec<_> = self.files.drain(..count).collect();
        let root = tree.request.path.path();
        let paths = names.iter().map(|name| below(root, name)).collect();
        let links = tree.filter.links();
        let began = Instant::now();
        let described = tree.context.backend.describe(paths, Details::default(), links).await;
        tree.request.body.tally.disk(began.elapsed());
        for (name, described) in names.iter().zip(described.map_err(io::Error::other)?) {
            match described {
                None => {}
                Some(Err(error)) => tree.failed(name, &error.into(), out),
                Some(Ok(described)) if described.metadata.is_directory() => {
                    tree.writer.left_out(name, "a link to a directory", out);
                }
                Some(Ok(described)) => tree.writer.file(&entry(name, &described.metadata), out),
            }
        }
        Ok(())
    }
}

impl RecordSource for Walk {
    async fn fill(&mut self, tree: &mut TreeStream) -> io::Result<Bytes> {
        let mut buffer = tree.borrow(tree.request.peer.memory.block_bytes(BUFFER_BYTES)).await?;
        let mut out = std::mem::take(buffer.buffer());
        // Entries that were found are sent before the search continues, once they fill a packet.
        while out.is_empty() || out.len() + BATCH_ROOM <= BUFFER_BYTES {
            if let Some((path, why)) = self.refused.pop() {
                let error = HttpError::new(StatusCode::FORBIDDEN, why);
                tree.failed(&path, &error, &mut out);
                continue;
            }
            if !self.files.is_empty() {
                self.files(tree, &mut out).await?;
                continue;
            }
            let Some(Waiting { path, is_named }) = self.waiting.pop() else {
                tree.writer.end(&mut out);
                tree.is_over = true;
                break;
            };
            if !is_named {
                let directory = TreeEntry { path: path.clone(), ..TreeEntry::default() };
                tree.writer.directory(&directory, &mut out);
            }
            let listed = if path.split('/').count() < MAX_DEPTH {
                self.list(tree, &path).await
            } else {
                Err(HttpError::new(StatusCode::URI_TOO_LONG, "the path is too long"))
            };
            match listed {
                Err(error) if path.is_empty() => return Err(io::Error::other(error.what)),
                Err(error) => tree.failed(&path, &error, &mut out),
                Ok(()) if !self.charge.extend(self.bytes()) => {
                    // The client continues where this ends.
                    let what = "listings hold all of the memory that they may: try again later";
                    return Err(io::Error::other(what));
                }
                Ok(()) => {}
            }
        }
        let filled = out.len();
        *buffer.buffer() = out;
        Ok(buffer.freeze(filled))
    }
}

/// The entries of a directory that come before a position of the walk.
#[derive(Debug)]
enum Skipped<'a> {
    Nothing,
    /// Files up to this one.
    Files(&'a str),
    /// All files, and directories before this one, which is named already.
    Before(&'a str),
}

impl<'a> Skipped<'a> {
    fn of(after: &'a str, directory: &str) -> Self {
        let rest = match directory {
            "" => Some(after),
            _ => after.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/')),
        };
        match rest.map(|rest| rest.split_once('/').ok_or(rest)) {
            None | Some(Err("")) => Self::Nothing,
            Some(Err(file)) => Self::Files(file),
            Some(Ok((directory, _))) => Self::Before(directory),
        }
    }

    /// None for an entry that is skipped; true for one that is named already.
    fn names(&self, name: &str, is_directory: bool) -> Option<bool> {
        match self {
            Self::Files(last) if !is_directory && name <= *last => None,
            Self::Before(_) if !is_directory => None,
            Self::Before(first) if name < *first => None,
            Self::Before(first) => Some(name == *first),
            Self::Nothing | Self::Files(_) => Some(false),
        }
    }
}
