//! The server's TLS certificate, loaded again when its files change.

use crate::connection::client_authorities::ClientAuthorities;
use crate::settings::TlsFiles;
use hither_auth::DistinguishedName;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use rustix::process::geteuid;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ServerConfig, ServerConnection};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

/// The interval at which the files are checked.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The current certificate, replaced when its files change.
#[derive(Debug)]
pub(crate) struct CertificateReloader(Mutex<Current>);

#[derive(Debug, Clone)]
pub(crate) struct Current {
    files: TlsFiles,
    /// The certificate authorities for clients; without them, clients need no certificate.
    authorities: Option<ClientAuthorities>,
    config: Arc<ServerConfig>,
    /// The second since 1970 after which the first certificate of the chain is invalid.
    not_after: Option<i64>,
    /// Files of the authorities that are not used, and why.
    pub(crate) problems: Vec<String>,
    changed: Changed,
}

/// The files, with their modification times.
type Changed = Vec<(PathBuf, Option<SystemTime>)>;

impl Current {
    /// # Errors
    /// A file cannot be read, holds no certificate or key, or the two do not belong together.
    pub(crate) fn load(files: TlsFiles, authorities: Option<ClientAuthorities>) -> Result<Self> {
        let changed = changed(&files, authorities.as_ref());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (clients, problems) = match &authorities {
            Some(authorities) => authorities.verifier(&provider)?,
            None => (WebPkiClientVerifier::no_client_auth(), Vec::new()),
        };
        for problem in &problems {
            warn!("{problem}");
        }
        let (config, not_after) = load(&files, provider, clients)?;
        Ok(Self { files, authorities, config, not_after, problems, changed })
    }
}

impl CertificateReloader {
    pub(crate) fn new(current: Current) -> Self {
        Self(Mutex::new(current))
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        lock(&self.0)
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current().config)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config())
    }

    /// The second since 1970 after which the first certificate of the chain is invalid, if known.
    pub(crate) fn not_after(&self) -> Option<i64> {
        self.current().not_after
    }

    /// Replaces the certificate for new connections.
    pub(crate) fn change(&self, next: Current) {
        *self.current() = next;
    }

    /// Loads files that have changed. Invalid ones, such as files that are just being replaced, are
    /// ignored until the next check.
    pub(crate) fn refresh(&self) {
        let before = self.current().clone();
        if before.changed == changed(&before.files, before.authorities.as_ref()) {
            return;
        }
        match Current::load(before.files, before.authorities) {
            Ok(next) => {
                info!("certificates reloaded");
                self.change(next);
            }
            Err(error) => warn!(%error, "the changed certificates cannot be used"),
        }
    }
}

fn changed(files: &TlsFiles, authorities: Option<&ClientAuthorities>) -> Changed {
    let own = [files.certificate.clone(), files.key.clone()];
    let paths =
        own.into_iter().chain(authorities.map(ClientAuthorities::files).unwrap_or_default());
    let changed = |path: PathBuf| {
        let modified = std::fs::metadata(&path).and_then(|meta| meta.modified()).ok();
        (path, modified)
    };
    paths.map(changed).collect()
}

/// The distinguished name of the client, verified by the handshake; for a proxy, that of its user.
pub(crate) fn subject(connection: &ServerConnection) -> Option<Arc<DistinguishedName>> {
    hither_auth::subject_of(connection.peer_certificates()?).map(Arc::from)
}

/// Loads the files, and returns the TLS configuration with the second after which it is invalid.
fn load(
    files: &TlsFiles,
    provider: Arc<CryptoProvider>,
    clients: Arc<dyn ClientCertVerifier>,
) -> Result<(Arc<ServerConfig>, Option<i64>)> {
    let cannot = |what: &str, path: &Path, error: &dyn std::fmt::Display| {
        let what = format!("cannot read the {what} in {}: {error}", path.display());
        Error::new(ErrorKind::Invalid, what)
    };
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| cannot("certificate", &files.certificate, &error))?;
    let not_after = certificates.iter().filter_map(hither_auth::not_after_of).min();
    let key = hither_auth::server_key(&files.key, geteuid().as_raw())
        .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()).with_source(error))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder.with_client_cert_verifier(clients).with_single_cert(certificates, key)
        })
        .map_err(|error| cannot("certificate", &files.certificate, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((Arc::new(config), not_after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn write(folder: &Path) -> TlsFiles {
        let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = TlsFiles { certificate: folder.join("cert"), key: folder.join("key") };
        std::fs::write(&files.certificate, generated.cert.pem()).unwrap();
        std::fs::write(&files.key, generated.signing_key.serialize_pem()).unwrap();
        std::fs::set_permissions(&files.key, Permissions::from_mode(0o600)).unwrap();
        files
    }

    #[test]
    fn a_new_certificate_is_loaded_and_an_invalid_one_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let files = write(folder.path());
        let tls = CertificateReloader::new(Current::load(files.clone(), None).unwrap());
        assert!(tls.not_after().unwrap() > 1_700_000_000);
        let first = tls.config();
        tls.refresh();
        assert!(Arc::ptr_eq(&first, &tls.config()), "nothing has changed");
        std::fs::write(&files.certificate, "half of").unwrap();
        tls.refresh();
        assert!(Arc::ptr_eq(&first, &tls.config()), "the new file is invalid");
        write(folder.path());
        tls.refresh();
        assert!(!Arc::ptr_eq(&first, &tls.config()));
    }

    #[test]
    fn a_certificate_with_another_key_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let files = write(folder.path());
        let key = write(other.path()).key;
        assert!(Current::load(TlsFiles { key, ..files }, None).is_err());
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let files = write(folder.path());
        for mode in [0o640, 0o604] {
            std::fs::set_permissions(&files.key, Permissions::from_mode(mode)).unwrap();
            let error = Current::load(files.clone(), None).unwrap_err().to_string();
            assert!(
                error.contains("accessible to other users") && error.contains("chmod 600"),
                "{error}"
            );
        }
        std::fs::set_permissions(&files.key, Permissions::from_mode(0o600)).unwrap();
        assert!(Current::load(files, None).is_ok());
    }
}
