//! Reserved space on servers.

use crate::client::Client;
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::{Location, LotsApi, Protocol, redact_url};
use std::sync::Arc;

impl Client {
    /// The lots of the server of `url`, and the path of `url` on it. Sends no request.
    ///
    /// # Errors
    ///
    /// As [`Client::storage`]; [`ErrorKind::Unsupported`] for URLs other than those of HTTP.
    pub fn lots(&self, url: &str) -> Result<(LotsApi, String)> {
        let path = self.storage_path(url)?.path;
        let location = Location::parse(url).ok().filter(|it| it.protocol() == Protocol::Http);
        let location = location.ok_or_else(|| {
            let what = format!("{}: lots are reserved over http:// or https://", redact_url(url));
            Error::new(ErrorKind::Unsupported, what)
        })?;
        Ok((LotsApi::new(&location, Arc::clone(&self.context.network)), path))
    }
}
