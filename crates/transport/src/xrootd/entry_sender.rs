//! The entries of a listing on their way from a session to the caller, within a limit: a server
//! could send names without an end, and the callers of listings keep all of them.

use hither_core::storage::DirEntry;
use hither_xrd::wire::DirlistEntry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Maximum memory of the entries of a directory, in bytes: some million names.
pub(super) const MAX_BYTES: usize = 256 << 20;

/// The listing exceeds the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListingTooLarge;

/// Some entries, or the end of a listing that is too large.
pub(super) type Entries = Result<Vec<DirlistEntry>, ListingTooLarge>;

/// The end of the session. Clones share the limit.
#[derive(Debug, Clone)]
pub(super) struct EntrySender {
    sender: UnboundedSender<Entries>,
    /// Bytes that further entries may take.
    left: Arc<AtomicUsize>,
}

impl EntrySender {
    /// Both ends, for entries of at most `max_bytes`.
    pub(super) fn channel(max_bytes: usize) -> (Self, UnboundedReceiver<Entries>) {
        let (sender, receiver) = unbounded_channel();
        (Self { sender, left: Arc::new(AtomicUsize::new(max_bytes)) }, receiver)
    }

    /// Passes entries on. A receiver that was dropped cancels the listing.
    pub(super) fn send(&self, entries: Vec<DirlistEntry>) {
        let bytes = entries.iter().map(|it| it.name.len() + size_of::<DirEntry>()).sum();
        let left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        drop(self.sender.send(left.map(|_| entries).map_err(|_| ListingTooLarge)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_beyond_the_limit_end_the_listing() {
        let entry = || DirlistEntry { name: "a".repeat(1000), is_utf8: true, status: None };
        let (sender, mut entries) = EntrySender::channel(10_000);
        for _ in 0..12 {
            sender.clone().send(vec![entry()]);
        }
        drop(sender);
        let received: Vec<_> = std::iter::from_fn(|| entries.blocking_recv()).collect();
        let fitting = received.iter().take_while(|it| it.is_ok()).count();
        assert!((5..=9).contains(&fitting), "{fitting}");
        assert_eq!(received[fitting], Err(ListingTooLarge));
    }
}
