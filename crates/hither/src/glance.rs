//! Files of which a program reads a few pieces and goes on to the next.
//!
//! Three small reads in a row look like the beginning of many, and of a single file they are. Whoever opens a thousand
//! files and reads three pieces of each would have most of every file fetched for nothing, though, in requests that stand
//! before those that open the next file. So of a file that was opened ahead, as one of many, nothing is read ahead until
//! the program has read more of it than of the file that it used before (beyond [`MOST_READS`] it counts as one that is
//! read on and on), or has waited for reads of it [`MOST_WAITS`] times: what is read of every file is brought along with
//! the opening (`habit.rs`), so whoever waits so often does more than that. What it has read is noticed meanwhile.

use crate::habit::MOST_READS;
use hither_core::prefetch::{Access, Advice, Advisor, Conditions, Found};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reads of a file that was opened ahead which wait, until it is read ahead or its trees are opened.
pub(crate) const MOST_WAITS: u32 = 3;

/// Reads of a file that say nothing of what will be read of it; none as long as nobody says otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) struct Glances(Arc<AtomicUsize>);

impl Glances {
    /// The file was opened ahead; of the one that the program used before it, if there was one, so many reads were seen.
    pub(crate) fn opened_ahead(&self, reads_before: Option<usize>) {
        let few = match reads_before {
            None => MOST_READS,
            Some(few @ 0..MOST_READS) => few,
            Some(_) => 0,
        };
        self.0.store(few, Ordering::Relaxed);
    }
}

/// Lets another advisor say nothing for the first few reads.
#[derive(Debug)]
pub(crate) struct Restrained {
    inner: Box<dyn Advisor>,
    glances: Glances,
    reads: usize,
    waits: u32,
    over: bool,
}

impl Restrained {
    pub(crate) fn new(inner: Box<dyn Advisor>, glances: Glances) -> Self {
        Self { inner, glances, reads: 0, waits: 0, over: false }
    }
}

impl Advisor for Restrained {
    fn accessed(&mut self, access: &Access, conditions: &Conditions) -> Advice {
        if self.over {
            return self.inner.accessed(access, conditions);
        }
        self.reads += 1;
        self.waits += u32::from(access.found != Found::Present);
        self.over = self.reads > self.glances.0.load(Ordering::Relaxed) || self.waits >= MOST_WAITS;
        let mut conditions = *conditions;
        if !self.over {
            // Without room nothing is named.
            conditions.ahead_budget_bytes = 0;
        }
        self.inner.accessed(access, &conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::{Limits, LinkEstimate, ReadAhead};
    use std::time::Duration;

    /// At which of twenty reads in a row something is named ahead, the first being 1.
    fn begins(before: Option<Option<usize>>, found: Found) -> usize {
        let glances = Glances::default();
        if let Some(before) = before {
            glances.opened_ahead(before);
        }
        let mut advisor = Restrained::new(Box::new(ReadAhead::default()), glances);
        let conditions = Conditions {
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
            advisor.accessed(&access, &conditions)
        });
        1 + advice.position(|advice| advice != Advice::default()).unwrap()
    }

    #[test]
    fn files_are_read_ahead_when_more_is_read_of_them_than_of_the_one_before() {
        assert_eq!(begins(None, Found::Present), 2);
        assert_eq!(begins(Some(Some(1)), Found::Present), 2);
        assert_eq!(begins(Some(Some(5)), Found::Present), 6);
        assert_eq!(begins(Some(Some(MOST_READS)), Found::Present), 2);
        assert_eq!(begins(Some(None), Found::Present), MOST_READS + 1);
        assert_eq!(begins(Some(Some(5)), Found::Absent), 3);
    }
}
