//! Sequential reads of a file, in bounded memory.
//!
//! The range is requested in windows, each before the previous one has arrived, so that no
//! connection is idle. Connections deliver parts in any order: a part that is next in the file is
//! passed on as it came, without a copy; an earlier arrival is kept until its turn. The reader's
//! budget bounds the parts that are kept and in flight: a part counts until it was passed on.

use crate::client::Client;
use crate::file::read_path::{CachedReads, SeededPath};
use crate::file::{RemoteFile, SMALL_BYTES, WINDOW_BYTES};
use bytes::Bytes;
use futures_util::future::{Either, select};
use hither_core::Part;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::source::link::INITIAL_REQUEST_BYTES;
use hither_read::Reader;
use hither_read::schedule::FetchEvent;
use hither_trace::CacheStatus;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::pin::pin;

impl RemoteFile {
    /// Streams `range` in file order to `write`, in bounded memory. All bytes are of one version of
    /// the file.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::read_ranges`], and the errors of `write`.
    pub fn stream(
        &self,
        client: &Client,
        range: Range<u64>,
        write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        client.block_on(self.stream_async(range, write))
    }

    /// Async version of [`RemoteFile::stream`], for the client's runtime.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::stream`].
    pub async fn stream_async(
        &self,
        range: Range<u64>,
        write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.stream_checked(range, async || Ok(()), write).await
    }

    /// As [`RemoteFile::stream`], for a URL that may be that of a directory. Servers send pages
    /// about their directories, without a validator: then the server is asked, in one round trip,
    /// before anything is written.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::stream`]; [`ErrorKind::Invalid`] for a directory.
    pub fn stream_no_directory(
        &self,
        client: &Client,
        url: &str,
        range: Range<u64>,
        write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let check = async || client.check_no_directory(url).await;
        client.block_on(self.stream_checked(range, check, write))
    }

    /// Streams `range` to `write`, after `check` if the first response has no validator.
    async fn stream_checked(
        &self,
        range: Range<u64>,
        check: impl AsyncFnOnce() -> Result<()>,
        mut write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if let Some(open_ahead) = self.path.open_ahead() {
            open_ahead.skip();
        }
        if range.is_empty() {
            return Ok(());
        }
        let cached = match self.path.seeded(&self.origin).await? {
            SeededPath::Cached(cached) => Some(cached),
            SeededPath::Direct { .. } => None,
        };
        let submitted = self.origin.source.clock().now();
        let wanted = range.end - range.start;
        if wanted > SMALL_BYTES {
            self.origin.source.expect_bulk();
        }
        // On a path without measurements, the first bytes of a response give the values for the
        // plan of the rest.
        let unmeasured = self.origin.is_unmeasured() && wanted > SMALL_BYTES;
        let first = if unmeasured { INITIAL_REQUEST_BYTES } else { WINDOW_BYTES };
        let mut reader = self.origin.reader(cached.and_then(CachedReads::validator));
        let mut order = ReorderBuffer::new(range.clone());
        order.request(&mut reader, first);
        let mut check = Some(check);
        // Events that came while the server was asked.
        let mut held = VecDeque::new();
        while let Some(step) = match held.pop_front() {
            None => reader.next_event().await,
            held => held,
        } {
            match step {
                FetchEvent::Part(part) => {
                    if let Some(check) = check.take()
                        && !reader.has_validator()
                    {
                        held = beside(&mut reader, check()).await?;
                    }
                    let done = order.accept(part, &mut write)?;
                    reader.release(done);
                    if order.in_flight() < WINDOW_BYTES {
                        order.request(&mut reader, WINDOW_BYTES);
                    }
                }
                FetchEvent::Response(response) => {
                    if let Some(cached) = cached {
                        cached.settle(&response);
                    }
                }
                FetchEvent::Failed { error, .. } => {
                    return match cached {
                        Some(cached) => cached.check(&self.origin, Err(error)),
                        None => Err(error),
                    };
                }
            }
        }
        if order.next < range.end {
            let what =
                format!("{} ends before byte {}, which was requested", self.name(), range.end);
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        self.origin.record(std::slice::from_ref(&range), submitted, CacheStatus::Miss, wanted);
        Ok(())
    }
}

/// Waits for `check`, and continues reading meanwhile: `check` may need a connection that the
/// reader holds. Returns the events of the reader, whose bytes its budget bounds.
async fn beside(
    reader: &mut Reader<'_>,
    check: impl Future<Output = Result<()>>,
) -> Result<VecDeque<FetchEvent>> {
    let mut held = VecDeque::new();
    let mut check = pin!(check);
    loop {
        match select(check.as_mut(), pin!(reader.next_event())).await {
            Either::Left((checked, _)) => return checked.map(|()| held),
            Either::Right((Some(event), _)) => held.push_back(event),
            Either::Right((None, _)) => return check.await.map(|()| held),
        }
    }
}

/// Parts in the order of the file.
#[derive(Debug)]
struct ReorderBuffer {
    /// The first byte that was not passed on.
    next: u64,
    /// The end of the requested range.
    requested: u64,
    end: u64,
    /// Parts that wait for earlier ones, by their offsets.
    early: BTreeMap<u64, Bytes>,
}

impl ReorderBuffer {
    fn new(range: Range<u64>) -> Self {
        Self { next: range.start, requested: range.start, end: range.end, early: BTreeMap::new() }
    }

    /// The number of bytes that were requested and not passed on.
    fn in_flight(&self) -> u64 {
        self.requested.saturating_sub(self.next)
    }

    /// Requests the next `bytes` bytes of the range.
    fn request(&mut self, reader: &mut Reader<'_>, bytes: u64) {
        let end = self.end.min(self.requested.saturating_add(bytes));
        if self.requested < end {
            reader.push(std::slice::from_ref(&(self.requested..end)), usize::MAX);
            self.requested = end;
        }
    }

    /// Takes a part, and passes on the bytes that are next. Returns the number of bytes that are no
    /// longer held.
    fn accept(&mut self, part: Part, write: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let mut done = part.bytes.len() as u64;
        if part.offset > self.next {
            // If a part has arrived twice, the longer one is kept.
            let kept = self.early.entry(part.offset).or_default();
            if kept.len() < part.bytes.len() {
                done = kept.len() as u64;
                *kept = part.bytes;
            }
            return Ok(done);
        }
        self.pass_on(part.offset, &part.bytes, write)?;
        while let Some(first) = self.early.first_entry().filter(|it| *it.key() <= self.next) {
            let (offset, bytes) = first.remove_entry();
            self.pass_on(offset, &bytes, write)?;
            done += bytes.len() as u64;
        }
        Ok(done)
    }

    /// Passes on the new part of bytes that begin at the next byte or before it.
    fn pass_on(
        &mut self,
        offset: u64,
        bytes: &Bytes,
        write: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let known = usize::try_from(self.next - offset).unwrap_or(usize::MAX);
        let left = usize::try_from(self.end - self.next).unwrap_or(usize::MAX);
        let new = bytes.get(known..).unwrap_or_default();
        let new = new.get(..left).unwrap_or(new);
        if !new.is_empty() {
            write(new)?;
            self.next += new.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_in_any_order_and_more_than_once_come_out_once_and_in_order(
            length in 1_u64..400,
            cuts in prop::collection::vec(1_u64..40, 1..40),
            again in prop::collection::vec((0_u64..420, 1_u64..60), 0..20),
            shuffle in any::<u64>(),
        ) {
            let content = |offset: u64| u8::try_from(offset * 7 % 251).unwrap();
            let part = |range: Range<u64>| Part {
                offset: range.start,
                bytes: range.map(content).collect::<Vec<u8>>().into(),
            };
            let range = 5..5 + length;
            let mut parts: Vec<Part> = again.iter().map(|(at, n)| part(*at..at + n)).collect();
            let mut at = range.start;
            for cut in cuts.iter().cycle() {
                if at >= range.end { break; }
                let end = range.end.min(at + cut);
                parts.push(part(at..end));
                at = end;
            }
            let count = parts.len() as u64;
            parts.sort_by_key(|it| (it.offset.wrapping_mul(shuffle | 1) >> 7) % count);
            let mut order = ReorderBuffer::new(range.clone());
            let mut out = Vec::new();
            let mut released = 0;
            let taken: u64 = parts.iter().map(|it| it.bytes.len() as u64).sum();
            for part in parts {
                let mut write = |bytes: &[u8]| { out.extend_from_slice(bytes); Ok(()) };
                released += order.accept(part, &mut write).unwrap();
            }
            let kept: u64 = order.early.values().map(|it| it.len() as u64).sum();
            prop_assert_eq!(out, range.map(content).collect::<Vec<u8>>());
            prop_assert_eq!(released + kept, taken);
        }
    }
}
