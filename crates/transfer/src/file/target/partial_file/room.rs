//! Disk space for a file that is being written: reserved before its first byte arrives, and freed
//! where no byte has arrived.

use crate::file::target::kernel_copy::{BYTES_OF_STAT_BLOCK, punch};
use rustix::fs::{FallocateFlags, fallocate, fstatfs, fstatvfs};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

/// The type of tmpfs (`linux/magic.h`).
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Reserves disk space for `bytes` of `file`, so that a full disk shows before the first of them
/// arrives. The free space is compared first: `fallocate` would take all of it before it fails.
///
/// Only that comparison is made for a file with holes, and where files lie in memory: there the
/// kernel would take and clear all pages now, 0.1 s for 128 MiB, in which no byte is received.
pub(super) fn reserve(file: &File, bytes: u64, has_holes: bool) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let system = fstatvfs(file)?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let own = file.metadata()?.blocks().saturating_mul(BYTES_OF_STAT_BLOCK);
    let lacking = bytes.saturating_sub(own);
    // A file system that states no size may have space.
    if system.f_blocks > 0 && lacking > free {
        let what = format!("it needs {lacking} bytes more, and {free} are free on that disk");
        return Err(Error::new(ErrorKind::StorageFull, what));
    }
    if has_holes || fstatfs(file)?.f_type == TMPFS_MAGIC {
        return Ok(());
    }
    loop {
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => {}
            // Not every file system can.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Frees the space of `file` outside the ranges that are `kept`, in order.
pub(super) fn keep_only(file: &File, kept: &[Range<u64>]) {
    let mut end = 0;
    for range in kept {
        // Where a file system makes no holes, the next attempt still finds what it needs.
        let _ = punch(file, &(end..range.start));
        end = range.end.max(end);
    }
    drop(file.set_len(end));
}
