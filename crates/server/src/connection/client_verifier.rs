//! Verifies certificates of clients, with proxy certificates before them as grids use: rustls
//! verifies the user's certificate and its chain to an authority, with revocation lists;
//! [`hither_auth::end_entity_index`] verifies the proxies, and [`SigningPolicies`] the names that
//! authorities may sign.
//!
//! The handshake is signed with the key of the first proxy. rustls parses the certificate to check
//! that signature, and rejects the extension that marks a proxy. So the check uses the bare key,
//! which rustls supports only for TLS 1.3.

use hither_auth::{SigningPolicies, end_entity_index, public_key_of, subject_of};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use std::fmt::Display;
use std::sync::Arc;
use tracing::debug;

/// Verifier of client certificates and proxies.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    webpki: Arc<dyn ClientCertVerifier>,
    provider: Arc<CryptoProvider>,
    policies: SigningPolicies,
}

impl ClientVerifier {
    pub(crate) fn new(
        webpki: Arc<dyn ClientCertVerifier>,
        provider: Arc<CryptoProvider>,
        policies: SigningPolicies,
    ) -> Self {
        Self { webpki, provider, policies }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.webpki.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.webpki.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let chain: Vec<_> = std::iter::once(end_entity).chain(intermediates).cloned().collect();
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let rejected = Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);
        let at = end_entity_index(&chain, seconds).map_err(|_| rejected.clone())?;
        let (end_entity, rest) = chain.get(at..).and_then(<[_]>::split_first).ok_or(rejected)?;
        let refused = |reason: &dyn Display| {
            let subject = subject_of(&chain).map(|subject| subject.to_string());
            debug!(subject, %reason, "client certificate refused");
        };
        let verified = self.webpki.verify_client_cert(end_entity, rest, now);
        let verified = verified.inspect_err(|error| refused(error))?;
        let allowed = self.policies.check(chain.get(at..).unwrap_or_default());
        allowed.inspect_err(|error| refused(error)).map_err(|error| {
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
        })?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = public_key_of(certificate)
            .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let algorithms = &self.provider.signature_verification_algorithms;
        let key = SubjectPublicKeyInfoDer::from(key);
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}
