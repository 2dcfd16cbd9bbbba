//! Metadata of files and directories.

use crate::client::Client;
use crate::client::storage_path::StoragePath;
use crate::url_path::refuse_directory;
use hither_auth::AuthError;
use hither_core::error::{Error, ErrorKind, Failure, Result};
use hither_core::storage::{DirEntry, FileKind};
use hither_transport::Location;
use std::time::Duration;

/// The time limit of a read that may give a better error than a response with `Retry-After`. A
/// request for a size waits neither for a tape nor for a federation's endpoint that is down.
const BUSY_SERVER: Duration = Duration::from_secs(5);

/// The metadata of a file or directory.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UrlStat {
    /// The path in its storage.
    pub named: StoragePath,
    /// Kind, size, date and version.
    pub entry: DirEntry,
    /// The reasons why replicas of the file are no longer used.
    pub notices: Vec<String>,
}

impl Client {
    /// Requests metadata. Where the server does not support or allow that, sends a read, which
    /// works for every readable file and uses replicas.
    ///
    /// # Errors
    ///
    /// As [`Client::storage`]; the errors of the server; [`ErrorKind::Unavailable`],
    /// [`ErrorKind::Timeout`].
    pub async fn stat(&self, url: &str) -> Result<UrlStat> {
        let named = self.storage_path(url)?;
        let error = match named.storage.stat(&named.path).await {
            Ok(entry) => return Ok(UrlStat { named, entry, notices: Vec::new() }),
            Err(error) => error,
        };
        if named.is_local() || !read_may_work(&error) {
            return Err(error);
        }
        let file = self.file(url)?;
        let read = file.reported_version();
        let is_busy = error.retry().may_succeed() || error.failure() == Failure::OneServer;
        let read = if is_busy {
            let Ok(read) = tokio::time::timeout(BUSY_SERVER, read).await else {
                return Err(error);
            };
            read
        } else {
            read.await
        };
        match read {
            Ok((size, validator)) => {
                let entry = DirEntry {
                    path: named.path.clone(),
                    kind: FileKind::File,
                    size,
                    modified: None,
                    validator,
                };
                Ok(UrlStat { named, entry, notices: file.replicas().1 })
            }
            // The response to a read has a body, which may explain more than the status of a HEAD.
            Err(explained) if explains_more(&error, &explained) => Err(explained),
            Err(_) => Err(error),
        }
    }
}

impl Client {
    /// The reason why `url` cannot be read: that it is a directory, if it is one, else `error`.
    pub async fn explain_read(&self, url: &str, error: Error) -> Error {
        if !error.may_be_directory() {
            return error;
        }
        self.check_no_directory(url).await.err().unwrap_or(error)
    }

    /// Fails if `url` is known to be a directory. For reads of files without a validator: servers
    /// send pages about their directories, which GET does not distinguish from files.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for a directory.
    pub async fn check_no_directory(&self, url: &str) -> Result<()> {
        let Ok(named) = self.storage_path(url) else { return Ok(()) };
        // A server that is down tells nothing, and its file comes from another replica.
        let is_down = |it: Location| self.context.health.is_down(&it.origin());
        if Location::parse(url).is_ok_and(is_down) {
            return Ok(());
        }
        match named.storage.stat(&named.path).await {
            Ok(entry) => refuse_directory(entry.kind, named.display_url(&named.path)),
            Err(_) => Ok(()),
        }
    }
}

fn explains_more(status: &Error, explained: &Error) -> bool {
    status.kind() == ErrorKind::Protocol
        || matches!(explained.kind(), ErrorKind::Unauthenticated | ErrorKind::PermissionDenied)
}

fn read_may_work(error: &Error) -> bool {
    let credential = std::error::Error::source(error);
    // A credential that cannot be used here: a command for it would run again.
    !credential.is_some_and(|it| it.is::<AuthError>())
        && !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Timeout)
}
