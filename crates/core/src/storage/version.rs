//! Comparison of two entries of one name: the same version of the file, or two versions.

use super::{DirEntry, FileKind};
use crate::source::{is_entity_tag, validators_differ};
use crate::{Error, ErrorKind, Result};
use std::fmt::Display;

/// Returns true if both entries of one name are of the same version, as far as they show it.
/// Directories change with their entries.
#[must_use]
pub fn is_same_version(before: &DirEntry, now: &DirEntry) -> Option<bool> {
    if before.kind != now.kind || before.size.zip(now.size).is_some_and(|(one, other)| one != other)
    {
        return Some(false);
    }
    match (&before.validator, &now.validator) {
        _ if before.kind == FileKind::Directory => None,
        // A tag and a date cannot be compared.
        (Some(before), Some(now)) if is_entity_tag(before) == is_entity_tag(now) => {
            Some(!validators_differ(before, now))
        }
        _ if before.modified? != now.modified? => Some(false),
        // Dates are the same within a second.
        _ => before.size.and(now.size).map(|_| true),
    }
}

/// Fails with [`ErrorKind::Changed`] unless `now`, the entry of the file `name`, is of the version
/// `expected`, by validator, else by date and size, else by size.
///
/// # Errors
///
/// [`ErrorKind::Unsupported`] where nothing distinguishes the two.
pub fn check_version(
    expected: &DirEntry,
    now: Option<&DirEntry>,
    name: impl Display,
) -> Result<()> {
    let Some(now) = now else { return Err(changed_since_read(name, "it does not exist any more")) };
    match is_same_version(expected, now) {
        Some(true) => Ok(()),
        Some(false) => {
            let was = expected.shown_size();
            let is = now.shown_size();
            let sizes = if was == is { String::new() } else { format!("it had {was}, now {is}") };
            Err(changed_since_read(name, &sizes))
        }
        None if expected.size.is_some() && expected.size == now.size => Ok(()),
        None => {
            let what = format!(
                "{name}: the server tells neither version nor size of the file, which may have \
                 changed since it was read: it is not replaced"
            );
            Err(Error::new(ErrorKind::Unsupported, what))
        }
    }
}

/// The error of a write that would replace another version of the file `name` than the one that
/// was read.
#[must_use]
pub fn changed_since_read(name: impl Display, how: &str) -> Error {
    let how = if how.is_empty() { String::new() } else { format!(" ({how})") };
    let what = format!(
        "{name} has changed since it was read{how}: it is not replaced; read it again and repeat \
         what is to be changed"
    );
    Error::new(ErrorKind::Changed, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn only_the_version_that_was_read_passes() {
        let bare = |size| DirEntry::new("f", FileKind::File, size);
        let dated = |size, seconds| DirEntry {
            modified: Some(UNIX_EPOCH + Duration::from_secs(seconds)),
            ..bare(size)
        };
        let tagged = |tag: &str| DirEntry { validator: Some(tag.to_owned()), ..dated(3, 1) };
        let unknown = DirEntry { size: None, ..bare(0) };
        let changed = Some(ErrorKind::Changed);
        for (expected, now, outcome) in [
            (tagged("\"a\""), Some(tagged("\"a\"")), None),
            // Apache: a tag is weak while the file is young.
            (tagged("W/\"a\""), Some(tagged("\"a\"")), None),
            (tagged("\"a\""), Some(tagged("\"b\"")), changed),
            (tagged("\"a\""), Some(dated(3, 1)), None),
            (tagged("\"a\""), Some(dated(3, 2)), changed),
            (tagged("\"a\""), Some(DirEntry { modified: None, ..tagged("now") }), None),
            (dated(3, 1), Some(dated(3, 1)), None),
            (dated(3, 1), Some(dated(3, 2)), changed),
            (dated(3, 1), Some(dated(4, 1)), changed),
            (bare(3), Some(bare(3)), None),
            (bare(3), Some(bare(4)), changed),
            (bare(3), Some(DirEntry::new("f", FileKind::Directory, 0)), changed),
            (bare(3), None, changed),
            (bare(3), Some(unknown.clone()), Some(ErrorKind::Unsupported)),
            (unknown.clone(), Some(unknown), Some(ErrorKind::Unsupported)),
        ] {
            let seen = check_version(&expected, now.as_ref(), "f").err().map(|error| error.kind());
            assert_eq!(seen, outcome, "{expected:?} {now:?}");
        }
    }
}
