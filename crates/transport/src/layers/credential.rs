//! The user's credential in a request, and what happens if the server rejects it.
//!
//! It is read before the request is sent ([`authorization`] chooses the one for a server). After a
//! rejection it is read again, because a token may have been renewed or revoked meanwhile. If the
//! credential is a new one, the request is sent again: once, because the new one may be rejected as
//! well. A rejected request delivers no bytes, so none are lost or delivered twice.

use crate::authorization;
use crate::config::TransportConfig;
use crate::location::Location;
use hither_auth::Authorization;
use hither_core::error::Result;

/// The credential of one request.
#[derive(Debug, Default)]
pub(crate) struct RequestCredential {
    /// The one that was read last.
    used: Option<Authorization>,
    is_renewed: bool,
}

impl RequestCredential {
    /// Reads the credential for `location`, to which the request is sent next.
    ///
    /// # Errors
    ///
    /// As [`authorization::prepared`].
    pub(crate) async fn prepare(
        &mut self,
        location: &Location,
        config: &TransportConfig,
    ) -> Result<()> {
        self.used = Some(authorization::prepared(location, config).await?);
        Ok(())
    }

    /// Reads the credential again after the server of `location` has rejected it, once. Returns
    /// true if it is another one, so that the request can be sent again.
    pub(crate) async fn renew(&mut self, location: &Location, config: &TransportConfig) -> bool {
        if let (Some(used), false) = (&self.used, self.is_renewed) {
            self.is_renewed = authorization::renewed(location, config, used).await;
            return self.is_renewed;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_auth::{CredentialConfig, Credentials, TokenSource};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;

    fn write(path: &Path, token: &str) {
        std::fs::write(path, token).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[tokio::test]
    async fn a_rejected_credential_is_read_again_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        write(&path, "one");
        let mut of_file = CredentialConfig::default();
        of_file.token = Some(TokenSource::File(path.clone()));
        of_file.uid = std::fs::metadata(&path).unwrap().uid();
        let credentials = Credentials::new(of_file);
        let config = TransportConfig { credentials, ..TransportConfig::default() };
        let location = Location::parse("http://127.0.0.1/f").unwrap();
        let mut credential = RequestCredential::default();
        credential.prepare(&location, &config).await.unwrap();
        assert!(!credential.renew(&location, &config).await, "the file has the same token");
        write(&path, "two");
        assert!(credential.renew(&location, &config).await);
        write(&path, "three");
        assert!(!credential.renew(&location, &config).await, "once for each request");
        let mut next = RequestCredential::default();
        next.prepare(&location, &config).await.unwrap();
        assert!(next.renew(&location, &config).await);
    }

    #[tokio::test]
    async fn a_request_without_credential_is_not_sent_again() {
        let location = Location::parse("http://127.0.0.1/f").unwrap();
        let config = TransportConfig::default();
        let mut credential = RequestCredential::default();
        credential.prepare(&location, &config).await.unwrap();
        assert!(!credential.renew(&location, &config).await);
    }
}
