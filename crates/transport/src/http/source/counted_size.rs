//! The size of a file that no response has stated: a response without a length has ended after so
//! many bytes.
//!
//! Such a response looks whole when it breaks off, as one that a proxy ends in good form. So its
//! size is compared with the one that the server states otherwise: the one that the request
//! expects, which costs nothing, else that of a HEAD, or of a PROPFIND if HEAD states none. A size
//! that the server states nowhere else is believed, but not while the server cannot be asked: what
//! broke the response off, such as a proxy without its server, may break these requests, too. Once
//! for each file that is open; responses that state their length cause no further request.

use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::{properties, request, status_error};
use crate::location::Location;
use crate::network::Network;
use hither_core::ResponseMeta;
use hither_core::error::{Error, ErrorKind, Failure, Result};
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
    /// states another one. A stated size of 0 is ignored: some servers state it where they do not
    /// know the size. The error of `stated`, if the server cannot be asked.
    pub(crate) async fn check(
        &self,
        name: impl fmt::Display,
        answer: &ResponseMeta,
        expected: Option<u64>,
        stated: impl Future<Output = Result<Option<u64>>>,
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
            let unknown = |error: Error| {
                let what = format!("{ended}, and its size could not be verified");
                error.context(what).with_failure(Failure::OneServer)
            };
            let stated = stated.await.map_err(unknown)?;
            if let Some(stated) = stated.filter(|it| *it > 0 && *it != counted) {
                let what = format!("{ended}, but the server states {stated}");
                let error = Error::new(ErrorKind::Protocol, what);
                return Err(error.with_failure(Failure::OneServer));
            }
            *compared = Some(counted);
        }
        Ok(())
    }
}

/// The result of a request for a size: none if the server does not answer such requests.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`] and [`ErrorKind::Timeout`], after which it may answer later.
pub(crate) fn unless_temporary<T>(looked: Result<T>) -> Result<Option<T>> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) => {
            Err(error)
        }
        Err(_) => Ok(None),
    }
}

/// The size of the file at `location` that its server states, if it states one.
///
/// # Errors
///
/// As [`unless_temporary`].
pub(super) async fn stated(location: &Location, network: &Network) -> Result<Option<u64>> {
    let head = HttpRequest::new(Method::HEAD, location.clone());
    if let Some(length) = answer(network, head).await?.as_ref().and_then(length) {
        return Ok(Some(length));
    }
    let reply = answer(network, properties::request(location.clone(), "0")).await?;
    let Some(reply) = reply.filter(|it| it.status == StatusCode::MULTI_STATUS) else {
        return Ok(None);
    };
    let resources = properties::resources(&reply).unwrap_or_default();
    let own = resources.into_iter().find(|it| it.path.is_empty() && it.status.is_success());
    Ok(own.filter(|it| !it.is_collection).and_then(|it| it.size))
}

async fn answer(network: &Network, call: HttpRequest) -> Result<Option<HttpResponse>> {
    let method = call.method.clone();
    let reply = network.call(call).await.and_then(|reply| {
        let failed = status_error::is_temporary(reply.status);
        if failed { Err(status_error::of_response(&reply, method.as_str())) } else { Ok(reply) }
    });
    unless_temporary(reply)
}

/// The length in a response to HEAD. A page in place of the file, such as one to log in, states
/// none.
fn length(head: &HttpResponse) -> Option<u64> {
    let is_file = head.status == StatusCode::OK && !request::is_html(&head.headers);
    let length = head.headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    length.filter(|it| is_file && *it > 0)
}
