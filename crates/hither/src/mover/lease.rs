//! Leases and their results, as JSON.
//!
//! A lease is named `ID.EPOCH`. When it is dealt out anew its epoch is larger, and its fence is
//! another directory.

use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, FileKind, TreeFile, check_name, join};
use serde::{Deserialize, Serialize};
use std::time::{Duration, UNIX_EPOCH};

/// Work that one node has the right to do.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Lease {
    /// The directories that are copied from and to.
    pub(crate) source: String,
    pub(crate) target: String,
    /// The fence: the directory, made when the lease was dealt out, in which files are written
    /// before they get their final names. It is removed when the lease is given to another node:
    /// then no file in it can be written or renamed any more.
    pub(crate) fence: String,
    /// Has the servers move the files: `auto`, `pull` or `push`.
    pub(crate) third_party: Option<String>,
    pub(crate) work: LeaseWork,
}

/// Kind of work.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum LeaseWork {
    /// Makes directories, and copies whole files.
    Files { files: Vec<ListedPath>, directories: Vec<String> },
    /// Begins the upload of a file that is copied in ranges.
    Begin { part: LargeFile },
    /// Copies a range.
    Range { part: LargeFile, start: u64, end: u64 },
    /// Gives a file its name when all ranges are written.
    Finish {
        part: LargeFile,
        epoch: u64,
        ranges: Vec<RangeChecksum>,
        /// True if another node may still write to the upload: then a copy of it gets the name.
        is_shared: bool,
    },
}

/// A file as the listing showed it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ListedPath {
    /// Path below the source.
    pub(crate) path: String,
    /// Size in bytes, if the listing states it.
    pub(crate) size: Option<u64>,
    /// Nanoseconds since 1970.
    pub(crate) modified: Option<u64>,
    pub(crate) validator: Option<String>,
}

/// A file that is copied in ranges.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LargeFile {
    pub(crate) file: ListedPath,
    /// A path in whose directory the upload has its partial file.
    pub(crate) aside: String,
    /// The upload, once it is begun.
    #[serde(default)]
    pub(crate) token: String,
}

/// The checksums of a range that was copied.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RangeChecksum {
    pub(crate) bytes: u64,
    pub(crate) crc32c: String,
    pub(crate) adler32: Option<String>,
}

/// The result of a lease.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct LeaseResult {
    /// The kind and the message of the error with which the whole lease failed.
    pub(crate) error: Option<(String, String)>,
    /// Files that failed: path, kind, message.
    pub(crate) failures: Vec<(String, String, String)>,
    /// Notices for the user.
    pub(crate) notices: Vec<String>,
    /// Received bytes.
    pub(crate) bytes_arrived: u64,
    /// The token of an upload that was begun; none if its destination does not support ranges.
    pub(crate) token: Option<String>,
    /// Checksums of a range or a file.
    pub(crate) crc32c: Option<String>,
    pub(crate) adler32: Option<String>,
}

impl LeaseResult {
    /// Returns true if the lease was taken back while it was carried out.
    pub(crate) fn is_taken_back(&self) -> bool {
        let cancelled = format!("{:?}", ErrorKind::Cancelled);
        self.error.as_ref().is_some_and(|(kind, _)| *kind == cancelled)
    }

    pub(crate) fn failed(error: &Error) -> Self {
        let error = Some((format!("{:?}", error.kind()), error.to_string()));
        Self { error, ..Self::default() }
    }
}

impl ListedPath {
    /// The size of a file that is copied in ranges.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let unknown = || Error::new(ErrorKind::Invalid, format!("{}: unknown size", self.path));
        self.size.ok_or_else(unknown)
    }

    /// The file in the directory `source` of its storage.
    pub(crate) fn in_directory(&self, source: &str) -> Result<TreeFile> {
        check_name(&self.path, &"the lease")?;
        let entry = DirEntry {
            path: join(source, &self.path),
            kind: FileKind::File,
            size: self.size,
            modified: self.modified.map(|since| UNIX_EPOCH + Duration::from_nanos(since)),
            validator: self.validator.clone(),
        };
        Ok(TreeFile { relative: self.path.clone(), entry, mode: None })
    }
}

/// The checksums of the whole file, combined from those of its ranges in their order.
pub(crate) fn combined(ranges: &[RangeChecksum]) -> Result<(Checksum, Option<Checksum>)> {
    let crc32c = combined_as(Algorithm::Crc32c, ranges, |it| Some(it.crc32c.as_str()))?;
    let crc32c = crc32c.ok_or_else(|| Error::new(ErrorKind::Invalid, "a range has no checksum"))?;
    let adler32 = combined_as(Algorithm::Adler32, ranges, |it| it.adler32.as_deref())?;
    Ok((crc32c, adler32))
}

/// The checksum of the whole file with one algorithm; none if a range lacks it.
fn combined_as(
    algorithm: Algorithm,
    ranges: &[RangeChecksum],
    of: impl Fn(&RangeChecksum) -> Option<&str>,
) -> Result<Option<Checksum>> {
    let mut total = Hasher::new(algorithm).finish();
    for range in ranges {
        let Some(text) = of(range) else { return Ok(None) };
        let next = Checksum::from_hex(algorithm, text)?;
        total = total.followed_by(&next, range.bytes).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("{algorithm} does not combine"))
        })?;
    }
    Ok(Some(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_ranges_combine_to_that_of_the_file() {
        let bytes = b"abcdefghij";
        let range = |part: &[u8]| RangeChecksum {
            bytes: part.len() as u64,
            crc32c: Hasher::of(Algorithm::Crc32c, part).hex(),
            adler32: Some(Hasher::of(Algorithm::Adler32, part).hex()),
        };
        let ranges = [range(&bytes[..4]), range(&bytes[4..9]), range(&bytes[9..])];
        let (crc32c, adler32) = combined(&ranges).unwrap();
        assert_eq!(crc32c, Hasher::of(Algorithm::Crc32c, bytes));
        assert_eq!(adler32, Some(Hasher::of(Algorithm::Adler32, bytes)));
        let silent = RangeChecksum { adler32: None, ..ranges[0].clone() };
        assert_eq!(combined(&[silent]).unwrap().1, None);
    }

    #[test]
    fn a_lease_cannot_name_what_is_outside_of_its_source() {
        for path in ["", "../x", "/x", "a//b"] {
            let file = ListedPath {
                path: path.to_owned(),
                size: Some(1),
                modified: None,
                validator: None,
            };
            assert_eq!(file.in_directory("src").unwrap_err().kind(), ErrorKind::Invalid, "{path}");
        }
    }
}
