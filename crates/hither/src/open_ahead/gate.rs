//! Delayed read-ahead, for files of which a program reads only a few pieces.
//!
//! Three small reads in a row look like a sequential read, and of a single file they are one. A
//! program that opens a thousand files and reads three pieces of each would have most of every file
//! fetched in vain, by requests that delay the opening of the next file. Of a file that was opened
//! ahead, nothing is therefore read ahead until the program has read more of it than of the file
//! that it used before (more than [`MAX_READS`] count as a file that is read on), or has waited for
//! its reads [`MAX_WAITS`] times. The ranges that are read of every file are prefetched when it is
//! opened (`access_pattern`), so a program that waits as often as that reads more than those. The
//! predictor behind the gate still sees every read.

use crate::open_ahead::access_pattern::MAX_READS;
use hither_read::prefetch::{Access, Advice, PrefetchContext, Prefetcher};
use hither_trace::CacheStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of waiting reads of a file that was opened ahead after which read-ahead starts or its
/// trees are opened.
pub(crate) const MAX_WAITS: u32 = 3;

/// The number of first reads of a file without read-ahead; 0 for a file that was not opened ahead.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadAheadGate(Arc<AtomicUsize>);

impl ReadAheadGate {
    /// Closes the gate of a file that was opened ahead. `reads_before` is the number of reads of
    /// the file that the program used before.
    pub(crate) fn close(&self, reads_before: Option<usize>) {
        let reads = match reads_before {
            None => MAX_READS,
            Some(reads @ 0..MAX_READS) => reads,
            Some(_) => 0,
        };
        self.0.store(reads, Ordering::Relaxed);
    }
}

/// A prefetcher that requests nothing until its gate opens.
#[derive(Debug)]
pub(crate) struct GatedPrefetcher {
    inner: Box<dyn Prefetcher>,
    gate: ReadAheadGate,
    reads: usize,
    waits: u32,
    open: bool,
}

impl GatedPrefetcher {
    pub(crate) fn new(inner: Box<dyn Prefetcher>, gate: ReadAheadGate) -> Self {
        Self { inner, gate, reads: 0, waits: 0, open: false }
    }
}

impl Prefetcher for GatedPrefetcher {
    fn observe(&mut self, access: &Access, conditions: &PrefetchContext) -> Advice {
        if self.open {
            return self.inner.observe(access, conditions);
        }
        self.reads += 1;
        self.waits += u32::from(access.found != CacheStatus::Hit);
        self.open = self.reads > self.gate.0.load(Ordering::Relaxed) || self.waits >= MAX_WAITS;
        let mut conditions = *conditions;
        if !self.open {
            // Without a budget, nothing is prefetched.
            conditions.ahead_budget_bytes = 0;
        }
        self.inner.observe(access, &conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::{Limits, LinkEstimate};
    use hither_read::ReadAhead;
    use std::time::Duration;

    /// The first of twenty reads in a row that causes read-ahead, counted from 1.
    fn first_read_ahead(before: Option<Option<usize>>, found: CacheStatus) -> usize {
        let gate = ReadAheadGate::default();
        if let Some(before) = before {
            gate.close(before);
        }
        let mut prefetcher = GatedPrefetcher::new(Box::new(ReadAhead::default()), gate);
        let conditions = PrefetchContext {
            size: Some(1 << 30),
            link: LinkEstimate::default(),
            limits: Limits::unlimited(),
            ahead_bytes: 0,
            ahead_budget_bytes: 1 << 20,
            wasted_bytes: 0,
            fetched_bytes: 0,
        };
        let mut advice = (0..20_u64).map(|n| {
            let range = n * 1000..(n + 1) * 1000;
            let access = Access { range, at: Duration::ZERO, found, planned: false };
            prefetcher.observe(&access, &conditions)
        });
        1 + advice.position(|advice| advice != Advice::default()).unwrap()
    }

    #[test]
    fn read_ahead_starts_when_more_is_read_than_of_the_file_before() {
        assert_eq!(first_read_ahead(None, CacheStatus::Hit), 2);
        assert_eq!(first_read_ahead(Some(Some(1)), CacheStatus::Hit), 2);
        assert_eq!(first_read_ahead(Some(Some(5)), CacheStatus::Hit), 6);
        assert_eq!(first_read_ahead(Some(Some(MAX_READS)), CacheStatus::Hit), 2);
        assert_eq!(first_read_ahead(Some(None), CacheStatus::Hit), MAX_READS + 1);
        assert_eq!(first_read_ahead(Some(Some(5)), CacheStatus::Miss), 3);
    }
}
