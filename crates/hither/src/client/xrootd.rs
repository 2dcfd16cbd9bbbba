//! Requests that only XRootD servers understand: locate, chmod, extended attributes.

use crate::client::Client;
use crate::client::storage_path::{StoragePath, StorageRoot};
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::{ExtendedAttribute, Protocol, ReplicaServer, XrootdPath};
use std::sync::Arc;

impl Client {
    /// The path on an XRootD server. `operation` names the operation in the error for other
    /// servers.
    fn on_xrootd(&self, named: &StoragePath, operation: &str) -> Result<XrootdPath> {
        match &named.root {
            StorageRoot::Server(root) if root.protocol() == Protocol::Xrootd => {
                let network = Arc::clone(&self.context.network);
                Ok(XrootdPath::new(root.below(&named.path, false), network))
            }
            _ => {
                let name = named.display_url(&named.path);
                let what = format!("{name}: only root:// and roots:// servers support {operation}");
                Err(Error::new(ErrorKind::Unsupported, what))
            }
        }
    }

    /// The servers of a cluster that have a file.
    ///
    /// # Errors
    ///
    /// As [`Client::storage`]; [`ErrorKind::Unsupported`] for other servers than those of
    /// `root://`; [`ErrorKind::NotFound`] if no server has it.
    pub async fn locate(&self, url: &str) -> Result<Vec<ReplicaServer>> {
        let named = self.storage_path(url)?;
        self.on_xrootd(&named, "locate")?.locate().await
    }

    /// Sets the permissions of a file or directory on an XRootD server: nine bits, as in `0o640`.
    ///
    /// # Errors
    ///
    /// As [`Client::locate`]; [`ErrorKind::Invalid`] for more than nine bits.
    pub async fn chmod(&self, url: &str, mode: u16) -> Result<()> {
        if mode > 0o777 {
            let what = format!("{mode:o} is not a mode: expected three octal digits, as in 640");
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let named = self.storage_path(url)?;
        self.on_xrootd(&named, "chmod")?.change_mode(mode).await
    }

    /// The extended attributes of a file on an XRootD server.
    ///
    /// # Errors
    ///
    /// As [`Client::locate`].
    pub async fn attributes(&self, url: &str) -> Result<Vec<ExtendedAttribute>> {
        let named = self.storage_path(url)?;
        self.on_xrootd(&named, "extended attributes")?.attributes().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientConfig;

    #[test]
    fn only_xrootd_servers_are_asked() {
        let client = Client::new(ClientConfig::default()).unwrap();
        for url in ["http://h/f", "/f"] {
            let error = client.block_on(client.locate(url)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let error = client.block_on(client.chmod(url, 0o640)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
        let error = client.block_on(client.chmod("root://h//f", 0o1640)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}
