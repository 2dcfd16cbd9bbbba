//! File metadata: the parts of a file that locate everything else, kept under the URL and the
//! identity that read them.

use crate::record::Record;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// The longest validator that is kept, in bytes; longer ones are not entity tags.
const MAX_VALIDATOR_BYTES: usize = 1024;

/// The key of a file's metadata.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetadataKey {
    /// The URL without secrets: no user info, and no token in its query.
    pub url: String,
    /// The identity that may see it: empty for public data, else a name of the credentials that is
    /// not secret. Data fetched by one identity is not given to another.
    pub identity: String,
}

impl MetadataKey {
    /// Returns a text that no other key has.
    pub(crate) fn text(&self) -> String {
        format!("{}:{}{}", self.identity.len(), self.identity, self.url)
    }
}

/// The stored metadata of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMetadata {
    /// The size of the file, in bytes.
    pub size: u64,
    /// The server's validator of this version: an entity tag or a date, fit for `If-Range`. Without
    /// one, a changed file of the same size looks like the remembered one.
    pub validator: Option<String>,
    /// Offsets in the file, with the bytes there.
    pub pieces: Vec<(u64, Bytes)>,
    /// The time when it was learned. Set on reading; a written record gets the `now` of
    /// [`Store::put_metadata`](crate::Store::put_metadata).
    pub learned: SystemTime,
}

/// The JSON part of a record; the payload holds the bytes of the pieces, one after the other.
#[derive(Debug, Serialize, Deserialize)]
struct MetadataRecord {
    size: u64,
    validator: Option<String>,
    /// Offset in the file, and length.
    pieces: Vec<(u64, u64)>,
}

impl FileMetadata {
    /// Returns the number of the file's bytes that it holds.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Encodes the record; `None` if reading would refuse it.
    pub(crate) fn record(&self) -> Option<Vec<u8>> {
        let pieces = self
            .pieces
            .iter()
            .map(|(offset, bytes)| Some((*offset, u64::try_from(bytes.len()).ok()?)));
        let record = MetadataRecord {
            size: self.size,
            validator: self.validator.clone(),
            pieces: pieces.collect::<Option<_>>()?,
        };
        record.is_plausible().then(|| serde_json::to_vec(&record).ok())?
    }

    /// Decodes a record; `None` unless it is valid. The pieces are slices of it.
    pub(crate) fn of(entry: &Record, learned: SystemTime) -> Option<Self> {
        let record: MetadataRecord = serde_json::from_slice(&entry.record).ok()?;
        if !record.is_plausible() {
            return None;
        }
        let mut payload = entry.payload.clone();
        let mut pieces = Vec::with_capacity(record.pieces.len());
        for (offset, length) in record.pieces {
            let length = usize::try_from(length).ok().filter(|length| *length <= payload.len())?;
            pieces.push((offset, payload.split_to(length)));
        }
        payload.is_empty().then_some(Self {
            size: record.size,
            validator: record.validator,
            pieces,
            learned,
        })
    }
}

impl MetadataRecord {
    fn is_plausible(&self) -> bool {
        let validator = self.validator.as_deref().unwrap_or_default();
        // It goes into a request header.
        validator.len() <= MAX_VALIDATOR_BYTES
            && validator.bytes().all(|byte| matches!(byte, b' '..=b'~'))
            && self.pieces.iter().all(|(offset, length)| {
                offset.checked_add(*length).is_some_and(|end| end <= self.size)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(record: &str, payload: &'static str) -> Record {
        Record {
            learned: 0,
            record: Bytes::copy_from_slice(record.as_bytes()),
            payload: Bytes::from_static(payload.as_bytes()),
        }
    }

    fn of(record: &str, payload: &'static str) -> Option<FileMetadata> {
        FileMetadata::of(&entry(record, payload), SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn identities_and_urls_cannot_be_confused() {
        let text = |identity: &str, url: &str| {
            MetadataKey { url: url.into(), identity: identity.into() }.text()
        };
        assert_ne!(text("a", "b"), text("", "ab"));
        assert_ne!(text("a", "1:b"), text("a1:", "b"));
        assert_ne!(text("", "1:xb"), text("x", "b"));
    }

    #[test]
    fn parts_are_slices_of_the_record() {
        let entry = entry(r#"{"size":10,"validator":null,"pieces":[[0,2],[8,0],[5,3]]}"#, "abcde");
        let metadata = FileMetadata::of(&entry, SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(metadata.pieces, [(0, "ab".into()), (8, "".into()), (5, "cde".into())]);
        assert!(entry.payload.as_ptr_range().contains(&metadata.pieces[2].1.as_ptr()));
    }

    #[test]
    fn invalid_records_are_an_error() {
        assert!(of(r#"{"size":5,"validator":"\"x\"","pieces":[[0,5]]}"#, "abcde").is_some());
        for record in [
            r#"{"size":4,"validator":null,"pieces":[[0,5]]}"#,
            r#"{"size":9,"validator":null,"pieces":[[5,5]]}"#,
            r#"{"size":9,"validator":null,"pieces":[[18446744073709551615,5]]}"#,
            r#"{"size":9,"validator":null,"pieces":[[0,4]]}"#,
            r#"{"size":9,"validator":null,"pieces":[[0,4],[4,2]]}"#,
            r#"{"size":9,"validator":"a\r\nHost: b","pieces":[[0,5]]}"#,
            r#"{"size":-9,"validator":null,"pieces":[[0,5]]}"#,
            r#"{"size":9}"#,
            "",
        ] {
            assert_eq!(of(record, "abcde"), None, "{record}");
        }
    }

    #[test]
    fn invalid_records_are_not_written() {
        let metadata = FileMetadata {
            size: 3,
            validator: None,
            pieces: vec![(0, "abcd".into())],
            learned: SystemTime::UNIX_EPOCH,
        };
        assert_eq!(metadata.record(), None);
    }
}
