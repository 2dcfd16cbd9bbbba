//! The checksum of a file as its server reports it (RFC 9530, RFC 3230).

use crate::http::call::HttpRequest;
use crate::http::status_error;
use crate::location::Location;
use crate::network::Network;
use futures_core::future::BoxFuture;
use hither_core::error::Result;
use hither_core::replicas::ChecksumQuery;
use hither_core::{Algorithm, Checksum};
use hither_http::digest::{self, Digest, DigestAlgorithm};
use http::{Method, StatusCode};
use std::sync::Arc;

impl Network {
    /// The checksum of the file at `location`, if its server can report it without sending the
    /// file. Takes one round trip, and the time that the server needs to compute it.
    ///
    /// # Errors
    ///
    /// As [`Network::call`], and the errors of the file itself. A server that does not support the
    /// request has no checksum.
    pub async fn digest(
        &self,
        location: &Location,
        algorithm: Algorithm,
    ) -> Result<Option<Checksum>> {
        let Some(wanted) = to_http(algorithm) else { return Ok(None) };
        let call = HttpRequest::new(Method::HEAD, location.clone())
            .with(digest::WANT_DIGEST, &digest::want_digest(&[wanted]))
            .with(digest::WANT_REPR_DIGEST, &digest::want_repr_digest(&[wanted]));
        let reply = self.call(call).await?;
        match reply.status {
            StatusCode::OK => {}
            // XrdHttp without checksums does not know the method then.
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => return Ok(None),
            _ => return Err(status_error::of_response(&reply, "HEAD")),
        }
        let told = digest::digests(reply.status, &reply.headers);
        let told = told.iter().find(|digest| digest.algorithm == wanted);
        Ok(told.and_then(from_http))
    }
}

pub(crate) fn from_http(digest: &Digest) -> Option<Checksum> {
    let algorithm = match digest.algorithm {
        DigestAlgorithm::Adler32 => Algorithm::Adler32,
        DigestAlgorithm::Crc32c => Algorithm::Crc32c,
        DigestAlgorithm::Md5 => Algorithm::Md5,
        DigestAlgorithm::Sha256 => Algorithm::Sha256,
        DigestAlgorithm::Sha512 => Algorithm::Sha512,
        DigestAlgorithm::Sha1 => Algorithm::Sha1,
        _ => return None,
    };
    Checksum::new(algorithm, &digest.value).ok()
}

fn to_http(algorithm: Algorithm) -> Option<DigestAlgorithm> {
    match algorithm {
        Algorithm::Adler32 => Some(DigestAlgorithm::Adler32),
        Algorithm::Crc32c => Some(DigestAlgorithm::Crc32c),
        Algorithm::Md5 => Some(DigestAlgorithm::Md5),
        Algorithm::Sha256 => Some(DigestAlgorithm::Sha256),
        Algorithm::Sha512 => Some(DigestAlgorithm::Sha512),
        Algorithm::Sha1 => Some(DigestAlgorithm::Sha1),
        _ => None,
    }
}

/// A file whose server can be asked for its checksum.
#[derive(Debug)]
pub(crate) struct HttpDigest {
    pub(crate) network: Arc<Network>,
    pub(crate) location: Location,
}

impl ChecksumQuery for HttpDigest {
    fn checksum(&self, algorithm: Algorithm) -> BoxFuture<'_, Result<Option<Checksum>>> {
        Box::pin(self.network.digest(&self.location, algorithm))
    }
}
