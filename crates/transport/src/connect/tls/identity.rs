//! The client certificate and its key.

use hither_core::error::{Error, ErrorKind, Result};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::sync::Arc;

/// A client certificate with its key.
pub struct Identity {
    pub(super) key: Arc<CertifiedKey>,
}

impl Identity {
    /// A `chain` that begins with the client's own certificate, or proxy certificate (RFC 3820),
    /// each followed by its issuer's. It is sent unchanged.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the chain is empty, the key is of an unknown kind, or not that of
    /// the first certificate.
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self> {
        let invalid = |what: &str| Error::new(ErrorKind::Invalid, what);
        let Some(first) = chain.first() else {
            return Err(invalid("the client certificate chain is empty"));
        };
        let key = rustls::crypto::ring::sign::any_supported_type(&key).map_err(|error| {
            invalid("the key of the client certificate is neither RSA, ECDSA nor Ed25519")
                .with_source(error)
        })?;
        // A certificate contains the public key in the same encoding.
        let matches = key.public_key().is_none_or(|public| {
            !public.is_empty() && first.windows(public.len()).any(|part| part == public.as_ref())
        });
        if !matches {
            return Err(invalid("the key does not belong to the client certificate"));
        }
        Ok(Self { key: Arc::new(CertifiedKey::new(chain, key)) })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({} certificates)", self.key.cert.len())
    }
}
