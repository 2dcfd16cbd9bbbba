//! Notices for the user: which replicas are excluded, and which are assumed to be the same file.

use super::Replicas;

/// Maximum number of notices kept.
const MAX_NOTICES: usize = 64;

impl Replicas {
    /// The replicas of which only the sizes were compared, if bytes came from several.
    pub(super) fn assumption(&self) -> Option<String> {
        let state = self.state();
        // All bytes, or each block, are compared with a checksum.
        let is_verified = state.checksum.is_some() || !state.stated.is_empty();
        if state.pieces.is_some() || (is_verified && state.origins.is_some()) {
            return None;
        }
        let mut senders = state.replicas.iter().filter(|replica| replica.report().bytes > 0);
        let first = senders.next()?;
        let others = senders.filter(|other| !other.agrees_with(first)).map(|other| other.name());
        let others: Vec<_> = others.collect();
        let what = "bytes came from all of them, of which only the sizes were compared";
        (!others.is_empty()).then(|| format!("{}, {}: {what}", first.name(), others.join(", ")))
    }

    /// Adds a notice for the user, once.
    pub fn note(&self, text: String) {
        let mut state = self.state();
        if state.notices.len() < MAX_NOTICES && !state.notices.contains(&text) {
            state.notices.push(text);
        }
    }
}
