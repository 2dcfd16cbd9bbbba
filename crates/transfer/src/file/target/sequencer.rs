//! The order of writes, for targets that take blocks in order while several workers fetch them.

use hither_core::{Error, ErrorKind, Result};
use tokio::sync::watch;

/// The position whose turn it is.
#[derive(Debug)]
pub(crate) struct Sequencer {
    next: watch::Sender<u64>,
}

/// The position of a file that has failed.
const BROKEN: u64 = u64::MAX;

impl Sequencer {
    /// A sequence whose first turn is that of the bytes at `first`.
    pub(crate) fn new(first: u64) -> Self {
        Self { next: watch::Sender::new(first) }
    }

    /// Waits until everything before `offset` is written.
    pub(crate) async fn turn(&self, offset: u64) -> Result<()> {
        let mut next = self.next.subscribe();
        let reached = next.wait_for(|next| *next >= offset).await;
        match reached {
            Ok(next) if *next != BROKEN => Ok(()),
            _ => Err(Error::new(ErrorKind::Cancelled, "an earlier part of the file failed")),
        }
    }

    /// Records that everything before `offset` is written, unless the file has failed.
    pub(crate) fn advance(&self, offset: u64) {
        self.next.send_if_modified(|next| {
            let goes_on = *next != BROKEN;
            if goes_on {
                *next = offset;
            }
            goes_on
        });
    }

    /// The file failed.
    pub(crate) fn fail(&self) {
        self.next.send_replace(BROKEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_block_waits_for_a_file_that_has_failed_during_a_write() {
        let order = Sequencer::new(4);
        order.turn(4).await.unwrap();
        order.fail();
        order.advance(8);
        for offset in [8, 12] {
            let error = order.turn(offset).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled);
        }
    }
}
