//! The metadata of a file as the file system reports it.

use crate::backend::EntryMetadata;
use hither_core::storage::{FileKind, from_1970, since_1970};
use hither_http::conditions::Version;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp, statx};
use rustix::path::Arg;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The prefix of the extended attributes that this server keeps.
pub(crate) const OWN_ATTRIBUTES: &str = "user.hither.";
/// The age from which a file cannot change again without another time. The clock by which file
/// systems record changes ticks at least every 10 ms, or every two seconds where fractions of
/// seconds are always 0.
const TICK: Duration = Duration::from_millis(50);
const COARSE_TICK: Duration = Duration::from_secs(3);

/// The metadata of a file, directory, link or other entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskMetadata {
    pub(crate) kind: FileKind,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
    pub(crate) created: Option<SystemTime>,
    /// The time of the last change of its bytes, its name or its attributes.
    pub(crate) touched: SystemTime,
    /// Major and minor number.
    device: (u32, u32),
    inode: u64,
    nanoseconds: u32,
    /// Permission bits.
    mode: u32,
}

impl DiskMetadata {
    pub(crate) fn of(fd: impl AsFd) -> io::Result<Self> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        Ok(Self::new(&statx(fd, "", AtFlags::EMPTY_PATH, wanted)?))
    }

    /// The metadata of a name in a directory; a link is not followed.
    pub(crate) fn at(directory: impl AsFd, name: impl Arg) -> io::Result<Self> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        Ok(Self::new(&statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted)?))
    }

    fn new(stat: &Statx) -> Self {
        let file_type = FileType::from_raw_mode(u32::from(stat.stx_mode));
        let kind = match file_type {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Other,
        };
        let created = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        Self {
            kind,
            size: if kind == FileKind::File { stat.stx_size } else { 0 },
            modified: time(stat.stx_mtime),
            created: created.then(|| time(stat.stx_btime)),
            touched: time(stat.stx_ctime),
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            nanoseconds: stat.stx_mtime.tv_nsec,
            mode: u32::from(stat.stx_mode) & 0o777,
        }
    }

    /// The metadata that clients see. The entity tag has the inode, the size, the time of the last
    /// change to the nanosecond, and the time at which the inode was created: a file that is
    /// removed leaves its inode to the next one, and a copy has the time of its source. The tag is
    /// weak as long as the file could change once more without another time. (The time of change of
    /// the inode is not in it: it moves when a checksum is stored or the file is renamed, while the
    /// bytes stay.)
    pub(crate) fn entry(&self, now: SystemTime) -> EntryMetadata {
        self.entry_with(self.is_settled(now))
    }

    /// The metadata of a file that was committed just now, and got a time to the nanosecond then.
    pub(crate) fn committed_entry(&self) -> EntryMetadata {
        self.entry_with(self.is_fine())
    }

    /// The metadata that the condition of a change compares; none for a link, which has no version.
    pub(crate) fn target(&self, now: SystemTime) -> Option<EntryMetadata> {
        (self.kind != FileKind::Link).then(|| self.entry(now))
    }

    fn entry_with(&self, is_strong: bool) -> EntryMetadata {
        let weak = if is_strong { "" } else { "W/" };
        let (inode, size, changed, created) = self.key();
        let etag = format!("{weak}\"{inode:x}-{size:x}-{changed:x}-{created:x}\"");
        EntryMetadata {
            kind: self.kind,
            size: Some(self.size),
            version: Version { etag, modified: self.modified },
            created: self.created,
            mode: Some(self.mode),
        }
    }

    /// Returns true if any further change will have another time.
    pub(crate) fn is_settled(&self, now: SystemTime) -> bool {
        let tick = if self.nanoseconds == 0 { COARSE_TICK } else { TICK };
        // A time in the future was set explicitly; no change will get the same time soon.
        now.duration_since(self.modified).map_or(true, |age| age > tick)
    }

    /// Returns true if the file system keeps fractions of seconds, so that a time set here does not
    /// recur.
    pub(crate) fn is_fine(&self) -> bool {
        self.nanoseconds != 0
    }

    /// The version of the bytes as text; stored checksums are bound to it.
    pub(crate) fn stamp(&self) -> String {
        format!("{:x}-{:x}", self.size, nanoseconds(self.modified))
    }

    /// The file itself, whatever its name is.
    pub(crate) fn file_id(&self) -> FileId {
        (self.device, self.inode)
    }

    /// The file and the version of its bytes, as numbers.
    pub(crate) fn key(&self) -> Key {
        let created = self.created.map_or(0, nanoseconds);
        (self.inode, self.size, nanoseconds(self.modified), created)
    }
}

/// Device and inode.
pub(crate) type FileId = ((u32, u32), u64);

/// Inode, size, and the times of the last change and of the creation in nanoseconds since 1970.
pub(crate) type Key = (u64, u64, i128, i128);

fn nanoseconds(time: SystemTime) -> i128 {
    let (seconds, nanoseconds) = since_1970(time);
    i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
}

fn time(stamp: StatxTimestamp) -> SystemTime {
    from_1970(stamp.tv_sec, stamp.tv_nsec.min(999_999_999)).unwrap_or(UNIX_EPOCH)
}
