//! What a client sends without receiving in between.

/// What a client sent on one connection without receiving on any in between, and the answer. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Burst {
    /// When its first payload entered the link.
    pub(super) sent: u64,
    /// When the first payload of the answer was delivered to the client.
    pub(super) first_answer: Option<u64>,
    /// When the last payload of the answer was delivered to the client.
    pub(super) last_answer: Option<u64>,
    /// Where the answer begins in the server's stream, in bytes since the witness first saw it.
    pub(super) answer_from: Option<u64>,
    /// Payload of the answer that was delivered to the client, repeated segments included.
    pub(super) answer_bytes: u64,
}
