//! Rounding of reads to blocks.
//!
//! A read that has to wait for a request may fetch its neighbourhood at little cost, and if the
//! program stays there, later reads find their bytes. Whether it stays is learned: every block
//! fetched is a speculation, and the latest blocks are remembered, each with the reads that it
//! saved.
//!
//! **Use.** A block costs a credit, and every read that a block spares earns one. A file begins
//! with a few credits. So a program with locality keeps getting blocks, and one without gets
//! exactly what it requests once the credits are spent, except for a small block now and then, in
//! case its access pattern has changed.
//!
//! **Size.** The half of a block that does not contain the read decides. Where most blocks spare
//! reads in that half, too, blocks are doubled; where most do not, they are halved.
//!
//! Blocks are aligned, so that they do not overlap. The table remembers, for each 64 KiB of the
//! latest blocks, which of their kibibytes were fetched in addition and which have been read: that
//! distinguishes a saved read from a repeated one, and a neighbourhood that is read through from
//! one that is sampled.

use std::ops::Range;

/// Bytes per slot of the table.
const SLOT_BYTES: u64 = 64 << 10;
/// Bytes per bit of a slot.
const GRAIN_BYTES: u64 = SLOT_BYTES / 64;
/// Slots: 32 MiB of blocks.
const SLOTS: usize = 512;
/// Maximum slots examined for one read; a longer read does not depend on blocks.
const SLOTS_PER_READ: u64 = 8;
/// Speculations that are remembered; a new one replaces the oldest.
const MAX_SPECULATIONS: usize = 32;
/// The smallest block, and the one that a file begins with.
const MIN_BLOCK: u64 = 16 << 10;
/// Credits that a file begins with, and their maximum.
const INITIAL_AND_MAX_CREDITS: (u32, u32) = (8, 64);
/// When there are no credits, bytes fetched without blocks before a block is tried again, as a
/// multiple of the block size.
const EXACT_PER_TRIAL: u64 = 128;
/// Share of speculations used from which on blocks are doubled, and below which they are halved.
const USED_SHARES: (f32, f32) = (0.7, 0.3);

/// The stretch of the file that one slot covers, with a bit for each kibibyte.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Number of the stretch, plus one; 0 for none.
    stretch: u64,
    /// The speculation that fetched it; 0 for none.
    speculation: u64,
    brought: u64,
    read: u64,
}

/// A block that was fetched around a read.
#[derive(Debug, Clone, Default)]
struct Speculation {
    number: u64,
    /// The half of it in which that read was not.
    far: Range<u64>,
    /// It has saved a read there.
    used: bool,
}

/// Usefulness of blocks in a file.
#[derive(Debug)]
pub(super) struct BlockRounding {
    /// The present block size.
    size: u64,
    max: u64,
    /// The size is fixed and nothing is learned.
    fixed: bool,
    credits: u32,
    /// Share of used speculations among the latest of this size.
    used: f32,
    /// Empty until there is a block, as is the table.
    speculations: Vec<Speculation>,
    number: u64,
    /// Bytes fetched without a block since one was tried.
    exact_bytes: u64,
    slots: Vec<Slot>,
}

impl BlockRounding {
    /// Bytes that [`BlockRounding::used`] reports on at a time.
    pub(super) const STRETCH_BYTES: u64 = SLOT_BYTES;

    /// A rounding that learns its block size, up to `max` bytes; or, if `fixed`, always uses that
    /// size.
    pub(super) fn new(max: u64, fixed: bool) -> Self {
        Self {
            size: if fixed { max } else { MIN_BLOCK.min(max) },
            max,
            fixed,
            credits: INITIAL_AND_MAX_CREDITS.0,
            used: 0.5,
            speculations: Vec::new(),
            number: 0,
            exact_bytes: 0,
            slots: Vec::new(),
        }
    }

    /// Records a read of these bytes.
    pub(super) fn read(&mut self, range: &Range<u64>) {
        if self.slots.is_empty() {
            return;
        }
        let mut saved = None;
        for (stretch, mask) in masks(range) {
            let slot = &mut self.slots[index(stretch)];
            if slot.stretch == stretch + 1 {
                if slot.brought & !slot.read & mask != 0 && slot.speculation > 0 {
                    saved = Some(slot.speculation);
                }
                slot.read |= mask;
            }
        }
        if let Some(number) = saved
            && !self.fixed
        {
            self.saved(number, range);
        }
    }

    fn saved(&mut self, number: u64, range: &Range<u64>) {
        self.credits = (self.credits + 1).min(INITIAL_AND_MAX_CREDITS.1);
        let speculation = &mut self.speculations[place(number)];
        if speculation.number == number
            && !speculation.used
            && speculation.far.contains(&range.start)
        {
            speculation.used = true;
            self.used += (1.0 - self.used) / 8.0;
            if self.used > USED_SHARES.0 && self.size < self.max {
                self.resize((self.size * 2).min(self.max));
            }
        }
    }

    /// The range to fetch for a read that has to go to the server: the read itself where blocks do
    /// not help. `most` is the largest block that pays off on this path.
    pub(super) fn around(&mut self, range: &Range<u64>, size: u64, most: u64) -> Range<u64> {
        let block = if self.fixed { self.size } else { self.affordable(range, most) };
        if block == 0 {
            return range.clone();
        }
        let start = range.start / block * block;
        let end = range.end.div_ceil(block).saturating_mul(block).min(size).max(range.end);
        if end - start > range.end - range.start {
            self.speculation(range, start..end);
        }
        start..end
    }

    /// The size of the block for which there are credits now; 0 for none.
    fn affordable(&mut self, range: &Range<u64>, most: u64) -> u64 {
        if self.max < MIN_BLOCK {
            return 0;
        }
        if self.credits == 0 {
            self.exact_bytes = self.exact_bytes.saturating_add(range.end - range.start);
            if self.exact_bytes < EXACT_PER_TRIAL * MIN_BLOCK {
                return 0;
            }
            self.exact_bytes = 0;
            self.resize(MIN_BLOCK);
        }
        self.credits = self.credits.saturating_sub(1);
        self.size.min(1 << most.max(1).ilog2())
    }

    fn speculation(&mut self, range: &Range<u64>, block: Range<u64>) {
        if self.speculations.is_empty() {
            self.speculations = vec![Speculation::default(); MAX_SPECULATIONS];
        }
        self.number += 1;
        let middle = block.start + (block.end - block.start) / 2;
        let far = if range.start < middle { middle..block.end } else { block.start..middle };
        self.bring(&block, self.number);
        // The read itself does not count as a saved one.
        for (stretch, mask) in masks(range) {
            self.slots[index(stretch)].read |= mask;
        }
        let speculation = Speculation { number: self.number, far, used: false };
        let lost = std::mem::replace(&mut self.speculations[place(self.number)], speculation);
        if lost.number > 0 && !lost.used && !self.fixed {
            self.used -= self.used / 4.0;
            if self.used < USED_SHARES.1 {
                self.resize((self.size / 2).max(MIN_BLOCK.min(self.max)));
            }
        }
    }

    /// Sets the block size and discards the statistics of the previous one.
    fn resize(&mut self, size: u64) {
        self.size = size;
        self.used = 0.5;
        for speculation in &mut self.speculations {
            speculation.used = true;
        }
    }

    /// Records that these bytes are prefetched, and not as part of a block around a read.
    pub(super) fn brought(&mut self, range: &Range<u64>) {
        self.bring(range, 0);
    }

    fn bring(&mut self, range: &Range<u64>, speculation: u64) {
        if self.slots.is_empty() {
            self.slots = vec![Slot::default(); SLOTS];
        }
        for (stretch, mask) in masks(range) {
            let slot = &mut self.slots[index(stretch)];
            if slot.stretch != stretch + 1 {
                *slot = Slot { stretch: stretch + 1, ..Slot::default() };
            }
            slot.speculation = speculation;
            slot.brought |= mask;
        }
    }

    /// Fraction of the bytes fetched of this stretch of [`BlockRounding::STRETCH_BYTES`] that has
    /// been read, 0 to 1.
    pub(super) fn used(&self, stretch: u64) -> Option<f32> {
        let slot = self.slots.get(index(stretch)).filter(|slot| slot.stretch == stretch + 1)?;
        #[expect(clippy::cast_precision_loss, reason = "at most 64")]
        let share = slot.read.count_ones() as f32 / (slot.read | slot.brought).count_ones() as f32;
        Some(share)
    }
}

fn place(number: u64) -> usize {
    usize::try_from(number % MAX_SPECULATIONS as u64).unwrap_or(0)
}

fn index(stretch: u64) -> usize {
    usize::try_from(stretch % SLOTS as u64).unwrap_or(0)
}

/// The stretches that a range touches, the first few of them, each with the bits of the kibibytes
/// touched.
fn masks(range: &Range<u64>) -> impl Iterator<Item = (u64, u64)> + use<> {
    let start = range.start;
    let last = range.end.saturating_sub(1);
    let first = start / SLOT_BYTES;
    let end = (last / SLOT_BYTES + 1).min(first.saturating_add(SLOTS_PER_READ));
    (first..end).map(move |stretch| {
        let base = stretch * SLOT_BYTES;
        let from = start.saturating_sub(base) / GRAIN_BYTES;
        let to = ((last - base) / GRAIN_BYTES).min(63);
        (stretch, (u64::MAX >> (63 - to)) & (u64::MAX << from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 40;

    fn miss(blocks: &mut BlockRounding, start: u64) -> u64 {
        let range = start..start + 100;
        blocks.read(&range);
        let around = blocks.around(&range, SIZE, u64::MAX);
        assert!(around.start <= range.start && around.end >= range.end);
        around.end - around.start
    }

    #[test]
    fn random_reads_are_not_rounded_to_blocks() {
        let mut blocks = BlockRounding::new(256 << 10, false);
        let rounded = (0..10_000).filter(|n| miss(&mut blocks, n << 22) > 100).count();
        assert_eq!(rounded, INITIAL_AND_MAX_CREDITS.0 as usize);
        // But for a trial for each 2 MiB read.
        let rounded = (0..30_000).filter(|n| miss(&mut blocks, n << 22) > 100).count();
        assert_eq!(rounded, 1);
    }

    #[test]
    fn blocks_grow_where_neighbours_are_read() {
        let mut blocks = BlockRounding::new(256 << 10, false);
        let mut rounded = 0;
        for block in 0..20 {
            rounded = miss(&mut blocks, block << 20);
            let here = block << 20;
            for at in (here..here + rounded).step_by(4096) {
                blocks.read(&(at..at + 100));
            }
        }
        assert_eq!(rounded, 256 << 10);
        assert_eq!(
            blocks.around(&(5 << 30..(5 << 30) + 1), SIZE, 100_000),
            5 << 30..(5 << 30) + 65_536
        );
    }

    #[test]
    fn blocks_stay_small_where_only_adjacent_bytes_are_read() {
        let mut blocks = BlockRounding::new(256 << 10, false);
        for block in 0..500 {
            let here = block << 20;
            assert!(miss(&mut blocks, here) <= 32 << 10);
            blocks.read(&(here + 1000..here + 1100));
            blocks.read(&(here + 2000..here + 2100));
        }
    }

    #[test]
    fn a_fixed_block_size_does_not_adapt() {
        let mut blocks = BlockRounding::new(100_000, true);
        assert!((0..100).all(|n| miss(&mut blocks, n * 1_000_000) == 100_000));
        assert_eq!(blocks.around(&(250_000..250_001), 260_000, 1), 200_000..260_000);
    }

    #[test]
    fn the_bytes_read_of_a_region_are_counted() {
        let mut blocks = BlockRounding::new(256 << 10, false);
        assert_eq!(blocks.used(3), None);
        blocks.brought(&(3 * SLOT_BYTES..4 * SLOT_BYTES));
        blocks.read(&(3 * SLOT_BYTES..3 * SLOT_BYTES + SLOT_BYTES / 2));
        assert_eq!(blocks.used(3), Some(0.5));
    }
}
