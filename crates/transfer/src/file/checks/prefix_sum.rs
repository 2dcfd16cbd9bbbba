//! Checksum of a file whose bytes arrive in any order, by an algorithm that needs them in order.
//!
//! crc32c and adler32 of parts can be combined; sha256 and md5 cannot. So the beginning of the file
//! is summed up while the rest still arrives: a thread that has written bytes continues the sum by
//! reading the file, while its pages are still in memory. At the end, little is left to read. A
//! block that is taken back makes the sum void, and it begins again.

use crate::file::target::partial_file::PartialFile;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::Result;
use hither_core::sync::lock;
use std::sync::Mutex;

/// The sum of the beginning of a file.
#[derive(Debug)]
pub(crate) struct PrefixSum(Mutex<PrefixSumState>);

#[derive(Debug)]
struct PrefixSumState {
    hasher: Hasher,
    /// Bytes that it has taken.
    bytes: u64,
    /// Times that blocks had been taken back when it began.
    taken_back: u64,
}

impl PrefixSum {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        let hasher = Hasher::new(algorithm);
        Self(Mutex::new(PrefixSumState { hasher, bytes: 0, taken_back: 0 }))
    }

    /// Sums up at most `max_bytes` more of what `written_from`
    /// ([`FileBlocks::written_from`](crate::file::blocks::FileBlocks::written_from)) says is in
    /// `part`, unless another thread does so. Blocks the thread.
    pub(crate) fn go_on(
        &self,
        max_bytes: u64,
        written_from: impl Fn(u64) -> (u64, u64),
        part: &PartialFile,
    ) -> Result<()> {
        self.0.try_lock().map_or(Ok(()), |mut state| state.go_on(max_bytes, written_from, part))
    }

    /// The sum of all that is in `part`. Blocks the thread.
    pub(crate) fn finish(
        &self,
        written_from: impl Fn(u64) -> (u64, u64),
        part: &PartialFile,
    ) -> Result<Checksum> {
        let mut state = lock(&self.0);
        state.go_on(u64::MAX, written_from, part)?;
        Ok(state.hasher.clone().finish())
    }
}

impl PrefixSumState {
    fn go_on(
        &mut self,
        max_bytes: u64,
        written_from: impl Fn(u64) -> (u64, u64),
        part: &PartialFile,
    ) -> Result<()> {
        let (mut taken_back, mut end) = written_from(self.bytes);
        if taken_back != self.taken_back {
            (taken_back, end) = written_from(0);
            *self = Self { hasher: Hasher::new(self.hasher.algorithm()), bytes: 0, taken_back };
        }
        let next = end.min(self.bytes.saturating_add(max_bytes));
        if next == self.bytes {
            // A small file would be opened for nothing.
            return Ok(());
        }
        part.read(self.bytes..next, |piece| self.hasher.update(piece))?;
        self.bytes = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::group_sync::GroupSync;
    use bytes::Bytes;

    #[test]
    fn a_block_that_is_taken_back_is_summed_up_again() {
        let folder = tempfile::tempdir().unwrap();
        let (part, _) =
            PartialFile::open(&folder.path().join("data"), ".part", 8, None, None, &[]).unwrap();
        let write = |at, bytes: &'static [u8]| {
            part.write(at, &[Bytes::from_static(bytes)], &GroupSync::default()).unwrap();
        };
        let sum = PrefixSum::new(Algorithm::Sha256);
        write(0, b"abcX");
        sum.go_on(3, |_| (0, 4), &part).unwrap();
        sum.go_on(3, |_| (0, 4), &part).unwrap();
        write(3, b"d");
        write(4, b"efgh");
        let taken_back_once = |_| (1, 8);
        sum.go_on(2, taken_back_once, &part).unwrap();
        let expected = Hasher::of(Algorithm::Sha256, b"abcdefgh");
        assert_eq!(sum.finish(taken_back_once, &part).unwrap(), expected);
    }
}
