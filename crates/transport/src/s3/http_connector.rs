//! Requests of the crate `object_store` over the connections of this crate.

use crate::http::call;
use crate::http::request_body::RequestBody;
use crate::location::Location;
use crate::network::Network;
use async_trait::async_trait;
use hither_core::error::{Error, ErrorKind};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use std::sync::Arc;

/// The maximum response in bytes: a page of a list has a thousand names of a kilobyte each.
const REPLY_BYTES: usize = 16 << 20;

/// The HTTP service of `object_store`.
#[derive(Debug, Clone)]
pub(super) struct PooledHttpService {
    network: Arc<Network>,
}

impl PooledHttpService {
    pub(super) fn new(network: Arc<Network>) -> Self {
        Self { network }
    }
}

impl HttpConnector for PooledHttpService {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for PooledHttpService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let location = Location::parse(&head.uri.to_string()).map_err(told)?;
        let body = body.collect().await?.to_bytes();
        let has_body = matches!(head.method, Method::PUT | Method::POST) || !body.is_empty();
        let mut call = call::HttpRequest::new(head.method, location);
        call.headers = head.headers;
        call.content = if has_body { RequestBody::Bytes(body) } else { RequestBody::Empty };
        call.max_reply_bytes = REPLY_BYTES;
        let reply = self.network.call(call).await.map_err(told)?;
        // Not all operations of the crate distinguish these from other errors.
        if matches!(reply.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let what =
                format!("{}: the object store responded with {}", reply.location, reply.status);
            let what = format!("{what}: the access key does not allow this");
            return Err(told(Error::new(ErrorKind::PermissionDenied, what)));
        }
        if reply.status == StatusCode::NOT_FOUND && contains(&reply.body, b"<Code>NoSuchBucket<") {
            let what = format!("{}: the object store has no bucket of this name", reply.location);
            return Err(told(Error::new(ErrorKind::NotFound, what)));
        }
        let mut response = HttpResponse::new(reply.body.into());
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        Ok(response)
    }
}

fn contains(body: &[u8], text: &[u8]) -> bool {
    body.windows(text.len()).any(|part| part == text)
}

/// An error in the type of `object_store`. [`crate::s3`] converts it back.
fn told(error: Error) -> HttpError {
    let kind = match error.kind() {
        ErrorKind::Timeout => HttpErrorKind::Timeout,
        ErrorKind::Unavailable => HttpErrorKind::Connect,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}
