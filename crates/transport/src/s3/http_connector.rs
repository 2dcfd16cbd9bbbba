//! Requests of the crate `object_store` over the connections of this crate.

use crate::http::call;
use crate::http::request_body::RequestBody;
use crate::http::server_reason::quoted;
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

/// The field in which a store names the region of a bucket.
const REGION: &str = "x-amz-bucket-region";
const NO_KEY: &str =
    "no key was sent: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";

/// The HTTP service of `object_store`.
#[derive(Debug, Clone)]
pub(super) struct PooledHttpService {
    network: Arc<Network>,
    /// Requests are signed with a key.
    has_key: bool,
}

impl PooledHttpService {
    pub(super) fn new(network: Arc<Network>, has_key: bool) -> Self {
        Self { network, has_key }
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
        let location = Location::parse(&head.uri.to_string()).map_err(told)?.without_credentials();
        let body = body.collect().await?.to_bytes();
        let has_body = matches!(head.method, Method::PUT | Method::POST) || !body.is_empty();
        let mut call = call::HttpRequest::new(head.method, location);
        call.headers = head.headers;
        call.content = if has_body { RequestBody::Bytes(body) } else { RequestBody::Empty };
        call.max_reply_bytes = REPLY_BYTES;
        let reply = self.network.call(call).await.map_err(told)?;
        if let Some(error) = refusal(&reply, self.has_key) {
            return Err(told(error));
        }
        let mut response = HttpResponse::new(reply.body.into());
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        Ok(response)
    }
}

/// The error for a response that refuses a request for a reason that not all operations of the
/// crate distinguish from others.
fn refusal(reply: &call::HttpResponse, has_key: bool) -> Option<Error> {
    let code = element(&reply.body, "Code");
    let seen = |said: &str| {
        format!("{}: the object store responded with {}{said}", reply.location, reply.status)
    };
    let region = reply.headers.get(REGION).and_then(|region| region.to_str().ok());
    let region = region.map(str::to_owned).or_else(|| element(&reply.body, "Region"));
    if matches!(reply.status, StatusCode::MOVED_PERMANENTLY | StatusCode::BAD_REQUEST)
        && let Some(region) = region
    {
        let region = quoted(&region);
        let what = format!("the bucket is in another region{region}: set AWS_REGION to it");
        return Some(Error::new(ErrorKind::Invalid, format!("{}: {what}", seen(""))));
    }
    match (reply.status, code.as_deref()) {
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, code) => {
            let said = code.map(|code| {
                let message = element(&reply.body, "Message").unwrap_or_default();
                quoted(&format!("{code}: {message}"))
            });
            let why = if has_key { "the access key does not allow this" } else { NO_KEY };
            let what = format!("{}: {why}", seen(&said.unwrap_or_default()));
            Some(Error::new(ErrorKind::PermissionDenied, what))
        }
        (StatusCode::NOT_FOUND, Some("NoSuchBucket")) => {
            let what = format!("{}: the object store has no bucket of this name", reply.location);
            Some(Error::new(ErrorKind::NotFound, what))
        }
        _ => None,
    }
}

/// The text for a response with an error, which the library shows as `STATUS: BODY`.
pub(super) fn refused(answer: &str) -> String {
    let (status, body) = answer.split_once(": ").unwrap_or((answer, ""));
    let code = element(body.as_bytes(), "Code").map(|code| {
        let message = element(body.as_bytes(), "Message").unwrap_or_default();
        quoted(format!("{code}: {message}").trim_end_matches(": "))
    });
    let status = status.trim_end_matches(':');
    let number = status.split(' ').next().and_then(|it| it.parse::<u16>().ok());
    let advice = match (number, &code) {
        (Some(429 | 500..), _) => "it is overloaded or failing, try again later",
        (Some(409 | 412), _) => "another program changes the object, or it exists already",
        (_, Some(_)) => "it rejects the request",
        (_, None) => "check the endpoint, which may be no object store",
    };
    format!("the object store responded with {status}{}: {advice}", code.unwrap_or_default())
}

/// The text of the first element of this name in an error of a store.
fn element(body: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once("</")?;
    Some(text.to_owned())
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
