//! Faults of a simulated source.

use hither_core::Error;

/// A fault of one request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The response is this error after a round trip; the connection stays open.
    Fail(Error),
    /// The connection breaks after this many bytes of the response; a retry helps.
    Cut {
        /// Number of bytes that arrive before.
        after: u64,
    },
    /// Nothing arrives after this many bytes of the response; the connection stays open.
    Stall {
        /// Number of bytes that arrive before.
        after: u64,
    },
    /// All bytes of the response arrive, and this error comes in place of its end.
    FailAtEnd(Error),
    /// The file has another validator from this request on.
    Change {
        /// The new validator.
        validator: String,
    },
}
