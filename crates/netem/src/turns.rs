//! A counter of turns: the times that a client sends after it has received something.

/// Counts the times that the client sends after it has received; the first time counts.
///
/// ```
/// let mut turns = hither_netem::turns::Turns::default();
/// turns.sends();
/// turns.sends();
/// turns.receives();
/// turns.sends();
/// assert_eq!(turns.count, 2);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Turns {
    /// Turns so far.
    pub count: u64,
    /// Payload was sent, and none has been received since.
    waiting: bool,
}

impl Turns {
    /// Records that payload was sent.
    pub fn sends(&mut self) {
        if !self.waiting {
            self.count += 1;
            self.waiting = true;
        }
    }

    /// Records that payload was received.
    pub fn receives(&mut self) {
        self.waiting = false;
    }
}
