//! Removal of files, directories and trees.
//!
//! **Links.** Servers follow symbolic links in listings and for metadata: a link to a directory
//! looks like the directory. They follow no link to remove a directory (`rmdir(2)`), and refuse
//! that for a link with another reason than for a non-empty directory. So this is tried before a
//! directory is listed, and a directory is cleared only if the server reports that it is not empty.
//! If the reason is that it is not a directory, it is removed as a file, which removes the link.
//! Any other reason ends the removal. That costs a round trip for each non-empty directory, and
//! saves the listing of an empty one.
//!
//! A link to a file looks like the file, and the two cannot be distinguished. xrootd takes absolute
//! links for its own links to disks with space (`XrdOssSys::BreakLink`): it removes the target file
//! together with the link, and refuses to remove a link to a directory.

use super::XrootdStorage;
use crate::http::call::change::Seen;
use futures_core::future::BoxFuture;
use hither_auth::Action;
use hither_core::error::{Error, ErrorKind, Failure, Result};
use hither_core::storage::{DirEntry, DirectoryRemoval, FileKind};
use hither_core::sync::lock;
use hither_xrd::wire::{ErrorCode, Request};

/// The reasons of xrootd and EOS, at the end of their messages about a path. xrootd 5 has one code
/// for both.
const NOT_EMPTY: &str = "; directory not empty\"";
const NOT_A_DIRECTORY: &str = "; not a directory\"";
/// The reason of dCache, before the path.
const NOT_EMPTY_AT_DCACHE: &str = ": \"failed to delete directory (directory is not empty: ";

/// The reason why a server has not removed a directory, if it states one of these two. Then nothing
/// was changed.
pub(super) fn refusal(error: &Error) -> Option<DirectoryRemoval> {
    match error.failure() {
        // The code of xrootd 6.
        Failure::Xrootd { code } if code == ErrorCode::IT_EXISTS.0 => {
            return Some(DirectoryRemoval::NotEmpty);
        }
        Failure::Xrootd { .. } => {}
        _ => return None,
    }
    let text = error.to_string().to_ascii_lowercase();
    // The server's words are in quotes: a quote in a path has a backslash before it.
    let (_, reason) = text.rsplit_once("the server responded with ")?;
    match () {
        () if reason.contains(NOT_A_DIRECTORY) => Some(DirectoryRemoval::Link),
        () if reason.contains(NOT_EMPTY) || reason.contains(NOT_EMPTY_AT_DCACHE) => {
            Some(DirectoryRemoval::NotEmpty)
        }
        () => None,
    }
}

impl XrootdStorage {
    /// Removes a file, or a directory with all that is in it; of a link, the link.
    pub(super) fn remove_entry<'a>(&'a self, entry: &'a DirEntry) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if entry.kind != FileKind::Directory {
                return self.remove_file(entry).await;
            }
            if self.remove_unless_filled(entry).await? {
                return Ok(());
            }
            let mut kept = None;
            for inner in self.list_of(&entry.path).await?.entries {
                match self.remove_entry(&inner).await {
                    // It was removed with a link to it, or by another client.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) if error.concerns_name() => {
                        kept.get_or_insert(error);
                    }
                    done => done?,
                }
            }
            match kept {
                Some(error) => Err(error),
                None => self.remove_if_empty(entry).await,
            }
        })
    }

    /// Removes an empty directory, or a link to one.
    pub(super) async fn remove_if_empty(&self, entry: &DirEntry) -> Result<()> {
        if self.remove_unless_filled(entry).await? {
            return Ok(());
        }
        let what = format!("cannot remove {}: it is not empty", self.at(&entry.path));
        Err(Error::new(ErrorKind::Invalid, what))
    }

    /// Removes a name that is listed as a directory, unless it has contents. Returns false then.
    async fn remove_unless_filled(&self, entry: &DirEntry) -> Result<bool> {
        match self.remove_as_directory(entry).await? {
            DirectoryRemoval::Removed => Ok(true),
            DirectoryRemoval::NotEmpty => Ok(false),
            DirectoryRemoval::Link => {
                let removed = self.remove_file(entry).await;
                let removed = removed.map_err(|error| match error.kind() {
                    ErrorKind::Invalid => Error::new(
                        ErrorKind::Unsupported,
                        format!(
                            "{} is a link, which the server does not remove: {error}",
                            self.at(&entry.path)
                        ),
                    ),
                    _ => error,
                });
                removed.map(|()| true)
            }
        }
    }

    /// Removes an empty directory.
    pub(super) async fn remove_as_directory(&self, entry: &DirEntry) -> Result<DirectoryRemoval> {
        lock(&self.directories).clear();
        match self.remove_by(entry, Request::RemoveDirectory).await {
            Ok(()) => Ok(DirectoryRemoval::Removed),
            // EOS has no directory of the name of a link.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(DirectoryRemoval::Link),
            Err(error) => refusal(&error).ok_or(error),
        }
    }

    /// Removes a file, or a link to anything.
    pub(super) async fn remove_file(&self, entry: &DirEntry) -> Result<()> {
        self.remove_by(entry, Request::Remove).await
    }

    /// Removes a name by this request.
    async fn remove_by(&self, entry: &DirEntry, request: fn(String) -> Request) -> Result<()> {
        let look = || async {
            let now = self.look(&entry.path).await?;
            Ok(Seen::removed(entry, now.as_ref()))
        };
        self.change(|| self.ask(&entry.path, Action::Modify, request), look).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xrootd::errors;

    #[test]
    fn the_reason_of_a_refusal_is_that_of_the_server_and_not_the_name_of_a_directory() {
        let filled = Some(DirectoryRemoval::NotEmpty);
        let link = Some(DirectoryRemoval::Link);
        for (code, reason, expected) in [
            // xrootd 5, and 6.
            (3005, "Unable to remove /d; directory not empty\0", filled),
            (3018, "Unable to remove /d; directory not empty\0", filled),
            (3005, "Unable to remove /d; not a directory\0", link),
            // EOS.
            (3018, "Unable to rmdir - Directory not empty /d; Directory not empty", filled),
            (3005, "Unable to rmdir /d; Not a directory", link),
            // dCache.
            (3005, "Failed to delete directory (Directory is not empty: /d [10006]).", filled),
            // Other reasons, of directories with such names.
            (3005, "Unable to remove /d; device or resource busy", None),
            (3005, "Unable to remove /a; directory not empty; device or resource busy", None),
            (3005, "Unable to remove /a; directory not empty\"; input/output error", None),
            (3005, "Unable to remove /a; directory not empty; not a directory", link),
            (
                3005,
                "Failed to delete directory (no: \"Failed to delete directory (Directory is not empty: /d)",
                None,
            ),
            (3010, "directory not empty", None),
            (3005, "", None),
        ] {
            let error = errors::refused("root://h", ErrorCode(code), reason);
            assert_eq!(refusal(&error), expected, "{error}");
            let converted = error.of_request(hither_core::error::Effect::Change, "request");
            assert_eq!(refusal(&converted), expected, "{converted}");
        }
        let path = "/a the server responded with x: \"failed; directory not empty\"";
        let error = Error::new(ErrorKind::Unavailable, format!("{path}: the connection was lost"));
        assert_eq!(refusal(&error), None, "{error}");
    }
}
