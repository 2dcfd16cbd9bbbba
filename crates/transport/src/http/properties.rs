//! Requests for properties (PROPFIND, RFC 4918 section 9.1), with their responses.

use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::request_body::RequestBody;
use crate::location::Location;
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use hither_http::propfind::{self, PropfindLimits, Resource};
use http::{Method, header};

/// The request for the properties of the resource at `location`, with `depth` "0", or of those in
/// it, with "1".
pub(crate) fn request(location: Location, depth: &str) -> HttpRequest {
    let method = Method::from_bytes(b"PROPFIND").unwrap_or_default();
    let body = RequestBody::Bytes(Bytes::from_static(propfind::body().as_bytes()));
    let mut call = HttpRequest::new(method, location)
        .with("depth", depth)
        .with(header::CONTENT_TYPE, propfind::CONTENT_TYPE)
        .with_content(body);
    call.max_reply_bytes = PropfindLimits::default().max_bytes;
    call
}

/// The resources in a response with status 207.
///
/// # Errors
///
/// [`ErrorKind::Protocol`] if the response is invalid, or larger than [`PropfindLimits`] allow.
pub(crate) fn resources(reply: &HttpResponse) -> Result<Vec<Resource>> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Protocol, format!("{}: {error}", reply.location))
    };
    let whole = format!("http://{}{}", reply.location.host_and_port(), reply.location.target());
    let url = whole.parse().map_err(|error| unreadable(&error))?;
    propfind::parse(&reply.body, &url, &PropfindLimits::default())
        .map_err(|error| unreadable(&error))
}
