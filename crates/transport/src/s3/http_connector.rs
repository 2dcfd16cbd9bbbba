//! Requests of the crate `object_store` over the connections of this crate.

use crate::context::MonotonicClock;
use crate::http::call;
use crate::http::call::change;
use crate::http::request_body::RequestBody;
use crate::http::server_reason::quoted;
use crate::location::Location;
use crate::network::Network;
use async_trait::async_trait;
use bytes::Bytes;
use hither_core::error::{Effect, Error, ErrorKind, Failure};
use hither_core::retry::{self, Failed};
use hither_http::ResponseHead;
use hither_http::object_list::{self, ObjectList};
use http::{HeaderName, Method, StatusCode, header};
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use std::sync::Arc;
use std::time::SystemTime;

/// The maximum response in bytes: a page of a list has a thousand names of a kilobyte each.
const REPLY_BYTES: usize = 16 << 20;

/// A list for the library; the real one is an [`ObjectList`] among the extensions.
const EMPTY_LIST: &str = "<ListBucketResult/>";

/// The field that names the object to copy.
pub(super) const COPY_SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");
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
        let body = body.collect().await?.to_bytes();
        let request = http::Request::from_parts(head, body);
        // [`S3Storage::file`](super::S3Storage::file) repeats it.
        let repeats_500 = request.method() != Method::HEAD;
        let (list, reply) = self.exchange(request, repeats_500).await.map_err(http_error)?;
        let mut response = HttpResponse::new(reply.body.into());
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        if let Some(list) = list {
            // The library is lenient with documents, and strict with names.
            *response.body_mut() = EMPTY_LIST.to_owned().into();
            response.extensions_mut().insert(list);
        }
        Ok(response)
    }
}

impl PooledHttpService {
    /// Sends a request, and repeats it after errors for which that may help; after one of status
    /// 500 only with `repeats_500`. The response to one for a list is parsed.
    pub(super) async fn exchange(
        &self,
        request: http::Request<Bytes>,
        repeats_500: bool,
    ) -> Result<(Option<ObjectList>, call::HttpResponse), Error> {
        let (head, body) = request.into_parts();
        let location = Location::parse(&head.uri.to_string())?.without_credentials();
        let has_body = matches!(head.method, Method::PUT | Method::POST) || !body.is_empty();
        let mut call = call::HttpRequest::new(head.method, location);
        call.headers = head.headers;
        if self.has_key {
            // The signature, the session token, keys of the customer: for this server only.
            call.headers.values_mut().for_each(|value| value.set_sensitive(true));
        }
        call.content = if has_body { RequestBody::Bytes(body) } else { RequestBody::Empty };
        call.max_reply_bytes = REPLY_BYTES;
        call.effect = effect(&call.method, head.uri.query().unwrap_or_default(), call.effect);
        let is_list = call.location.target().contains("list-type=2");
        // The codes of S3 say more than its statuses.
        call.is_paced = true;
        let attempt = || async {
            let reply = self.network.call(call.clone()).await.map_err(Failed::finally)?;
            let strange = || change::strange(&call.location, &reply, is_success_of(&call, &reply));
            let refused = || refusal(&reply, self.has_key);
            let elsewhere = || of_another_name(&call.location, &reply);
            match trouble(&reply).or_else(refused).or_else(strange).or_else(elsewhere) {
                Some(error) if !repeats_500 && is_internal(&error) => Err(Failed::finally(error)),
                Some(error) => Err(Failed::from(error)),
                None if is_list && reply.status.is_success() => {
                    Ok((Some(listed(&reply).map_err(Failed::from)?), reply))
                }
                None => Ok((None, reply)),
            }
        };
        let policy = self.network.config().retry_policy();
        retry::run(&policy, &MonotonicClock::start(), attempt).await
    }
}

/// Returns true for an error of status 500.
pub(super) fn is_internal(error: &Error) -> bool {
    matches!(error.failure(), Failure::Status { code: 500, .. })
}

/// The effect of a request. Parts of a multipart upload are not visible to other clients.
fn effect(method: &Method, query: &str, effect: Effect) -> Effect {
    let has = |name: &str| {
        query.split('&').any(|word| word.split('=').next().is_some_and(|word| word == name))
    };
    let is_own = match *method {
        Method::PUT => has("partNumber"),
        Method::DELETE => has("uploadId"),
        Method::POST => has("uploads"),
        _ => false,
    };
    if is_own { Effect::Own } else { effect }
}

/// Returns true for the success that S3 has for the method of a change: the status, and a property
/// that only a store sends with it.
fn is_success_of(call: &call::HttpRequest, reply: &call::HttpResponse) -> bool {
    let text = String::from_utf8_lossy(&reply.body);
    match call.method {
        Method::DELETE => reply.status == StatusCode::NO_CONTENT,
        Method::POST => {
            reply.status == StatusCode::OK && text.contains("CompleteMultipartUploadResult")
        }
        Method::PUT if call.headers.contains_key(COPY_SOURCE) => {
            reply.status == StatusCode::OK && text.contains("CopyObjectResult")
        }
        _ => reply.status == StatusCode::OK && reply.headers.contains_key(header::ETAG),
    }
}

/// The error for a response about another object than the one that was requested: redirects of
/// stores lead to another host, and to paths with or without the bucket, not to a login page.
fn of_another_name(requested: &Location, reply: &call::HttpResponse) -> Option<Error> {
    let there = reply.location.path();
    let is_same = requested.path().ends_with(there) || there.ends_with(requested.path());
    let what = || {
        let advice = "check the endpoint: is a login needed?";
        format!("{}: the object store redirects to another name: {advice}", reply.location)
    };
    (reply.status.is_success() && !is_same).then(|| Error::new(ErrorKind::Protocol, what()))
}

/// The error for a store that is busy or out of order, which it may also report in the body of a
/// response with status 200 (`CompleteMultipartUpload`, `CopyObject`).
fn trouble(reply: &call::HttpResponse) -> Option<Error> {
    let is_change = reply.effect != Effect::Read;
    let code = element(&reply.body, "Code").filter(|_| !reply.status.is_success() || is_change);
    let head = ResponseHead::of(reply.status, &reply.headers);
    let after = head.retry_after.map(|it| it.delay(SystemTime::now()));
    let failure = Failure::of_s3(code.as_deref(), reply.status.as_u16(), after);
    let text = String::from_utf8_lossy(&reply.body);
    let error = Error::new(ErrorKind::Unavailable, refused(&format!("{}: {text}", reply.status)));
    let error = error.with_failure(failure).of_request(reply.effect, "request");
    let is_trouble = match failure {
        Failure::Status { code: 408 | 425 | 429 | 500.., .. } => true,
        _ => reply.status.is_success() && code.is_some(),
    };
    is_trouble.then_some(error)
}

/// The page of a list that a response has.
fn listed(reply: &call::HttpResponse) -> Result<ObjectList, Error> {
    object_list::parse(&reply.body, REPLY_BYTES).map_err(|error| {
        let code = element(&reply.body, "Code").map(|code| quoted(&code)).unwrap_or_default();
        let advice = "check the endpoint, which may be no object store";
        let what = format!("{}: {error}{code}: {advice}", reply.location);
        Error::new(ErrorKind::Protocol, what)
    })
}

/// The error for a response that refuses a request for a reason that not all operations of the
/// crate distinguish from others.
fn refusal(reply: &call::HttpResponse, has_key: bool) -> Option<Error> {
    let code = element(&reply.body, "Code");
    let seen = |quoted: &str| {
        format!("{}: the object store responded with {}{quoted}", reply.location, reply.status)
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
            let quoted = code.map(|code| {
                let message = element(&reply.body, "Message").unwrap_or_default();
                quoted(&format!("{code}: {message}"))
            });
            let why = if has_key { "the access key does not allow this" } else { NO_KEY };
            let what = format!("{}: {why}", seen(&quoted.unwrap_or_default()));
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
pub(super) fn element(body: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once("</")?;
    Some(text.to_owned())
}

/// An error in the type of `object_store`. [`crate::s3`] converts it back.
fn http_error(error: Error) -> HttpError {
    let kind = match error.kind() {
        ErrorKind::Timeout => HttpErrorKind::Timeout,
        ErrorKind::Unavailable => HttpErrorKind::Connect,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::error::Retry;
    use http::HeaderMap;
    use std::time::Duration;

    #[test]
    fn only_objects_are_seen_by_others() {
        for (method, query, expected) in [
            (Method::PUT, "", Effect::Change),
            (Method::PUT, "partNumber=2&uploadId=a", Effect::Own),
            (Method::POST, "uploads", Effect::Own),
            (Method::POST, "uploads=", Effect::Own),
            (Method::POST, "uploadId=a", Effect::Change),
            (Method::DELETE, "uploadId=a", Effect::Own),
            (Method::DELETE, "", Effect::Change),
        ] {
            assert_eq!(effect(&method, query, Effect::Change), expected, "{method} ?{query}");
        }
        assert_eq!(effect(&Method::GET, "list-type=2", Effect::Read), Effect::Read);
    }

    /// The decision about a retry of a request with this response; none if it succeeded.
    fn decided(status: u16, code: &str, effect: Effect) -> Option<Retry> {
        let code = (!code.is_empty()).then(|| format!("<Error><Code>{code}</Code></Error>"));
        let reply = call::HttpResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: code.unwrap_or_default().into(),
            location: Location::parse("http://h/bucket/key").unwrap(),
            refusal: None,
            effect,
            has_waited: false,
        };
        trouble(&reply).map(|error| error.retry())
    }

    #[test]
    fn trouble_is_decided_by_codes() {
        let busy = Retry::Busy { after: Duration::ZERO };
        let again = Retry::SameServer { after: Duration::ZERO };
        for (status, code, read, change) in [
            (503, "SlowDown", Some(busy), Some(busy)),
            (503, "", Some(busy), Some(busy)),
            (429, "TooManyRequests", Some(busy), Some(busy)),
            (400, "RequestTimeout", Some(busy), Some(busy)),
            (500, "InternalError", Some(again), Some(Retry::LookFirst)),
            (502, "", Some(again), Some(Retry::LookFirst)),
            (501, "NotImplemented", Some(Retry::OtherServer), Some(Retry::OtherServer)),
            // An error after the status was sent, which only changes have.
            (200, "InternalError", None, Some(Retry::LookFirst)),
            (200, "SlowDown", None, Some(busy)),
            (200, "", None, None),
            (404, "NoSuchKey", None, None),
            (409, "OperationAborted", None, None),
            (412, "PreconditionFailed", None, None),
        ] {
            let seen = [Effect::Read, Effect::Change].map(|effect| decided(status, code, effect));
            assert_eq!(seen, [read, change], "{status} {code}");
        }
    }
}
