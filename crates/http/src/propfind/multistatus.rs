//! The 207 response: the entries of a multistatus document.

use super::href::Base;
use super::{DAV, MAX_DEPTH, PropfindError, PropfindLimits, Resource, is};
use crate::field::date::modification_time;
use crate::text::excerpt;
use crate::xml::{Element, LAYOUT, Token, Tokens, seen};
use http::{StatusCode, Uri};
use std::time::SystemTime;

/// Maximum number of bytes kept of one value.
const MAX_VALUE_BYTES: usize = 16 * 1024;

/// Bytes of a document in which its root element begins.
const MAX_PROLOG_BYTES: usize = 1024;

/// Parses the response to a PROPFIND of `requested`, whose path is that of the request after
/// redirects.
///
/// The paths come in the server's order; the requested path itself is among them.
///
/// # Errors
/// See [`PropfindError`].
pub fn parse(
    body: &[u8],
    requested: &Uri,
    bounds: &PropfindLimits,
) -> Result<Vec<Resource>, PropfindError> {
    let tokens = Tokens::new(body, &[DAV], bounds.max_bytes, MAX_DEPTH)?;
    let base = Base::of(requested, !is_of_xrdhttp(body))?;
    let mut reader = Reader { tokens, base, found: Vec::new() };
    reader.multistatus(bounds.max_resources)?;
    Ok(reader.found)
}

/// Returns true for a document of XrdHttp (measured: 5.5.3 and 6.2.1), also behind a proxy: no
/// other server declares these prefixes unless such properties are requested. XrdHttp encodes no
/// `href`, so that `a%41` is the name, not `aA`.
#[must_use]
pub fn is_of_xrdhttp(body: &[u8]) -> bool {
    const ROOT: &[u8] = b"<D:multistatus xmlns:D=\"DAV:\" \
        xmlns:ns1=\"http://apache.org/dav/props/\" xmlns:ns0=\"DAV:\">";
    let start = body.get(..MAX_PROLOG_BYTES).unwrap_or(body);
    start.windows(ROOT.len()).any(|window| window == ROOT)
}

struct Reader<'a> {
    tokens: Tokens<'a>,
    base: Base,
    found: Vec<Resource>,
}

/// The properties of one `propstat`.
#[derive(Default)]
struct Properties {
    collection: Option<bool>,
    size: Option<u64>,
    modified: Option<SystemTime>,
    etag: Option<String>,
}

impl Properties {
    /// Sets the properties that `other` has.
    fn update(&mut self, other: Self) {
        self.collection = other.collection.or(self.collection);
        self.size = other.size.or(self.size);
        self.modified = other.modified.or(self.modified);
        self.etag = other.etag.or_else(|| self.etag.take());
    }
}

impl<'a> Reader<'a> {
    fn multistatus(&mut self, most: usize) -> Result<(), PropfindError> {
        let outermost = self.tokens.outermost()?;
        if outermost.as_ref().is_none_or(|element| !is(element, "multistatus")) {
            return Err(PropfindError::NotMultistatus { seen: seen(outermost.as_ref()) });
        }
        while let Some(element) = self.tokens.child()? {
            if is(&element, "response") {
                self.response(most)?;
            } else {
                self.skip_nameless(&element)?;
            }
        }
        Ok(())
    }

    /// Skips an unknown element of the document. RFC 4918 (section 17) allows any; one that looks
    /// like an entry or contains an `href`, whatever the namespaces, may hide a name.
    fn skip_nameless(&mut self, element: &Element<'_>) -> Result<(), PropfindError> {
        refuse_foreign(element, &["response"])?;
        let mut open = 1;
        while open > 0 {
            match self.tokens.next()? {
                Token::Open(inner) => {
                    refuse_foreign(&inner, &["response", "href"])?;
                    open += 1;
                }
                Token::Close => open -= 1,
                Token::Text(_) => {}
                Token::End => break,
            }
        }
        Ok(())
    }

    fn response(&mut self, most: usize) -> Result<(), PropfindError> {
        let mut hrefs = Vec::new();
        let mut status = None;
        let mut known = Properties::default();
        let mut refused = None;
        let mut is_described = false;
        while let Some(element) = self.tokens.child()? {
            if is(&element, "href") {
                if self.found.len() + hrefs.len() >= most {
                    return Err(PropfindError::TooMany { most });
                }
                hrefs.push(self.href()?);
            } else if is(&element, "status") {
                status = Some(self.status()?);
            } else if is(&element, "propstat") {
                match self.propstat(&mut known)? {
                    status if status.is_success() => is_described = true,
                    StatusCode::NOT_FOUND => {}
                    why => refused = Some(why),
                }
            } else {
                refuse_foreign(&element, &["href", "status", "propstat"])?;
                self.skip()?;
            }
        }
        if hrefs.is_empty() {
            return Err(PropfindError::NoHref);
        }
        // Refused properties do not affect the name, but a status of insufficient storage means
        // that entries are missing.
        let refused =
            refused.filter(|why| !is_described || *why == StatusCode::INSUFFICIENT_STORAGE);
        let status = status.or(refused).unwrap_or(StatusCode::OK);
        for href in hrefs {
            // Several names may share a status (RFC 4918 section 14.24), never properties.
            let Properties { collection, size, modified, etag } = std::mem::take(&mut known);
            let (path, is_utf8) = self.base.below(&href)?;
            // RFC 4918 section 5.2: a collection's name should end with a slash.
            let is_collection = collection.unwrap_or_else(|| href.ends_with('/'));
            self.found.push(Resource {
                path,
                href,
                is_utf8,
                status,
                is_collection,
                size,
                modified,
                etag,
            });
        }
        Ok(())
    }

    /// Reads properties, and their status.
    fn propstat(&mut self, known: &mut Properties) -> Result<StatusCode, PropfindError> {
        let mut properties = Properties::default();
        let mut status = None;
        while let Some(element) = self.tokens.child()? {
            if is(&element, "prop") {
                while let Some(property) = self.tokens.child()? {
                    self.property(&property, &mut properties)?;
                }
            } else if is(&element, "status") {
                status = Some(self.status()?);
            } else {
                refuse_foreign(&element, &["prop", "status"])?;
                self.skip()?;
            }
        }
        let status = status.unwrap_or(StatusCode::OK);
        if status.is_success() {
            known.update(properties);
        }
        Ok(status)
    }

    fn property(
        &mut self,
        element: &Element<'_>,
        properties: &mut Properties,
    ) -> Result<(), PropfindError> {
        if element.namespace != Some(DAV) {
            return self.skip();
        }
        match element.local() {
            "resourcetype" => {
                let mut collection = false;
                while let Some(kind) = self.tokens.child()? {
                    collection |= is(&kind, "collection");
                    self.skip()?;
                }
                properties.collection = Some(collection);
            }
            "getcontentlength" => properties.size = self.number("size")?,
            // An invalid date counts as absent.
            "getlastmodified" => {
                properties.modified = modification_time(&self.value()?);
            }
            "getetag" => properties.etag = Some(self.value()?).filter(|tag| !tag.is_empty()),
            _ => self.skip()?,
        }
        Ok(())
    }

    /// Parses a number; `None` for an empty element and for negative numbers ("unknown",
    /// "unlimited").
    fn number(&mut self, property: &'static str) -> Result<Option<u64>, PropfindError> {
        let text = self.value()?;
        if text.is_empty() || text.parse::<i64>().is_ok_and(|number| number < 0) {
            return Ok(None);
        }
        let bad = || PropfindError::Value { property, seen: excerpt(text.as_bytes()) };
        text.parse().map(Some).map_err(|_| bad())
    }

    /// `HTTP/1.1 200 OK`.
    fn status(&mut self) -> Result<StatusCode, PropfindError> {
        let text = self.value()?;
        let code = text.split_ascii_whitespace().nth(1).and_then(|code| code.parse().ok());
        code.ok_or_else(|| PropfindError::Value {
            property: "status",
            seen: excerpt(text.as_bytes()),
        })
    }

    /// The text of an `href`, without the layout of the document around it: blanks at both ends, or
    /// with a line break. Blanks only at its end are part of the name on servers that encode
    /// nothing. XrdHttp, one of them, has no layout.
    fn href(&mut self) -> Result<String, PropfindError> {
        let text = self.tokens.whole_text_of_element(MAX_VALUE_BYTES)?;
        let href = text.trim_start_matches(LAYOUT);
        let bare = href.trim_end_matches(LAYOUT);
        let has_layout = href.len() < text.len() || text.contains(['\r', '\n']);
        Ok(if self.base.is_encoded && has_layout { bare } else { href }.to_owned())
    }

    /// The text of the element that has just been opened, trimmed.
    fn value(&mut self) -> Result<String, PropfindError> {
        Ok(self.tokens.text_of_element(MAX_VALUE_BYTES)?)
    }

    /// Skips to the end of the element that has just been opened.
    fn skip(&mut self) -> Result<(), PropfindError> {
        Ok(self.tokens.skip_element()?)
    }
}

/// Fails for an element that has one of `names`, in any case, and is not one of WebDAV: servers
/// that write XML by hand lose namespaces.
fn refuse_foreign(element: &Element<'_>, names: &[&str]) -> Result<(), PropfindError> {
    if names.iter().any(|name| element.local().eq_ignore_ascii_case(name)) {
        return Err(PropfindError::Foreign { seen: seen(Some(element)) });
    }
    Ok(())
}
