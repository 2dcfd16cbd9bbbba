//! One local file to one name, for programs.

use crate::copy::copy;
use crate::destination::{CopyPath, Destination};
use crate::options::CopyOptions;
use crate::progress::CopyProgress;
use hither_core::{DirEntry, Result};
use std::sync::Arc;

/// Copies the file at `source` to exactly `target`, and returns its entry there. As with [`copy`],
/// an interrupted attempt is resumed, if there is a journal.
///
/// # Errors
///
/// As [`copy`], and the error of the file itself; [`hither_core::ErrorKind::AlreadyExists`] if the
/// target exists and [`crate::OverwritePolicy::Refuse`] is set.
pub async fn upload(
    source: CopyPath,
    target: CopyPath,
    options: CopyOptions,
    progress: Arc<CopyProgress>,
) -> Result<DirEntry> {
    let storage = Arc::clone(&target.storage);
    let path = target.path.clone();
    let summary = copy(vec![source], Destination::File(target), options, progress).await?;
    match (summary.failures.into_iter().next(), summary.last_uploaded) {
        (Some(failure), _) => Err(failure.error),
        (None, Some(entry)) => Ok(entry),
        // It was written here, or found to be there already.
        (None, None) => storage.stat(&path).await,
    }
}
