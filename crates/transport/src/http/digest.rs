//! The checksum of a file as its server reports it (RFC 9530, RFC 3230).

use crate::http::call::HttpRequest;
use crate::http::status_error;
use crate::location::Location;
use crate::network::Network;
use futures_core::future::BoxFuture;
use hither_checksum::{Algorithm, Checksum};
use hither_core::error::Result;
use hither_http::digest;
use hither_replicas::ChecksumQuery;
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
        let call = HttpRequest::new(Method::HEAD, location.clone())
            .with(digest::WANT_DIGEST, &digest::want_digest(&[algorithm]))
            .with(digest::WANT_REPR_DIGEST, &digest::want_repr_digest(&[algorithm]));
        let reply = self.call(call).await?;
        match reply.status {
            StatusCode::OK => {}
            // XrdHttp without checksums does not know the method then.
            status if status_error::lacks_method(status) => return Ok(None),
            _ => return Err(status_error::of_response(&reply, "HEAD")),
        }
        let sums = digest::digests(reply.status, &reply.headers);
        Ok(sums.into_iter().find(|sum| sum.algorithm() == algorithm))
    }
}

/// A file whose checksum can be requested from its server.
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
