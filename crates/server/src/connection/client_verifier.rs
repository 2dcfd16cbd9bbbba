//! Verifies certificates of clients, with proxy certificates before them as grids use: rustls
//! verifies the user's certificate and its chain to an authority, with most revocation lists;
//! [`RevocationLists`] has the others, [`hither_auth::end_entity_index`] verifies the proxies, and
//! [`SigningPolicies`] the names that authorities may sign.
//!
//! The handshake is signed with the key of the first proxy. rustls parses the certificate to check
//! that signature, and rejects the extension that marks a proxy. So the check uses the bare key,
//! which rustls supports only for TLS 1.3.

use hither_auth::{
    RevocationError, RevocationLists, RevocationStatus, SigningPolicies, end_entity_index,
    public_key_of, subject_of,
};
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
    /// Verifies chains whose authorities all have lists that it does not read.
    pub(crate) listed: Arc<dyn ClientCertVerifier>,
    /// Verifies other chains; none if these have no list although lists are required.
    pub(crate) others: Option<Arc<dyn ClientCertVerifier>>,
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) lists: RevocationLists,
    pub(crate) policies: SigningPolicies,
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.listed.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.listed.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.listed.root_hint_subjects()
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
        let chain_of_user = chain.get(at..).unwrap_or_default();
        let status = self.lists.check(chain_of_user, seconds);
        let verified = match status {
            Ok(RevocationStatus::Valid) => self.listed.verify_client_cert(end_entity, rest, now),
            Ok(RevocationStatus::Unknown) => match &self.others {
                Some(verifier) => verifier.verify_client_cert(end_entity, rest, now),
                None => Err(CertificateError::UnknownRevocationStatus.into()),
            },
            Err(RevocationError::Revoked) => Err(CertificateError::Revoked.into()),
            Err(error) => Err(other(error)),
        };
        let verified = verified.inspect_err(|error| refused(error))?;
        let allowed = self.policies.check(chain_of_user);
        allowed.inspect_err(|error| refused(error)).map_err(other)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.listed.verify_tls12_signature(message, certificate, signature)
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
        self.listed.supported_verify_schemes()
    }
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    CertificateError::Other(OtherError(Arc::new(error))).into()
}
