//! Checksums of files: those that servers state, else computed from the bytes.

use crate::client::Client;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::error::Result;

/// The checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UrlChecksum {
    /// The checksum.
    pub value: Checksum,
    /// The URL without secrets, or the local path.
    pub name: String,
    /// True if the server stated it; otherwise it was computed from the bytes.
    pub is_from_server: bool,
}

impl Client {
    /// The checksum of a file: the server's if it states one of this kind, else computed, which
    /// reads the file with up to 64 MiB in flight.
    ///
    /// # Errors
    ///
    /// As [`Client::storage`] and [`RemoteFile::stream`](crate::RemoteFile::stream).
    pub async fn checksum(&self, url: &str, algorithm: Algorithm) -> Result<UrlChecksum> {
        let named = self.storage_path(url)?;
        let name = named.display_url(&named.path);
        if let Some(value) = named.storage.checksum(&named.path, algorithm).await? {
            return Ok(UrlChecksum { value, name, is_from_server: !named.is_local() });
        }
        let file = self.file(url)?;
        let size = file.stat_async().await?.size;
        let mut hasher = Hasher::new(algorithm);
        file.stream_async(0..size, |bytes| {
            hasher.update(bytes);
            Ok(())
        })
        .await?;
        Ok(UrlChecksum { value: hasher.finish(), name, is_from_server: false })
    }
}
