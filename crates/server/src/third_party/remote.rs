//! The file on the other server: requests for its state, and its reads.

use crate::method::digest_fields::{KNOWN, is_known};
use crate::third_party::copy_request::CopyRequest;
use crate::third_party::perf_markers::one_line;
use async_trait::async_trait;
use hither_checksum::{Algorithm, Checksum};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, Storage};
use hither_core::{Request, Source};
use hither_http::ResponseHead;
use hither_http::digest::{self, WANT_DIGEST, WANT_REPR_DIGEST};
use hither_transport::{HttpRequest, HttpResponse, HttpSource, Location, Network, SpoolSpace};
use http::header::HeaderValue;
use http::{Method, StatusCode, header};
use std::sync::Arc;

/// The state of a file on the other server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteState {
    /// The file exists, with this size.
    There(u64),
    /// There is no such file.
    Absent,
    /// The response states neither: some servers cannot, or only allow the client to read.
    Unknown,
}

/// Requests the state of a file.
pub(crate) async fn look(network: &Network, location: &Location) -> Result<RemoteState> {
    let response = network.call(HttpRequest::new(Method::HEAD, location.clone())).await?;
    Ok(state_of(&response))
}

fn state_of(response: &HttpResponse) -> RemoteState {
    let head = ResponseHead::of(response.status, &response.headers);
    match (response.status, head.size) {
        // With a content encoding, the size is not that of the file.
        (StatusCode::OK, Some(size)) if head.content_encoding.is_none() => RemoteState::There(size),
        (StatusCode::NOT_FOUND | StatusCode::GONE, _) => RemoteState::Absent,
        _ => RemoteState::Unknown,
    }
}

/// A file on the other server.
#[derive(Debug)]
pub(crate) struct RemoteFile {
    pub(crate) state: RemoteState,
    /// Its strong entity tag.
    pub(crate) tag: Option<HeaderValue>,
    /// The checksums that the server reports.
    pub(crate) checksums: Vec<Checksum>,
}

/// Requests state, entity tag and checksums of a file.
pub(crate) async fn file(network: &Network, location: &Location) -> Result<RemoteFile> {
    let file = request_file(network, location, &KNOWN).await?;
    if !file.checksums.is_empty() || file.state == RemoteState::Absent {
        return Ok(file);
    }
    // Some servers understand only a single algorithm.
    let single = request_file(network, location, &[Algorithm::Adler32]).await;
    Ok(RemoteFile { checksums: single.map(|it| it.checksums).unwrap_or_default(), ..file })
}

/// The same for a file that was sent. Servers that generate a page for each request state 0 where
/// they do not know the size: it is then determined by a GET of the first byte.
pub(crate) async fn sent_file(network: &Arc<Network>, location: &Location) -> Result<RemoteFile> {
    let mut file = file(network, location).await?;
    if file.state == RemoteState::There(0) {
        let source = HttpSource::new(location.clone(), Arc::clone(network));
        let first = 0..1;
        let request = Request { ranges: vec![first], ..Request::default() };
        let size = source.fetch(request, Box::new(drop)).await.ok().and_then(|it| it.size);
        file.state = size.map_or(RemoteState::Unknown, RemoteState::There);
    }
    Ok(file)
}

async fn request_file(
    network: &Network,
    location: &Location,
    wanted: &[Algorithm],
) -> Result<RemoteFile> {
    let mut head = HttpRequest::new(Method::HEAD, location.clone());
    for (name, value) in [
        (WANT_DIGEST, digest::want_digest(wanted)),
        (WANT_REPR_DIGEST, digest::want_repr_digest(wanted)),
    ] {
        head.headers.extend(HeaderValue::from_str(&value).ok().map(|value| (name, value)));
    }
    let response = network.call(head).await?;
    let mut checksums = digest::digests(response.status, &response.headers);
    checksums.retain(is_known);
    let tag = response.headers.get(header::ETAG).filter(|tag| tag.as_bytes().starts_with(b"\""));
    Ok(RemoteFile { state: state_of(&response), tag: tag.cloned(), checksums })
}

/// The error for a response that is not a success.
pub(crate) fn status_error(
    response: &HttpResponse,
    method: &str,
    copy_request: &CopyRequest,
) -> Error {
    let HttpResponse { status, location, .. } = response;
    let code = status.as_u16();
    let reason = status.canonical_reason().unwrap_or("no standard meaning");
    let (kind, why) = match *status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return denied(location, code, copy_request);
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            (ErrorKind::NotFound, "the file or its parent directory does not exist")
        }
        StatusCode::CONFLICT => (ErrorKind::NotFound, "the parent directory may not exist"),
        StatusCode::PRECONDITION_FAILED => (ErrorKind::AlreadyExists, "the file exists"),
        StatusCode::INSUFFICIENT_STORAGE => (ErrorKind::NoSpace, "no space is left there"),
        StatusCode::PAYLOAD_TOO_LARGE => {
            (ErrorKind::TooLarge, "the file is too large for that server")
        }
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            (ErrorKind::Unavailable, "the server has a problem, try again later")
        }
        _ => (ErrorKind::Protocol, "expected a success"),
    };
    let body = std::str::from_utf8(&response.body).unwrap_or_default();
    let is_text = !body.trim_start().starts_with('<');
    let line = body.lines().next().filter(|line| is_text && !line.trim().is_empty());
    let quoted = line.map(|line| format!(" (its reason: {:?})", one_line(line)));
    let quoted = quoted.unwrap_or_default();
    Error::new(
        kind,
        format!("{location} responded to {method} with {code} ({reason}): {why}{quoted}"),
    )
    .with_failure(response.failure())
    .of_request(response.effect, method)
}

/// The error for 401 and 403, with a hint for the client.
pub(crate) fn denied(name: &dyn std::fmt::Display, code: u16, copy_request: &CopyRequest) -> Error {
    let why = if copy_request.has_authorization {
        "the credentials in TransferHeaderAuthorization are not sufficient"
    } else {
        "the request has no TransferHeaderAuthorization"
    };
    let kind = if code == 401 { ErrorKind::Unauthenticated } else { ErrorKind::PermissionDenied };
    Error::new(kind, format!("{name} responded with {code}: {why}"))
}

/// A storage that contains only the file. Its checksums are requested during the copy, all
/// together. It states no metadata: a copy would trust the size of a first HEAD as that of a
/// listing, and the same page of HTML may answer all requests.
#[derive(Debug)]
pub(crate) struct PullSourceStorage {
    location: Location,
    source: Arc<HttpSource>,
}

impl PullSourceStorage {
    /// The file at `location`, which takes `space` as it arrives where its size is unknown and the
    /// other server sends only the whole file.
    pub(crate) fn new(
        network: &Arc<Network>,
        location: &Location,
        space: Arc<dyn SpoolSpace>,
    ) -> Self {
        let source = HttpSource::new(location.clone(), Arc::clone(network));
        let source = Arc::new(source.with_spool_space(space));
        Self { location: location.clone(), source }
    }

    /// The source through which the file is read.
    pub(crate) fn source(&self) -> &Arc<HttpSource> {
        &self.source
    }

    /// The path of the file in this storage.
    pub(crate) fn path(&self) -> &str {
        self.location.path().trim_start_matches('/')
    }
}

#[async_trait]
impl Storage for PullSourceStorage {
    fn name(&self) -> String {
        self.location.root().to_string()
    }

    async fn stat(&self, _: &str) -> Result<DirEntry> {
        let what = format!("{}: the first bytes show the version of the file", self.location);
        Err(Error::new(ErrorKind::Unsupported, what))
    }

    fn source(&self, _: &str) -> Result<Arc<dyn Source>> {
        Ok(Arc::<HttpSource>::clone(&self.source))
    }
}
