//! A file from front to back, in bounded memory.
//!
//! What is wanted next is asked for in windows, the next one before the last one is through, so that no connection ever waits.
//! The connections bring their parts in any order; a part that is due is handed on as it came, without a copy, and one that is
//! early is kept until it is. What is kept and what is on its way is bounded by the reader's budget: a part counts
//! until it was handed on.

use crate::client::Client;
use crate::file::{RemoteFile, SMALL_BYTES};
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::schedule::FetchEvent;
use hither_core::tune::link::INITIAL_REQUEST_BYTES;
use hither_core::{CacheStatus, Part, Reader, ResponseMeta};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes in a window: a few requests' worth, enough to keep every connection busy.
const WINDOW_BYTES: u64 = 32 << 20;

impl RemoteFile {
    /// Streams `range` in file order to `write`, with bounded memory: all of it of one version of the file.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::read_ranges`], and whatever `write` fails with.
    pub fn stream(
        &self,
        client: &Client,
        range: Range<u64>,
        mut write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if let Some(open_ahead) = self.path.open_ahead() {
            open_ahead.skip();
        }
        if range.is_empty() {
            return Ok(());
        }
        client.block_on(self.streamed(range, &mut write))
    }

    async fn streamed(
        &self,
        range: Range<u64>,
        write: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let submitted = self.origin.source.clock().now();
        let wanted = range.end - range.start;
        if wanted > SMALL_BYTES {
            self.origin.source.expect_bulk();
        }
        // The start of an answer tells of a path that was never used what the plan of the rest needs to know.
        let stranger = self.origin.is_unmeasured() && wanted > SMALL_BYTES;
        let first = if stranger { INITIAL_REQUEST_BYTES } else { WINDOW_BYTES };
        let mut reader = self.origin.reader(None);
        let mut order = ReorderBuffer::new(range.clone());
        order.ask(&mut reader, first);
        let mut version = None;
        while let Some(step) = reader.next_event().await {
            match step {
                FetchEvent::Part(part) => {
                    let done = order.accept(part, write)?;
                    reader.release(done);
                    if order.on_their_way() < WINDOW_BYTES {
                        order.ask(&mut reader, WINDOW_BYTES);
                    }
                }
                FetchEvent::Answered(answer) => {
                    self.same_version(&mut reader, &mut version, &answer)?
                }
                FetchEvent::Failed { error, .. } => return Err(error),
            }
        }
        if order.next < range.end {
            let what = format!("{} ends before byte {}, which is wanted", self.name(), range.end);
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        self.origin.record(std::slice::from_ref(&range), submitted, CacheStatus::Miss, wanted);
        Ok(())
    }

    /// The first answer tells which version it is; from then on it is asked for, and what was under way has to be of it.
    fn same_version(
        &self,
        reader: &mut Reader<'_>,
        version: &mut Option<String>,
        answer: &ResponseMeta,
    ) -> Result<()> {
        let Some(told) = &answer.validator else { return Ok(()) };
        match version {
            Some(version) if version != told => {
                let what = format!("{} has changed while it was read", self.name());
                Err(Error::new(ErrorKind::Changed, what))
            }
            Some(_) => Ok(()),
            None => {
                reader.set_validator(told);
                *version = Some(told.clone());
                Ok(())
            }
        }
    }
}

/// Puts parts in the order of the file.
#[derive(Debug)]
struct ReorderBuffer {
    /// The first byte that was not handed on.
    next: u64,
    /// The end of what was asked for.
    asked: u64,
    end: u64,
    /// Parts that came early, by their offsets.
    early: BTreeMap<u64, Bytes>,
}

impl ReorderBuffer {
    fn new(range: Range<u64>) -> Self {
        Self { next: range.start, asked: range.start, end: range.end, early: BTreeMap::new() }
    }

    /// Bytes that were asked for and not handed on.
    fn on_their_way(&self) -> u64 {
        self.asked.saturating_sub(self.next)
    }

    /// Asks for so many bytes more, if there are.
    fn ask(&mut self, reader: &mut Reader<'_>, bytes: u64) {
        let end = self.end.min(self.asked.saturating_add(bytes));
        if self.asked < end {
            reader.push(std::slice::from_ref(&(self.asked..end)), usize::MAX);
            self.asked = end;
        }
    }

    /// Takes a part, and hands on what is due. Returns how many of the bytes that were taken are let go of.
    fn accept(&mut self, part: Part, write: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let mut done = part.bytes.len() as u64;
        if part.offset > self.next {
            // One that came twice is as good as the other, if it is as long.
            let kept = self.early.entry(part.offset).or_default();
            if kept.len() < part.bytes.len() {
                done = kept.len() as u64;
                *kept = part.bytes;
            }
            return Ok(done);
        }
        self.hand_on(part.offset, &part.bytes, write)?;
        while let Some(first) = self.early.first_entry().filter(|it| *it.key() <= self.next) {
            let (offset, bytes) = first.remove_entry();
            self.hand_on(offset, &bytes, write)?;
            done += bytes.len() as u64;
        }
        Ok(done)
    }

    /// Hands on what is new of bytes that begin no later than it is their turn.
    fn hand_on(
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
            let (mut out, mut released) = (Vec::new(), 0);
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
