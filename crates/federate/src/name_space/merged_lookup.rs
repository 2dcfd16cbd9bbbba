//! Answers about a name: the answers of endpoints so far, and the entry that counts.

use crate::merge::{EndpointId, EntryFacts, MergedEntry, MergedListing};
use crate::settings::Agreement;
use std::sync::Arc;

/// The answers about a name, so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergedLookup {
    /// The endpoints that have an entry of that name.
    pub found: Vec<(EndpointId, EntryFacts)>,
    /// The entry that most of them have; none if no endpoint has the name.
    pub merged: Option<Arc<MergedEntry>>,
    /// The endpoints that have not answered.
    pub unanswered: Vec<EndpointId>,
    /// Further endpoints that have not answered, but are copies of one that has.
    pub copied: Vec<EndpointId>,
    /// The number of endpoints that may still answer.
    pub pending: usize,
    /// The time for a majority has passed.
    pub is_late: bool,
    /// No further answer is awaited.
    pub is_final: bool,
}

impl MergedLookup {
    /// Returns true if an endpoint has the name, and the entry is the one that counts.
    pub(super) fn is_decided(&self, agreement: Agreement) -> bool {
        self.merged.as_ref().is_some_and(|entry| {
            // The worst case: all those that differ agree, and pending endpoints agree with them.
            let others = entry.differing.len() + self.pending;
            self.is_late || agreement == Agreement::First || entry.holders.len() > others
        })
    }

    /// The answer that a listing gives about one of its names; none if an endpoint that has not
    /// answered may have it, or if one lists it without metadata.
    pub(super) fn from_listing(listing: &MergedListing, name: &str) -> Option<Self> {
        let entry = listing.get(name);
        if entry.is_none() && (!listing.is_complete() || listing.is_refused(name)) {
            return None;
        }
        let found = entry.map(|it| it.holders.iter().map(|id| (*id, it.facts)).collect());
        Some(Self {
            found: found.unwrap_or_default(),
            merged: entry.cloned().map(Arc::new),
            unanswered: listing.unanswered.clone(),
            copied: listing.copied.clone(),
            is_final: true,
            ..Self::default()
        })
    }

    /// All endpoints that have not answered. They may have the name, or another version of the
    /// file.
    pub(crate) fn silent(&self) -> Vec<EndpointId> {
        self.unanswered.iter().chain(&self.copied).copied().collect()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let ids = (self.unanswered.capacity() + self.copied.capacity()) * size_of::<EndpointId>();
        let date = size_of::<Option<std::time::SystemTime>>();
        let found = size_of::<(EndpointId, EntryFacts)>() + size_of::<EndpointId>() + date;
        let merged = size_of::<MergedEntry>();
        size_of::<Self>() + merged + self.found.capacity() * found + ids
    }
}

/// The number of answers that a caller needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The entry that counts, by the [`Agreement`] of the federation.
    Entry,
    /// All endpoints that answer in time.
    AllAnswers,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_without_a_copy_does_not_answer_for_changes() {
        let copied = vec![EndpointId(1)];
        let listing = MergedListing { copied: copied.clone(), ..MergedListing::default() };
        let answer = MergedLookup::from_listing(&listing, "f").unwrap();
        assert_eq!((answer.unanswered.len(), answer.silent()), (0, copied));
    }
}
