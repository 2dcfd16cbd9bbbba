//! Compares the checksums of a file on both servers.

use hither_checksum::{Algorithm, Checksum};
use hither_core::error::{Error, ErrorKind, Result};

/// The checksums of both servers.
#[derive(Debug)]
pub(crate) struct ChecksumComparison {
    /// The checksums that the other server reports, or its error.
    pub(crate) reported: Result<Vec<Checksum>>,
    /// The checksums computed from the bytes as they passed.
    pub(crate) passed: Vec<Checksum>,
    /// True if the other server must report a checksum.
    pub(crate) is_required: bool,
    /// The file on the other server, for messages.
    pub(crate) other: String,
}

impl ChecksumComparison {
    /// Compares. The strongest checksum that the other server reports decides: `compute` computes
    /// it if it is not known here. Returns all checksums of the file that are known at the end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if they differ, [`ErrorKind::Unsupported`] if the other server
    /// reports none and one is required.
    pub(crate) async fn compare(
        self,
        compute: impl AsyncFnOnce(Algorithm) -> Result<Checksum>,
    ) -> Result<Vec<Checksum>> {
        let Self { reported, mut passed, is_required, other } = self;
        let why = match &reported {
            Err(error) => format!(": {error}"),
            Ok(_) => String::new(),
        };
        let reported = reported.unwrap_or_default();
        let Some(strongest) = Checksum::strongest(&reported) else {
            if !is_required {
                return Ok(passed);
            }
            let what = format!("{other} provides no checksum, and one is required{why}");
            return Err(Error::new(ErrorKind::Unsupported, what));
        };
        if !passed.iter().any(|ours| ours.algorithm() == strongest.algorithm()) {
            passed.push(compute(strongest.algorithm()).await?);
        }
        for theirs in &reported {
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
    use hither_checksum::Hasher;

    fn compare(reported: Result<&[&str]>, passed: &[&str], is_required: bool) -> Result<usize> {
        let sums = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let reported = reported.map(sums);
        let other = "https://host/f".to_owned();
        ChecksumComparison { reported, passed: sums(passed), is_required, other }
            .compare(async |algorithm| Ok(Hasher::of(algorithm, b"hello")))
            .now_or_never()
            .unwrap()
            .map(|sums| sums.len())
    }

    const ADLER: &str = "adler32:062c0215";
    const MD5: &str = "md5:5d41402abc4b2a76b9719d911017c592";

    #[test]
    fn reported_checksums_are_compared_and_the_strongest_is_computed_if_it_is_missing() {
        assert_eq!(compare(Ok(&[ADLER]), &[ADLER], true).unwrap(), 1);
        assert_eq!(compare(Ok(&[MD5]), &[ADLER], true).unwrap(), 2);
        assert_eq!(compare(Ok(&[MD5, ADLER]), &[ADLER], true).unwrap(), 2);
        let other = "md5:00000000000000000000000000000000";
        for reported in
            [&["adler32:1"][..], &[other], &[ADLER, "crc32c:1"], &[ADLER, other], &[other, ADLER]]
        {
            let error = compare(Ok(reported), &[ADLER, "crc32c:9a71bb4c"], false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{reported:?}");
        }
    }

    #[test]
    fn a_missing_checksum_is_an_error_only_if_required() {
        let broken = || Err(Error::new(ErrorKind::Timeout, "no response"));
        assert_eq!(compare(Ok(&[]), &[ADLER], false).unwrap(), 1);
        assert_eq!(compare(broken(), &[ADLER], false).unwrap(), 1);
        assert_eq!(compare(Ok(&[]), &[ADLER], true).unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(compare(broken(), &[ADLER], true).unwrap_err().to_string().contains("no response"));
    }
}
