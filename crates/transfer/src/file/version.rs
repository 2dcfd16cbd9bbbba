//! Version of a file: size, validator, time of the last change.

use hither_core::DirEntry;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// FileVersion of a file, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileVersion {
    /// Size in bytes.
    pub(crate) size: u64,
    /// Entity tag, or another such text.
    pub(crate) validator: Option<String>,
    /// Last change: seconds and nanoseconds since 1970.
    pub(crate) modified: Option<(u64, u32)>,
}

impl FileVersion {
    pub(crate) fn of(entry: &DirEntry) -> Self {
        let modified = entry.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self {
            size: entry.size,
            validator: entry.validator.clone(),
            modified: modified.map(|since| (since.as_secs(), since.subsec_nanos())),
        }
    }

    /// Last change.
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = self.modified?;
        UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
    }

    /// Returns true if the two are surely the same version: the sizes are equal, no property known
    /// of both differs, and at least one is known of both.
    pub(crate) fn is_surely(&self, other: &Self) -> bool {
        fn agree<T: PartialEq>(a: Option<&T>, b: Option<&T>) -> Option<bool> {
            Some(a? == b?)
        }
        let validators = agree(self.validator.as_ref(), other.validator.as_ref());
        let times = agree(self.modified.as_ref(), other.modified.as_ref());
        let agreements = [validators, times];
        self.size == other.size
            && agreements.contains(&Some(true))
            && !agreements.contains(&Some(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_equal_only_if_a_validator_or_time_agrees() {
        let tagged = |tag: &str, modified| FileVersion {
            size: 1,
            validator: Some(tag.to_owned()),
            modified,
        };
        let a = tagged("a", Some((1, 0)));
        assert!(a.is_surely(&a));
        assert!(a.is_surely(&tagged("a", None)));
        assert!(!a.is_surely(&tagged("b", Some((1, 0)))));
        assert!(!a.is_surely(&tagged("a", Some((1, 1)))));
        assert!(!a.is_surely(&FileVersion { size: 2, ..a.clone() }));
        let silent = FileVersion { size: 1, ..FileVersion::default() };
        assert!(!silent.is_surely(&silent));
    }
}
