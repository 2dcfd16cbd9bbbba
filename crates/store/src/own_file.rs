//! A file that an earlier attempt left under a name that other users may know.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The permission of the owner to read and write.
const OWNER_READS_AND_WRITES: u32 = 0o600;

/// Opens the file at `path` for reading and writing. Blocks the thread.
///
/// In a directory that others can write to they may have put a file there, to read or change what
/// is written to it. So it has to be a regular file with one name, which belongs to this user, or
/// to whom a new file there would belong: a file server may map users. A file that is read-only is
/// opened all the same, and stays read-only, unless this process is killed meanwhile.
///
/// # Errors
/// [`ErrorKind::PermissionDenied`] for a file that another user may have put there, else the errors
/// of opening it.
pub fn open_own_file(path: &Path) -> Result<File> {
    match checked(path, true) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let file = checked(path, false)?;
            let permissions = file.metadata()?.permissions();
            let writable = Permissions::from_mode(permissions.mode() | OWNER_READS_AND_WRITES);
            file.set_permissions(writable)?;
            let opened = checked(path, true);
            file.set_permissions(permissions)?;
            opened
        }
        opened => opened,
    }
}

/// Opens a file, also for writing if it `writes`, unless another user may have put it there.
fn checked(path: &Path, writes: bool) -> Result<File> {
    // No link, and a pipe without waiting for its other end.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let owner = metadata.uid();
    let is_own =
        || owner == rustix::process::geteuid().as_raw() || owner_of_new_files(path) == Some(owner);
    if metadata.is_file() && metadata.nlink() == 1 && is_own() {
        return Ok(file);
    }
    Err(Error::new(ErrorKind::PermissionDenied, "another user may have put this file there"))
}

/// The owner of the files that this process makes in the directory of `path`.
fn owner_of_new_files(path: &Path) -> Option<u32> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let file = tempfile::tempfile_in(directory.unwrap_or_else(|| Path::new("."))).ok()?;
    file.metadata().ok().map(|it| it.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    use std::io::{Read, Write};

    /// Lets this thread no longer ignore permissions, as root's threads do.
    fn heed_permissions() {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
    }

    #[test]
    fn a_read_only_file_is_continued_and_stays_read_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part");
        std::fs::write(&path, b"abc").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        heed_permissions();
        assert!(File::options().write(true).open(&path).is_err());
        let mut file = open_own_file(&path).unwrap();
        let mut seen = String::new();
        file.read_to_string(&mut seen).unwrap();
        file.write_all(b"def").unwrap();
        assert_eq!((&*seen, std::fs::read(&path).unwrap()), ("abc", b"abcdef".to_vec()));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o444);
    }

    #[test]
    fn what_another_user_may_have_put_there_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let error = |name: &str| open_own_file(&at(name)).unwrap_err().kind();
        std::fs::write(at("own"), b"").unwrap();
        assert!(open_own_file(&at("own")).is_ok());
        std::os::unix::fs::symlink(at("own"), at("link")).unwrap();
        assert_ne!(error("link"), ErrorKind::NotFound);
        std::fs::hard_link(at("own"), at("second")).unwrap();
        assert_eq!(error("own"), ErrorKind::PermissionDenied);
        assert_eq!(error("none"), ErrorKind::NotFound);
        // Only root can make a file of another user. Its directory may be closed to others.
        std::fs::write(at("theirs"), b"").unwrap();
        if std::os::unix::fs::chown(at("theirs"), Some(65_534), None).is_ok() {
            for mode in [0o777, 0o755] {
                std::fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
                assert_eq!(error("theirs"), ErrorKind::PermissionDenied, "{mode:o}");
            }
        }
    }
}
