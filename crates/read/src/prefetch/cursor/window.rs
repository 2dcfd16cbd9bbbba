//! The prefetched part of a cursor's predictions.

use super::{Cursor, CursorPattern};
use crate::prefetch::block_rounding::BlockRounding;
use std::ops::Range;

/// Extent of a cursor's prefetches.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Named {
    /// Runs after the present one.
    pub(super) run: usize,
    /// Position in that run.
    pub(super) to: u64,
}

impl Cursor {
    /// Bytes named and not reached.
    pub(in crate::prefetch) fn ahead_bytes(&self) -> u64 {
        match &self.course {
            CursorPattern::Young => 0,
            CursorPattern::Sequential => self.named.to.saturating_sub(self.run.end),
            CursorPattern::Region(region) => hither_core::range::len(&region.ahead()),
            CursorPattern::Regular if self.named.run == 0 => {
                self.named.to.saturating_sub(self.run.end)
            }
            CursorPattern::Regular => {
                let rest = self.expected(0).map_or(0, |now| now.end - self.run.end);
                let last = self.expected(self.named.run);
                let part = last.map_or(0, |last| self.named.to.saturating_sub(last.start));
                let between = self.strides.bytes_ahead(self.named.run - 1);
                rest.saturating_add(between).saturating_add(part)
            }
        }
    }

    /// Forgets prefetches that were dropped.
    pub(in crate::prefetch) fn forget(&mut self) {
        self.named = Named { run: 0, to: self.run.end };
        if let CursorPattern::Region(region) = &mut self.course {
            region.forget();
        }
    }

    /// At most `most` ranges that were prefetched and not reached yet.
    pub(in crate::prefetch) fn ahead(&self, most: usize, out: &mut Vec<Range<u64>>) {
        if let CursorPattern::Region(region) = &self.course {
            let ahead = region.ahead();
            if !ahead.is_empty() {
                out.push(ahead);
            }
            return;
        }
        for n in 0..=self.named.run.min(most) {
            let Some(run) = self.expected(n) else { return };
            let start = if n == 0 { self.run.end } else { run.start };
            let end = if n == self.named.run { self.named.to } else { run.end };
            if start < end {
                out.push(start..end);
            }
        }
    }

    /// Names `bytes` more, at most `most` ranges of them, below `end`.
    pub(in crate::prefetch) fn name(
        &mut self,
        bytes: u64,
        end: u64,
        most: usize,
        blocks: &mut BlockRounding,
        out: &mut Vec<Range<u64>>,
    ) {
        if let CursorPattern::Region(region) = &mut self.course {
            let range = region.name(bytes, end, blocks);
            if !range.is_empty() {
                out.push(range);
            }
            return;
        }
        let mut left = bytes;
        while left > 0 && out.len() < most {
            let Some(run) = self.expected(self.named.run) else { return };
            let from =
                if self.named.run == 0 { self.named.to.max(self.run.end) } else { self.named.to };
            let to = run.end.min(end).min(from.saturating_add(left));
            if from < to {
                out.push(from..to);
                left -= to - from;
                self.named.to = to;
            }
            if self.named.to < run.end && (left == 0 || run.end > end) {
                return;
            }
            let Some(next) = self.expected(self.named.run + 1) else { return };
            if next.start >= end {
                return;
            }
            self.named = Named { run: self.named.run + 1, to: next.start };
        }
    }
}
