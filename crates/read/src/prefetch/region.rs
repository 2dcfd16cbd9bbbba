//! A reader that jumps within a neighbourhood, and the bytes that may be prefetched for it.
//!
//! Its next read cannot be predicted. But if it eventually reads everything and moves on slowly, it
//! will read the bytes ahead of its front, the end of its furthest read. Two things are measured:
//! how far it jumps, and the fraction read of the stretches well behind the front. Only if that
//! fraction is nearly 1 are bytes ahead of the front prefetched.

use super::block_rounding::BlockRounding;
use std::ops::Range;

/// Distance behind the front, in bytes, within which a read still belongs to the region.
const DEPTH: u64 = 4 << 20;
/// Stretches judged at a time: a front that skips more has not read them.
const JUDGED_AT_ONCE: u64 = 64;

/// The neighbourhood of a reader without a rule.
#[derive(Debug, Clone)]
pub(super) struct Region {
    /// End of the furthest read.
    front: u64,
    /// End of the prefetched bytes.
    named: u64,
    /// Longest recent jump, in bytes.
    hop: u64,
    last: u64,
    /// The first stretch that has not been judged.
    judged: u64,
    /// Fraction of a stretch that is eventually read, 0 to 1.
    used: f32,
    /// Fraction of reads that begin where an earlier one ended, 0 to 1.
    touching: f32,
}

impl Region {
    pub(super) fn new(range: &Range<u64>) -> Self {
        Self {
            front: range.end,
            named: range.end,
            hop: 0,
            last: range.start,
            judged: range.start / BlockRounding::STRETCH_BYTES,
            used: 0.5,
            touching: 0.0,
        }
    }

    /// Returns true if a read at this position belongs to this reader, if that skips at most `near`
    /// bytes.
    pub(super) fn holds(&self, start: u64, near: u64) -> bool {
        start.abs_diff(self.last) <= near
            || (start >= self.front.saturating_sub(DEPTH)
                && start <= self.front.max(self.named).saturating_add(near))
    }

    /// Returns true if most reads begin where earlier ones ended: several readers that alternate.
    pub(super) fn is_several(&self) -> bool {
        self.touching > 0.6
    }

    /// Records a read. Returns true if it lies where bytes would have been prefetched: near the
    /// front or beyond.
    pub(super) fn read(
        &mut self,
        range: &Range<u64>,
        touches: bool,
        blocks: &BlockRounding,
    ) -> bool {
        let hop = range.start.abs_diff(self.last);
        self.hop = hop.max(self.hop - self.hop / 256);
        self.last = range.start;
        self.touching += (f32::from(u8::from(touches)) - self.touching) / 16.0;
        let leads = range.end > self.front.saturating_sub(self.hop);
        if range.end > self.front {
            self.front = range.end;
            self.judge(blocks);
        }
        leads
    }

    /// Longest recent jump, in bytes.
    pub(super) fn hop(&self) -> u64 {
        self.hop
    }

    /// Fraction of the bytes behind the front that has been read, 0 to 1.
    pub(super) fn used(&self) -> f32 {
        self.used
    }

    /// Bytes named and not reached by the front.
    pub(super) fn ahead(&self) -> Range<u64> {
        self.front..self.named.max(self.front)
    }

    /// Names the next `bytes`, in whole stretches.
    pub(super) fn name(&mut self, bytes: u64, size: u64, blocks: &mut BlockRounding) -> Range<u64> {
        let start = self.named.max(self.front).min(size);
        let end = start.saturating_add(bytes);
        let end =
            (end / BlockRounding::STRETCH_BYTES * BlockRounding::STRETCH_BYTES).clamp(start, size);
        self.named = end;
        if start < end {
            blocks.brought(&(start..end));
        }
        start..end
    }

    /// Forgets prefetches that were dropped.
    pub(super) fn forget(&mut self) {
        self.named = self.front;
    }

    fn judge(&mut self, blocks: &BlockRounding) {
        let behind = self.hop.saturating_mul(2).saturating_add(2 * BlockRounding::STRETCH_BYTES);
        let end = self.front.saturating_sub(behind) / BlockRounding::STRETCH_BYTES;
        self.judged = self.judged.max(end.saturating_sub(JUDGED_AT_ONCE));
        while self.judged < end {
            if let Some(used) = blocks.used(self.judged) {
                self.used += (used - self.used) / 4.0;
            }
            self.judged += 1;
        }
    }
}
