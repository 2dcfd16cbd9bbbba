//! Summary of a copy.

use hither_checksum::Checksum;
use hither_core::{DirEntry, Error, ErrorKind};
use hither_tune::TuningDecision;
use std::collections::BTreeMap;

/// Summary of a copy.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CopySummary {
    /// Files copied.
    pub files: u64,
    /// Their bytes, including those that an earlier attempt has moved.
    pub bytes: u64,
    /// Files that were skipped, by the rule for existing targets or because an earlier attempt has
    /// copied them.
    pub files_skipped: u64,
    /// Directories made.
    pub directories: u64,
    /// Files and links that a sync deleted, or would delete.
    pub files_deleted: u64,
    /// Directories that a sync deleted, or would delete.
    pub directories_deleted: u64,
    /// Bytes that came in.
    pub bytes_arrived: u64,
    /// Bytes that an earlier attempt has moved and that were not moved again.
    pub bytes_resumed: u64,
    /// Bytes that came in more than once in this attempt.
    pub bytes_resent: u64,
    /// Checksums of files: all of them if a checksum was requested, else those that were compared.
    pub checksums: Vec<FileChecksum>,
    /// Files that were copied anew because they had changed, and blocks that came damaged.
    pub notices: Vec<String>,
    /// Directory entry of the file that was uploaded last, from its storage.
    pub last_uploaded: Option<DirEntry>,
    /// Bytes and failed requests of each server, where files may have several replicas.
    pub sources: BTreeMap<String, (u64, u64)>,
    /// Decisions of the tuners, those of the workers first; times are since their beginning.
    pub tuning: Vec<TuningDecision>,
    /// Files that could not be copied.
    pub failures: Vec<CopyFailure>,
    /// The number of failed files of which written bytes stay for the next attempt.
    pub files_kept: u64,
}

/// The checksum of a file that was copied.
#[derive(Debug, Clone)]
pub struct FileChecksum {
    /// The target.
    pub target: String,
    /// Its checksum.
    pub checksum: Checksum,
    /// True if it was compared with the checksum that the user gave or the server of the source
    /// states; for a local source, with the target's.
    pub compared: bool,
}

/// A file that could not be copied.
#[derive(Debug, Clone)]
pub struct CopyFailure {
    /// The source, a file or directory.
    pub source: String,
    /// Why.
    pub error: Error,
}

impl CopySummary {
    /// The error of the whole: none if everything was copied; that of the failure if there is one;
    /// else of the kind of the first.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        let first = self.failures.first()?;
        match self.failures.len() {
            1 => Some(first.error.clone()),
            n => Some(Error::new(
                first.error.kind(),
                format!(
                    "{n} of {} could not be copied",
                    self.files + self.files_skipped + n as u64
                ),
            )),
        }
    }

    /// Returns true if the same job, started again, would resume where this one ended.
    #[must_use]
    pub fn can_go_on(&self) -> bool {
        use ErrorKind::{NoSpace, Timeout, Unavailable};
        let may_end = |kind| matches!(kind, NoSpace | Timeout | Unavailable);
        self.files + self.files_kept > 0
            && self.failures.iter().any(|failure| may_end(failure.error.kind()))
    }
}
