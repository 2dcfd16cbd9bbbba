//! The checksum of a file as its server reports it (RFC 9530, RFC 3230).

use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::source::HttpSource;
use crate::http::status_error;
use crate::location::Location;
use crate::network::Network;
use futures_core::future::BoxFuture;
use hither_checksum::{Algorithm, Checksum};
use hither_core::VersionBinding;
use hither_core::error::Result;
use hither_core::sync::lock;
use hither_http::digest;
use hither_replicas::ChecksumQuery;
use http::{Method, StatusCode};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

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
        Ok(self.ask_digest(location, algorithm).await?.1)
    }

    /// The same, with the response.
    async fn ask_digest(
        &self,
        location: &Location,
        algorithm: Algorithm,
    ) -> Result<(HttpResponse, Option<Checksum>)> {
        let call = HttpRequest::new(Method::HEAD, location.clone())
            .with(digest::WANT_DIGEST, &digest::want_digest(&[algorithm]))
            .with(digest::WANT_REPR_DIGEST, &digest::want_repr_digest(&[algorithm]));
        let reply = self.call(call).await?;
        match reply.status {
            StatusCode::OK => {}
            // XrdHttp without checksums does not know the method then.
            status if status_error::lacks_method(status) => return Ok((reply, None)),
            _ => return Err(status_error::of_response(&reply, "HEAD")),
        }
        let sums = digest::digests(reply.status, &reply.headers);
        let sum = sums.into_iter().find(|sum| sum.algorithm() == algorithm);
        if sum.is_some() {
            self.pool(&reply.location).server().has_checksums.store(true, Ordering::Relaxed);
        }
        Ok((reply, sum))
    }
}

/// A file whose checksum can be requested from its server.
#[derive(Debug)]
pub(crate) struct HttpDigest {
    network: Arc<Network>,
    source: Arc<HttpSource>,
    /// The response to the last request.
    response: Mutex<Option<HttpResponse>>,
}

impl HttpDigest {
    /// The checksum of the file of `source`.
    pub(crate) fn new(network: Arc<Network>, source: Arc<HttpSource>) -> Self {
        Self { network, source, response: Mutex::default() }
    }
}

impl ChecksumQuery for HttpDigest {
    fn checksum(&self, algorithm: Algorithm) -> BoxFuture<'_, Result<Option<Checksum>>> {
        Box::pin(async move {
            let answer = self.network.ask_digest(self.source.location(), algorithm).await;
            let (response, checksum) = answer?;
            *lock(&self.response) = Some(response).filter(|it| it.status == StatusCode::OK);
            Ok(checksum)
        })
    }

    fn check_version<'a>(&'a self, version: &'a VersionBinding) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let response = lock(&self.response).take();
            match response {
                Some(response) => self.source.check_head(&response, version).await,
                None => Ok(()),
            }
        })
    }

    fn has_checksums(&self) -> bool {
        self.source.states_checksums()
    }
}
