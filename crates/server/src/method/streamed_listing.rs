//! Responses that list many entries. The paths are known from the beginning ([`PathList`]), and
//! count against the memory of the server; the metadata is looked up while the response is sent.
//!
//! Entries are looked up in batches, so that a backend that works on other threads gets one call
//! for many of them. A batch waits until the client has received the text of the one before the
//! last. The text of a batch is sent in pieces of the size of one buffer.

use crate::backend::path::href;
use crate::backend::{Backend, Details, DirectoryEntry, EntryDescription};
use crate::context::TreeFilter;
use crate::http_error::HttpError;
use crate::monitoring::request_record::RequestTimings;
use crate::response::body::{ChunkStream, ResponseBody};
use crate::response::buffer_pool::{
    BufferQuota, ChargePurpose, ConnectionMemory, MemoryCharge, SMALL_BYTES,
};
use bytes::Bytes;
use futures_util::stream;
use hither_core::storage::join;
use http::{StatusCode, header};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The number of entries in a batch, and in one of entries with dead properties, which may have up
/// to 64 KiB each.
pub(crate) const BATCH_ENTRIES: usize = 128;
const BATCH_PROPERTY_ENTRIES: usize = 16;
/// The memory that is borrowed for a piece of text, which is available also where memory is scarce.
const PIECE_BYTES: usize = SMALL_BYTES;
/// The end of a path in a list; no path has this byte.
const PATH_END: char = '\0';
/// The end of a reason in a list, before a URL; no path has a control character.
const REASON_END: char = '\u{1}';

/// The paths of a listing, below one directory, in memory that is charged to the server's.
#[derive(Debug)]
pub(crate) struct PathList {
    memory: Arc<ConnectionMemory>,
    charge: MemoryCharge,
    root: String,
    /// The paths relative to the root, each with its end.
    paths: String,
    /// The number of paths.
    count: usize,
    /// The number of bytes of paths that were taken.
    taken: usize,
}

impl PathList {
    /// A list of paths at and below `root`.
    pub(crate) fn new(root: &str, memory: &Arc<ConnectionMemory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            charge: MemoryCharge::new(memory, ChargePurpose::Listing),
            root: root.to_owned(),
            paths: String::new(),
            count: 0,
            taken: 0,
        }
    }

    /// The number of paths that were added.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds a path relative to the root. `others` is the memory that the listing holds in addition
    /// to this list. Fails if that is more than listings may hold.
    pub(crate) fn push(&mut self, relative: &str, others: usize) -> Result<(), HttpError> {
        self.push_text(relative, others)
    }

    /// Adds an entry of `directory` that is listed only as one which no request can address.
    pub(crate) fn push_refused(
        &mut self,
        directory: &str,
        (entry, why): (&DirectoryEntry, &str),
        others: usize,
    ) -> Result<(), HttpError> {
        let slash = if entry.is_directory { "/" } else { "" };
        let url = href(directory, true) + &entry.name + slash;
        self.push_text(&format!("{why}{REASON_END}{url}"), others)
    }

    fn push_text(&mut self, text: &str, others: usize) -> Result<(), HttpError> {
        self.paths.push_str(text);
        self.paths.push(PATH_END);
        self.count += 1;
        let bytes = self.paths.capacity().saturating_add(others);
        if self.charge.extend(bytes) {
            return Ok(());
        }
        let what = "listings hold all of the memory that they may: try again later";
        Err(HttpError::new(StatusCode::SERVICE_UNAVAILABLE, what).with(header::RETRY_AFTER, "1"))
    }

    fn next(&mut self) -> Option<ListedName> {
        let rest = self.paths.get(self.taken..)?;
        let (path, _) = rest.split_once(PATH_END)?;
        self.taken += path.len() + PATH_END.len_utf8();
        Some(match path.split_once(REASON_END) {
            Some((why, url)) => {
                let error = HttpError::new(StatusCode::FORBIDDEN, why);
                ListedName::Refused { url: url.to_owned(), error }
            }
            None => ListedName::Path(below(&self.root, path)),
        })
    }

    fn is_empty(&self) -> bool {
        self.taken == self.paths.len()
    }
}

/// A name of a listing.
#[derive(Debug)]
enum ListedName {
    /// The path of an entry, to be looked up.
    Path(String),
    /// An entry that no request can address, or that is not served.
    Refused { url: String, error: HttpError },
    /// An entry that was looked up.
    Described(String, EntryDescription),
}

/// The path that is `relative` to `root`, which is the root itself if it is empty.
pub(crate) fn below(root: &str, relative: &str) -> String {
    match relative {
        "" => root.to_owned(),
        relative => join(root, relative),
    }
}

/// The form of a listing.
pub(crate) trait ListingFormat: Send + Debug + 'static {
    /// The details to look up of each entry.
    fn details(&self) -> Details;
    /// Writes the text before the first entry.
    fn head(&mut self, out: &mut String);
    /// Writes one entry.
    fn entry(&mut self, path: &str, entry: &EntryDescription, out: &mut String);
    /// Writes an entry that is only named: the path of its URL, and the error that requests for it
    /// get.
    fn refused(&mut self, url: &str, error: &HttpError, out: &mut String);
    /// Writes the text after the last entry.
    fn end(&mut self, out: &mut String);
}

/// A listing that is being sent.
#[derive(Debug)]
struct StreamedListing<F> {
    backend: Arc<dyn Backend>,
    format: F,
    paths: PathList,
    filter: Arc<TreeFilter>,
    /// Entries that are to be written.
    described: VecDeque<ListedName>,
    memory: Arc<ConnectionMemory>,
    quota: BufferQuota,
    timings: Arc<RequestTimings>,
    is_begun: bool,
    is_over: bool,
}

/// The body of a response that lists these paths, and of links among them those that `filter`
/// allows.
pub(crate) fn body<F: ListingFormat>(
    backend: &Arc<dyn Backend>,
    format: F,
    paths: PathList,
    filter: Arc<TreeFilter>,
    timings: &Arc<RequestTimings>,
) -> ResponseBody {
    let listing = StreamedListing {
        backend: Arc::clone(backend),
        format,
        memory: Arc::clone(&paths.memory),
        paths,
        filter,
        described: VecDeque::new(),
        // One text that is being sent, and one that is being written.
        quota: Arc::new(Semaphore::new(2)),
        timings: Arc::clone(timings),
        is_begun: false,
        is_over: false,
    };
    let chunks = stream::unfold(listing, async |mut listing| {
        if listing.is_over {
            return None;
        }
        let chunk = listing.chunk().await;
        listing.is_over |= chunk.is_err();
        Some((chunk, listing))
    });
    ResponseBody::Stream(ChunkStream::new(Box::pin(chunks), None))
}

impl<F: ListingFormat> StreamedListing<F> {
    async fn chunk(&mut self) -> io::Result<Bytes> {
        let stopped = || io::Error::other("the server is shutting down");
        let quota = Arc::clone(&self.quota);
        let memory = Arc::clone(&self.memory).borrow(PIECE_BYTES, quota).await;
        let mut buffer = memory.ok_or_else(stopped)?;
        let mut out = String::with_capacity(PIECE_BYTES);
        if !self.is_begun {
            self.is_begun = true;
            self.format.head(&mut out);
        }
        if self.described.is_empty() {
            self.describe().await?;
        }
        while out.len() < PIECE_BYTES
            && let Some(next) = self.described.pop_front()
        {
            match next {
                ListedName::Described(path, entry) => self.format.entry(&path, &entry, &mut out),
                ListedName::Refused { url, error } => self.format.refused(&url, &error, &mut out),
                // It is gone.
                ListedName::Path(_) => {}
            }
        }
        if self.described.is_empty() && self.paths.is_empty() {
            self.is_over = true;
            self.format.end(&mut out);
        }
        buffer.buffer().clear();
        buffer.buffer().extend_from_slice(out.as_bytes());
        Ok(buffer.freeze(out.len()))
    }

    /// Looks up the next batch.
    async fn describe(&mut self) -> io::Result<()> {
        let details = self.format.details();
        let count = if details.properties { BATCH_PROPERTY_ENTRIES } else { BATCH_ENTRIES };
        self.described = std::iter::from_fn(|| self.paths.next()).take(count).collect();
        let path = |name: &ListedName| {
            if let ListedName::Path(path) = name { Some(path.clone()) } else { None }
        };
        let paths = self.described.iter().filter_map(path).collect();
        let began = Instant::now();
        let entries = self.backend.describe(paths, details, self.filter.links()).await;
        self.timings.disk(began.elapsed());
        let mut entries = entries.map_err(io::Error::other)?.into_iter();
        for name in &mut self.described {
            if let ListedName::Path(path) = name
                && let Some(entry) = entries.next().flatten()
            {
                *name = match entry {
                    Ok(entry) => ListedName::Described(std::mem::take(path), entry),
                    Err(error) => {
                        ListedName::Refused { url: href(path, false), error: error.into() }
                    }
                };
            }
        }
        Ok(())
    }
}
