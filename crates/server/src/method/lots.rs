//! Lots over HTTP: a small JSON API (`docs/openapi-lots.yaml`).
//!
//! | request | does |
//! |---|---|
//! | `POST /.well-known/hither/lots` `{"path", "bytes", "lease_seconds"}` | makes one: 201 |
//! | `GET /.well-known/hither/lots` | lists those of whoever asks |
//! | `GET /.well-known/hither/lots/ID` | tells of one |
//! | `PATCH /.well-known/hither/lots/ID` `{"bytes"?, "lease_seconds"?}` | changes its size, or begins its lease anew |
//! | `DELETE /.well-known/hither/lots/ID` | releases it: 204 |
//!
//! A lot belongs to who made it; others' are not there. To make one takes the permission to make files at its path.

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

/// Where it is.
const PLACE: &str = ".well-known/hither/lots";
const JSON: &str = "application/json";
/// Largest body of a request.
const MAX_BYTES: usize = 16 << 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    path: String,
    bytes: u64,
    lease_seconds: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    #[serde(default, deserialize_with = "said")]
    bytes: Option<u64>,
    #[serde(default, deserialize_with = "said")]
    lease_seconds: Option<u64>,
}

/// A number that is not said is not there; `null` is no number.
fn said<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    u64::deserialize(value).map(Some)
}

/// A lot as it is told of.
#[derive(Debug, Serialize)]
struct Told<'a> {
    id: &'a str,
    path: String,
    bytes: u64,
    used_bytes: u64,
    /// In seconds since 1970.
    expires: u64,
    lease_seconds: u64,
}

impl<'a> Told<'a> {
    fn of(lot: &'a Lot, now: u64) -> Self {
        Self {
            id: &lot.id,
            path: format!("/{}", lot.path),
            bytes: lot.bytes,
            used_bytes: lot.used,
            expires: lot.expires,
            lease_seconds: lot.expires.saturating_sub(now),
        }
    }
}

/// The part of a path that is after that of the API, if it is one of it.
pub(crate) fn below(place: &NamespacePath) -> Option<&str> {
    let rest = place.path().strip_prefix(PLACE)?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
}

/// Answers a request to the API.
pub(crate) async fn handle(
    context: &ServerContext,
    lots: &Arc<Lots>,
    mut request: ServerRequest,
) -> Result<ServerResponse, HttpError> {
    let (owner, now) = (context.client_name(&request)?, seconds());
    let id = below(&request.path).unwrap_or_default().to_owned();
    match (&request.method, id.is_empty()) {
        (&Method::GET | &Method::HEAD, true) => {
            let own = lots.of(&owner, now);
            let told: Vec<_> = own.iter().map(|lot| Told::of(lot, now)).collect();
            json(StatusCode::OK, &told)
        }
        (&Method::GET | &Method::HEAD, false) => {
            json(StatusCode::OK, &Told::of(&lots.find(&owner, &id, now)?, now))
        }
        (&Method::POST, true) => create(context, lots, request, owner, now).await,
        (&Method::PATCH, false) => {
            allow_change(context, lots, &request, &owner, &id)?;
            let Changed { bytes, lease_seconds } = read(&mut request.body).await?;
            let lot = run(lots, move |lots| lots.extend(&owner, &id, bytes, lease_seconds, now));
            json(StatusCode::OK, &Told::of(&lot.await?, now))
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

/// What may be asked there, if it is a place of this API.
pub(crate) fn methods(place: &NamespacePath) -> Option<&'static str> {
    below(place).map(methods_of)
}

fn methods_of(id: &str) -> &'static str {
    if id.is_empty() { "OPTIONS, GET, HEAD, POST" } else { "OPTIONS, GET, HEAD, PATCH, DELETE" }
}

/// A lot is changed by its owner, with what it takes to make one there.
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
    let Wanted { path, bytes, lease_seconds } = read(&mut request.body).await?;
    // As it is called on disk, not encoded.
    let place = NamespacePath::parse(&href(&path, false))?;
    context.authorize(&request, &place, Action::Create)?;
    let lot = run(lots, move |lots| lots.create(&owner, place.path(), bytes, lease_seconds, now));
    let lot = lot.await?;
    let told = json(StatusCode::CREATED, &Told::of(&lot, now))?;
    Ok(told.with(header::LOCATION, &format!("/{PLACE}/{}", lot.id)))
}

async fn read<T: DeserializeOwned>(body: &mut IncomingBody) -> Result<T, HttpError> {
    let text = body.collect(MAX_BYTES).await?;
    serde_json::from_slice(&text).map_err(|error| {
        HttpError::new(StatusCode::BAD_REQUEST, format!("the body is not valid: {error}"))
    })
}

/// On a thread that may wait for the disk.
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

fn json(status: StatusCode, value: &impl Serialize) -> Result<ServerResponse, HttpError> {
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
