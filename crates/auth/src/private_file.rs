//! Files that only their owner may read.
//!
//! Three properties of the opened file are checked, not of its path, so that the file cannot be
//! replaced in between: it is a regular file, it belongs to the user, and no other user can read or
//! write it. The key of a service may also belong to another user, such as root, and be readable
//! for a group. In folders where every user may create files (`/tmp`), symbolic links are rejected,
//! too: another user could let `bt_u1000` point at any file of this user, and its content would be
//! sent to a server as a token.

use crate::error::{AuthError, Result};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zeroize::Zeroizing;

/// Requirements on the owner and the path of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileModeCheck {
    /// The users who may own and read the file.
    pub(crate) access: FileAccess,
    /// Follow a symbolic link.
    pub(crate) link: bool,
}

/// Requirements on the owner and the mode of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileAccess {
    /// None: the file has no secret.
    Public,
    /// It belongs to this user, and no other user has access.
    Private(u32),
    /// The rule of OpenSSH for keys: if it belongs to this user, no other user has access; if it
    /// belongs to another user, its group may have access.
    Service(u32),
}

impl FileAccess {
    /// The required owner, and the forbidden bits of the mode.
    fn requirements(self, owner: u32) -> (Option<u32>, u32) {
        match self {
            Self::Public => (None, 0),
            Self::Service(uid) if uid != owner => (None, 0o007),
            Self::Private(uid) | Self::Service(uid) => (Some(uid), 0o077),
        }
    }
}

/// Reads `path`, at most `limit` bytes.
pub(crate) fn read(
    what: &'static str,
    path: &Path,
    guard: FileModeCheck,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>> {
    let unreadable = |source| AuthError::Unreadable { what, path: path.to_owned(), source };
    // Without NONBLOCK, opening a named pipe would block.
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if !guard.link {
        flags |= OFlags::NOFOLLOW;
    }
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| unreadable(e.into()))?;
    let mut file = File::from(file);
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(AuthError::malformed(path.display(), "not a regular file"));
    }
    let owner = metadata.uid();
    let (expected, forbidden) = guard.access.requirements(owner);
    if let Some(uid) = expected.filter(|uid| *uid != owner) {
        return Err(AuthError::Foreign { what, path: path.to_owned(), owner, uid });
    }
    let mode = metadata.mode() & 0o777;
    if mode & forbidden != 0 {
        return Err(AuthError::Exposed { what, path: path.to_owned(), mode });
    }
    // Capacity for the whole file: a vector that grows leaves copies in memory.
    let expected = usize::try_from(metadata.len()).unwrap_or(usize::MAX).min(limit);
    let mut content = Zeroizing::new(Vec::with_capacity(expected + 1));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    (&mut file).take(most).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() > limit {
        let why = format!("longer than {limit} bytes, too long for a {what}");
        return Err(AuthError::malformed(path.display(), why));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn a_file_must_belong_to_the_user_and_be_readable_by_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bt");
        let guard = FileModeCheck { access: FileAccess::Private(uid()), link: false };
        let read = |guard| read("token file", &path, guard, 10);
        assert!(matches!(read(guard), Err(AuthError::Unreadable { .. })));

        std::fs::write(&path, "secret").unwrap();
        for (mode, ok) in
            [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)]
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let result = read(guard);
            assert_eq!(result.is_ok(), ok, "{mode:o}");
            if let Err(error) = result {
                assert!(error.to_string().contains("chmod 600"), "{error}");
            }
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        for (mode, own, other) in [(0o600, true, true), (0o640, false, true), (0o644, false, false)]
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let read_by =
                |user| read(FileModeCheck { access: FileAccess::Service(user), link: true });
            assert_eq!(
                (read_by(uid()).is_ok(), read_by(uid() + 1).is_ok()),
                (own, other),
                "{mode:o}"
            );
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let foreign = FileModeCheck { access: FileAccess::Private(uid() + 1), link: false };
        assert!(matches!(read(foreign), Err(AuthError::Foreign { .. })));
        assert_eq!(
            **read(FileModeCheck { access: FileAccess::Public, link: false }).as_ref().unwrap(),
            b"secret"
        );
    }

    #[test]
    fn links_pipes_folders_and_large_files_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bt");
        let link = folder.path().join("link");
        std::fs::write(&path, "longer than ten").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&path, &link).unwrap();
        let guard = |link| FileModeCheck { access: FileAccess::Private(uid()), link };
        assert!(read("key", &link, guard(false), 100).is_err());
        assert!(read("key", &link, guard(true), 100).is_ok());
        let error = read("key", &path, guard(false), 10).unwrap_err().to_string();
        assert!(error.contains("longer than 10 bytes") && !error.contains("ten"), "{error}");
        assert!(read("key", folder.path(), guard(false), 10).is_err());

        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .unwrap();
        assert!(read("key", &pipe, guard(false), 10).is_err());
    }
}
