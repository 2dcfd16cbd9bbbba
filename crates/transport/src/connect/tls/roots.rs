//! The trusted certificate authorities.

use crate::config::TlsConfig;
use hither_core::error::{Error, ErrorKind, Result};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

/// The certificates that are trusted.
#[derive(Debug)]
pub(crate) struct TrustedRoots {
    /// The certificates that can sign others.
    pub(crate) authorities: RootCertStore,
    /// All certificates: a server may present one of them itself.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

/// The authorities of the configuration.
///
/// # Errors
///
/// [`ErrorKind::Local`] if there are none.
pub(crate) fn load(config: &TlsConfig) -> Result<TrustedRoots> {
    // An unusable certificate of the system is not the user's fault, nor is a system without any.
    let system = config.system_roots.then(rustls_native_certs::load_native_certs);
    let mut complaints = Vec::new();
    let mut certificates = config.roots.clone();
    if let Some(found) = system {
        certificates.extend(found.certs);
        complaints.extend(found.errors.iter().map(ToString::to_string));
    }
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(certificates.iter().cloned());
    if authorities.is_empty() {
        let system = complaints.first().map(|error| format!(" (the system's: {error})"));
        return Err(Error::new(
            ErrorKind::Local,
            format!(
                "no certificate authority is trusted{}: install the system's (package ca-certificates), or name \
                 some",
                system.unwrap_or_default()
            ),
        ));
    }
    Ok(TrustedRoots { authorities, certificates })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_trust_store_is_an_error_with_a_remedy() {
        let config = TlsConfig { system_roots: false, ..TlsConfig::default() };
        let error = load(&config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Local);
        assert!(error.to_string().contains("ca-certificates"), "{error}");
    }

    #[test]
    fn invalid_certificates_are_skipped() {
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let good = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let roots = vec![b"nonsense".to_vec().into(), good.der().clone()];
        let config = TlsConfig { system_roots: false, roots, ..TlsConfig::default() };
        assert_eq!(load(&config).unwrap().authorities.len(), 1);
    }
}
