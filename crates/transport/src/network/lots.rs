//! Lots of `hither serve`: space that is reserved for a folder and a time
//! (`docs/openapi-lots.yaml`).

use crate::http::call::change::{ChangeOutcome, Seen};
use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::request_body::RequestBody;
use crate::http::status_error;
use crate::location::Location;
use crate::network::Network;
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use http::{Method, StatusCode, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const WELL_KNOWN: &str = ".well-known/hither/lots";
/// The maximum size of a response in bytes: some 10,000 lots.
const MAX_BYTES: usize = 4 << 20;

/// Reserved space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lot {
    /// The id, by which it is renewed and released.
    pub id: String,
    /// The folder, from the root of the server.
    pub path: String,
    /// The size in bytes.
    pub bytes: u64,
    /// Bytes of files and of writes in progress.
    pub used_bytes: u64,
    /// Most files and directories.
    pub files: u64,
    /// The present number of files and directories.
    pub used_files: u64,
    /// The expiry, in seconds since 1970.
    pub expires: u64,
    /// Seconds until then.
    pub lease_seconds: u64,
}

/// The lots of a server.
#[derive(Debug, Clone)]
pub struct LotsApi {
    network: Arc<Network>,
    root: Location,
}

impl LotsApi {
    /// The lots of the server of `location`. Nothing is requested yet.
    #[must_use]
    pub fn new(location: &Location, network: Arc<Network>) -> Self {
        Self { network, root: location.root() }
    }

    /// All lots of the user, in the order of their paths.
    ///
    /// # Errors
    ///
    /// As [`Network::call`], and the refusal of the server; [`ErrorKind::Unsupported`] if it has no
    /// lots.
    pub async fn all(&self) -> Result<Vec<Lot>> {
        self.ask(Method::GET, None, None).await
    }

    /// Reserves `bytes` for the folder at `path`.
    ///
    /// # Errors
    ///
    /// As [`LotsApi::all`]; [`ErrorKind::NoSpace`] if there is no more space to reserve.
    pub async fn reserve(&self, path: &str, bytes: u64, lease: Duration) -> Result<Lot> {
        let lot = json!({ "path": path, "bytes": bytes, "lease_seconds": lease.as_secs() });
        self.ask(Method::POST, None, Some(lot)).await
    }

    /// Renews the lease of a lot from now on, or changes its size.
    ///
    /// # Errors
    ///
    /// As [`LotsApi::reserve`]; [`ErrorKind::NotFound`] if there is no such lot.
    pub async fn renew(
        &self,
        id: &str,
        bytes: Option<u64>,
        lease: Option<Duration>,
    ) -> Result<Lot> {
        let mut change = json!({});
        if let Some(bytes) = bytes {
            change["bytes"] = bytes.into();
        }
        if let Some(lease) = lease {
            change["lease_seconds"] = lease.as_secs().into();
        }
        self.ask(Method::PATCH, Some(id), Some(change)).await
    }

    /// Ends a lot; its files stay.
    ///
    /// # Errors
    ///
    /// As [`LotsApi::renew`].
    pub async fn release(&self, id: &str) -> Result<()> {
        let call = self.request(Method::DELETE, Some(id), None)?;
        let look = || async {
            let is_there = self.all().await?.iter().any(|lot| lot.id == id);
            Ok(if is_there { Seen::Undone } else { Seen::Done })
        };
        let refused = self.network.carry_out(&call, look).await?;
        refused.map_or(Ok(()), |reply| Err(self.refusal(&reply, &Method::DELETE, Some(id))))
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        id: Option<&str>,
        body: Option<Value>,
    ) -> Result<T> {
        let call = self.request(method.clone(), id, body)?;
        let reply = if method == Method::GET {
            self.network.call(call).await?
        } else {
            match self.network.change(call).await? {
                ChangeOutcome::Done(reply) | ChangeOutcome::Refused(reply) => reply,
                ChangeOutcome::Unseen(error) => return Err(error),
            }
        };
        if !reply.status.is_success() {
            return Err(self.refusal(&reply, &method, id));
        }
        serde_json::from_slice(&reply.body).map_err(|error| {
            let what = format!("{}: the response about lots cannot be read: {error}", self.root);
            Error::new(ErrorKind::Protocol, what)
        })
    }

    fn request(
        &self,
        method: Method,
        id: Option<&str>,
        body: Option<Value>,
    ) -> Result<HttpRequest> {
        let is_id = |id: &&str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric());
        let path = match id {
            None => WELL_KNOWN.to_owned(),
            Some(id) if is_id(&id) => format!("{WELL_KNOWN}/{id}"),
            Some(id) => {
                let what = format!("{id:?} is not the id of a lot: hither lots show prints them");
                return Err(Error::new(ErrorKind::Invalid, what));
            }
        };
        let mut call = HttpRequest::new(method, self.root.below(&path, false))
            .with(header::ACCEPT, "application/json");
        call.max_reply_bytes = MAX_BYTES;
        if let Some(body) = body {
            call = call
                .with(header::CONTENT_TYPE, "application/json")
                .with_content(RequestBody::Bytes(Bytes::from(body.to_string())));
        }
        Ok(call)
    }

    /// The error of a response that is not a success.
    fn refusal(&self, reply: &HttpResponse, method: &Method, id: Option<&str>) -> Error {
        let error = status_error::of_response(reply, method.as_str());
        match reply.status {
            // Where the type is not supported, POST is for something else.
            status
                if id.is_none()
                    && (status == StatusCode::NOT_FOUND
                        || status_error::is_unsupported(status)) =>
            {
                let what = format!("{}: the server has no lots", self.root.origin());
                Error::new(ErrorKind::Unsupported, what)
            }
            StatusCode::BAD_REQUEST => Error::new(ErrorKind::Invalid, error.to_string()),
            _ => error,
        }
    }
}
