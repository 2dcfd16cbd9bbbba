//! The check that a response is of the version that is read.

use crate::http::exchange::{Exchange, is_weak};
use crate::location::Location;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{Request, is_entity_tag, validators_differ};
use http::{HeaderMap, StatusCode, header};

/// The entity tag of a response. It may be weak.
pub(crate) fn entity_tag(headers: &HeaderMap) -> Option<&str> {
    let tag = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok());
    tag.filter(|tag| is_entity_tag(tag))
}

/// Fails if a file of another size than the one that was `seen` is requested: that is another
/// version.
pub(crate) fn check_size(request: &Request, seen: Option<u64>, location: &Location) -> Result<()> {
    match (request.size, seen) {
        (Some(expected), Some(seen)) if expected != seen => {
            let what =
                format!("{location}: the file has {seen} bytes on the server, expected {expected}");
            Err(Error::new(ErrorKind::Changed, what))
        }
        _ => Ok(()),
    }
}

/// Fails if an HTML page was sent in place of a file that is none, such as a login page, unless it
/// has the size that the file must have.
pub(crate) fn check_page(
    request: &Request,
    is_page: bool,
    seen: Option<u64>,
    location: &Location,
) -> Result<()> {
    let is_sized = request.size.is_some() && request.size == seen;
    if !request.refuses_pages || !is_page || is_sized {
        return Ok(());
    }
    let what = format!(
        "{location}: the server sends an HTML page in place of the file: log in again, or check the \
         URL and the server's configuration"
    );
    Err(Error::new(ErrorKind::Protocol, what))
}

impl Exchange<'_> {
    /// A validator that differs from that of the opened file means another version. Only those of
    /// one kind are compared: a server may send a weak entity tag first and a strong one later.
    pub(crate) fn check_validator(&self, head: &http::response::Parts) -> Result<()> {
        let Some(expected) = self.validator.as_deref() else { return Ok(()) };
        if head.status == StatusCode::PRECONDITION_FAILED {
            return Err(self.changed());
        }
        if !head.status.is_success() {
            return Ok(());
        }
        let name = if is_entity_tag(expected) { header::ETAG } else { header::LAST_MODIFIED };
        let seen = head.headers.get(name).and_then(|value| value.to_str().ok());
        // A server that compared a strong validator and sends the whole file has another version,
        // with or without a validator. A server that sends a part has found them equal.
        let must_agree = head.status == StatusCode::OK && !is_weak(expected);
        let now = match seen {
            Some(seen) if validators_differ(expected, seen) => format!("and is now {seen}"),
            Some(seen) if must_agree && seen != expected => format!("and is now {seen}"),
            None if must_agree => "and is now missing".to_owned(),
            None => match self.other_date(head) {
                Some(seen) => format!("and is now missing, and the file is of {seen}"),
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        Err(Error::new(
            ErrorKind::Changed,
            format!(
                "{}: the file changed on the server: its validator was {expected} {now}",
                self.location
            ),
        ))
    }

    /// An entity tag that differs from that of an earlier response means another version, also
    /// where it is weak and no validator. At a server with several tags for one version, it does
    /// not.
    pub(crate) fn check_tag(&self, head: &http::response::Parts) -> Result<()> {
        if !head.status.is_success() || self.pool.server().has_own_tags() {
            return Ok(());
        }
        let Some(tag) = entity_tag(&head.headers) else { return Ok(()) };
        let Self { location, request, .. } = self;
        request.version.bind_tag(&location.to_string(), &location.origin(), tag)
    }

    /// The date of last modification of a response, if it differs from that of the first one. It
    /// shows another version where a response lacks the entity tag.
    fn other_date<'h>(&self, head: &'h http::response::Parts) -> Option<&'h str> {
        let seen = head.headers.get(header::LAST_MODIFIED)?.to_str().ok()?;
        self.request.version.modified().is_some_and(|first| first != seen).then_some(seen)
    }

    /// Returns true if the tag alone shows that a response is of another version.
    pub(crate) fn has_other_tag(&self, headers: &HeaderMap, size: Option<u64>) -> bool {
        let expected = self.request.size.or_else(|| self.request.version.size());
        let date = headers.get(header::LAST_MODIFIED).and_then(|it| it.to_str().ok());
        let known = self.request.version.modified();
        let bound = self.validator.as_deref().filter(|it| is_entity_tag(it));
        bound.or_else(|| self.request.version.tag()).is_some_and(|bound| {
            entity_tag(headers).is_some()
                && size.zip(expected).is_none_or(|(now, expected)| now == expected)
                && match date {
                    Some(now) => known.is_none_or(|known| known == now),
                    None => is_weak(bound) && known.is_none(),
                }
        })
    }

    /// The error for a server that found the condition of the request false.
    pub(crate) fn changed(&self) -> Error {
        let what = format!("{}: the file has changed on the server", self.location);
        Error::new(ErrorKind::Changed, what)
    }
}
