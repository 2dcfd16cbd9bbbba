//! A local file that is being written, under another name until it is whole.
//!
//! The bytes go to a hidden name in the directory of the target, so that giving it the final name
//! is one step that works or does not. Any thread writes blocks at their offsets. Disk space is
//! reserved first ([`room`]), so that a full disk shows at the start, and blocks that come out of
//! order do not fragment the file. [`PartialFile::finish`] syncs the file before it gets its final
//! name; until then a crash of the system may lose any block, and the next attempt compares each
//! with its checksum in the journal. A block of an upload is safe when the server has confirmed it
//! and no request has failed since; `file/upload_sink.rs` compares the others.
//!
//! A file without blocks to be kept is made anew: bytes that an attempt for another version has
//! left would otherwise show wherever nothing is written, as in a hole. A file that an earlier
//! attempt left is taken over only if no other user can have put it there ([`open_own_file`]).
//!
//! A small file is opened for each write, usually one, and is not kept open: thousands of small
//! files may wait for their sync at a time. One sync covers all that wait ([`GroupSync`]).

mod room;

use crate::file::blocks::block_map::BlockChecksums;
use crate::file::target::kernel_copy::{BYTES_OF_STAT_BLOCK, copy_range, has_holes};
use crate::tree::group_sync::GroupSync;
use bytes::Bytes;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::storage::partial_name;
use hither_core::{Error, ErrorKind, Result, range};
use hither_store::open_own_file;
use rustix::fs::{CWD, RenameFlags, ioctl_ficlone, renameat_with};
use rustix::io::{Errno, pwritev};
use std::fs::{File, FileTimes, OpenOptions, Permissions};
use std::io::{ErrorKind as IoKind, IoSlice};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Bytes per read when computing the checksum of a file.
const READ_BYTES: usize = 1 << 20;
/// Buffers in one call to the system: `IOV_MAX` of Linux.
const MAX_BUFFERS: usize = 1024;

/// Permissions of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileMode {
    /// These, less what the user's mask takes away, and those of the file that it replaces first.
    Masked(u32),
    /// Exactly these, once the file is whole.
    Exact(u32),
}

impl FileMode {
    /// The permissions of a copy of a file with these.
    pub(crate) fn of_copy(bits: u32, is_archive: bool) -> Self {
        if is_archive { Self::Exact(bits & 0o7777) } else { Self::Masked(bits & 0o777) }
    }

    /// Permissions of the file while it is written.
    fn initial(self) -> u32 {
        match self {
            Self::Masked(bits) => bits,
            Self::Exact(_) => 0o600,
        }
    }

    /// Sets the permissions of a file that is whole.
    fn apply(self, file: &File) -> std::io::Result<()> {
        match self {
            Self::Masked(_) => Ok(()),
            Self::Exact(bits) => file.set_permissions(Permissions::from_mode(bits)),
        }
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct PartialFile {
    content: PartialContent,
    mode: Option<FileMode>,
    part: PathBuf,
    target: PathBuf,
}

#[derive(Debug)]
enum PartialContent {
    Open {
        file: File,
        /// It held nothing when it was opened.
        was_empty: bool,
    },
    Small(SmallContent),
}

/// A small file, which is opened when something is to be written.
#[derive(Debug)]
struct SmallContent {
    size: u64,
    modified: Option<SystemTime>,
    /// The file system that has to be synced.
    device: AtomicU64,
    /// The number of the file on it; 0 before the first write.
    inode: AtomicU64,
}

impl PartialFile {
    /// The name that the bytes of `target` have until it is whole, within its directory: the same
    /// for each attempt of a job, and for no other job.
    pub(crate) fn name(target: &Path, job: &str) -> String {
        let text = format!("{job}\n{}", target.display());
        let digest = Hasher::of(Algorithm::Sha256, text.as_bytes());
        let number = digest.value().iter().take(8).fold(0, |n, byte| n << 8 | u64::from(*byte));
        partial_name(number)
    }

    /// Opens `name` in the directory of `target` for `size` bytes. If there are ranges of an
    /// earlier attempt to be `kept`, in order, what it holds stays, else it begins empty. The
    /// permissions are those of the file that it will replace, else `mode` less what the user's
    /// mask takes away. Blocks the thread.
    ///
    /// If it is a copy of the local file `from`, no space is reserved for the holes of `from`. A
    /// new partial file shares the blocks of `from` if the file system can; returns true then.
    ///
    /// # Errors
    ///
    /// After an error only the ranges to be `kept` take disk space; without any, the file is
    /// removed.
    pub(crate) fn open(
        target: &Path,
        name: &str,
        size: u64,
        mode: Option<FileMode>,
        from: Option<&File>,
        kept: &[Range<u64>],
    ) -> Result<(Self, bool)> {
        let part = target.with_file_name(name);
        let failed = |error| failed("cannot write", target, error);
        let was_empty = kept.is_empty();
        let file = create(&part, target, mode, !was_empty).map_err(failed)?;
        let prepared = prepare(&file, size, from, was_empty);
        let content = PartialContent::Open { file, was_empty };
        let opened = Self { content, mode, part, target: target.to_owned() };
        match prepared {
            Ok(is_shared) => Ok((opened, is_shared)),
            Err(error) => Err(opened.leave(failed(error), kept)),
        }
    }

    /// The same for a small file, which has the time `modified` when it is written.
    pub(crate) fn small(
        target: &Path,
        name: &str,
        size: u64,
        mode: Option<FileMode>,
        modified: Option<SystemTime>,
    ) -> Self {
        let device = AtomicU64::default();
        let content = SmallContent { size, modified, device, inode: AtomicU64::default() };
        let part = target.with_file_name(name);
        Self { content: PartialContent::Small(content), mode, part, target: target.to_owned() }
    }

    /// Writes `pieces`, one after the other, from `offset` on. Blocks the thread.
    pub(crate) fn write(&self, offset: u64, pieces: &[Bytes], syncs: &GroupSync) -> Result<()> {
        let written = match &self.content {
            PartialContent::Open { file, .. } => write_at(file, offset, pieces),
            PartialContent::Small(small) => {
                self.write_small(small, syncs, |file| write_at(file, offset, pieces))
            }
        };
        written.map_err(|error| failed("cannot write", &self.target, error))
    }

    /// Copies `range` of the local file `path`, which is open. Blocks the thread.
    pub(crate) fn copy_from(
        &self,
        (from, path): (&File, &Path),
        range: Range<u64>,
        syncs: &GroupSync,
    ) -> Result<()> {
        let copied = match &self.content {
            PartialContent::Open { file, was_empty } => copy_range(from, file, range, *was_empty),
            PartialContent::Small(small) => self.write_small(small, syncs, |file| {
                if ioctl_ficlone(file, from).is_ok() {
                    return Ok(());
                }
                file.set_len(small.size)?;
                copy_range(from, file, range, true)
            }),
        };
        copied.map_err(|error| match error.kind() {
            IoKind::UnexpectedEof => {
                let what = "changed while it was copied: it has become shorter";
                Error::new(ErrorKind::Changed, format!("{} {what}", path.display()))
            }
            _ => failed("cannot copy to", &self.target, error),
        })
    }

    /// Opens a small file, which the first write makes, and has `write` write to it. After an error
    /// the file is removed.
    fn write_small(
        &self,
        small: &SmallContent,
        syncs: &GroupSync,
        write: impl FnOnce(&File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let attempt = || {
            let before = small.inode.load(Ordering::Acquire);
            let file = match before {
                0 => create(&self.part, &self.target, self.mode, false)?,
                _ => open_own_file(&self.part)?,
            };
            let metadata = file.metadata()?;
            if before != 0 && before != metadata.ino() {
                return Err(std::io::Error::other("another process has replaced the partial file"));
            }
            syncs.watch(metadata.dev(), &file)?;
            small.device.store(metadata.dev(), Ordering::Release);
            small.inode.store(metadata.ino(), Ordering::Release);
            write(&file)?;
            self.set_mode(&file)?;
            set_modified(&file, small.modified)
        };
        attempt().inspect_err(|_| {
            small.inode.store(0, Ordering::Release);
            self.remove();
        })
    }

    fn set_mode(&self, file: &File) -> std::io::Result<()> {
        self.mode.map_or(Ok(()), |mode| mode.apply(file))
    }

    /// The file system to be synced before a small file gets its name. None for others.
    pub(crate) fn device(&self) -> Option<u64> {
        match &self.content {
            PartialContent::Open { .. } => None,
            PartialContent::Small(small) => Some(small.device.load(Ordering::Acquire)),
        }
    }

    /// The checksum of the bytes in `range` as they are in the file. Blocks the thread.
    pub(crate) fn sum(&self, range: Range<u64>, algorithm: Algorithm) -> Result<Checksum> {
        let mut hasher = Hasher::new(algorithm);
        self.read(range, |bytes| hasher.update(bytes))?;
        Ok(hasher.finish())
    }

    /// The checksums of a block as it is in the file. Blocks the thread.
    pub(crate) fn checksums(
        &self,
        range: Range<u64>,
        with_adler32: bool,
    ) -> Result<BlockChecksums> {
        let mut adler32 = with_adler32.then(|| Hasher::new(Algorithm::Adler32));
        let mut crc32c = Hasher::new(Algorithm::Crc32c);
        self.read(range, |bytes| {
            crc32c.update(bytes);
            adler32.iter_mut().for_each(|sum| sum.update(bytes));
        })?;
        Ok(BlockChecksums { crc32c: crc32c.finish(), adler32: adler32.map(Hasher::finish) })
    }

    /// The name that the file will have.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The path that it has until then.
    pub(crate) fn part(&self) -> &Path {
        &self.part
    }

    /// The last component of that.
    pub(crate) fn part_name(&self) -> String {
        self.part.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Passes the bytes in `range` to a callback, piece by piece. Blocks the thread.
    pub(crate) fn read(&self, range: Range<u64>, mut take: impl FnMut(&[u8])) -> Result<()> {
        let reopened;
        let file = match &self.content {
            PartialContent::Open { file, .. } => file,
            PartialContent::Small(_) => {
                let opened = File::open(&self.part);
                reopened =
                    opened.map_err(|error| failed("cannot read back", &self.target, error))?;
                &reopened
            }
        };
        let most = usize::try_from(range::len(&range)).unwrap_or(READ_BYTES).min(READ_BYTES);
        let mut buffer = vec![0; most];
        let mut at = range.start;
        while at < range.end {
            let most = usize::try_from(range.end - at).unwrap_or(READ_BYTES).min(READ_BYTES);
            let piece = buffer.get_mut(..most).unwrap_or_default();
            let read = file.read_exact_at(piece, at);
            read.map_err(|error| failed("cannot read back", &self.target, error))?;
            take(piece);
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Puts everything on the disk, and gives the file its final name. A small file is there
    /// already. Blocks the thread.
    pub(crate) fn finish(&self, modified: Option<SystemTime>, replace: bool) -> Result<()> {
        if let PartialContent::Open { file, .. } = &self.content {
            let timed = self.set_mode(file).and_then(|()| set_modified(file, modified));
            let synced = timed.and_then(|()| file.sync_all());
            synced.map_err(|error| failed("cannot finish", &self.target, error))?;
        }
        give_name(&self.part, &self.target, replace)
    }

    /// Leaves a file that has failed to the next attempt: frees its space outside the ranges that
    /// are `kept`, in order, or removes it if there are none. Returns the error, which states what
    /// stays if the disk is full. Blocks the thread.
    pub(crate) fn leave(&self, error: Error, kept: &[Range<u64>]) -> Error {
        if kept.is_empty() {
            self.remove();
            return error;
        }
        let PartialContent::Open { file, .. } = &self.content else { return error };
        room::keep_only(file, kept);
        if error.kind() != ErrorKind::NoSpace {
            return error;
        }
        let bytes: u64 = kept.iter().map(range::len).sum();
        let part = self.part.display();
        error.map_message(|message| {
            format!("{message}; {bytes} bytes are kept in {part}, from which the same copy resumes")
        })
    }

    /// Removes what was written.
    pub(crate) fn remove(&self) {
        // An error is ignored: only the next attempt finds the file, and it takes it over.
        drop(std::fs::remove_file(&self.part));
    }
}

/// Opens the file `part` for writing, with the permissions of the `target` that it will replace,
/// else with `mode`. If `is_kept`, that is the file of an earlier attempt where there is one; else
/// a new one.
fn create(
    part: &Path,
    target: &Path,
    mode: Option<FileMode>,
    is_kept: bool,
) -> std::io::Result<File> {
    let file = match is_kept.then(|| open_own_file(part)) {
        Some(Ok(file)) => {
            remove_excess(&file, mode);
            file
        }
        _ => create_new(part, mode)?,
    };
    if !matches!(mode, Some(FileMode::Exact(_)))
        && let Ok(replaced) = std::fs::metadata(target)
        && replaced.is_file()
    {
        file.set_permissions(replaced.permissions())?;
    }
    Ok(file)
}

/// Removes permissions that a new file with `mode` would not have: an attempt that was killed while
/// it opened a read-only file leaves it writable.
fn remove_excess(file: &File, mode: Option<FileMode>) {
    let (Some(FileMode::Masked(bits)), Ok(metadata)) = (mode, file.metadata()) else { return };
    let seen = metadata.mode() & 0o7777;
    if seen & !bits != 0 {
        // A file system without permissions may refuse that.
        drop(file.set_permissions(Permissions::from_mode(seen & bits)));
    }
}

/// Makes the file `part`. What has the name already is removed, and never opened.
fn create_new(part: &Path, mode: Option<FileMode>) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(mode.map_or(0o666, FileMode::initial));
    match options.open(part) {
        Err(error) if error.kind() == IoKind::AlreadyExists => {
            std::fs::remove_file(part)?;
            options.open(part)
        }
        opened => opened,
    }
}

/// Makes a file ready for `size` bytes. Returns true if it shares the blocks of `from` now.
fn prepare(
    file: &File,
    size: u64,
    from: Option<&File>,
    begins_empty: bool,
) -> std::io::Result<bool> {
    if begins_empty {
        file.set_len(0)?;
    }
    let is_shared = begins_empty && from.is_some_and(|from| ioctl_ficlone(file, from).is_ok());
    if !is_shared {
        let metadata = from.map(File::metadata).transpose()?;
        let sparse = metadata.filter(has_holes);
        let data = |it: std::fs::Metadata| it.blocks().saturating_mul(BYTES_OF_STAT_BLOCK);
        let has_holes = sparse.is_some();
        room::reserve(file, sparse.map_or(size, data), has_holes)?;
    }
    file.set_len(size)?;
    Ok(is_shared)
}

fn write_at(file: &File, mut offset: u64, pieces: &[Bytes]) -> std::io::Result<()> {
    for group in pieces.chunks(MAX_BUFFERS) {
        let mut buffers: Vec<_> = group.iter().map(|bytes| IoSlice::new(bytes)).collect();
        let mut rest = buffers.as_mut_slice();
        while !rest.is_empty() {
            let written = match pwritev(file, rest, offset) {
                Ok(0) => return Err(std::io::Error::from(IoKind::WriteZero)),
                Ok(written) => written,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            offset += written as u64;
            IoSlice::advance_slices(&mut rest, written);
        }
    }
    Ok(())
}

fn set_modified(file: &File, modified: Option<SystemTime>) -> std::io::Result<()> {
    let Some(modified) = modified else { return Ok(()) };
    file.set_times(FileTimes::new().set_modified(modified))
}

/// Gives a file that is complete at `part` its final name.
pub(crate) fn give_name(part: &Path, target: &Path, replace: bool) -> Result<()> {
    let failed = |error| failed("cannot finish", target, error);
    if replace {
        return std::fs::rename(part, target).map_err(failed);
    }
    match renameat_with(CWD, part, CWD, target, RenameFlags::NOREPLACE) {
        // For file systems without this flag. Another process may create the file in between.
        Err(Errno::INVAL | Errno::NOSYS) if !target.exists() => {
            std::fs::rename(part, target).map_err(failed)
        }
        result => result.map_err(|error| failed(error.into())),
    }
}

/// Returns true if two paths lead to the same file.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    identity(a).is_some_and(|a| Some(a) == identity(b))
}

/// The permissions of a file.
pub(crate) fn mode_of(path: &Path) -> Option<u32> {
    Some(std::fs::metadata(path).ok()?.permissions().mode())
}

/// An error of the local machine, with what was tried.
pub(crate) fn failed(what: &str, path: &Path, error: std::io::Error) -> Error {
    let message = format!("{what} {}: {error}", path.display());
    Error::new(ErrorKind::of_local(&error), message).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    #[test]
    fn a_source_that_became_shorter_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let [source, target] = ["source", "target"].map(|name| folder.path().join(name));
        std::fs::write(&source, b"short").unwrap();
        let open = PartialFile::open(&target, ".part", 6, None, None, &[]).unwrap().0;
        for part in [open, PartialFile::small(&target, ".small", 6, None, None)] {
            let from = File::open(&source).unwrap();
            let copied = part.copy_from((&from, &source), 0..6, &GroupSync::default());
            let error = copied.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Changed);
            assert!(error.to_string().contains(source.to_str().unwrap()), "{error}");
        }
    }

    #[test]
    fn a_file_gets_its_final_name_only_when_complete() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data");
        let name = PartialFile::name(&target, "job");
        let (part, _) = PartialFile::open(&target, &name, 6, None, None, &[]).unwrap();
        let syncs = GroupSync::default();
        part.write(3, &[Bytes::from_static(b"de"), Bytes::from_static(b"f")], &syncs).unwrap();
        part.write(0, &[Bytes::from_static(b"abc")], &syncs).unwrap();
        assert!(!target.exists());
        let (again, _) = PartialFile::open(&target, &name, 6, None, None, &[2..5]).unwrap();
        let sum = Hasher::of(Algorithm::Crc32c, b"cde");
        assert_eq!(again.sum(2..5, Algorithm::Crc32c).unwrap(), sum);
        let modified = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        again.finish(Some(modified), false).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"abcdef");
        assert_eq!(std::fs::metadata(&target).unwrap().modified().unwrap(), modified);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_begins_anew_holds_nothing_of_an_earlier_attempt() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data");
        for from in [None, Some(tempfile::tempfile().unwrap())] {
            from.iter().for_each(|from| from.set_len(6).unwrap());
            std::fs::write(folder.path().join(".part"), b"old bytes").unwrap();
            let open = |kept| PartialFile::open(&target, ".part", 6, None, from.as_ref(), kept);
            let (resumed, is_shared) = open(&[0..3]).unwrap();
            assert!(!is_shared);
            assert_eq!(std::fs::read(resumed.part()).unwrap(), b"old by");
            let (part, _) = open(&[]).unwrap();
            assert_eq!(std::fs::read(part.part()).unwrap(), [0; 6]);
        }
    }

    #[test]
    fn a_file_that_does_not_fit_takes_nothing_and_leaves_what_is_to_be_kept() {
        const BLOCK: u64 = 64 << 10;
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data");
        let open = |size, kept: &[Range<u64>]| {
            PartialFile::open(&target, ".part", size, None, None, kept).map(|(part, _)| part)
        };
        let blocks = |path: &Path| std::fs::metadata(path).unwrap().blocks() * BYTES_OF_STAT_BLOCK;
        let part = open(8 * BLOCK, &[]).unwrap();
        part.write(0, &[Bytes::from(vec![7; 8 << 16])], &GroupSync::default()).unwrap();
        let kept = [BLOCK..2 * BLOCK, 4 * BLOCK..5 * BLOCK];
        let error = open(1 << 60, &kept).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        let message = error.to_string();
        assert!(message.contains("bytes more, and "), "{message}");
        assert!(message.contains("; 131072 bytes are kept in /"), "{message}");
        assert_eq!(blocks(part.part()), 2 * BLOCK);
        for range in kept {
            let expected = Hasher::of(Algorithm::Crc32c, &[7; 64 << 10]);
            assert_eq!(part.sum(range, Algorithm::Crc32c).unwrap(), expected);
        }
        for size in [1 << 60, 1 << 63, u64::MAX] {
            let error = open(size, &[]).unwrap_err();
            assert!(!error.to_string().contains("kept") && !part.part().exists(), "{error}");
        }
    }

    #[test]
    fn a_small_file_replaces_what_an_earlier_attempt_has_left() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data");
        std::fs::write(folder.path().join(".part"), b"much longer than the file").unwrap();
        let modified = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        let part =
            PartialFile::small(&target, ".part", 6, Some(FileMode::Masked(0o600)), Some(modified));
        let syncs = GroupSync::default();
        part.write(0, &[Bytes::from_static(b"abcdef")], &syncs).unwrap();
        let sum = Hasher::of(Algorithm::Crc32c, b"cde");
        assert_eq!(part.sum(2..5, Algorithm::Crc32c).unwrap(), sum);
        let device = std::fs::metadata(folder.path()).unwrap().dev();
        assert_eq!((part.device(), target.exists()), (Some(device), false));
        part.finish(None, false).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"abcdef");
        assert_eq!(std::fs::metadata(&target).unwrap().modified().unwrap(), modified);
    }

    #[test]
    fn errors_name_the_target() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("none/data");
        let large = PartialFile::open(&target, ".part", 6, None, None, &[]).unwrap_err();
        let small = PartialFile::small(&target, ".part", 6, None, None);
        let written = small.write(0, &[Bytes::from_static(b"abcdef")], &GroupSync::default());
        for error in [large, written.unwrap_err()] {
            let message = error.to_string();
            assert!(message.contains("none/data") && !message.contains(".part"), "{message}");
        }
    }

    #[test]
    fn an_existing_file_is_kept_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data");
        std::fs::write(&target, b"old").unwrap();
        let (part, _) =
            PartialFile::open(&target, ".part", 0, Some(FileMode::Masked(0o600)), None, &[])
                .unwrap();
        assert_eq!(part.finish(None, false).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        part.finish(None, true).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"");
    }

    #[test]
    fn exact_permissions_are_those_of_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data");
        std::fs::write(&target, b"old").unwrap();
        let exact = Some(FileMode::Exact(0o4451));
        let syncs = GroupSync::default();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        let (large, _) = PartialFile::open(&target, ".large", 1, exact, None, &[]).unwrap();
        large.write(0, &[Bytes::from_static(b"x")], &syncs).unwrap();
        assert_eq!(mode(large.part()), 0o600);
        large.finish(None, true).unwrap();
        assert_eq!(mode(&target), 0o4451);
        let small = PartialFile::small(&target, ".small", 1, exact, None);
        small.write(0, &[Bytes::from_static(b"x")], &syncs).unwrap();
        small.finish(None, true).unwrap();
        assert_eq!(mode(&target), 0o4451);
    }

    #[test]
    fn a_file_that_another_user_may_have_put_there_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let kept = 0..4;
        let written = |part: &PartialFile| {
            part.write(0, &[Bytes::from_static(b"abcdef")], &GroupSync::default()).unwrap();
        };
        for kept in [&[][..], std::slice::from_ref(&kept)] {
            // A second name of a file that is no partial file.
            std::fs::write(at("other"), b"others").unwrap();
            std::fs::hard_link(at("other"), at(".part")).unwrap();
            let open = PartialFile::open(&at("data"), ".part", 6, None, None, kept);
            written(&open.unwrap().0);
            assert_eq!(std::fs::read(at("other")).unwrap(), b"others", "{kept:?}");
            // A file that its owner has open.
            std::fs::remove_file(at(".part")).unwrap();
            std::fs::write(at(".part"), b"others").unwrap();
            if std::os::unix::fs::chown(at(".part"), Some(65_534), None).is_ok() {
                let theirs = File::open(at(".part")).unwrap();
                let open = PartialFile::open(&at("data"), ".part", 6, None, None, kept);
                written(&open.unwrap().0);
                let mut seen = [0; 6];
                theirs.read_exact_at(&mut seen, 0).unwrap();
                assert_eq!(&seen, b"others", "{kept:?}");
                let me = rustix::process::geteuid().as_raw();
                assert_eq!(std::fs::metadata(at(".part")).unwrap().uid(), me);
            }
            std::fs::remove_file(at(".part")).unwrap();
        }
        std::fs::write(at("other"), b"others").unwrap();
        std::fs::hard_link(at("other"), at(".part")).unwrap();
        written(&PartialFile::small(&at("data"), ".part", 6, None, None));
        assert_eq!(std::fs::read(at("other")).unwrap(), b"others");
    }

    #[test]
    fn a_file_with_read_only_permissions_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let syncs = GroupSync::default();
        // Root's threads ignore permissions otherwise.
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
        let write = |part: &PartialFile, at, bytes| {
            part.write(at, &[Bytes::from_static(bytes)], &syncs).unwrap();
        };
        let is_writable = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o222 != 0;
        for (name, is_replaced) in [("new", false), ("replaced", true)] {
            let target = folder.path().join(name);
            if is_replaced {
                std::fs::write(&target, b"old").unwrap();
                std::fs::set_permissions(&target, Permissions::from_mode(0o444)).unwrap();
            }
            let bits = (!is_replaced).then_some(FileMode::Masked(0o444));
            let open = |kept| PartialFile::open(&target, ".part", 6, bits, None, kept).unwrap().0;
            write(&open(&[]), 0, b"abc");
            let again = open(std::slice::from_ref(&(0..3)));
            write(&again, 3, b"def");
            again.finish(None, true).unwrap();
            assert_eq!(
                (std::fs::read(&target).unwrap(), is_writable(&target)),
                (b"abcdef".to_vec(), false)
            );
            let small = PartialFile::small(&target, ".part", 6, bits, None);
            write(&small, 0, b"ghi");
            write(&small, 3, b"jkl");
            small.finish(None, true).unwrap();
            assert_eq!(
                (std::fs::read(&target).unwrap(), is_writable(&target)),
                (b"ghijkl".to_vec(), false)
            );
        }
    }

    #[test]
    fn a_read_only_file_that_was_left_writable_is_read_only_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data");
        let mode = Some(FileMode::Masked(0o444));
        let open = |kept| PartialFile::open(&target, ".part", 3, mode, None, kept).unwrap().0;
        let syncs = GroupSync::default();
        open(&[]).write(0, &[Bytes::from_static(b"abc")], &syncs).unwrap();
        // As it is between the two changes of its permissions by which it is opened.
        let writable = Permissions::from_mode(0o644);
        std::fs::set_permissions(folder.path().join(".part"), writable).unwrap();
        open(std::slice::from_ref(&(0..3))).finish(None, true).unwrap();
        assert_eq!(std::fs::metadata(&target).unwrap().mode() & 0o222, 0);
    }

    #[test]
    fn a_symbolic_link_at_the_target_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let other_file = folder.path().join("other_file");
        std::fs::write(&other_file, b"keep").unwrap();
        std::os::unix::fs::symlink(&other_file, folder.path().join(".part")).unwrap();
        let target = folder.path().join("data");
        let (part, _) = PartialFile::open(&target, ".part", 1, None, None, &[]).unwrap();
        part.write(0, &[Bytes::from_static(b"x")], &GroupSync::default()).unwrap();
        assert_eq!(std::fs::read(&other_file).unwrap(), b"keep");
    }
}
