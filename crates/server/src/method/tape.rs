//! Files on tape over HTTP: the WLCG Tape REST API, version 1.
//!
//! | request, below `/.well-known` | effect |
//! |---|---|
//! | `GET /wlcg-tape-rest-api` | names the API |
//! | `POST /hither/tape/v1/stage` `{"files": [{"path"}]}` | asks for files: 201 and an id |
//! | `GET …/stage/ID` | the states of the files |
//! | `POST …/stage/ID/cancel` `{"paths"}` | stops waiting for some of them |
//! | `DELETE …/stage/ID` | forgets the request |
//! | `POST …/release/ID` `{"paths"}` | lets files leave the disk |
//! | `POST …/archiveinfo` `{"paths"}` | where files are |
//!
//! A request belongs to the client that made it. To stage a file or to query its locality, a client
//! needs the permission to read it.

use crate::authorization::authorizer::Action;
use crate::backend::path::{NamespacePath, href};
use crate::backend::tape::{CommandError, FileState, StageRequest, StagedFile, TapeDoor};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::lots::{json, read};
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use http::{Method, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// The path of the document that names the API.
const DISCOVERY: &str = ".well-known/wlcg-tape-rest-api";
/// The path of the API.
const PLACE: &str = ".well-known/hither/tape/v1";
/// The maximum size of a request's body.
const MAX_BYTES: usize = 4 << 20;

#[derive(Debug, Deserialize)]
struct StageBody {
    files: Vec<WantedFile>,
}

/// The lifetime on disk that a client may ask for is up to the tape system.
#[derive(Debug, Deserialize)]
struct WantedFile {
    path: String,
}

#[derive(Debug, Deserialize)]
struct Paths {
    paths: Vec<String>,
}

/// A path as the tape system has it; with the reason if the client may not read it.
type CheckedPath = Result<String, (String, String)>;

/// Returns true for the paths of the API.
pub(crate) fn is_at(place: &NamespacePath) -> bool {
    place.path() == DISCOVERY || below(place).is_some()
}

fn below(place: &NamespacePath) -> Option<&str> {
    place.path().strip_prefix(PLACE)?.strip_prefix('/')
}

/// Handles a request to the API.
pub(crate) async fn handle(
    context: &ServerContext,
    tape: &Arc<TapeDoor>,
    mut request: ServerRequest,
) -> Result<ServerResponse, HttpError> {
    let owner = context.client_name(&request)?;
    let place = below(&request.path).unwrap_or_default().to_owned();
    let words: Vec<&str> = place.split('/').filter(|word| !word.is_empty()).collect();
    match (&request.method, &*words) {
        (&Method::GET | &Method::HEAD, []) if request.path.path() == DISCOVERY => {
            discovery(&request)
        }
        (&Method::POST, ["stage"]) => {
            let StageBody { files } = read(&mut request.body, MAX_BYTES).await?;
            let paths = files.into_iter().map(|file| file.path).collect();
            let files =
                checked(context, tape, &request, paths)?.into_iter().map(|path| match path {
                    Ok(path) => StagedFile::new(path),
                    Err((path, why)) => StagedFile::failed(path, why),
                });
            let id = tape.stage(&context.backend, owner, files.collect())?;
            let response = json(StatusCode::CREATED, &json!({ "requestId": id }))?;
            Ok(response.with(header::LOCATION, &format!("/{PLACE}/stage/{id}")))
        }
        (&Method::GET | &Method::HEAD, ["stage", id]) => {
            let response = tape.with_request(&owner, id, |request| progress(id, request));
            json(StatusCode::OK, &response.ok_or_else(|| unknown(id))?)
        }
        (&Method::POST, ["stage", id, "cancel"]) => {
            let Paths { paths } = read(&mut request.body, MAX_BYTES).await?;
            let cancel = |request: &mut StageRequest| {
                paths
                    .iter()
                    .all(|path| request.settle(path.trim_matches('/'), FileState::Cancelled, None))
            };
            let all = tape.with_request(&owner, id, cancel).ok_or_else(|| unknown(id))?;
            done(all)
        }
        (&Method::DELETE, ["stage", id]) => {
            if tape.forget(&owner, id) {
                done(true)
            } else {
                Err(unknown(id))
            }
        }
        (&Method::POST, ["release", id]) => {
            let Paths { paths } = read(&mut request.body, MAX_BYTES).await?;
            let all: HashSet<String> = tape
                .with_request(&owner, id, |request| {
                    request.files.iter().map(|file| file.path.clone()).collect()
                })
                .ok_or_else(|| unknown(id))?;
            let mut of_request = true;
            for path in paths.iter().map(|path| path.trim_matches('/')) {
                if !all.contains(path) {
                    of_request = false;
                } else {
                    tape.release(path).await?;
                }
            }
            done(of_request)
        }
        (&Method::POST, ["archiveinfo"]) => {
            let Paths { paths } = read(&mut request.body, MAX_BYTES).await?;
            archive_info(context, tape, &request, paths).await
        }
        _ => Err(HttpError::new(StatusCode::NOT_FOUND, "the tape API has no such request")),
    }
}

/// The document that names the API, at the host that the client has addressed.
fn discovery(request: &ServerRequest) -> Result<ServerResponse, HttpError> {
    let scheme = if request.peer.is_secure { "https" } else { "http" };
    let host = request.host.as_ref().map_or("localhost", |host| host.as_str());
    let uri = format!("{scheme}://{host}/{PLACE}");
    let endpoint = json!({ "uri": uri, "version": "v1", "metadata": {} });
    let document = json!({ "sitename": host, "endpoints": [endpoint] });
    json(StatusCode::OK, &document)
}

/// The paths as the tape system has them, each once; with the reason if the client may not read it.
fn checked(
    context: &ServerContext,
    tape: &TapeDoor,
    request: &ServerRequest,
    paths: Vec<String>,
) -> Result<Vec<CheckedPath>, HttpError> {
    if paths.len() > tape.max_files() {
        let what = format!(
            "the request has {} files, this server takes {} at a time",
            paths.len(),
            tape.max_files()
        );
        return Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, what));
    }
    let mut seen = HashSet::new();
    let once = paths.into_iter().filter(|path| seen.insert(path.trim_matches('/').to_owned()));
    let allowed = |path: String| {
        // The path in the document is not percent-encoded.
        let place = NamespacePath::parse(&href(path.trim_matches('/'), false));
        let allowed = place.and_then(|place| {
            context.authorize(request, &place, Action::Read).map(|()| place.path().to_owned())
        });
        allowed.map_err(|error| (path.trim_matches('/').to_owned(), error.what))
    };
    Ok(once.map(allowed).collect())
}

fn progress(id: &str, request: &StageRequest) -> Value {
    let file = |file: &StagedFile| {
        let mut response = json!({
            "path": format!("/{}", file.path),
            "state": file.state.name(),
            "onDisk": file.state == FileState::Completed,
        });
        if let Some(error) = &file.error {
            response["error"] = json!(error);
        }
        for (name, time) in [("startedAt", file.started), ("finishedAt", file.finished)] {
            if let Some(time) = time {
                response[name] = json!(time);
            }
        }
        response
    };
    let files: Vec<_> = request.files.iter().map(file).collect();
    let mut response = json!({ "id": id, "createdAt": request.created, "files": files });
    if let Some(started) = request.files.iter().filter_map(|file| file.started).min() {
        response["startedAt"] = json!(started);
    }
    if request.is_over() {
        response["completedAt"] =
            json!(request.files.iter().filter_map(|file| file.finished).max());
    }
    response
}

async fn archive_info(
    context: &ServerContext,
    tape: &TapeDoor,
    request: &ServerRequest,
    paths: Vec<String>,
) -> Result<ServerResponse, HttpError> {
    let mut response = Vec::new();
    for path in checked(context, tape, request, paths)? {
        response.push(match path {
            Err((path, error)) => json!({ "path": format!("/{path}"), "error": error }),
            Ok(path) => {
                let found = context.backend.stat(&path).await.map_err(|error| error.to_string());
                let locality = match found {
                    Ok(_) => match tape.locality(&path).await {
                        // Each of the other paths would wait as long.
                        Err(error @ CommandError::NoSlot(_)) => return Err(error.into()),
                        found => found.map_err(|error| error.to_string()),
                    },
                    Err(error) => Err(error),
                };
                match locality {
                    Ok(it) => json!({ "path": format!("/{path}"), "locality": it.name() }),
                    Err(error) => json!({ "path": format!("/{path}"), "error": error }),
                }
            }
        });
    }
    json(StatusCode::OK, &response)
}

/// The response to a change of some files of a request.
fn done(all: bool) -> Result<ServerResponse, HttpError> {
    if all {
        return Ok(ServerResponse::empty(StatusCode::OK));
    }
    let what = "some of the paths are not in this request";
    Err(HttpError::new(StatusCode::BAD_REQUEST, what))
}

fn unknown(id: &str) -> HttpError {
    HttpError::new(StatusCode::NOT_FOUND, format!("this client has no request {id:?}"))
}
