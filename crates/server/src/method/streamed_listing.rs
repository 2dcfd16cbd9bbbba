//! Responses that list many entries. The paths are known from the beginning; the metadata is looked
//! up while the response is sent, so that a directory of any size takes little memory.
//!
//! Entries are looked up in batches, so that a backend that works on other threads gets one call
//! for many of them. A batch waits until the client has taken the text of the one before the last.

use crate::backend::{Backend, Details, EntryDescription};
use crate::monitoring::request_record::RequestTimings;
use crate::response::body::{ChunkStream, ResponseBody};
use crate::response::buffer_pool::{BufferPool, BufferQuota};
use bytes::Bytes;
use futures_util::stream;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The number of entries in a batch.
const BATCH_ENTRIES: usize = 128;
/// The memory that is borrowed for the text of a batch.
const BATCH_BYTES: usize = 64 << 10;

/// The form of a listing.
pub(crate) trait ListingFormat: Send + Debug + 'static {
    /// The details to look up of each entry.
    fn details(&self) -> Details;
    /// Writes the text before the first entry.
    fn head(&mut self, out: &mut String);
    /// Writes one entry.
    fn entry(&mut self, path: &str, entry: &EntryDescription, out: &mut String);
    /// Writes the text after the last entry.
    fn end(&mut self, out: &mut String);
}

/// A listing that is being sent.
#[derive(Debug)]
struct StreamedListing<F> {
    backend: Arc<dyn Backend>,
    format: F,
    paths: std::vec::IntoIter<String>,
    memory: Arc<BufferPool>,
    quota: BufferQuota,
    timings: Arc<RequestTimings>,
    is_begun: bool,
    is_over: bool,
}

/// The body of a response that lists these paths.
pub(crate) fn body<F: ListingFormat>(
    backend: &Arc<dyn Backend>,
    format: F,
    paths: Vec<String>,
    memory: &Arc<BufferPool>,
    timings: &Arc<RequestTimings>,
) -> ResponseBody {
    let listing = StreamedListing {
        backend: Arc::clone(backend),
        format,
        paths: paths.into_iter(),
        memory: Arc::clone(memory),
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
        let memory = Arc::clone(&self.memory).borrow(BATCH_BYTES, quota).await;
        let mut buffer = memory.ok_or_else(stopped)?;
        let mut out = String::with_capacity(BATCH_BYTES);
        if !self.is_begun {
            self.is_begun = true;
            self.format.head(&mut out);
        }
        let paths: Vec<String> = self.paths.by_ref().take(BATCH_ENTRIES).collect();
        if !paths.is_empty() {
            let began = Instant::now();
            let entries = self.backend.describe(paths.clone(), self.format.details()).await;
            self.timings.disk(began.elapsed());
            let entries = entries.map_err(io::Error::other)?;
            for (path, entry) in paths.iter().zip(entries) {
                if let Some(entry) = entry {
                    self.format.entry(path, &entry, &mut out);
                }
            }
        }
        if self.paths.as_slice().is_empty() {
            self.is_over = true;
            self.format.end(&mut out);
        }
        buffer.buffer().clear();
        buffer.buffer().extend_from_slice(out.as_bytes());
        Ok(buffer.freeze(out.len()))
    }
}
