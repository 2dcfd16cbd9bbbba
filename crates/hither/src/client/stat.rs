//! What is known of a name.

use crate::client::Client;
use crate::client::storage_path::StoragePath;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, FileKind};

/// A name that was looked at.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UrlStat {
    /// The name in its storage.
    pub named: StoragePath,
    /// What is known of it.
    pub entry: DirEntry,
    /// Why places of the file are not used any more.
    pub notices: Vec<String>,
}

impl Client {
    /// Asks about the name, and where that is not understood or not allowed, about the file: by a read, which needs
    /// nothing but a file, and goes to replicas.
    ///
    /// # Errors
    ///
    /// As [`Client::storage`]; the refusals of a server; [`ErrorKind::Unavailable`], [`ErrorKind::Timeout`].
    pub async fn stat(&self, url: &str) -> Result<UrlStat> {
        let named = self.storage_path(url)?;
        let error = match named.storage.stat(&named.path).await {
            Ok(entry) => return Ok(UrlStat { named, entry, notices: Vec::new() }),
            Err(error) => error,
        };
        if named.is_local() || !asks_again(&error) {
            return Err(error);
        }
        let file = self.file(url)?;
        match file.stat_async().await {
            Ok(stat) => {
                let (path, kind) = (named.path.clone(), FileKind::File);
                let (size, validator) = (stat.size, stat.validator);
                let entry = DirEntry { path, kind, size, modified: None, validator };
                Ok(UrlStat { named, entry, notices: file.replicas().1 })
            }
            // The answer to a read has a body, which may say more than the status of a HEAD.
            Err(explained) if says_more(&error, &explained) => Err(explained),
            Err(_) => Err(error),
        }
    }
}

fn says_more(status: &Error, explained: &Error) -> bool {
    status.kind() == ErrorKind::Protocol
        || matches!(explained.kind(), ErrorKind::Unauthenticated | ErrorKind::PermissionDenied)
}

fn asks_again(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Timeout)
}
