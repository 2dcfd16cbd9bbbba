//! Properties that an archive keeps besides the bytes of files: symbolic links, and the permissions
//! and times of directories.
//!
//! They are set when everything in a directory is done: each new name in it would change its time,
//! and a directory without write permission could not be filled. The list of directories is in
//! memory.

use crate::copy::target_directory::TargetDirectory;
use crate::destination::Target;
use crate::file::target::partial_file;
use crate::options::OverwritePolicy;
use hither_core::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
use std::fs::{File, FileTimes, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The notice about a link of an archive to a destination that keeps no links.
pub(crate) const LINK_AS_FILE: &str = "a link, copied as the file that it leads to";

/// A directory of this machine, and what it gets at the end.
#[derive(Debug)]
pub(crate) struct DirectoryAttributes {
    /// The directory at the target.
    pub(crate) directory: Arc<TargetDirectory>,
    /// The directory on this machine that it is a copy of.
    pub(crate) source: Option<PathBuf>,
    /// The time that the server states.
    pub(crate) modified: Option<SystemTime>,
}

/// Gives directories the permissions and times of their sources, the deepest first. Returns what
/// failed. Those that were not made are left alone: with a filter, directories without files; and
/// where the target has a link, it leads elsewhere.
pub(crate) fn set_attributes(directories: &[DirectoryAttributes]) -> Vec<(String, Error)> {
    let mut targets: Vec<(&Path, &DirectoryAttributes)> = Vec::new();
    for it in directories.iter().filter(|it| it.directory.is_made()) {
        if let Target::Local(target) = &it.directory.target {
            targets.push((target, it));
        }
    }
    targets.sort_unstable_by(|a, b| b.0.cmp(a.0));
    let results = targets.into_iter().map(|(target, it)| (target, set(target, it)));
    results.filter_map(|(target, done)| Some((target.display().to_string(), done.err()?))).collect()
}

fn set(target: &Path, directory: &DirectoryAttributes) -> Result<()> {
    let DirectoryAttributes { source, modified, .. } = directory;
    let failed = |error| partial_file::failed("cannot set permissions and time of", target, error);
    let source = source.as_ref().map(std::fs::metadata).transpose().map_err(failed)?;
    let opened = File::open(target).map_err(failed)?;
    let modified = source.as_ref().and_then(|it| it.modified().ok()).or(*modified);
    if let Some(modified) = modified {
        opened.set_times(FileTimes::new().set_modified(modified)).map_err(failed)?;
    }
    if let Some(source) = source {
        let mode = Permissions::from_mode(source.mode() & 0o7777);
        opened.set_permissions(mode).map_err(failed)?;
    }
    Ok(())
}

/// Copies a symbolic link of this machine, with its time, through the temporary name `part`.
/// Returns false if the existing target is kept.
pub(crate) fn copy_link(
    source: &Path,
    target: &Path,
    part: &str,
    existing: OverwritePolicy,
) -> Result<bool> {
    let read = |error| partial_file::failed("cannot read the link", source, error);
    let metadata = std::fs::symlink_metadata(source).map_err(read)?;
    let leads_to = std::fs::read_link(source).map_err(read)?;
    if let Ok(there) = std::fs::symlink_metadata(target) {
        let exists = |what: &str| {
            let message = format!("{} {what}", target.display());
            Err(Error::new(ErrorKind::AlreadyExists, message))
        };
        let is_same =
            there.is_symlink() && std::fs::read_link(target).is_ok_and(|it| it == leads_to);
        match existing {
            OverwritePolicy::Refuse => return exists("exists already"),
            OverwritePolicy::Keep => return Ok(false),
            _ if is_same => return Ok(false),
            _ if there.is_dir() => return exists("is a directory, expected a link or nothing"),
            _ => {}
        }
    }
    let part = target.with_file_name(part);
    let failed = |error| partial_file::failed("cannot make the link", target, error);
    // An earlier attempt may have left it.
    drop(std::fs::remove_file(&part));
    std::os::unix::fs::symlink(&leads_to, &part).map_err(failed)?;
    set_link_time(&part, &metadata).map_err(failed)?;
    partial_file::give_name(&part, target, existing.replaces())?;
    Ok(true)
}

fn set_link_time(link: &Path, of: &Metadata) -> std::io::Result<()> {
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let last_modification = Timespec { tv_sec: of.mtime(), tv_nsec: of.mtime_nsec() };
    let times = Timestamps { last_access, last_modification };
    Ok(utimensat(CWD, link, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
