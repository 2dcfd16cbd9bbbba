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

    /// The state after the next response about the request, which says `next`. A file that two
    /// responses in a row do not mention has failed: the server does not stage it.
    #[must_use]
    pub fn then(&self, next: Self) -> Self {
        match (self, next) {
            (Self::Unlisted, Self::Unlisted) => {
                let why =
                    "the request does not have this file at the server any more, or never did";
                Self::Failed(why.to_owned())
            }
            (_, next) => next,
        }
    }
}
