//! Version of a file: size, validator, time of the last change.

use hither_core::{DirEntry, validators_differ};
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
    /// of both differs, and at least one is known of both. Weak entity tags that agree say nothing:
    /// a server sends them for a file that changed a moment ago, and a strong one later.
    pub(crate) fn is_surely(&self, other: &Self) -> bool {
        let validators = self.validator.as_ref().zip(other.validator.as_ref());
        let times = self.modified.zip(other.modified);
        let differs = validators.is_some_and(|(a, b)| validators_differ(a, b))
            || times.is_some_and(|(a, b)| a != b);
        let agrees = validators.is_some_and(|(a, b)| a == b && !a.starts_with("W/"))
            || times.is_some_and(|(a, b)| a == b);
        self.size == other.size && agrees && !differs
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
        let a = tagged("\"a\"", Some((1, 0)));
        assert!(a.is_surely(&a));
        assert!(a.is_surely(&tagged("\"a\"", None)));
        assert!(!a.is_surely(&tagged("\"b\"", Some((1, 0)))));
        assert!(!a.is_surely(&tagged("\"a\"", Some((1, 1)))));
        let weak = tagged("W/\"a\"", Some((1, 0)));
        assert!(a.is_surely(&weak));
        assert!(!tagged("\"b\"", Some((1, 0))).is_surely(&weak));
        assert!(!tagged("W/\"a\"", None).is_surely(&weak));
        assert!(!a.is_surely(&FileVersion { size: 2, ..a.clone() }));
        let silent = FileVersion { size: 1, ..FileVersion::default() };
        assert!(!silent.is_surely(&silent));
    }
}
