//! Openings of files: each has a number, and holds the entry of the version that it reads.

use super::entry::CacheEntry;
use super::{Cache, CacheKey};
use crate::sync::lock;

impl Cache {
    /// Opens an entry again, after the opening numbered `opened`, with the same confirmation.
    /// Returns the number of the opening.
    pub(crate) fn open_again(&self, id: u64, opened: u64) -> u64 {
        self.with(|state| {
            state.openings += 1;
            let opening = state.openings;
            if let Some(entry) = state.entries.get_mut(&id) {
                entry.handles += 1;
                if entry.confirmed >= opened {
                    entry.confirmed = opening;
                }
            }
            opening
        })
    }

    /// Opens a file: its entry, and the number of the opening.
    pub(crate) fn open(&self, key: &CacheKey) -> (u64, u64) {
        self.with(|state| {
            state.openings += 1;
            let known = state.latest.get(key).copied().filter(|id| {
                let version = state.entries.get(id).map(|entry| entry.version.as_ref());
                version.is_some_and(|it| it.is_none_or(|it| it.validator.is_some()))
            });
            let id = known.unwrap_or_else(|| {
                state.next_entry += 1;
                let id = state.next_entry;
                state.entries.insert(id, CacheEntry::new(id, key.clone()));
                state.latest.insert(key.clone(), id);
                id
            });
            if let Some(entry) = state.entries.get_mut(&id) {
                entry.handles += 1;
            }
            (id, state.openings)
        })
    }

    /// Closes a file that was opened.
    pub(crate) fn close(&self, id: u64) {
        self.entry(id, |entry, context| {
            entry.handles = entry.handles.saturating_sub(1);
            if entry.handles == 0 {
                entry.demote(&(0..u64::MAX), context);
            }
        });
        self.with(|state| state.forget_if_empty(id));
    }

    /// The number of the latest opening.
    pub(crate) fn openings(&self) -> u64 {
        lock(&self.state).openings
    }
}
