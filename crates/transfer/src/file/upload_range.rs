//! Ranges of files that several processes upload.

use std::ops::Range;

/// A part of an upload that another process has begun, and will commit.
#[derive(Debug, Clone)]
pub(crate) struct UploadRange {
    pub(crate) range: Range<u64>,
    /// [`hither_core::Upload::token`].
    pub(crate) token: String,
}
