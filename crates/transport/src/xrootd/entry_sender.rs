//! The entries of a listing on their way from a session to the caller, within a limit: a server
//! could send names without an end, and the callers of listings keep all of them.
//!
//! A listing may be requested several times: behind a redirect, after a wait, or on another
//! connection. The limit is that of one attempt. Entries cannot be taken back: an attempt after one
//! that has passed some on would pass them on twice, and is an error.

use hither_core::storage::DirEntry;
use hither_xrd::wire::DirlistEntry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Maximum memory of the entries of a directory, in bytes: some million names.
pub(super) const MAX_BYTES: usize = 256 << 20;

/// The reason why a listing cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListingError {
    /// The listing exceeds the limit.
    TooLarge,
    /// The listing began again after entries had arrived.
    Repeated,
}

/// Some entries, or the end of a listing that cannot be used.
pub(super) type Entries = Result<Vec<DirlistEntry>, ListingError>;

/// The end of the session in one attempt at a listing. Each clone is for another attempt.
#[derive(Debug)]
pub(super) struct EntrySender {
    sender: UnboundedSender<Entries>,
    max_bytes: usize,
    /// Bytes that further entries of this attempt may take, once it has passed some on.
    left: Option<usize>,
    /// Any attempt has passed on entries.
    has_sent: Arc<AtomicBool>,
}

impl Clone for EntrySender {
    fn clone(&self) -> Self {
        let sender = self.sender.clone();
        Self { sender, left: None, has_sent: Arc::clone(&self.has_sent), ..*self }
    }
}

impl EntrySender {
    /// Both ends, for entries of at most `max_bytes`.
    pub(super) fn channel(max_bytes: usize) -> (Self, UnboundedReceiver<Entries>) {
        let (sender, receiver) = unbounded_channel();
        (Self { sender, max_bytes, left: None, has_sent: Arc::default() }, receiver)
    }

    /// Returns true if entries were passed on, so that the listing cannot be requested again.
    pub(super) fn has_sent(&self) -> bool {
        self.has_sent.load(Ordering::Relaxed)
    }

    /// Passes entries on. A receiver that was dropped cancels the listing.
    pub(super) fn send(&mut self, entries: Vec<DirlistEntry>) {
        let bytes = entries.iter().map(|it| it.name.len() + size_of::<DirEntry>()).sum();
        let is_repeated = self.left.is_none() && self.has_sent.swap(true, Ordering::Relaxed);
        let left = self.left.unwrap_or(self.max_bytes).checked_sub(bytes);
        self.left = Some(left.unwrap_or(0));
        drop(self.sender.send(match left {
            _ if is_repeated => Err(ListingError::Repeated),
            None => Err(ListingError::TooLarge),
            Some(_) => Ok(entries),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> DirlistEntry {
        DirlistEntry { name: "a".repeat(1000), is_utf8: true, status: None }
    }

    fn received(mut entries: UnboundedReceiver<Entries>) -> Vec<Entries> {
        std::iter::from_fn(|| entries.blocking_recv()).collect()
    }

    #[test]
    fn entries_beyond_the_limit_end_the_listing() {
        let (mut sender, entries) = EntrySender::channel(10_000);
        for _ in 0..12 {
            sender.send(vec![entry()]);
        }
        drop(sender);
        let received = received(entries);
        let fitting = received.iter().take_while(|it| it.is_ok()).count();
        assert!((5..=9).contains(&fitting), "{fitting}");
        assert_eq!(received[fitting], Err(ListingError::TooLarge));
    }

    #[test]
    fn each_attempt_has_the_whole_limit_and_none_follows_one_with_entries() {
        let (sender, entries) = EntrySender::channel(10_000);
        assert!(!sender.has_sent());
        let mut attempts = [sender.clone(), sender.clone(), sender];
        for attempt in &mut attempts {
            (0..5).for_each(|_| attempt.send(vec![entry()]));
            assert!(attempt.has_sent());
        }
        drop(attempts);
        let received = received(entries);
        assert!(received[..5].iter().all(Result::is_ok), "{received:?}");
        assert_eq!(received[5], Err(ListingError::Repeated));
        assert!(!received.contains(&Err(ListingError::TooLarge)));
    }
}
