//! One local file to one name, for programs.

use crate::copy::copy;
use crate::destination::{CopyPath, Destination};
use crate::options::CopyOptions;
use crate::progress::CopyProgress;
use hither_core::{DirEntry, Result};
use std::sync::Arc;

/// Copies the file at `source` to exactly `target`, and returns what its storage says of it then.
/// As [`copy`], an attempt that was interrupted is gone on with, if there is a journal.
///
/// # Errors
///
/// As [`copy`], and what the file itself failed with; [`hither_core::ErrorKind::AlreadyExists`] if
/// there is something of that name and [`crate::OverwritePolicy::Refuse`] is asked for.
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
