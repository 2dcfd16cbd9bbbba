//! The progress of a file that is staged from tape to disk.

/// Progress of a file that is to be staged from tape to disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StagingState {
    /// Not on disk yet.
    Waiting,
    /// The last response about the request did not mention the file.
    Unlisted,
    /// On disk.
    Online,
    /// Staging failed, for this reason.
    Failed(String),
}

impl StagingState {
    /// Returns true for a file that is on disk or has failed.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Online | Self::Failed(_))
    }
}
