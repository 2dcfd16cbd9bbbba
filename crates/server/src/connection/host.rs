//! The host that a request addresses: the field `Host`, or the authority of the target (RFC 9110
//! section 7.2, RFC 9112 section 3.2, RFC 9113 section 8.3.1).
//!
//! The host matters to a server that has no other means to distinguish clients. A web page can make
//! a browser send requests to any address, if the name of its own host resolves to it (DNS
//! rebinding), and read the responses. But the browser sends that name. So requests that arrive at
//! a loopback address without authorization have to name this machine ([`check_local`]).

use crate::http_error::HttpError;
use http::request::Parts;
use http::uri::Authority;
use http::{StatusCode, Version, header};
use std::net::{IpAddr, SocketAddr};

/// The host that a request addresses; none for HTTP/1.0 without `Host`. Fails if it is malformed,
/// missing or ambiguous.
pub(crate) fn addressed(head: &Parts, is_secure: bool) -> Result<Option<Authority>, HttpError> {
    let bad = |what: &str| HttpError::new(StatusCode::BAD_REQUEST, what);
    let mut fields = head.headers.get_all(header::HOST).iter();
    let field = fields.next().map(|field| Authority::try_from(field.as_bytes()));
    if fields.next().is_some() {
        return Err(bad("the request has more than one Host"));
    }
    let field = field.transpose().map_err(|_| bad("Host is not a host with an optional port"))?;
    let target = head.uri.authority().cloned();
    if [&field, &target].into_iter().flatten().any(|host| parts(host, is_secure).is_none()) {
        return Err(bad("the request addresses no valid host"));
    }
    match (field, target) {
        (Some(field), Some(target)) if parts(&field, is_secure) != parts(&target, is_secure) => {
            Err(bad("Host differs from the host in the target of the request"))
        }
        (None, target)
            if head.version == Version::HTTP_11
                || target.is_none() && head.version > Version::HTTP_10 =>
        {
            Err(bad("the request has no Host"))
        }
        (field, target) => Ok(target.or(field)),
    }
}

/// The name in lower case and the port; none if one of them is invalid.
fn parts(host: &Authority, is_secure: bool) -> Option<(String, u16)> {
    let name = host.host();
    // A user in front of the name is not part of a valid host.
    let port = match host.as_str().strip_prefix(name)? {
        "" | ":" if is_secure => 443,
        "" | ":" => 80,
        port => port.strip_prefix(':')?.parse().ok()?,
    };
    (!name.is_empty()).then(|| (name.to_ascii_lowercase(), port))
}

/// Fails if a request from this machine addresses a host that is not this machine: neither
/// `localhost` nor a loopback address nor one of `names`.
pub(crate) fn check_local(
    host: Option<&Authority>,
    peer: SocketAddr,
    names: &[String],
) -> Result<(), HttpError> {
    let Some(host) = host.filter(|_| peer.ip().to_canonical().is_loopback()) else { return Ok(()) };
    let name = host.host().trim_matches(['[', ']']);
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    let is_own = |own: &str| own.eq_ignore_ascii_case(name);
    if name.parse().is_ok_and(is_loopback)
        || is_own("localhost")
        || names.iter().any(|it| is_own(it))
    {
        return Ok(());
    }
    let what = format!(
        "{name:?} is not a name of this server: `names` in its configuration lists those that it \
         answers to beside localhost"
    );
    Err(HttpError::new(StatusCode::MISDIRECTED_REQUEST, what))
}
