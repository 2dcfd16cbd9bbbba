//! Redirects and renewed credentials: limits, the next target, and the memory of a file's target.
//!
//! A request is attempted at the known location of its file, and again where a server redirects it.
//! Each attempt counts, also one that is repeated at the same server: after a renewed credential, a
//! 417, or a change to TLS. So a loop between servers ends with an error. A rejected credential is
//! renewed once per request, because the new one may be rejected as well.
//!
//! A [`Location`] that was reached by redirects knows the origin of the URL that the user gave, so
//! the credentials for that origin are withheld from other ones ([`authorization`]).

pub(crate) mod target_memory;

use crate::authorization;
use crate::config::TransportConfig;
use crate::location::Location;
use hither_auth::Authorization;
use hither_core::error::{Error, ErrorKind, Result};
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
    renewed: bool,
}

impl Attempts {
    /// A request to `first` that was not attempted yet.
    pub(crate) fn new(first: &Location, max_redirects: usize) -> Self {
        Self { first: first.clone(), max_redirects, made: 0, renewed: false }
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

    /// Reads the credential for `location` again after a server rejected `used`, once. Returns
    /// whether another one is available, so that the request can be repeated.
    pub(crate) async fn renew(
        &mut self,
        location: &Location,
        config: &TransportConfig,
        used: &Authorization,
    ) -> bool {
        if !self.renewed {
            self.renewed = authorization::renewed(location, config, used).await;
            return self.renewed;
        }
        false
    }
}

/// The target of an HTTP response from `from` to a request with `method`, if it is a redirect.
/// `can_resend` says whether the body of the request can be sent again.
///
/// # Errors
///
/// [`ErrorKind::Protocol`] for a redirect that cannot be followed, and the errors of
/// [`http_target`].
pub(crate) fn http_redirect(
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
    let reference = reference.to_str().map_err(|_| invalid("redirects to an invalid URL"))?;
    if !can_resend {
        return Err(invalid(
            "redirected after a part of the file was sent, which cannot be sent again",
        ));
    }
    http_target(from, method, headers, reference).map(Some)
}

/// Returns true for methods that change nothing.
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PROPFIND" | "QUERY")
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
pub(crate) fn becomes_get(status: StatusCode, method: &Method) -> bool {
    status == StatusCode::SEE_OTHER && *method != Method::HEAD
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
}
