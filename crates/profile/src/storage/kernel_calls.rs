//! Two kernel calls that no dependency has: the part of a file that is in the page cache, and the
//! ranges of a file on its device.

use super::workload::ALIGNMENT;
use crate::perf_events::page_size;
use std::fs::File;
use std::io::{Error, Result};
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Maximum number of extents that are requested.
const MAX_EXTENTS: u32 = 64;
/// `_IOWR('f', 11, struct fiemap)`.
const FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
/// Flags of extents whose bytes are not at the stated place, or not in the form in which the file
/// has them: unknown, delayed, encoded, encrypted, unaligned, inline, in a tail, unwritten.
const NOT_PLAIN: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800;

/// `struct fiemap_extent`, of include/uapi/linux/fiemap.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_flags: [u32; 3],
}

/// `struct fiemap` with room for extents.
#[repr(C)]
#[derive(Debug)]
struct ExtentMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; MAX_EXTENTS as usize],
}

/// The ranges of the device where the file lies, in bytes; at most [`MAX_EXTENTS`].
pub(super) fn extents(file: &File) -> Result<Vec<Range<u64>>> {
    let mut map = ExtentMap {
        start: 0,
        length: u64::MAX,
        flags: 0,
        mapped: 0,
        count: MAX_EXTENTS,
        reserved: 0,
        extents: [Extent::default(); MAX_EXTENTS as usize],
    };
    // SAFETY: the kernel writes at most `count` extents, for which the structure has room, and the
    // structure outlives the call.
    #[expect(unsafe_code, reason = "rustix has no function for this request")]
    let result = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, &raw mut map) };
    if result < 0 {
        return Err(Error::last_os_error());
    }
    let found = map.extents.iter().take(map.mapped as usize);
    let plain = found.filter(|it| it.flags & NOT_PLAIN == 0);
    Ok(plain.map(|it| it.physical..it.physical.saturating_add(it.length)).collect())
}

/// The share of the first `bytes` of a file that is in the page cache, from 0 to 1.
///
/// # Errors
///
/// The errors of mmap(2) and mincore(2): some layers cannot map files.
pub(super) fn cached_share(file: &File, bytes: u64) -> Result<f64> {
    let length = usize::try_from(bytes).map_err(Error::other)?;
    let mut pages = vec![0_u8; length.div_ceil(ALIGNMENT)];
    // SAFETY: only this function knows the mapping, and it does not read it. `pages` has a byte for
    // each page of it: no page on Linux is smaller than 4096 bytes.
    #[expect(unsafe_code, reason = "not in the features of rustix that are in use")]
    let failed = unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        if start == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let failed = libc::mincore(start, length, pages.as_mut_ptr()) != 0;
        libc::munmap(start, length);
        failed
    };
    if failed {
        return Err(Error::last_os_error());
    }
    let cached = pages.iter().filter(|page| **page & 1 == 1).count() * page_size()?;
    Ok(cached as f64 / length as f64)
}
