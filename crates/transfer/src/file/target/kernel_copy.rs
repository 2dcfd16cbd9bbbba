//! Copies between files of this machine, whose bytes need not pass through this process.
//!
//! Where the file system lets files share blocks (`FICLONE`), one call copies a file of any size.
//! Else `copy_file_range` moves the bytes within the kernel; where it cannot, as between some file
//! systems, they are read and written. Holes stay holes: where the new file may hold bytes of an
//! earlier attempt, holes are punched, or filled with zeros. The rest is as in other copies:
//! pieces, blocks in the journal, the hidden name until all is on the disk.

use hither_core::range;
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

/// The unit of `st_blocks`.
pub(crate) const BYTES_OF_STAT_BLOCK: u64 = 512;
/// Bytes of a read where the kernel cannot copy.
const READ_BYTES: usize = 256 << 10;

/// Copies `range` of `from` to the same place in `to`, which `is_empty` if nothing was written
/// there before. Blocks the thread.
pub(crate) fn copy_range(
    from: &File,
    to: &File,
    range: Range<u64>,
    is_empty: bool,
) -> io::Result<()> {
    if !has_holes(&from.metadata()?) {
        // The search for a hole may go through all of the file.
        return copy_data(from, to, range);
    }
    let mut at = range.start;
    while at < range.end {
        let data = match seek(from, SeekFrom::Data(at)) {
            Ok(data) => data.min(range.end),
            // There is only a hole up to the end.
            Err(Errno::NXIO) => range.end,
            // The file system knows no holes.
            Err(_) => at,
        };
        if !is_empty {
            clear(to, at..data)?;
        }
        if data == range.end {
            return Ok(());
        }
        let end = seek(from, SeekFrom::Hole(data)).unwrap_or(range.end).min(range.end);
        copy_data(from, to, data..end)?;
        at = end;
    }
    Ok(())
}

/// Makes `range` a hole, or fills it with zeros where the file system makes none.
fn clear(file: &File, range: Range<u64>) -> io::Result<()> {
    match punch(file, &range) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => fill(file, range),
        punched => Ok(punched?),
    }
}

/// Makes `range` of a file a hole: its blocks are free, and it reads as zeros.
pub(crate) fn punch(file: &File, range: &Range<u64>) -> rustix::io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    loop {
        match fallocate(file, flags, range.start, range::len(range)) {
            Err(Errno::INTR) => {}
            punched => return punched,
        }
    }
}

/// Fills `range` with zeros.
fn fill(file: &File, range: Range<u64>) -> io::Result<()> {
    let zeros = vec![0; READ_BYTES];
    for at in range.clone().step_by(READ_BYTES) {
        let most = usize::try_from(range.end - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        file.write_all_at(zeros.get(..most).unwrap_or_default(), at)?;
    }
    Ok(())
}

/// Returns true for a file with fewer blocks than its length takes.
pub(crate) fn has_holes(metadata: &Metadata) -> bool {
    metadata.blocks() * BYTES_OF_STAT_BLOCK < metadata.len()
}

fn copy_data(from: &File, to: &File, range: Range<u64>) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let length = usize::try_from(range.end - at).unwrap_or(usize::MAX);
        let mut source = at;
        let mut target = at;
        match copy_file_range(from, Some(&mut source), to, Some(&mut target), length) {
            // Some file systems report no blocks for files with data.
            Ok(0) => return read_and_write(from, to, at..range.end),
            Ok(copied) => at += copied as u64,
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {
                return read_and_write(from, to, at..range.end);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn read_and_write(from: &File, to: &File, range: Range<u64>) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut at = range.start;
    while at < range.end {
        let most = usize::try_from(range.end - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        let piece = buffer.get_mut(..most).unwrap_or_default();
        from.read_exact_at(piece, at)?;
        to.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const LEN: usize = 1 << 20;

    #[test]
    fn ranges_are_copied_and_holes_stay() {
        let from = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..MIB).map(|at| (at % 251) as u8).collect();
        from.write_all_at(&content, 2 * MIB).unwrap();
        from.set_len(8 * MIB).unwrap();
        let to = tempfile::tempfile().unwrap();
        to.set_len(8 * MIB).unwrap();
        for start in (0..8 * MIB).step_by(3 * LEN / 2) {
            copy_range(&from, &to, start..(start + 3 * MIB / 2).min(8 * MIB), true).unwrap();
        }
        let mut copied = vec![0; 8 * LEN];
        to.read_exact_at(&mut copied, 0).unwrap();
        let mut expected = vec![0; 8 * LEN];
        expected[2 * LEN..3 * LEN].copy_from_slice(&content);
        assert!(copied == expected);
        let allocated = |file: &File| file.metadata().unwrap().blocks();
        assert!(allocated(&to) <= allocated(&from) + 16, "{} blocks", allocated(&to));
    }

    #[test]
    fn holes_replace_what_an_earlier_attempt_has_left() {
        let from = tempfile::tempfile().unwrap();
        from.write_all_at(&[7; LEN], 2 * MIB).unwrap();
        from.set_len(8 * MIB).unwrap();
        let to = tempfile::tempfile().unwrap();
        to.write_all_at(&[b'x'; 8 * LEN], 0).unwrap();
        for range in [0..MIB + 5, MIB + 5..8 * MIB] {
            copy_range(&from, &to, range, false).unwrap();
        }
        let [expected, copied] = [&from, &to].map(|file| {
            let mut content = vec![1; 8 * LEN];
            file.read_exact_at(&mut content, 0).unwrap();
            content
        });
        assert!(copied == expected);
    }

    #[test]
    fn a_range_is_cleared_with_holes_and_without() {
        let file = tempfile::tempfile().unwrap();
        // No end is one of a block of the file system.
        let (first, second) = (5..2 * MIB + 5, 2 * MIB + 9..3 * MIB - 1);
        file.write_all_at(&[b'x'; 3 * LEN], 0).unwrap();
        clear(&file, first).unwrap();
        fill(&file, second).unwrap();
        let mut content = vec![1; 3 * LEN];
        file.read_exact_at(&mut content, 0).unwrap();
        let mut expected = vec![b'x'; 3 * LEN];
        expected[5..2 * LEN + 5].fill(0);
        expected[2 * LEN + 9..3 * LEN - 1].fill(0);
        assert!(content == expected);
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let from = tempfile::tempfile().unwrap();
        from.write_all_at(b"short", 0).unwrap();
        let to = tempfile::tempfile().unwrap();
        let error = copy_data(&from, &to, 0..6).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        read_and_write(&from, &to, 0..5).unwrap();
    }
}
