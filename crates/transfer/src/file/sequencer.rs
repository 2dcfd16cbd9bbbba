//! Turns: for targets that take blocks one after the other while several workers fetch them.

use hither_core::{Error, ErrorKind, Result};
use tokio::sync::watch;

/// The position whose turn it is.
#[derive(Debug)]
pub(crate) struct Sequencer {
    next: watch::Sender<u64>,
}

/// Whoever still waits will wait for ever: the file failed.
const BROKEN: u64 = u64::MAX;

impl Sequencer {
    pub(crate) fn new() -> Self {
        Self { next: watch::Sender::new(0) }
    }

    /// Waits until everything before `offset` is through.
    pub(crate) async fn turn(&self, offset: u64) -> Result<()> {
        let mut next = self.next.subscribe();
        let reached = next.wait_for(|next| *next >= offset).await;
        match reached {
            Ok(next) if *next != BROKEN => Ok(()),
            _ => Err(Error::new(ErrorKind::Cancelled, "an earlier part of the file failed")),
        }
    }

    /// Everything before `offset` is through.
    pub(crate) fn advance(&self, offset: u64) {
        self.next.send_replace(offset);
    }

    /// The file failed.
    pub(crate) fn fail(&self) {
        self.next.send_replace(BROKEN);
    }
}
