//! The certificate authorities that are trusted.

use crate::tls::TlsConfig;
use hither_core::error::{Error, ErrorKind, Result};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::collections::HashSet;
use std::path::Path;

/// A file of certificates larger than this is none: a whole system's are 250 KB.
const LARGEST_FILE_BYTES: u64 = 8 << 20;

/// All that the configuration says.
///
/// # Errors
///
/// [`ErrorKind::Local`] if a folder cannot be read or there is nobody to trust.
pub(crate) fn load(config: &TlsConfig) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // What the system has of no use is no fault of the user, nor is a system without.
    let system = config.system_roots.then(rustls_native_certs::load_native_certs);
    let mut complaints = Vec::new();
    if let Some(found) = system {
        roots.add_parsable_certificates(found.certs);
        complaints.extend(found.errors.iter().map(ToString::to_string));
    }
    roots.add_parsable_certificates(config.roots.iter().cloned());
    if let Some(folder) = &config.ca_dir {
        roots.add_parsable_certificates(from_folder(folder)?);
    }
    if roots.is_empty() {
        let system = complaints.first().map(|said| format!(" (the system's: {said})"));
        return Err(Error::new(
            ErrorKind::Local,
            format!(
                "no certificate authority is trusted{}: install the system's (package ca-certificates), or name \
                 some (ca_file or ca_dir)",
                system.unwrap_or_default()
            ),
        ));
    }
    Ok(roots)
}

/// The certificates in a folder, each once: grids have every one under several names.
fn from_folder(folder: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let local = |error: std::io::Error| {
        let what = format!("cannot read the folder of certificates {}", folder.display());
        Error::new(ErrorKind::Local, what).with_source(error)
    };
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(local)? {
        let path = entry.map_err(local)?.path();
        if !is_certificate(&path) {
            continue;
        }
        let readable = std::fs::metadata(&path)
            .is_ok_and(|file| file.is_file() && file.len() <= LARGEST_FILE_BYTES);
        let text = if readable { std::fs::read(&path).unwrap_or_default() } else { Vec::new() };
        let certificates = CertificateDer::pem_slice_iter(&text).filter_map(|found| found.ok());
        found.extend(certificates.filter(|one| seen.insert(one.to_vec())));
    }
    Ok(found)
}

fn is_certificate(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        matches!(extension, "pem" | "crt")
            || matches!(extension.as_bytes(), [digit] if digit.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(name: &str) -> rcgen::Certificate {
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap()
    }

    #[test]
    fn a_folder_gives_every_certificate_once_and_passes_over_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (authority("one").pem(), authority("two").pem());
        for (name, text) in [
            ("one.pem", one.as_str()),
            ("0a1b2c3d.0", one.as_str()),
            ("two.1", two.as_str()),
            ("one.signing_policy", two.as_str()),
            ("one.r0", "not a certificate"),
            ("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            ("empty.crt", ""),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        std::fs::create_dir(folder.path().join("folder.pem")).unwrap();
        let mut config = TlsConfig { system_roots: false, ..TlsConfig::default() };
        config.ca_dir = Some(folder.path().to_owned());
        assert_eq!(load(&config).unwrap().len(), 2);
    }

    #[test]
    fn trusting_nobody_is_an_error_that_says_what_to_do() {
        let config = TlsConfig { system_roots: false, ..TlsConfig::default() };
        let error = load(&config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Local);
        assert!(error.to_string().contains("ca_dir"), "{error}");
        let config = TlsConfig { ca_dir: Some("/does/not/exist".into()), ..config };
        assert!(load(&config).unwrap_err().to_string().contains("/does/not/exist"));
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let mut config = TlsConfig::default();
        assert_eq!(config.trust_file(&path).unwrap_err().kind(), ErrorKind::Local);
        std::fs::write(&path, "hello").unwrap();
        let error = config.trust_file(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("ca.pem"), "{error}");
        std::fs::write(&path, authority("one").pem()).unwrap();
        config.trust_file(&path).unwrap();
        assert_eq!(config.roots.len(), 1);
    }
}
