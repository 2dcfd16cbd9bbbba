//! The size of a file that no response has stated: a response without a length has ended after so
//! many bytes.
//!
//! Such a response looks whole when it breaks off, as one that a proxy ends in good form. So its
//! size is compared with the one that the server states otherwise: the one that the request
//! expects, which costs nothing, else that of a HEAD, or of a PROPFIND if HEAD states none. A size
//! that the server states nowhere else is believed. Once for each file that is open; responses that
//! state their length cause no further request.

use crate::http::call::HttpRequest;
use crate::http::request;
use crate::http::request_body::RequestBody;
use crate::location::Location;
use crate::network::Network;
use bytes::Bytes;
use hither_core::ResponseMeta;
use hither_core::error::{Error, ErrorKind, Failure, Result};
use hither_http::propfind::{self, PropfindLimits};
use http::{Method, StatusCode, header};
use std::fmt;
use tokio::sync::Mutex;

/// The counted size that was compared.
#[derive(Debug, Default)]
pub(crate) struct CountedSize(Mutex<Option<u64>>);

impl CountedSize {
    /// Compares the size of a file in an answer to a request that expects `expected`, if it was
    /// counted. Asks for the `stated` one only where that is needed, which takes a connection.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Changed`] if another size is expected; [`ErrorKind::Protocol`] if the server
    /// states another one. Of a server that says 0 that is not believed: some do where they do not
    /// know.
    pub(crate) async fn check(
        &self,
        name: impl fmt::Display,
        answer: &ResponseMeta,
        expected: Option<u64>,
        stated: impl Future<Output = Option<u64>>,
    ) -> Result<()> {
        let Some(counted) = answer.size.filter(|_| answer.is_size_counted) else { return Ok(()) };
        let ended = format!("{name}: the response ended after {counted} bytes");
        if let Some(expected) = expected {
            let changed =
                || Error::new(ErrorKind::Changed, format!("{ended}, expected {expected}"));
            return if expected == counted { Ok(()) } else { Err(changed()) };
        }
        let mut compared = self.0.lock().await;
        if *compared != Some(counted) {
            if let Some(stated) = stated.await.filter(|it| *it > 0 && *it != counted) {
                let what = format!("{ended}, but the server states {stated}");
                let error = Error::new(ErrorKind::Protocol, what);
                return Err(error.with_failure(Failure::OneServer));
            }
            *compared = Some(counted);
        }
        Ok(())
    }
}

/// The size of the file at `location` that its server states, if it states one. A server that
/// cannot be asked states none.
pub(super) async fn stated(location: &Location, network: &Network) -> Option<u64> {
    let head = network.call(HttpRequest::new(Method::HEAD, location.clone())).await.ok()?;
    // A page in place of the file, such as one to log in, tells nothing of it.
    if head.status == StatusCode::OK && !request::is_html(&head.headers) {
        let length = head.headers.get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok());
        if let Some(length) = length.and_then(|it| it.parse().ok()).filter(|it| *it > 0) {
            return Some(length);
        }
    }
    let bounds = PropfindLimits::default();
    let method = Method::from_bytes(b"PROPFIND").unwrap_or_default();
    let call = HttpRequest::new(method, location.clone())
        .with("depth", "0")
        .with(header::CONTENT_TYPE, propfind::CONTENT_TYPE)
        .with_content(RequestBody::Bytes(Bytes::from_static(propfind::body().as_bytes())));
    let reply = network.call(call).await.ok()?;
    if reply.status != StatusCode::MULTI_STATUS {
        return None;
    }
    let asked = format!("http://{}{}", reply.location.host_and_port(), reply.location.target());
    let resources = propfind::parse(&reply.body, &asked.parse().ok()?, &bounds).ok()?;
    let own = resources.into_iter().find(|it| it.path.is_empty() && it.status.is_success())?;
    own.size.filter(|_| !own.is_collection)
}
