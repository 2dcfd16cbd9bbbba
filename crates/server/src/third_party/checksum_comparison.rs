//! Whether both servers have the same file.

use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{Algorithm, Checksum};

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
    /// Compares. If the other server provides none of the checksums that are known here, `compute`
    /// computes one that it does. Returns the checksums of the file that are known by then.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if they differ, [`ErrorKind::Unsupported`] if the other server provides
    /// none and one is required.
    pub(crate) async fn compare(
        self,
        compute: impl AsyncFnOnce(Algorithm) -> Result<Checksum>,
    ) -> Result<Vec<Checksum>> {
        let Self { told, mut passed, is_required, other } = self;
        let why = match &told {
            Err(error) => format!(": {error}"),
            Ok(_) => String::new(),
        };
        let told = told.unwrap_or_default();
        let is_known = |one: &Checksum| passed.iter().any(|it| it.algorithm() == one.algorithm());
        if !told.iter().any(is_known) {
            let Some(first) = told.first() else {
                if !is_required {
                    return Ok(passed);
                }
                let what = format!("{other} provides no checksum, and one is required{why}");
                return Err(Error::new(ErrorKind::Unsupported, what));
            };
            passed.push(compute(first.algorithm()).await?);
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
    use futures_util::FutureExt;
    use hither_core::checksum::Hasher;

    fn made(told: Result<&[&str]>, passed: &[&str], is_required: bool) -> Result<usize> {
        let sums = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let told = told.map(sums);
        let other = "https://host/f".to_owned();
        ChecksumComparison { told, passed: sums(passed), is_required, other }
            .compare(async |algorithm| Ok(Hasher::of(algorithm, b"hello")))
            .now_or_never()
            .unwrap()
            .map(|sums| sums.len())
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
