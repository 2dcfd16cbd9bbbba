//! How often a client that had received sends again.

/// Counts the times that sending follows receiving; the first sending counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turns {
    pub(crate) count: u64,
    /// Payload went out and none has come in since.
    waiting: bool,
}

impl Turns {
    pub(crate) fn sends(&mut self) {
        if !self.waiting {
            self.count += 1;
            self.waiting = true;
        }
    }

    pub(crate) fn receives(&mut self) {
        self.waiting = false;
    }
}
