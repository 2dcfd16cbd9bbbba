//! An upload into a local directory.

use crate::local::storage::{blocking, entry, failed, rename, summed};
use async_trait::async_trait;
use bytes::Bytes;
use hither_checksum::Checksum;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{
    CommittedFile, DirEntry, PutOptions, Upload, check_version, partial_token, unique_partial_name,
};
use hither_store::open_own_file;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{File, FileTimes, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// More parallel writes are not faster on any disk.
const PARALLEL: usize = 16;
/// The number of the null device (Linux, `Documentation/admin-guide/devices.txt`): major 1, minor
/// 3.
const NULL_DEVICE: u64 = 0x103;

/// A file that is being written, see [`crate::local::storage`].
#[derive(Debug)]
pub(crate) struct LocalUpload {
    path: String,
    place: PathBuf,
    file: Arc<File>,
    method: UploadMethod,
    size: u64,
    modified: Option<SystemTime>,
}

#[derive(Debug, Clone)]
enum UploadMethod {
    /// Under a temporary name in the same directory, to be renamed.
    Aside { name: String, at: PathBuf, overwrite: bool, expected: Option<DirEntry> },
    /// Directly into a pipe, a terminal or a device, in order.
    Stream,
    /// Discarded.
    Null,
}

impl LocalUpload {
    pub(crate) fn start(path: String, place: PathBuf, options: &PutOptions) -> Result<Self> {
        let starting = |error| failed("write", &place, error);
        let PutOptions { size, modified, .. } = *options;
        check(&place, options.expected.as_ref())?;
        let existing = look(&place).map_err(starting)?;
        if let Some(there) = &existing {
            let kind = there.file_type();
            if kind.is_dir() {
                return Err(starting(io::ErrorKind::IsADirectory.into()));
            }
            if !kind.is_file() && !kind.is_symlink() {
                let file = OpenOptions::new().write(true).open(&place).map_err(starting)?;
                let null = kind.is_char_device() && there.rdev() == NULL_DEVICE;
                let method = if null { UploadMethod::Null } else { UploadMethod::Stream };
                return Ok(Self { path, place, file: Arc::new(file), method, size, modified });
            }
            if !options.overwrite {
                return Err(starting(io::ErrorKind::AlreadyExists.into()));
            }
        }
        let resumed = options.resume.as_deref().and_then(|token| reopened(&place, token, size));
        let (file, name) = match resumed {
            Some(resumed) => resumed,
            None => created(&place).map_err(starting)?,
        };
        let at = place.with_file_name(&name);
        let prepared = set_aside(&file, size).and_then(|()| match &existing {
            // Users who could not read the old file cannot read the new one.
            Some(there) if there.is_file() => file.set_permissions(there.permissions()),
            _ => Ok(()),
        });
        if let Err(error) = prepared {
            // The first error is reported.
            drop(std::fs::remove_file(&at));
            return Err(starting(error));
        }
        let expected = options.expected.clone();
        let method = UploadMethod::Aside { name, at, overwrite: options.overwrite, expected };
        Ok(Self { path, place, file: Arc::new(file), method, size, modified })
    }

    /// Checks the file and renames it. If that fails, it has to be written again.
    fn finish(self, checksum: Option<&Checksum>) -> Result<DirEntry> {
        let finished = self.finished(checksum);
        if let (UploadMethod::Aside { at, .. }, Err(_)) = (&self.method, &finished) {
            // The first error is reported. After a rename the file does not exist any more.
            drop(std::fs::remove_file(at));
        }
        finished
    }

    fn finished(&self, checksum: Option<&Checksum>) -> Result<DirEntry> {
        let finishing = |error| failed("write", &self.place, error);
        if let UploadMethod::Aside { at, overwrite, expected, .. } = &self.method {
            if let Some(expected) = checksum {
                let seen = summed(&self.file, expected.algorithm()).map_err(finishing)?;
                if seen != *expected {
                    return Err(Error::new(
                        ErrorKind::Corrupt,
                        format!(
                            "{}: the checksum of the written bytes is {seen}, expected {expected}",
                            self.place.display()
                        ),
                    ));
                }
            }
            let times = FileTimes::new();
            let times = self.modified.map_or(times, |modified| times.set_modified(modified));
            self.file.set_times(times).map_err(finishing)?;
            self.file.sync_all().map_err(finishing)?;
            check(&self.place, expected.as_ref())?;
            rename(at, &self.place, *overwrite).map_err(finishing)?;
            // The new name is durable once its directory is flushed.
            let directory = File::open(directory_of(&self.place)).map_err(finishing)?;
            directory.sync_all().map_err(finishing)?;
        }
        let metadata = self.file.metadata().map_err(finishing)?;
        Ok(entry(self.path.clone(), &metadata))
    }
}

#[async_trait]
impl Upload for LocalUpload {
    fn parallel(&self) -> usize {
        match self.method {
            UploadMethod::Aside { .. } | UploadMethod::Null => PARALLEL,
            UploadMethod::Stream => 1,
        }
    }

    fn takes_any_bytes(&self) -> bool {
        !matches!(self.method, UploadMethod::Stream)
    }

    fn token(&self) -> Option<String> {
        match &self.method {
            UploadMethod::Aside { name, .. } => Some(name.clone()),
            UploadMethod::Stream | UploadMethod::Null => None,
        }
    }

    async fn write(&self, offset: u64, bytes: Bytes) -> Result<()> {
        let inside = offset.checked_add(bytes.len() as u64).is_some_and(|end| end <= self.size);
        if !inside {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{}: {} bytes at {offset} are beyond the declared size, {}",
                    self.place.display(),
                    bytes.len(),
                    self.size
                ),
            ));
        }
        let stream = match self.method {
            UploadMethod::Null => return Ok(()),
            UploadMethod::Stream => true,
            UploadMethod::Aside { .. } => false,
        };
        let file = Arc::clone(&self.file);
        let place = self.place.clone();
        blocking(move || {
            let written =
                if stream { (&*file).write_all(&bytes) } else { file.write_all_at(&bytes, offset) };
            written.map_err(|error| failed("write", &place, error))
        })
        .await
    }

    async fn sync(&self) -> Result<()> {
        let file = Arc::clone(&self.file);
        let place = self.place.clone();
        blocking(move || file.sync_data().map_err(|error| failed("write", &place, error))).await
    }

    async fn commit(self: Box<Self>, checksum: Option<Checksum>) -> Result<CommittedFile> {
        let is_compared = checksum.is_some() && matches!(self.method, UploadMethod::Aside { .. });
        let entry = blocking(move || self.finish(checksum.as_ref())).await?;
        Ok(CommittedFile { is_compared, ..entry.into() })
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        blocking(move || match &self.method {
            UploadMethod::Aside { at, .. } => {
                std::fs::remove_file(at).map_err(|error| failed("remove", at, error))
            }
            UploadMethod::Stream | UploadMethod::Null => Ok(()),
        })
        .await
    }
}

/// The metadata of what exists under a name. Links are followed, except broken ones.
fn look(place: &Path) -> io::Result<Option<Metadata>> {
    for found in [std::fs::metadata(place), std::fs::symlink_metadata(place)] {
        match found {
            Ok(metadata) => return Ok(Some(metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Fails unless the file is of the version `expected`, if there is one.
fn check(place: &Path, expected: Option<&DirEntry>) -> Result<()> {
    let Some(expected) = expected else { return Ok(()) };
    let there = look(place).map_err(|error| failed("write", place, error))?;
    let there = there.map(|metadata| entry(expected.path.clone(), &metadata));
    check_version(expected, there.as_ref(), place.display())
}

/// The parent directory of `place`, which has a last component.
fn directory_of(place: &Path) -> &Path {
    match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Creates a temporary file in the directory of `place`.
fn created(place: &Path) -> io::Result<(File, String)> {
    loop {
        let name = unique_partial_name(place);
        let options = OpenOptions::new().read(true).write(true).create_new(true).to_owned();
        match options.open(place.with_file_name(&name)) {
            Ok(file) => return Ok((file, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Opens the file that an earlier attempt left in the directory of `place`, if `token` names one.
fn reopened(place: &Path, token: &str, size: u64) -> Option<(File, String)> {
    let token = partial_token(token)?;
    let file = open_own_file(&place.with_file_name(token)).ok()?;
    (file.metadata().ok()?.len() == size).then(|| (file, token.to_owned()))
}

/// Sets the length of `file`, and allocates its blocks where the file system supports it.
fn set_aside(file: &File, size: u64) -> io::Result<()> {
    if size == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => file.set_len(size),
        done => Ok(done?),
    }
}
