//! Bursts of a client's payload.

/// The payload that a client sent on one connection without receiving any in between, and the
/// response. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Burst {
    /// The time when its first payload entered the link.
    pub(super) sent: u64,
    /// The time when the first payload of the response was delivered to the client.
    pub(super) first_answer: Option<u64>,
    /// The time when the last payload of the response was delivered to the client.
    pub(super) last_answer: Option<u64>,
    /// Start of the response in the server's stream, in bytes since the connection was first seen.
    pub(super) answer_from: Option<u64>,
    /// Payload of the response that was delivered to the client, including repeated segments.
    pub(super) answer_bytes: u64,
}
