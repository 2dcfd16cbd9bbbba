//! Verification of server certificates, with errors that name what the certificates contain.
//!
//! A server may also present a trusted certificate itself, although it is that of an authority or
//! its issuer is unknown, because the user has named exactly this certificate. Its names and dates
//! are still checked.

use crate::connect::tls::roots::TrustedRoots;
use crate::connect::tls::{Provider, TlsConfig, roots};
use hither_core::error::{Error, ErrorKind, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};
use std::fmt;
use std::sync::Arc;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The maximum number of names of a certificate in a message.
const MAX_NAMES: usize = 5;
/// The maximum length of a name in a message, in characters.
const MAX_NAME: usize = 200;

/// The verifier for the configuration.
///
/// # Errors
///
/// [`ErrorKind::Local`] if no authority is trusted.
pub(crate) fn verifier(
    config: &TlsConfig,
    provider: &Provider,
) -> Result<Arc<dyn ServerCertVerifier>> {
    let provider = Arc::clone(provider);
    if config.insecure {
        return Ok(Arc::new(Verifier { strict: None, trusted: Vec::new(), provider }));
    }
    let TrustedRoots { authorities, certificates: trusted } = roots::load(config)?;
    let authorities = Arc::new(authorities);
    let strict =
        WebPkiServerVerifier::builder_with_provider(authorities, Arc::clone(&provider)).build();
    let strict = strict.map_err(|error| {
        Error::new(ErrorKind::Local, "cannot set up certificate verification").with_source(error)
    })?;
    Ok(Arc::new(Verifier { strict: Some(strict), trusted, provider }))
}

/// A reason why a certificate is rejected, where that of rustls is too short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CertificateRejection {
    /// Its issuer is not trusted.
    UnknownIssuer {
        /// The issuer.
        issuer: String,
    },
    /// The certificate is self-signed.
    SelfSigned {
        /// The subject.
        subject: String,
    },
    /// The certificate is for other host names.
    OtherNames {
        /// The host names.
        names: Vec<String>,
    },
}

impl fmt::Display for CertificateRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownIssuer { issuer } => write!(f, "signed by {issuer}"),
            Self::SelfSigned { subject } => write!(f, "signed by itself, {subject}"),
            Self::OtherNames { names } => write!(f, "for {}", names.join(", ")),
        }
    }
}

impl std::error::Error for CertificateRejection {}

/// Checks the signatures of a server, and its certificate unless every certificate is accepted.
#[derive(Debug)]
struct Verifier {
    /// The check of certificates; none if every certificate is accepted.
    strict: Option<Arc<WebPkiServerVerifier>>,
    /// The trusted certificates. One of them is accepted from a server itself, too.
    trusted: Vec<CertificateDer<'static>>,
    provider: Provider,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(strict) = &self.strict else { return Ok(ServerCertVerified::assertion()) };
        let checked =
            strict.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let Err(rustls::Error::InvalidCertificate(reason)) = &checked else { return checked };
        let is_rejected_authority =
            matches!(reason, CertificateError::Other(_)) && is_authority(end_entity);
        // Both errors come after those about the dates of the certificate.
        let lacks_issuer =
            matches!(reason, CertificateError::UnknownIssuer) || is_rejected_authority;
        if lacks_issuer && self.trusted.contains(end_entity) {
            return ParsedCertificate::try_from(end_entity)
                .and_then(|certificate| verify_server_name(&certificate, server_name))
                .map(|()| ServerCertVerified::assertion())
                .map_err(|error| explained(error, end_entity, intermediates));
        }
        checked.map_err(|error| explained(error, end_entity, intermediates))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Adds what the certificates contain to an error about them.
fn explained(
    error: rustls::Error,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
) -> rustls::Error {
    let rustls::Error::InvalidCertificate(reason) = &error else { return error };
    let rejection = match reason {
        CertificateError::UnknownIssuer => signer(intermediates.last().unwrap_or(end_entity)),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Some(names(end_entity))
        }
        CertificateError::Other(_) if is_authority(end_entity) => signer(end_entity)
            .filter(|signer| matches!(signer, CertificateRejection::SelfSigned { .. })),
        _ => None,
    };
    match rejection {
        Some(rejection) => {
            let other = CertificateError::Other(OtherError(Arc::new(rejection)));
            rustls::Error::InvalidCertificate(other)
        }
        None => error,
    }
}

/// Returns true if a certificate says that it is an authority, as the usual self-signed ones do.
fn is_authority(certificate: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(certificate).is_ok_and(|(_, certificate)| certificate.is_ca())
}

/// The issuer of the last certificate of a chain.
fn signer(last: &CertificateDer<'_>) -> Option<CertificateRejection> {
    let (_, certificate) = X509Certificate::from_der(last).ok()?;
    let issuer = shortened(&certificate.issuer().to_string());
    if certificate.issuer() == certificate.subject() {
        return Some(CertificateRejection::SelfSigned { subject: issuer });
    }
    Some(CertificateRejection::UnknownIssuer { issuer })
}

/// The host names of a certificate.
fn names(end_entity: &CertificateDer<'_>) -> CertificateRejection {
    let certificate =
        X509Certificate::from_der(end_entity).ok().map(|(_, certificate)| certificate);
    let alternatives = certificate
        .as_ref()
        .and_then(|certificate| certificate.subject_alternative_name().ok().flatten());
    let names = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(shortened(name)),
        GeneralName::IPAddress(bytes) => address(bytes),
        _ => None,
    });
    CertificateRejection::OtherNames { names: names.take(MAX_NAMES).collect() }
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|octets| std::net::IpAddr::from(octets).to_string());
    let v6 = <[u8; 16]>::try_from(bytes).map(|octets| std::net::IpAddr::from(octets).to_string());
    v4.or(v6).ok()
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_NAME).collect()
}
