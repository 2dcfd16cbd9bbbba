//! Certificates of clients, with proxies before them as grids have it: rustls verifies the person's certificate and what leads
//! from it to an authority, [`hither_auth::person_behind`] the proxies.
//!
//! The handshake is signed with the key of the first proxy. rustls' own check of that parses the certificate, and refuses the
//! extension that marks a proxy; so for a proxy its bare key is taken, which rustls does for TLS 1.3 alone.

use hither_auth::{end_entity_index, public_key_of};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use std::sync::Arc;

/// See the module above.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    usual: Arc<dyn ClientCertVerifier>,
    provider: Arc<CryptoProvider>,
}

impl ClientVerifier {
    pub(crate) fn new(usual: Arc<dyn ClientCertVerifier>, provider: Arc<CryptoProvider>) -> Self {
        Self { usual, provider }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.usual.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.usual.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.usual.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let chain: Vec<_> = std::iter::once(end_entity).chain(intermediates).cloned().collect();
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let refused = Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);
        let at = end_entity_index(&chain, seconds).map_err(|_| refused.clone())?;
        let (person, rest) = chain.get(at..).and_then(<[_]>::split_first).ok_or(refused)?;
        self.usual.verify_client_cert(person, rest, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
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
        self.usual.supported_verify_schemes()
    }
}
