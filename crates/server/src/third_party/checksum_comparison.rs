//! Whether both servers have the same file.

use crate::backend::disk::checksums::sum_of;
use hither_core::Checksum;
use hither_core::error::{Error, ErrorKind, Result};
use std::fs::File;

/// Both sides of a comparison.
#[derive(Debug)]
pub(crate) struct ChecksumComparison {
    /// What the other server says, or why it does not.
    pub(crate) told: Result<Vec<Checksum>>,
    /// What was computed of the bytes as they passed.
    pub(crate) passed: Vec<Checksum>,
    /// Whether the other server must say something.
    pub(crate) is_required: bool,
    /// The file there, for messages.
    pub(crate) other: String,
}

impl ChecksumComparison {
    /// Compares; what had to be computed for that is computed of `file`, which may take as long as reading it. Returns the
    /// sums of the file that are known by then.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if they differ, [`ErrorKind::Unsupported`] if there is nothing to compare with and has to be.
    pub(crate) fn made(self, file: &File) -> Result<Vec<Checksum>> {
        let Self { told, mut passed, is_required, other } = self;
        let why = match &told {
            Err(error) => format!(": {error}"),
            Ok(_) => String::new(),
        };
        let told = told.unwrap_or_default();
        let is_known = |one: &Checksum| passed.iter().any(|it| it.algorithm() == one.algorithm());
        if !told.iter().any(is_known) {
            let Some(first) = told.first() else {
                return match is_required {
                    false => Ok(passed),
                    true => Err(Error::new(
                        ErrorKind::Unsupported,
                        format!("{other} provides no checksum, and one is required{why}"),
                    )),
                };
            };
            let sum = sum_of(file, first.algorithm()).map_err(|error| {
                Error::new(ErrorKind::Local, "cannot read the copied file again for its checksum")
                    .with_source(error)
            })?;
            passed.push(sum);
        }
        for theirs in &told {
            let ours = passed.iter().find(|ours| ours.algorithm() == theirs.algorithm());
            if let Some(ours) = ours.filter(|ours| *ours != theirs) {
                let what =
                    format!("checksum mismatch: {other} reports {theirs}, here it is {ours}");
                return Err(Error::new(ErrorKind::Corrupt, what));
            }
        }
        Ok(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn made(told: Result<&[&str]>, passed: &[&str], is_required: bool) -> Result<usize> {
        let sums = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"hello").unwrap();
        let told = told.map(sums);
        let other = "https://host/f".to_owned();
        ChecksumComparison { told, passed: sums(passed), is_required, other }
            .made(&file)
            .map(|s| s.len())
    }

    const ADLER: &str = "adler32:062c0215";
    const MD5: &str = "md5:5d41402abc4b2a76b9719d911017c592";

    #[test]
    fn every_sum_that_is_told_counts_and_one_is_computed_if_need_be() {
        assert_eq!(made(Ok(&[ADLER]), &[ADLER], true).unwrap(), 1);
        assert_eq!(made(Ok(&[MD5]), &[ADLER], true).unwrap(), 2);
        assert_eq!(made(Ok(&[MD5, ADLER]), &[ADLER], true).unwrap(), 1);
        for told in [&["adler32:1"][..], &["md5:00"], &[ADLER, "crc32c:1"]] {
            let error = made(Ok(told), &[ADLER, "crc32c:9a71bb4c"], false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{told:?}");
        }
    }

    #[test]
    fn who_tells_nothing_is_believed_unless_that_is_not_enough() {
        let broken = || Err(Error::new(ErrorKind::Timeout, "no answer"));
        assert_eq!(made(Ok(&[]), &[ADLER], false).unwrap(), 1);
        assert_eq!(made(broken(), &[ADLER], false).unwrap(), 1);
        assert_eq!(made(Ok(&[]), &[ADLER], true).unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(made(broken(), &[ADLER], true).unwrap_err().to_string().contains("no answer"));
    }
}
