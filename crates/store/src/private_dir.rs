//! The private directory, and every access to it.
//!
//! Each file is written under a temporary name and renamed into place, so that a reader, in this
//! process or another, sees a complete value or none, without locks. Nothing is synced to the disk:
//! after a crash of the machine a file may be torn, which its checksum shows.
//!
//! **Ownership.** Opening refuses a directory that belongs to another user, that others can write
//! to, or that is a symbolic link: in a shared directory such as `/tmp` another user could have
//! created it, to read from it or to have files written where the link points. All later accesses
//! are relative to the directory that was opened and checked, and follow no links.
//!
//! **Bounds.** Only regular files within the allowed size are read, and never more bytes than were
//! checked. When the directory exceeds its bytes or files, the least recently used files are
//! evicted, down to nine tenths. That takes a listing, which happens at the first write and after
//! each sixteenth of the limit written; each writing process may exceed the limit by that much.

use bytes::Bytes;
use hither_core::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Timespec, Timestamps, flock, fstat,
    futimens, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of files kept; bounds the time of a listing.
pub(crate) const MAX_FILES: usize = 4096;
/// The size of a single file, whatever the limit of the directory.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;
/// The prefix of files that are being written.
const TEMPORARY: &str = "temporary-";
/// The age at which a temporary file is assumed to belong to a process that died.
const STALE: Duration = Duration::from_secs(3600);
/// The time within which a second use is not recorded.
const NOTED: Duration = Duration::from_secs(60);

/// The private directory, checked and open.
#[derive(Debug)]
pub(crate) struct PrivateDir {
    directory: OwnedFd,
    prefixes: &'static [&'static str],
    max_bytes: u64,
    /// Bytes to write before the directory is listed again.
    until_listed: AtomicU64,
    /// A counter for the names of temporary files.
    serial: AtomicU64,
}

/// A file of the store in a listing.
struct Listed {
    name: std::ffi::CString,
    bytes: u64,
    used: SystemTime,
}

/// Opens the directory at `path`, the `purpose` of which errors name; creates it with mode 0700 if
/// it does not exist.
///
/// # Errors
/// [`ErrorKind::Local`]: it cannot be created or opened, is a symbolic link, belongs to another
/// user, or others can write to it.
pub fn open_private_directory(purpose: &str, path: &Path) -> Result<OwnedFd> {
    let refuse =
        |why: String| Error::new(ErrorKind::Local, format!("{purpose} {}: {why}", path.display()));
    let fail = |what: &str, error: Errno| refuse(format!("{what}: {error}"));
    // A slash at the end would follow a link.
    let path = path.components().as_path();
    if let Some(parent) = path.parent() {
        // If this fails, opening fails too, with the reason.
        let _ = std::fs::create_dir_all(parent);
    }
    match mkdirat(CWD, path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(fail("cannot make the directory", error)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(CWD, path, flags, Mode::empty())
        .map_err(|error| fail("not a directory that can be used (links are refused)", error))?;
    let status = fstat(&directory).map_err(|error| fail("cannot examine it", error))?;
    let me = rustix::process::geteuid().as_raw();
    if status.st_uid != me {
        return Err(refuse(format!(
            "belongs to user {}, expected {me}: choose a directory of your own",
            status.st_uid
        )));
    }
    if status.st_mode & 0o022 != 0 {
        return Err(refuse(format!(
            "has mode {:o}, so that others can write to it: take that away with chmod go-w",
            status.st_mode & 0o7777
        )));
    }
    Ok(directory)
}

impl PrivateDir {
    /// Opens the directory at `path`; creates it with mode 0700 if it does not exist. Only files
    /// whose names begin with one of `prefixes` are counted and evicted.
    ///
    /// # Errors
    /// [`ErrorKind::Local`]: it cannot be created or opened, or it is not private.
    pub(crate) fn open(
        path: &Path,
        prefixes: &'static [&'static str],
        max_bytes: u64,
    ) -> Result<Self> {
        let directory = open_private_directory("store", path)?;
        let until_listed = AtomicU64::new(0);
        let serial = AtomicU64::new(0);
        Ok(Self { directory, prefixes, max_bytes, until_listed, serial })
    }

    /// Reads the whole file `name` and records its use; `None` if it does not exist or may not be
    /// read.
    pub(crate) fn read(&self, name: &str, now: SystemTime) -> Option<Bytes> {
        // NONBLOCK: opening a pipe in this directory must not hang.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(&self.directory, name, flags, Mode::empty()).ok()?;
        let status = fstat(&file).ok()?;
        let bytes = u64::try_from(status.st_size).ok()?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile
            || bytes > self.max_file_bytes()
        {
            return None;
        }
        let mut content = vec![0; usize::try_from(bytes).ok()?];
        let file = File::from(file);
        // One system call, whatever the size.
        (&file).read_exact(&mut content).ok()?;
        self.note_use(&file, now);
        Some(Bytes::from(content))
    }

    /// Records the use of a file.
    pub(crate) fn note_use(&self, file: impl rustix::fd::AsFd, now: SystemTime) {
        let noted = fstat(&file).map(|status| modified(&status));
        if noted.is_ok_and(|noted| now.duration_since(noted).is_ok_and(|since| since > NOTED)) {
            // If this fails, only the order of eviction suffers.
            let _ = futimens(&file, &timestamps(now));
        }
    }

    /// Puts `content` under `name`, replacing the old value. On failure the old value stays:
    /// nothing depends on it.
    pub(crate) fn write(&self, name: &str, content: &[u8], now: SystemTime) {
        let bytes = content.len() as u64;
        if bytes > self.max_file_bytes() || self.replace(name, content, now).is_none() {
            return;
        }
        // Small files count by number.
        self.grew(bytes.max(self.max_bytes / MAX_FILES as u64), now);
    }

    /// Counts `cost` more written bytes, and evicts files beyond the limit.
    pub(crate) fn grew(&self, cost: u64, now: SystemTime) {
        let before = self.until_listed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.checked_sub(cost).unwrap_or(self.max_bytes / 16))
        });
        if before.is_ok_and(|left| left < cost) {
            self.evict(now);
        }
    }

    fn replace(&self, name: &str, content: &[u8], now: SystemTime) -> Option<()> {
        let (temporary, file) = self.create_temporary()?;
        let mut file = File::from(file);
        let placed = file.write_all(content).is_ok()
            && futimens(&file, &timestamps(now)).is_ok()
            && renameat(&self.directory, &temporary, &self.directory, name).is_ok();
        if !placed {
            let _ = unlinkat(&self.directory, &temporary, AtFlags::empty());
        }
        placed.then_some(())
    }

    fn create_temporary(&self) -> Option<(String, OwnedFd)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let process = std::process::id();
        // Another store of this process, or a process with the same id on another machine, may use
        // the name.
        (0..64).find_map(|_| {
            let serial = self.serial.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMPORARY}{process}-{serial}");
            let file = openat(&self.directory, &name, flags, Mode::RUSR | Mode::WUSR).ok()?;
            Some((name, file))
        })
    }

    /// Removes the file `name`, if it exists.
    pub(crate) fn remove(&self, name: &str) {
        let _ = unlinkat(&self.directory, name, AtFlags::empty());
    }

    /// Opens the empty file `name` for locking; creates it if it does not exist.
    pub(crate) fn lockable(&self, name: &str) -> Option<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR).ok()
    }

    /// Removes all files of the store.
    pub(crate) fn clear(&self) {
        for file in self.list() {
            let _ = unlinkat(&self.directory, &file.name, AtFlags::empty());
        }
    }

    /// Returns the bytes in files of the store.
    pub(crate) fn usage(&self) -> u64 {
        self.list().iter().map(|file| file.bytes).sum()
    }

    fn max_file_bytes(&self) -> u64 {
        self.max_bytes.min(MAX_FILE_BYTES)
    }

    fn list(&self) -> Vec<Listed> {
        let Ok(entries) = Dir::read_from(&self.directory) else {
            return Vec::new();
        };
        let entries = entries.filter_map(|entry| {
            let name = entry.ok()?.file_name().to_owned();
            let text = name.to_str().ok()?;
            let ours = text.starts_with(TEMPORARY)
                || self.prefixes.iter().any(|prefix| text.starts_with(prefix));
            if !ours {
                return None;
            }
            let status = statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let regular = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
            let bytes = u64::try_from(status.st_size).ok()?;
            regular.then(|| Listed { name, bytes, used: modified(&status) })
        });
        entries.collect()
    }

    fn evict(&self, now: SystemTime) {
        // One eviction at a time: two would count the same files, and remove twice as many.
        let _ = flock(&self.directory, FlockOperation::NonBlockingLockExclusive)
            .map(|()| self.evict_alone(now));
        let _ = flock(&self.directory, FlockOperation::Unlock);
    }

    fn evict_alone(&self, now: SystemTime) {
        let (temporary, mut files): (Vec<_>, Vec<_>) = self
            .list()
            .into_iter()
            .partition(|file| file.name.to_bytes().starts_with(TEMPORARY.as_bytes()));
        for file in temporary {
            if now.duration_since(file.used).is_ok_and(|age| age > STALE) {
                let _ = unlinkat(&self.directory, &file.name, AtFlags::empty());
            }
        }
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let mut count = files.len();
        if bytes <= self.max_bytes && count <= MAX_FILES {
            return;
        }
        files.sort_by(|a, b| (a.used, &a.name).cmp(&(b.used, &b.name)));
        for file in files {
            if bytes <= self.max_bytes / 10 * 9 && count <= MAX_FILES / 10 * 9 {
                break;
            }
            let _ = unlinkat(&self.directory, &file.name, AtFlags::empty());
            bytes -= file.bytes;
            count -= 1;
        }
    }
}

/// Returns the time of the last change; 1970 if unknown.
fn modified(status: &rustix::fs::Stat) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(status.st_mtime).unwrap_or_default());
    let fraction = Duration::from_nanos(status.st_mtime_nsec);
    UNIX_EPOCH.checked_add(seconds + fraction).unwrap_or(UNIX_EPOCH)
}

fn timestamps(time: SystemTime) -> Timestamps {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = Timespec {
        tv_sec: i64::try_from(since.as_secs()).unwrap_or_default(),
        tv_nsec: i64::from(since.subsec_nanos()),
    };
    Timestamps { last_access: time, last_modification: time }
}
