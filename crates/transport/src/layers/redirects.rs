//! Redirects: their limit, the next target, and the secrets that it gets.
//!
//! A request is attempted at the known location of its file, and again where a server redirects it.
//! Each attempt counts, also one that is repeated at the same server: after a renewed credential, a
//! 417, or a change to TLS. So a loop between servers ends with an error.
//!
//! A [`Location`] that was reached by redirects knows the origin of the URL that the user gave, so
//! the credentials for that origin are withheld from other ones
//! ([`authorization`](crate::authorization)). A request that has secrets of its own is not
//! redirected to a server that may not get them ([`next_request`]).
//!
//! A file keeps the target of its last redirect ([`target_memory`](super::target_memory)), and goes
//! back to its first server if that one may be wrong ([`may_be_wrong_target`]).

use crate::http::call::{HttpRequest, is_read};
use crate::http::request_body::RequestBody;
use crate::location::{Location, secrets};
use hither_auth::Credentials;
use hither_core::error::{Error, ErrorKind, Failure, Result, Retry};
use hither_http::PelicanNamespace;
use http::{HeaderMap, Method, StatusCode, header};
use tracing::debug;

/// The maximum number of redirects of an HTTP request.
pub(crate) const MAX_HTTP_REDIRECTS: usize = 8;

/// The maximum number of redirects of a root:// request, as in XRootD's own client.
pub(crate) const MAX_XROOTD_REDIRECTS: usize = 16;

/// The attempts of one request.
#[derive(Debug)]
pub(crate) struct Attempts {
    first: Location,
    max_redirects: usize,
    made: usize,
}

impl Attempts {
    /// A request to `first` that was not attempted yet.
    pub(crate) fn new(first: &Location, max_redirects: usize) -> Self {
        Self { first: first.clone(), max_redirects, made: 0 }
    }

    /// Counts an attempt.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] beyond the limit.
    pub(crate) fn count(&mut self) -> Result<()> {
        self.made += 1;
        if self.made <= self.max_redirects + 1 {
            return Ok(());
        }
        let first = &self.first;
        let max = self.max_redirects;
        let what = format!("{first}: more than {max} redirects, probably a loop between servers");
        Err(Error::new(ErrorKind::Protocol, what))
    }
}

/// The request that follows the response with `status` and `headers` to `call`, if that is a
/// redirect. A redirected read may become a GET without body.
///
/// # Errors
///
/// [`ErrorKind::Protocol`] for a redirect that cannot be followed; [`ErrorKind::PermissionDenied`]
/// if a field of the request is a secret that the target may not get; those of [`http_target`].
pub(crate) fn next_request(
    call: &HttpRequest,
    status: StatusCode,
    headers: &HeaderMap,
    credentials: &Credentials,
) -> Result<Option<HttpRequest>> {
    let HttpRequest { location: from, method, content, .. } = call;
    let Some(location) = http_redirect(from, method, status, headers, content.is_whole())? else {
        return Ok(None);
    };
    secrets::check_redirect(&call.headers, from, &location, credentials)?;
    let mut next = HttpRequest { location, ..call.clone() };
    if becomes_get(status, method) {
        next.method = Method::GET;
        next.content = RequestBody::Empty;
    }
    Ok(Some(next))
}

/// The target of an HTTP response from `from` to a request with `method`, if it is a redirect.
/// `can_resend` says whether the body of the request can be sent again.
///
/// # Errors
///
/// [`ErrorKind::Protocol`] for a redirect that cannot be followed, and the errors of
/// [`http_target`].
fn http_redirect(
    from: &Location,
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
    can_resend: bool,
) -> Result<Option<Location>> {
    // A GET of what 303 names would not carry out a change.
    let is_other = status == StatusCode::SEE_OTHER && !is_read(method);
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) && !is_other;
    let Some(reference) = headers.get(header::LOCATION).filter(|_| is_redirect) else {
        return Ok(None);
    };
    let invalid = |what| Error::new(ErrorKind::Protocol, format!("{from}: the server {what}"));
    let reference = str::from_utf8(reference.as_bytes());
    let reference = reference.map_err(|_| invalid("redirects to an invalid URL"))?;
    if !can_resend {
        return Err(invalid(
            "redirected after a part of the file was sent, which cannot be sent again",
        ));
    }
    http_target(from, method, headers, reference).map(Some)
}

/// The target of an HTTP redirect to `reference`.
///
/// # Errors
///
/// The errors of [`Location::join`].
pub(crate) fn http_target(
    from: &Location,
    method: &Method,
    headers: &HeaderMap,
    reference: &str,
) -> Result<Location> {
    let to = if from.is_at_director() {
        from.at_server(reference, PelicanNamespace::of(headers), method)?
    } else {
        from.join(reference)?
    };
    debug!(%from, %to, "redirected");
    Ok(to)
}

/// Returns whether a redirected read becomes a GET without body (RFC 9110 section 15.4.4).
fn becomes_get(status: StatusCode, method: &Method) -> bool {
    status == StatusCode::SEE_OTHER && *method != Method::HEAD
}

/// Returns true for an error of a redirect target after which another one may have the file.
pub(crate) fn may_be_wrong_target(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::Unauthenticated => true,
        // A server that answers is the right one.
        ErrorKind::Unavailable | ErrorKind::Timeout => match error.failure() {
            Failure::Status { .. } => error.retry() == Retry::OtherServer,
            _ => !matches!(error.retry(), Retry::Later { .. }),
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_comes_after_the_last_allowed_redirect() {
        let mut attempts = Attempts::new(&Location::parse("http://host/f").unwrap(), 2);
        assert!((0..3).all(|_| attempts.count().is_ok()));
        let error = attempts.count().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.to_string().contains("http://host/f: more than 2 redirects"), "{error}");
    }

    #[test]
    fn a_redirect_is_followed_only_if_the_body_can_be_sent_again() {
        let from = Location::parse("http://host/f").unwrap();
        let headers: HeaderMap = [(header::LOCATION, "/g".parse().unwrap())].into_iter().collect();
        let target =
            |status, can_resend| http_redirect(&from, &Method::PUT, status, &headers, can_resend);
        let to = target(StatusCode::TEMPORARY_REDIRECT, true).unwrap();
        assert_eq!(to, Some(Location::parse("http://host/g").unwrap()));
        assert_eq!(target(StatusCode::CREATED, false).unwrap(), None);
        let error = target(StatusCode::TEMPORARY_REDIRECT, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
    }

    #[test]
    fn only_see_other_changes_the_method_and_head_stays_head() {
        assert!(becomes_get(StatusCode::SEE_OTHER, &Method::OPTIONS));
        assert!(!becomes_get(StatusCode::SEE_OTHER, &Method::HEAD));
        assert!(!becomes_get(StatusCode::FOUND, &Method::OPTIONS));
    }

    #[test]
    fn see_other_is_not_followed_by_a_change() {
        let from = Location::parse("http://host/f").unwrap();
        let headers: HeaderMap = [(header::LOCATION, "/g".parse().unwrap())].into_iter().collect();
        for (method, is_followed) in [
            ("GET", true),
            ("PROPFIND", true),
            ("PUT", false),
            ("MOVE", false),
            ("COPY", false),
            ("DELETE", false),
            ("MKCOL", false),
            ("POST", false),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let to = http_redirect(&from, &method, StatusCode::SEE_OTHER, &headers, true);
            assert_eq!(to.unwrap().is_some(), is_followed, "{method}");
        }
    }

    #[test]
    fn a_request_with_a_secret_is_not_redirected_to_another_server() {
        let of = |url: &str| HttpRequest::new(Method::PUT, Location::parse(url).unwrap());
        let plain = of("http://host/f").with("x-field", "words");
        let mut secret = plain.clone();
        secret.headers.values_mut().for_each(|value| value.set_sensitive(true));
        for (call, to, is_followed) in [
            (&plain, "http://other/g", true),
            (&secret, "http://host/g", true),
            (&secret, "http://other/g", false),
        ] {
            let headers = HeaderMap::from_iter([(header::LOCATION, to.parse().unwrap())]);
            let status = StatusCode::TEMPORARY_REDIRECT;
            match next_request(call, status, &headers, &Credentials::default()) {
                Ok(Some(next)) => {
                    assert_eq!((next.location.to_string(), is_followed), (to.into(), true))
                }
                Ok(None) => panic!("{to} was not taken for a redirect"),
                Err(error) => {
                    assert_eq!((error.kind(), is_followed), (ErrorKind::PermissionDenied, false))
                }
            }
        }
    }

    #[test]
    fn a_redirect_may_have_letters_that_are_not_encoded() {
        let call = HttpRequest::new(Method::GET, Location::parse("http://host/f").unwrap());
        let to = http::HeaderValue::from_bytes("/späti".as_bytes()).unwrap();
        let headers = HeaderMap::from_iter([(header::LOCATION, to)]);
        let next = next_request(&call, StatusCode::FOUND, &headers, &Credentials::default());
        assert_eq!(next.unwrap().unwrap().location.to_string(), "http://host/sp%C3%A4ti");
    }

    #[test]
    fn see_other_turns_a_read_into_a_get() {
        let location = Location::parse("http://host/f").unwrap();
        let query = HttpRequest::new(Method::QUERY, location)
            .with_content(RequestBody::Bytes(bytes::Bytes::from_static(b"query")));
        let headers: HeaderMap = [(header::LOCATION, "/g".parse().unwrap())].into_iter().collect();
        for (status, method, bytes) in
            [(StatusCode::SEE_OTHER, Method::GET, 0), (StatusCode::FOUND, Method::QUERY, 5)]
        {
            let next = next_request(&query, status, &headers, &Credentials::default());
            let next = next.unwrap().unwrap();
            assert_eq!((next.method, next.content.len()), (method, bytes));
        }
    }

    #[test]
    fn a_target_that_refuses_or_does_not_respond_may_be_the_wrong_one() {
        let answered =
            |kind, code| Error::new(kind, "no").with_failure(Failure::Status { code, after: None });
        assert!(may_be_wrong_target(&answered(ErrorKind::NotFound, 404)));
        assert!(may_be_wrong_target(&Error::new(ErrorKind::Unavailable, "closed")));
        assert!(!may_be_wrong_target(&answered(ErrorKind::Unavailable, 503)));
        assert!(!may_be_wrong_target(&Error::new(ErrorKind::Changed, "another version")));
    }
}
