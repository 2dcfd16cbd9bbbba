//! The server's TLS certificate, loaded again when its files change.

use crate::connection::client_verifier::ClientVerifier;
use crate::settings::TlsFiles;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

/// The time between two looks at the files.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The current certificate, replaced when its files change.
#[derive(Debug)]
pub(crate) struct CertificateReloader(Mutex<Current>);

#[derive(Debug, Clone)]
pub(crate) struct Current {
    files: TlsFiles,
    /// The certificate authorities for clients; without them, clients need no certificate.
    authorities: Option<Arc<RootCertStore>>,
    config: Arc<ServerConfig>,
    /// The second since 1970 after which the first certificate of the chain is invalid.
    not_after: Option<i64>,
    changed: Changed,
}

/// The modification times of certificate and key.
type Changed = (Option<SystemTime>, Option<SystemTime>);

impl Current {
    /// # Errors
    /// A file cannot be read, holds no certificate or key, or the two do not belong together.
    pub(crate) fn load(files: TlsFiles, authorities: Option<RootCertStore>) -> Result<Self> {
        Self::of(files, authorities.map(Arc::new))
    }

    fn of(files: TlsFiles, authorities: Option<Arc<RootCertStore>>) -> Result<Self> {
        let changed = changed(&files);
        let (config, not_after) = load(&files, authorities.as_ref())?;
        Ok(Self { files, authorities, config, not_after, changed })
    }
}

impl CertificateReloader {
    pub(crate) fn new(current: Current) -> Self {
        Self(Mutex::new(current))
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        lock(&self.0)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current().config))
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
    /// ignored until the next look.
    pub(crate) fn refresh(&self) {
        let before = self.current().clone();
        if before.changed == changed(&before.files) {
            return;
        }
        match Current::of(before.files, before.authorities) {
            Ok(next) => {
                info!("certificate reloaded");
                self.change(next);
            }
            Err(error) => warn!(%error, "the changed certificate cannot be used"),
        }
    }
}

fn changed(files: &TlsFiles) -> Changed {
    let time = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
    (time(&files.certificate), time(&files.key))
}

/// The distinguished name of the client, verified by the handshake; for a proxy, that of its user.
pub(crate) fn subject(connection: &ServerConnection) -> Option<Arc<str>> {
    hither_auth::subject_of(connection.peer_certificates()?).map(Arc::from)
}

/// Builds the verifier of client certificates, which are optional.
fn verifier(
    authorities: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>> {
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(authorities), Arc::clone(provider));
    let webpki = builder.allow_unauthenticated().build().map_err(|error| {
        Error::new(ErrorKind::Invalid, format!("auth.authorities cannot be used: {error}"))
    })?;
    Ok(Arc::new(ClientVerifier::new(webpki, Arc::clone(provider))))
}

/// Loads the files, and returns the TLS configuration with the second after which it is invalid.
fn load(
    files: &TlsFiles,
    authorities: Option<&Arc<RootCertStore>>,
) -> Result<(Arc<ServerConfig>, Option<i64>)> {
    let cannot = |what: &str, path: &Path, error: &dyn std::fmt::Display| {
        let what = format!("cannot read the {what} in {}: {error}", path.display());
        Error::new(ErrorKind::Invalid, what)
    };
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| cannot("certificate", &files.certificate, &error))?;
    let not_after = certificates.iter().filter_map(hither_auth::not_after_of).min();
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| cannot("key", &files.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = match authorities {
        Some(authorities) => verifier(authorities, &provider)?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
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

    fn write(folder: &Path) -> TlsFiles {
        let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = TlsFiles { certificate: folder.join("cert"), key: folder.join("key") };
        std::fs::write(&files.certificate, generated.cert.pem()).unwrap();
        std::fs::write(&files.key, generated.signing_key.serialize_pem()).unwrap();
        files
    }

    fn config(tls: &CertificateReloader) -> Arc<ServerConfig> {
        Arc::clone(&tls.current().config)
    }

    #[test]
    fn a_new_certificate_is_loaded_and_an_invalid_one_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let files = write(folder.path());
        let tls = CertificateReloader::new(Current::load(files.clone(), None).unwrap());
        assert!(tls.not_after().unwrap() > 1_700_000_000);
        let first = config(&tls);
        tls.refresh();
        assert!(Arc::ptr_eq(&first, &config(&tls)), "nothing has changed");
        std::fs::write(&files.certificate, "half of").unwrap();
        tls.refresh();
        assert!(Arc::ptr_eq(&first, &config(&tls)), "the new file is invalid");
        write(folder.path());
        tls.refresh();
        assert!(!Arc::ptr_eq(&first, &config(&tls)));
    }

    #[test]
    fn a_certificate_with_another_key_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let files = write(folder.path());
        let key = write(other.path()).key;
        assert!(Current::load(TlsFiles { key, ..files }, None).is_err());
    }
}
