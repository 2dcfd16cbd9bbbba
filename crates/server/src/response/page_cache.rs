//! The page cache: whether data of a file is in memory.

use rustix::io::{ReadWriteFlags, preadv2, retry_on_intr};
use std::fs::File;
use std::io::IoSliceMut;

/// Returns true if the byte at `offset` can be read without waiting for the disk; false also where
/// the file system does not report it.
pub(crate) fn is_page_cached(file: &File, offset: u64) -> bool {
    let mut byte = [0];
    let probe = &mut [IoSliceMut::new(&mut byte)];
    matches!(retry_on_intr(|| preadv2(file, probe, offset, ReadWriteFlags::NOWAIT)), Ok(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn data_beyond_the_end_is_not_cached() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100]).unwrap();
        assert!(!is_page_cached(&file, 100));
    }
}
