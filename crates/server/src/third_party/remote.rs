//! The file on the other server: what is asked of it, and how it is read.

use crate::method::digest_fields::supported;
use crate::third_party::copy_request::CopyRequest;
use crate::third_party::perf_markers::one_line;
use futures_util::future::BoxFuture;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, FileKind, PutOptions, Storage, Upload};
use hither_core::{Algorithm, Checksum, Source};
use hither_http::ResponseHead;
use hither_http::digest::{self, DigestAlgorithm, WANT_DIGEST, WANT_REPR_DIGEST};
use hither_transport::{HttpRequest, HttpResponse, HttpSource, Location, Network};
use http::header::HeaderValue;
use http::{Method, StatusCode};
use std::sync::Arc;

/// Checksums that are asked for, the most usual first.
const WANTED: [DigestAlgorithm; 4] = [
    DigestAlgorithm::Adler32,
    DigestAlgorithm::Crc32c,
    DigestAlgorithm::Md5,
    DigestAlgorithm::Sha256,
];

/// What the other server says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteState {
    /// It is there, and so large.
    There(u64),
    /// There is none.
    Absent,
    /// It says nothing that is of use: some cannot, some may not to a client that may still read.
    Unknown,
}

/// Asks the other server for what it knows of a file.
pub(crate) async fn look(network: &Network, location: &Location) -> Result<RemoteState> {
    let reply = network.call(HttpRequest::new(Method::HEAD, location.clone())).await?;
    let facts = ResponseHead::of(reply.status, &reply.headers);
    Ok(match (reply.status, facts.size) {
        // A size of what was packed for the way is not that of the file.
        (StatusCode::OK, Some(size)) if facts.content_encoding.is_none() => {
            RemoteState::There(size)
        }
        (StatusCode::NOT_FOUND | StatusCode::GONE, _) => RemoteState::Absent,
        _ => RemoteState::Unknown,
    })
}

/// The checksums of a file that the other server tells.
pub(crate) async fn checksums(network: &Network, location: &Location) -> Result<Vec<Checksum>> {
    let told = told(network, location, &WANTED).await?;
    match told.is_empty() {
        // Some understand a single name only.
        true => self::told(network, location, &[DigestAlgorithm::Adler32]).await,
        false => Ok(told),
    }
}

async fn told(
    network: &Network,
    location: &Location,
    wanted: &[DigestAlgorithm],
) -> Result<Vec<Checksum>> {
    let mut call = HttpRequest::new(Method::HEAD, location.clone());
    for (name, value) in [
        (WANT_DIGEST, digest::want_digest(wanted)),
        (WANT_REPR_DIGEST, digest::want_repr_digest(wanted)),
    ] {
        call.headers.extend(HeaderValue::from_str(&value).ok().map(|value| (name, value)));
    }
    let reply = network.call(call).await?;
    let told = digest::digests(reply.status, &reply.headers);
    let known = told
        .into_iter()
        .filter_map(|digest| Checksum::new(supported(digest.algorithm)?, &digest.value).ok());
    Ok(known.collect())
}

/// The error for an answer that is no success.
pub(crate) fn refused(reply: &HttpResponse, method: &str, order: &CopyRequest) -> Error {
    let HttpResponse { status, location, .. } = reply;
    let code = status.as_u16();
    let reason = status.canonical_reason().unwrap_or("no standard meaning");
    let (kind, why) = match *status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return not_let(location, code, order),
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            (ErrorKind::NotFound, "the file or its parent directory does not exist")
        }
        StatusCode::CONFLICT => (ErrorKind::NotFound, "the parent directory does not exist"),
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
    let said = std::str::from_utf8(&reply.body).unwrap_or_default();
    let is_text = !said.trim_start().starts_with('<');
    let said = said.lines().next().filter(|line| is_text && !line.trim().is_empty());
    let said = said.map(|line| format!(" (its reason: {:?})", one_line(line))).unwrap_or_default();
    Error::new(
        kind,
        format!("{location} responded to {method} with {code} ({reason}): {why}{said}"),
    )
}

/// The error for 401 and 403: only the client can help there.
pub(crate) fn not_let(name: &dyn std::fmt::Display, code: u16, order: &CopyRequest) -> Error {
    let why = match order.has_authorization {
        true => "the credentials in TransferHeaderAuthorization are not sufficient",
        false => "the request has no TransferHeaderAuthorization",
    };
    let kind = if code == 401 { ErrorKind::Unauthenticated } else { ErrorKind::PermissionDenied };
    Error::new(kind, format!("{name} responded with {code}: {why}"))
}

/// The file as a storage that has nothing else.
#[derive(Debug)]
pub(crate) struct PullSourceStorage {
    location: Location,
    size: Option<u64>,
    source: Arc<HttpSource>,
}

impl PullSourceStorage {
    pub(crate) fn new(network: &Arc<Network>, location: &Location, size: Option<u64>) -> Self {
        let source = Arc::new(HttpSource::new(location.clone(), Arc::clone(network)));
        Self { location: location.clone(), size, source }
    }

    /// What it is read through.
    pub(crate) fn source(&self) -> &Arc<HttpSource> {
        &self.source
    }

    /// Its name in this storage.
    pub(crate) fn path(&self) -> &str {
        self.location.path().trim_start_matches('/')
    }

    fn cannot<T: Send + 'static>(&self) -> BoxFuture<'static, Result<T>> {
        let what = format!("{}: the source of a pull can only be read", self.location);
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, what))))
    }
}

impl Storage for PullSourceStorage {
    fn name(&self) -> String {
        self.location.root().to_string()
    }

    fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<DirEntry>> {
        let Some(size) = self.size else { return self.cannot() };
        // Which version it is, its first bytes tell.
        let entry = DirEntry {
            path: path.to_owned(),
            kind: FileKind::File,
            size,
            modified: None,
            validator: None,
        };
        Box::pin(std::future::ready(Ok(entry)))
    }

    fn list<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<DirEntry>>> {
        self.cannot()
    }

    fn source(&self, _: &str) -> Result<Arc<dyn Source>> {
        Ok(Arc::<HttpSource>::clone(&self.source))
    }

    fn put<'a>(&'a self, _: &'a str, _: PutOptions) -> BoxFuture<'a, Result<Box<dyn Upload>>> {
        self.cannot()
    }

    fn remove<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        self.cannot()
    }

    fn remove_tree<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        self.cannot()
    }

    fn rename<'a>(&'a self, _: &'a str, _: &'a str, _: bool) -> BoxFuture<'a, Result<()>> {
        self.cannot()
    }

    fn make_directory<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        self.cannot()
    }

    fn checksum<'a>(&'a self, _: &'a str, _: Algorithm) -> BoxFuture<'a, Result<Option<Checksum>>> {
        // It is asked for beside the copy, and all of them at once.
        Box::pin(std::future::ready(Ok(None)))
    }
}
