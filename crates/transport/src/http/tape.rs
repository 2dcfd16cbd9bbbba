//! Files on tape, over HTTP: the WLCG Tape REST API, version 1.
//!
//! A server names the API under `/.well-known/wlcg-tape-rest-api`. A request to stage is one POST
//! for any number of files, and gets an id, under which it is polled, cancelled and released. Paths
//! are those of the server's namespace. The response is not trusted: unknown states count as
//! waiting, and files that it does not mention as unknown. Changes are believed by the rules of
//! [`change`](crate::http::call::change): no page confirms one.

use crate::http::call::HttpRequest;
use crate::http::call::change::Seen;
use crate::http::request_body::RequestBody;
use crate::http::status_error;
use crate::location::Location;
use crate::network::Network;
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::StagingState;
use http::{Method, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

/// Where the document of the API is.
const WELL_KNOWN: &str = ".well-known/wlcg-tape-rest-api";
/// The characters of an id that are encoded in a URL: all but the unreserved ones (RFC 3986).
const ENCODED_IN_IDS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The maximum size of a response in bytes: the states of 50,000 files.
const MAX_BYTES: usize = 32 << 20;

/// Where the copies of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileLocality {
    /// On disk only.
    Disk,
    /// On tape only: reading waits.
    Tape,
    /// On both.
    DiskAndTape,
    /// Nowhere that it could be read from, or unknown to the server.
    Unavailable,
}

impl FileLocality {
    /// The name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Tape => "tape",
            Self::DiskAndTape => "disk and tape",
            Self::Unavailable => "unavailable",
        }
    }
}

/// The tape API of a server.
#[derive(Debug, Clone)]
pub struct TapeApi {
    network: Arc<Network>,
    base: Location,
}

#[derive(Deserialize)]
struct Discovery {
    #[serde(default)]
    endpoints: Vec<ApiEndpoint>,
}

#[derive(Deserialize)]
struct ApiEndpoint {
    uri: String,
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Accepted {
    request_id: String,
}

#[derive(Deserialize)]
struct Progress {
    #[serde(default)]
    files: Vec<FileProgress>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileProgress {
    path: String,
    on_disk: Option<bool>,
    state: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct ArchiveInfo {
    path: String,
    locality: Option<String>,
}

impl TapeApi {
    /// Finds the API of the server of `location`.
    ///
    /// # Errors
    ///
    /// As [`Network::call`]; [`ErrorKind::Unsupported`] if the server has none of version 1.
    pub async fn discover(location: &Location, network: Arc<Network>) -> Result<Self> {
        let document = location.root().below(WELL_KNOWN, false);
        let call = HttpRequest::new(Method::GET, document.clone());
        let reply = network.call(call).await?;
        let unsupported = |why: &str| {
            let what = format!("{}: {why}", location.origin());
            Error::new(ErrorKind::Unsupported, what)
        };
        match reply.status {
            StatusCode::OK => {}
            status if status == StatusCode::NOT_FOUND || status_error::lacks_method(status) => {
                return Err(unsupported("the server has no tape API, so it cannot stage files"));
            }
            _ => return Err(status_error::of_response(&reply, "GET")),
        }
        let found: Discovery = parsed(&document, &reply.body)?;
        let of_version_1 = |it: &&ApiEndpoint| matches!(&*it.version, "v1" | "1" | "");
        let Some(endpoint) = found.endpoints.iter().find(of_version_1) else {
            return Err(unsupported("the server names no tape API of version 1"));
        };
        Ok(Self { base: reply.location.join(&endpoint.uri)?, network })
    }

    /// Requests staging of files to disk. Returns the id of the request.
    ///
    /// # Errors
    ///
    /// As [`Network::call`], and the refusal of the server.
    pub async fn stage(&self, paths: &[String]) -> Result<String> {
        let files: Vec<_> = paths.iter().map(|path| json!({ "path": path })).collect();
        let call = self.request("stage", Some(&json!({ "files": files })))?;
        let reply = self.network.call(call).await?;
        match reply.status {
            // The id confirms the request, also behind a redirect: no page has one.
            StatusCode::OK | StatusCode::CREATED | StatusCode::ACCEPTED => {
                Ok(parsed::<Accepted>(&reply.location, &reply.body)?.request_id)
            }
            _ => Err(status_error::of_response(&reply, "POST")),
        }
    }

    /// The states of the files of a request, in the order of `paths`.
    ///
    /// # Errors
    ///
    /// As [`TapeApi::stage`].
    pub async fn progress(&self, request: &str, paths: &[String]) -> Result<Vec<StagingState>> {
        let body = self.ask(&format!("stage/{}", encoded(request)), None).await?;
        let progress: Progress = parsed(&self.base, &body)?;
        let states: HashMap<&str, &FileProgress> =
            progress.files.iter().map(|file| (plain(&file.path), file)).collect();
        Ok(paths
            .iter()
            .map(|path| states.get(plain(path)).map_or(StagingState::Unlisted, state))
            .collect())
    }

    /// Stops staging these files of a request.
    ///
    /// # Errors
    ///
    /// As [`TapeApi::stage`].
    pub async fn cancel(&self, request: &str, paths: &[String]) -> Result<()> {
        // A file that is on disk, or has failed, is not being staged any more.
        let look = || async {
            let states = self.progress(request, paths).await?;
            let has = |state: &StagingState| states.contains(state);
            Ok(match (has(&StagingState::Waiting), has(&StagingState::Unlisted)) {
                (true, _) => Seen::Undone,
                (_, true) => Seen::Unclear,
                _ => Seen::Done,
            })
        };
        self.change(&format!("stage/{}/cancel", encoded(request)), paths, look).await
    }

    /// Lets these files of a request leave the disk.
    ///
    /// # Errors
    ///
    /// As [`TapeApi::stage`].
    pub async fn release(&self, request: &str, paths: &[String]) -> Result<()> {
        // No response of the API shows which files are released.
        let look = || std::future::ready(Ok(Seen::Unclear));
        self.change(&format!("release/{}", encoded(request)), paths, look).await
    }

    /// The locality of files, in the order of `paths`. Stages nothing.
    ///
    /// # Errors
    ///
    /// As [`TapeApi::stage`].
    pub async fn archive_info(&self, paths: &[String]) -> Result<Vec<FileLocality>> {
        let body = self.ask("archiveinfo", Some(&json!({ "paths": paths }))).await?;
        let found: Vec<ArchiveInfo> = parsed(&self.base, &body)?;
        let known: HashMap<&str, &ArchiveInfo> =
            found.iter().map(|info| (plain(&info.path), info)).collect();
        let locality = |path: &String| match known
            .get(plain(path))
            .and_then(|info| info.locality.as_deref())
        {
            Some("DISK") => FileLocality::Disk,
            Some("TAPE") => FileLocality::Tape,
            Some("DISK_AND_TAPE") => FileLocality::DiskAndTape,
            _ => FileLocality::Unavailable,
        };
        Ok(paths.iter().map(locality).collect())
    }

    /// Sends a change of these files of a request, which `look` shows.
    async fn change<L>(
        &self,
        below: &str,
        paths: &[String],
        look: impl Fn() -> L + Send + Sync,
    ) -> Result<()>
    where
        L: Future<Output = Result<Seen>> + Send,
    {
        let call = self.request(below, Some(&json!({ "paths": paths })))?;
        let refused = self.network.carry_out(&call, look).await?;
        refused.map_or(Ok(()), |reply| Err(status_error::of_response(&reply, "POST")))
    }

    /// The body of a response that changes nothing.
    async fn ask(&self, below: &str, body: Option<&serde_json::Value>) -> Result<Bytes> {
        let call = self.request(below, body)?;
        let method = call.method.clone();
        let reply = self.network.call(call).await?;
        match reply.status {
            StatusCode::OK => Ok(reply.body),
            _ => Err(status_error::of_response(&reply, method.as_str())),
        }
    }

    /// A POST of `body`, or a GET.
    fn request(&self, below: &str, body: Option<&serde_json::Value>) -> Result<HttpRequest> {
        let base = self.base.to_string();
        let location = self.base.join(&format!("{}/{below}", base.trim_end_matches('/')))?;
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut call = HttpRequest::new(method, location).with(header::ACCEPT, "application/json");
        call.max_reply_bytes = MAX_BYTES;
        Ok(match body {
            None => call,
            Some(body) => call
                .with(header::CONTENT_TYPE, "application/json")
                .with_content(RequestBody::Bytes(Bytes::from(body.to_string()))),
        })
    }
}

/// The state of a file. A server ends a request as a whole, and removes files from its disk before
/// and after: a file counts as staged unless the same response contradicts that.
fn state(file: &&FileProgress) -> StagingState {
    let error = file.error.as_deref().filter(|error| !error.trim().is_empty());
    let is_on_disk = file.on_disk;
    let failed = |why: &str| StagingState::Failed(error.unwrap_or(why).to_owned());
    match file.state.as_deref() {
        Some("COMPLETED") if is_on_disk == Some(false) => {
            failed("the server says COMPLETED, and that the file is not on disk")
        }
        Some("COMPLETED") if error.is_none() => StagingState::Online,
        Some("COMPLETED" | "FAILED" | "CANCELLED") => failed("the server states no reason"),
        _ if is_on_disk == Some(true) => StagingState::Online,
        _ if error.is_some() => failed(""),
        _ => StagingState::Waiting,
    }
}

/// A path without slashes around it: servers write them with and without.
fn plain(path: &str) -> &str {
    path.trim_matches('/')
}

fn encoded(id: &str) -> String {
    utf8_percent_encode(id, ENCODED_IN_IDS).to_string()
}

fn parsed<T: DeserializeOwned>(from: &Location, body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        let what = format!("{from}: the response of the tape API cannot be read: {error}");
        Error::new(ErrorKind::Protocol, what)
    })
}
