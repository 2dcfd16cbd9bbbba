//! Version of a file: size, validator, time of the last change.

use hither_core::storage::{FileTimes, from_1970, since_1970};
use hither_core::{DirEntry, validators_differ};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// FileVersion of a file, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileVersion {
    /// Size in bytes, if it is known.
    pub(crate) size: Option<u64>,
    /// Entity tag, or another such text.
    pub(crate) validator: Option<String>,
    /// Last change: seconds since 1970, negative before, and nanoseconds.
    pub(crate) modified: Option<(i64, u32)>,
    /// Checksum that a catalogue or the servers state, as `ALGORITHM:VALUE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<String>,
    /// Entity tags of replicas, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) replicas: BTreeMap<String, String>,
}

impl FileVersion {
    pub(crate) fn of(entry: &DirEntry) -> Self {
        Self {
            size: entry.size,
            validator: entry.validator.clone(),
            modified: entry.modified.map(since_1970),
            ..Self::default()
        }
    }

    /// Last change.
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = self.modified?;
        from_1970(seconds, nanoseconds)
    }

    /// Returns true if this copy was surely not changed before `source`: to the second, if it has a
    /// time without fractions.
    pub(crate) fn is_not_older(&self, source: &Self) -> bool {
        match (self.modified, source.modified) {
            (Some((copied, 0)), Some((changed, _))) => copied >= changed,
            (copied, changed) => changed.is_some() && copied >= changed,
        }
    }

    /// Returns true if this copy, on a server with these `times`, was surely written after `source`
    /// was changed.
    pub(crate) fn is_newer(&self, times: FileTimes, source: &Self, at_source: FileTimes) -> bool {
        let both = self.modified.zip(source.modified);
        let is_newer = both
            .and_then(|((copied, _), (changed, _))| times.is_newer(copied, changed, &at_source));
        is_newer == Some(true)
    }

    /// Returns true if this has a property to compare, and `other` only a size.
    pub(crate) fn is_more_specific_than(&self, other: &Self) -> bool {
        let is_silent = |it: &Self| {
            it.validator.is_none()
                && it.modified.is_none()
                && it.checksum.is_none()
                && it.replicas.is_empty()
        };
        is_silent(other) && !is_silent(self)
    }

    /// Returns true if the two are surely the same version: the sizes are known and equal, no
    /// property known of both differs, and at least one is known of both. Equal weak entity tags
    /// prove nothing: a server sends them for a file that changed a moment ago, and a strong one
    /// later.
    ///
    /// Equal checksums decide whatever else differs, because replicas have tags and times of their
    /// own. The tag of a replica is compared only with an earlier tag of the same replica.
    pub(crate) fn is_surely(&self, other: &Self) -> bool {
        if self.size.is_none() || self.size != other.size {
            return false;
        }
        let algorithm = |sum: &str| sum.split(':').next().map(str::to_owned);
        let sums = self.checksum.as_deref().zip(other.checksum.as_deref());
        if let Some((a, b)) = sums.filter(|(a, b)| algorithm(a) == algorithm(b)) {
            return a == b;
        }
        let named =
            self.replicas.iter().filter_map(|(name, a)| Some((a, other.replicas.get(name)?)));
        let all = self.validator.as_ref().zip(other.validator.as_ref()).into_iter().chain(named);
        let validators: Vec<_> = all.collect();
        let times = self.modified.zip(other.modified);
        let differs = validators.iter().any(|(a, b)| validators_differ(a, b))
            || times.is_some_and(|(a, b)| a != b);
        let agrees = validators.iter().any(|(a, b)| a == b && !a.starts_with("W/"))
            || times.is_some_and(|(a, b)| a == b);
        agrees && !differs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_fractions_are_compared_to_the_second() {
        let at = |modified| FileVersion { modified, ..FileVersion::default() };
        let source = at(Some((10, 500)));
        for (copied, expected) in [
            (Some((10, 0)), true),
            (Some((9, 0)), false),
            (Some((10, 499)), false),
            (Some((10, 500)), true),
            (Some((11, 0)), true),
            (None, false),
        ] {
            assert_eq!(at(copied).is_not_older(&source), expected, "{copied:?}");
        }
        assert!(!source.is_not_older(&at(None)));
        assert!(source.is_not_older(&at(Some((-10, 0)))));
        assert!(!at(Some((-10, 0))).is_not_older(&at(Some((-9, 0)))));
    }

    #[test]
    fn versions_are_equal_only_if_a_validator_or_time_agrees() {
        let tagged = |tag: &str, modified| FileVersion {
            size: Some(1),
            validator: Some(tag.to_owned()),
            modified,
            ..FileVersion::default()
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
        assert!(!a.is_surely(&FileVersion { size: Some(2), ..a.clone() }));
        let silent = FileVersion { size: Some(1), ..FileVersion::default() };
        assert!(!silent.is_surely(&silent));
        let sum = |text: &str| Some(format!("adler32:{text}"));
        let summed = FileVersion { checksum: sum("1"), ..a.clone() };
        assert!(summed.is_surely(&FileVersion { checksum: sum("1"), ..tagged("\"b\"", None) }));
        assert!(!summed.is_surely(&FileVersion { checksum: sum("2"), ..a }));
        let replica = |name: &str, tag: &str| FileVersion {
            replicas: BTreeMap::from([(name.to_owned(), tag.to_owned())]),
            ..silent.clone()
        };
        assert!(replica("x", "\"a\"").is_surely(&replica("x", "\"a\"")));
        assert!(!replica("x", "\"a\"").is_surely(&replica("y", "\"a\"")));
        assert!(!replica("x", "\"a\"").is_surely(&replica("x", "\"b\"")));
    }
}
