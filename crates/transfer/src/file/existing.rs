//! The decision about an existing file at the target: it is kept or replaced.

use crate::destination::Target;
use crate::file::identify::of_file;
use crate::file::item::CopyItem;
use crate::file::target::partial_file;
use crate::file::version::FileVersion;
use crate::journal::Known;
use crate::options::OverwritePolicy;
use hither_core::storage::{FileTimes, since_1970};
use hither_core::{Error, ErrorKind, FileKind, Result};
use std::path::Path;

/// Returns true if the existing target is to be kept.
pub(crate) async fn is_to_be_skipped(
    existing: OverwritePolicy,
    item: &CopyItem,
    version: &FileVersion,
    known: Option<&Known>,
) -> Result<bool> {
    let done =
        known.and_then(|known| known.done.as_ref().filter(|_| known.version.is_surely(version)));
    let seen = match &item.target {
        Target::Local(path) => local_version(path)?,
        Target::Remote(storage, path)
            if done.is_some()
                || matches!(existing, OverwritePolicy::Keep | OverwritePolicy::Update) =>
        {
            let listed = match item.directory.as_ref().filter(|_| item.backoff.failures() == 0) {
                Some(directory) => directory.listed(path).await,
                None => None,
            };
            // A listing may not state when a file has changed.
            let listed = listed.filter(|known| {
                known.as_ref().is_none_or(|entry| {
                    let is_described = entry.modified.is_some() && entry.size.is_some();
                    entry.kind == FileKind::File && is_described
                })
            });
            match listed {
                Some(known) => known.map(|entry| of_file(entry, item)).transpose()?,
                None => match storage.stat(path).await {
                    Ok(entry) => Some(of_file(entry, item)?),
                    Err(error) if error.kind() == ErrorKind::NotFound => None,
                    Err(error) => return Err(error),
                },
            }
        }
        Target::Remote(..) | Target::Output | Target::Discard => None,
    };
    let Some(seen) = seen else { return Ok(false) };
    if let (Some(from), Target::Local(to)) = (&item.local, &item.target)
        && partial_file::is_same(from, to)
    {
        let message = format!("{} and {} are the same file", from.display(), to.display());
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let times = item.storage.file_times();
    should_skip(existing, &item.target, version, times, known, &seen)
}

/// Returns true if an existing target is kept, because an earlier attempt has copied it or by the
/// rule for existing targets. `version` is that of the source, `times` is how the source's storage
/// keeps times, and `seen` is the version at the target.
pub(crate) fn should_skip(
    existing: OverwritePolicy,
    target: &Target,
    version: &FileVersion,
    times: FileTimes,
    known: Option<&Known>,
    seen: &FileVersion,
) -> Result<bool> {
    if existing == OverwritePolicy::Refuse {
        let message = format!("{} exists already", target.name());
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    if known.is_some_and(|known| known.is_done(version, seen)) {
        return Ok(true);
    }
    Ok(match existing {
        OverwritePolicy::Replace | OverwritePolicy::Refuse => false,
        OverwritePolicy::Keep => true,
        OverwritePolicy::Update => {
            let is_newer = match target {
                Target::Remote(storage, _) => seen.is_newer(storage.file_times(), version, times),
                Target::Local(_) | Target::Output | Target::Discard => seen.is_not_older(version),
            };
            seen.size.is_some() && seen.size == version.size && is_newer
        }
    })
}

/// The version of a local file now; none if there is none.
pub(crate) fn local_version(path: &Path) -> Result<Option<FileVersion>> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(partial_file::failed("cannot look at", path, error)),
    };
    if metadata.is_dir() {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("{} is a directory, expected a file or nothing", path.display()),
        ));
    }
    if !metadata.is_file() {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("{} is neither a file nor a directory", path.display()),
        ));
    }
    Ok(Some(FileVersion {
        size: Some(metadata.len()),
        modified: metadata.modified().ok().map(since_1970),
        ..FileVersion::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: FileTimes = FileTimes { are_kept: true, ahead_seconds: None };

    fn version(size: u64, modified: i64) -> FileVersion {
        FileVersion { size: Some(size), modified: Some((modified, 0)), ..FileVersion::default() }
    }

    fn skips(existing: OverwritePolicy, known: Option<&Known>, seen: &FileVersion) -> Result<bool> {
        let target = Target::Local("/data".into());
        should_skip(existing, &target, &version(4, 10), TIMES, known, seen)
    }

    #[test]
    fn an_existing_target_is_left_by_the_rule_that_was_chosen() {
        use OverwritePolicy::{Keep, Refuse, Replace, Update};
        let same = version(4, 10);
        for (existing, expected) in [(Replace, false), (Keep, true), (Update, true)] {
            assert_eq!(skips(existing, None, &same).unwrap(), expected, "{existing:?}");
        }
        assert_eq!(skips(Refuse, None, &same).unwrap_err().kind(), ErrorKind::AlreadyExists);
        for other in [version(5, 10), version(4, 9), FileVersion { size: None, ..same }] {
            assert!(!skips(Update, None, &other).unwrap(), "{other:?}");
        }
    }

    #[test]
    fn what_an_earlier_attempt_has_copied_is_left_if_neither_end_has_changed() {
        let done = Some(version(4, 20));
        let known = Known { version: version(4, 10), done, ..Known::default() };
        assert!(skips(OverwritePolicy::Replace, Some(&known), &version(4, 20)).unwrap());
        assert!(!skips(OverwritePolicy::Replace, Some(&known), &version(4, 21)).unwrap());
        let changed = Known { version: version(4, 11), ..known };
        assert!(!skips(OverwritePolicy::Replace, Some(&changed), &version(4, 20)).unwrap());
    }
}
