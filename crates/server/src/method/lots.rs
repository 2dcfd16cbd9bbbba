//! Lots over HTTP: a small JSON API (`docs/openapi-lots.yaml`).
//!
//! | request, below `/.well-known/hither` | effect |
//! |---|---|
//! | `POST /lots` `{"path", "bytes", "lease_seconds"}` | creates a lot: 201 |
//! | `GET /lots` | lists the client's lots |
//! | `GET /lots/ID` | describes a lot |
//! | `PATCH /lots/ID` `{"bytes"?, "lease_seconds"?}` | changes the size, renews the lease |
//! | `DELETE /lots/ID` | releases the lot: 204 |
//!
//! A lot belongs to the client that created it; for other clients it does not exist. To create one,
//! a client needs the permission to create files at its path.

use crate::authorization::authorizer::Action;
use crate::backend::BackendError;
use crate::backend::path::{NamespacePath, href};
use crate::connection::incoming_body::IncomingBody;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::lots::{Lot, LotError, Lots, seconds};
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use http::{Method, StatusCode, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

/// The path of the API.
const PLACE: &str = ".well-known/hither/lots";
const JSON: &str = "application/json";
/// The maximum size of a request's body.
const MAX_BYTES: usize = 16 << 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LotBody {
    path: String,
    bytes: u64,
    lease_seconds: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    #[serde(default, deserialize_with = "present")]
    bytes: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    lease_seconds: Option<u64>,
}

/// Reads a number; unlike the default for options it rejects `null`.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    u64::deserialize(value).map(Some)
}

/// A lot as a response describes it.
#[derive(Debug, Serialize)]
struct LotJson<'a> {
    id: &'a str,
    path: String,
    bytes: u64,
    used_bytes: u64,
    /// The maximum number of files and directories.
    files: u64,
    used_files: u64,
    /// The end of the lease, in seconds since 1970.
    expires: u64,
    lease_seconds: u64,
}

impl<'a> LotJson<'a> {
    fn of(lot: &'a Lot, now: u64) -> Self {
        Self {
            id: &lot.id,
            path: format!("/{}", lot.path),
            bytes: lot.bytes,
            used_bytes: lot.used,
            files: lot.files,
            used_files: lot.used_files,
            expires: lot.expires,
            lease_seconds: lot.expires.saturating_sub(now),
        }
    }
}

/// The rest of a path below that of the API; none for other paths.
pub(crate) fn below(place: &NamespacePath) -> Option<&str> {
    let rest = place.path().strip_prefix(PLACE)?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
}

/// Handles a request to the API.
pub(crate) async fn handle(
    context: &ServerContext,
    lots: &Arc<Lots>,
    mut request: ServerRequest,
) -> Result<ServerResponse, HttpError> {
    let owner = context.client_name(&request)?;
    let now = seconds();
    let id = below(&request.path).unwrap_or_default().to_owned();
    match (&request.method, id.is_empty()) {
        (&Method::GET | &Method::HEAD, true) => {
            let own = lots.of(&owner, now);
            let response: Vec<_> = own.iter().map(|lot| LotJson::of(lot, now)).collect();
            json(StatusCode::OK, &response)
        }
        (&Method::GET | &Method::HEAD, false) => {
            json(StatusCode::OK, &LotJson::of(&lots.find(&owner, &id, now)?, now))
        }
        (&Method::POST, true) => create(context, lots, request, owner, now).await,
        (&Method::PATCH, false) => {
            allow_change(context, lots, &request, &owner, &id)?;
            let Changed { bytes, lease_seconds } = read(&mut request.body, MAX_BYTES).await?;
            let lot = run(lots, move |lots| lots.extend(&owner, &id, bytes, lease_seconds, now));
            json(StatusCode::OK, &LotJson::of(&lot.await?, now))
        }
        (&Method::DELETE, false) => {
            allow_change(context, lots, &request, &owner, &id)?;
            run(lots, move |lots| lots.release(&owner, &id, now)).await?;
            Ok(ServerResponse::empty(StatusCode::NO_CONTENT))
        }
        _ => Err(HttpError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "the lots API does not have this method",
        )
        .with(header::ALLOW, methods_of(&id))),
    }
}

/// The methods that the API has at a path; none for other paths.
pub(crate) fn methods(place: &NamespacePath) -> Option<&'static str> {
    below(place).map(methods_of)
}

fn methods_of(id: &str) -> &'static str {
    if id.is_empty() { "OPTIONS, GET, HEAD, POST" } else { "OPTIONS, GET, HEAD, PATCH, DELETE" }
}

/// Fails unless the client owns the lot and may still create one at its path.
fn allow_change(
    context: &ServerContext,
    lots: &Lots,
    request: &ServerRequest,
    owner: &str,
    id: &str,
) -> Result<(), HttpError> {
    let lot = lots.find(owner, id, seconds())?;
    context.authorize(request, &NamespacePath::parse(&href(&lot.path, false))?, Action::Create)
}

async fn create(
    context: &ServerContext,
    lots: &Arc<Lots>,
    mut request: ServerRequest,
    owner: String,
    now: u64,
) -> Result<ServerResponse, HttpError> {
    let LotBody { path, bytes, lease_seconds } = read(&mut request.body, MAX_BYTES).await?;
    // The path in the document is not percent-encoded.
    let place = NamespacePath::parse(&href(&path, false))?;
    context.authorize(&request, &place, Action::Create)?;
    let lot = run(lots, move |lots| lots.create(&owner, place.path(), bytes, lease_seconds, now));
    let lot = lot.await?;
    let response = json(StatusCode::CREATED, &LotJson::of(&lot, now))?;
    Ok(response.with(header::LOCATION, &format!("/{PLACE}/{}", lot.id)))
}

/// Reads a JSON body of at most `max_bytes`.
pub(crate) async fn read<T: DeserializeOwned>(
    body: &mut IncomingBody,
    max_bytes: usize,
) -> Result<T, HttpError> {
    let text = body.collect(max_bytes).await?;
    serde_json::from_slice(&text).map_err(|error| {
        HttpError::new(StatusCode::BAD_REQUEST, format!("the body is not valid: {error}"))
    })
}

/// Runs `work` on a blocking thread.
async fn run<T: Send + 'static>(
    lots: &Arc<Lots>,
    work: impl FnOnce(&Arc<Lots>) -> Result<T, LotError> + Send + 'static,
) -> Result<T, HttpError> {
    let lots = Arc::clone(lots);
    match tokio::task::spawn_blocking(move || work(&lots)).await {
        Ok(done) => Ok(done?),
        Err(_) => {
            Err(HttpError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"))
        }
    }
}

/// A JSON response.
pub(crate) fn json(
    status: StatusCode,
    value: &impl Serialize,
) -> Result<ServerResponse, HttpError> {
    let text = serde_json::to_string(value).map_err(|error| {
        HttpError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("cannot write the response: {error}"),
        )
    })?;
    Ok(ServerResponse::text(status, JSON, text + "\n").with(header::CACHE_CONTROL, "no-store"))
}

impl From<LotError> for HttpError {
    fn from(error: LotError) -> Self {
        BackendError::from(error).into()
    }
}
