//! Files of which a program reads a few pieces and goes on to the next.
//!
//! Three small reads in a row look like the beginning of many, and of a single file they are. Whoever opens a thousand
//! files and reads three pieces of each would have most of every file fetched for nothing, though, in requests that stand
//! before those that open the next file. So of a file that was opened ahead, as one of many, nothing is read ahead until
//! the program has read more of it than of the file that it used before (beyond [`MAX_READS`] it counts as one that is
//! read on and on), or has waited for reads of it [`MAX_WAITS`] times: what is read of every file is brought along with
//! the opening (`habit.rs`), so whoever waits so often does more than that. What it has read is noticed meanwhile.

use crate::open_ahead::access_pattern::MAX_READS;
use hither_core::prefetch::{Access, Advice, CacheStatus, PrefetchContext, Prefetcher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reads of a file that was opened ahead which wait, until it is read ahead or its trees are opened.
pub(crate) const MAX_WAITS: u32 = 3;

/// Reads of a file that say nothing of what will be read of it; none as long as nobody says otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadAheadGate(Arc<AtomicUsize>);

impl ReadAheadGate {
    /// The file was opened ahead; of the one that the program used before it, if there was one, so many reads were seen.
    pub(crate) fn opened_ahead(&self, reads_before: Option<usize>) {
        let few = match reads_before {
            None => MAX_READS,
            Some(few @ 0..MAX_READS) => few,
            Some(_) => 0,
        };
        self.0.store(few, Ordering::Relaxed);
    }
}

/// Lets another advisor say nothing for the first few reads.
#[derive(Debug)]
pub(crate) struct GatedPrefetcher {
    inner: Box<dyn Prefetcher>,
    glances: ReadAheadGate,
    reads: usize,
    waits: u32,
    over: bool,
}

impl GatedPrefetcher {
    pub(crate) fn new(inner: Box<dyn Prefetcher>, glances: ReadAheadGate) -> Self {
        Self { inner, glances, reads: 0, waits: 0, over: false }
    }
}

impl Prefetcher for GatedPrefetcher {
    fn observe(&mut self, access: &Access, conditions: &PrefetchContext) -> Advice {
        if self.over {
            return self.inner.observe(access, conditions);
        }
        self.reads += 1;
        self.waits += u32::from(access.found != CacheStatus::Hit);
        self.over = self.reads > self.glances.0.load(Ordering::Relaxed) || self.waits >= MAX_WAITS;
        let mut conditions = *conditions;
        if !self.over {
            // Without room nothing is named.
            conditions.ahead_budget_bytes = 0;
        }
        self.inner.observe(access, &conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::{Limits, LinkEstimate, ReadAhead};
    use std::time::Duration;

    /// At which of twenty reads in a row something is named ahead, the first being 1.
    fn begins(before: Option<Option<usize>>, found: CacheStatus) -> usize {
        let glances = ReadAheadGate::default();
        if let Some(before) = before {
            glances.opened_ahead(before);
        }
        let mut advisor = GatedPrefetcher::new(Box::new(ReadAhead::default()), glances);
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
            advisor.observe(&access, &conditions)
        });
        1 + advice.position(|advice| advice != Advice::default()).unwrap()
    }

    #[test]
    fn files_are_read_ahead_when_more_is_read_of_them_than_of_the_one_before() {
        assert_eq!(begins(None, CacheStatus::Hit), 2);
        assert_eq!(begins(Some(Some(1)), CacheStatus::Hit), 2);
        assert_eq!(begins(Some(Some(5)), CacheStatus::Hit), 6);
        assert_eq!(begins(Some(Some(MAX_READS)), CacheStatus::Hit), 2);
        assert_eq!(begins(Some(None), CacheStatus::Hit), MAX_READS + 1);
        assert_eq!(begins(Some(Some(5)), CacheStatus::Miss), 3);
    }
}
