//! Bodies that are not valid multipart messages.

use crate::content_range::ContentRangeError;
use std::ops::Range;

/// A body that is not a valid multipart message. The reader returns the same error again if it is
/// fed more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MultipartError {
    /// The boundary is empty or too long.
    #[error("a boundary of {length} bytes, expected 1 to 200")]
    Boundary {
        /// Its length.
        length: usize,
    },
    /// The server began another response within the body, because it failed after it had announced
    /// the parts.
    #[error("the server aborted its response and wrote \"{seen}\" into it")]
    ServerFailed {
        /// The line, shortened and escaped.
        seen: String,
    },
    /// The delimiter does not follow the part: its length is not the stated one.
    #[error(
        "a part that ends at byte {end} is followed by \"{seen}\", expected the delimiter of the next part"
    )]
    Delimiter {
        /// The byte of the file after the last one of the part.
        end: u64,
        /// The bytes found instead, shortened and escaped.
        seen: String,
    },
    /// The text between two parts exceeds its maximum.
    #[error("more than 8192 bytes of text before the data of a part")]
    HeaderTooLarge,
    /// A line among the fields of a part is not `name: value`.
    #[error("a part has the header line \"{seen}\", expected \"name: value\"")]
    Field {
        /// The line, shortened and escaped.
        seen: String,
    },
    /// A part lacks `Content-Range`.
    #[error("a part has no content-range")]
    NoContentRange,
    /// A part states two different positions.
    #[error("a part has two different content-range fields, the second \"{seen}\"")]
    TwoContentRanges {
        /// The second value, shortened and escaped.
        seen: String,
    },
    /// The position of a part cannot be parsed.
    #[error("a part has an invalid position")]
    ContentRange(#[from] ContentRangeError),
    /// A part states that its range is not in the file.
    #[error("a part states that its range lies beyond the file of {total} bytes")]
    UnsatisfiedPart {
        /// The stated size.
        total: u64,
    },
    /// The body ended before the closing delimiter.
    #[error(
        "the response ended after {complete} complete parts{}, before its closing delimiter",
        still_missing(.missing)
    )]
    Truncated {
        /// Number of complete parts.
        complete: u64,
        /// Bytes of the file that the last part announced and did not contain.
        missing: Option<Range<u64>>,
    },
}

fn still_missing(range: &Option<Range<u64>>) -> String {
    range.as_ref().map_or_else(String::new, |range| {
        format!(" with bytes {}..{} of the next one missing", range.start, range.end)
    })
}
