//! PROPFIND (RFC 4918 section 9.1): request bodies, and the 207 response.
//!
//! The response lists a `response` for every path: an `href`, then properties grouped by their
//! status (`propstat`), or one status for the path. A property is used only if the status of its
//! group is a success; servers answer 404 for properties that they lack. Prefixes are arbitrary;
//! only the namespace `DAV:` is used.
//!
//! **Paths are untrusted input.** An `href` is a path or a whole URL, percent-encoded, with or
//! without a final `/`, sometimes with doubled slashes; that of XrdHttp is not encoded. It must lie
//! below the requested path and, if it names a host, on the requested host; its components must be
//! names, not `..` and not encoded slashes. An `href` that breaks these rules is an error: a server
//! that lists other paths than requested cannot be copied from safely. Scheme and port of an `href`
//! are not compared, because reverse proxies often change both, and nothing is fetched from an
//! `href`.
//!
//! ```
//! use hither_http::propfind::{PropfindLimits, parse};
//!
//! let body = br#"<D:multistatus xmlns:D="DAV:"><D:response><D:href>/data/a%20b.root</D:href>
//!     <D:propstat>
//!         <D:prop><D:getcontentlength>12</D:getcontentlength><D:resourcetype/></D:prop>
//!         <D:status>HTTP/1.1 200 OK</D:status>
//!     </D:propstat></D:response></D:multistatus>"#;
//! let found = parse(body, &"http://example.org/data/".parse()?, &PropfindLimits::default())?;
//! assert_eq!((found[0].path.as_str(), found[0].size), ("a b.root", Some(12)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod href;
mod multistatus;
mod request;

pub use multistatus::{is_of_xrdhttp, parse};
pub use request::{PropertyName, PropertyUpdate, PropfindRequest, element, escape};

use crate::xml::{Element, XmlError};
use http::{HeaderName, StatusCode};
use std::time::SystemTime;

/// `Content-Type` of the bodies.
pub const CONTENT_TYPE: &str = "application/xml; charset=utf-8";

/// The field of a response that lists a directory whose names are not all known, because they come
/// from a listing that may hide some, as HTML indexes do. Its value is `true`. Not of any standard:
/// status 507 means that names are missing, and here it is not known whether there are more.
pub const HIDES_NAMES: HeaderName = HeaderName::from_static("hither-hides-names");

/// The request body for kind, size, date and entity tag.
#[must_use]
pub const fn body() -> &'static str {
    concat!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<propfind xmlns=\"DAV:\"><prop><resourcetype/>",
        "<getcontentlength/><getlastmodified/><getetag/></prop></propfind>"
    )
}

/// Limits on a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PropfindLimits {
    /// Maximum size of the document in bytes. 64 MiB by default: some hundred thousand paths.
    pub max_bytes: usize,
    /// Maximum number of paths. 200,000 by default.
    pub max_resources: usize,
}

impl Default for PropfindLimits {
    fn default() -> Self {
        Self { max_bytes: 64 << 20, max_resources: 200_000 }
    }
}

/// The properties of one path. Properties that the server lacks or does not state are `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resource {
    /// The path below the requested one: decoded, components separated by single slashes, none at
    /// the ends. Empty for the requested path itself.
    pub path: String,
    /// The `href` without changes. Servers that encode nothing may list two names that decode to
    /// the same path.
    pub href: String,
    /// The path is UTF-8. Otherwise it has replacement characters, and identifies nothing.
    pub is_utf8: bool,
    /// 200, or the server's status for this path or for all its properties: then there are none.
    /// 507 means that the list is not complete.
    pub status: StatusCode,
    /// The path is a collection (a directory).
    pub is_collection: bool,
    /// `getcontentlength`, in bytes.
    pub size: Option<u64>,
    /// `getlastmodified`.
    pub modified: Option<SystemTime>,
    /// `getetag`, with its quotes, and with `W/` if the server sends it.
    pub etag: Option<String>,
}

/// Reason why a message cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropfindError {
    /// The document is not XML, or exceeds a limit.
    #[error("the multistatus document cannot be parsed: {0}")]
    Xml(#[from] XmlError),
    /// The response is XML of another kind.
    #[error(
        "the response is an element \"{seen}\", expected \"multistatus\" of the namespace DAV:"
    )]
    NotMultistatus {
        /// The outermost element, shortened and escaped.
        seen: String,
    },
    /// The request is XML of another kind.
    #[error(
        "the request is an element \"{seen}\", expected a PROPFIND or PROPPATCH body of RFC 4918"
    )]
    NotPropfind {
        /// The outermost element, shortened and escaped.
        seen: String,
    },
    /// The message lists more paths than its limit.
    #[error("more than {most} paths in one message")]
    TooMany {
        /// The limit.
        most: usize,
    },
    /// The request names more properties than its limits.
    #[error("the request names too many properties: at most {max}, of {max_bytes} bytes together")]
    TooManyProperties {
        /// The maximum number.
        max: usize,
        /// The maximum number of bytes of the names.
        max_bytes: usize,
    },
    /// A `response` without `href`.
    #[error("the server lists an entry without href")]
    NoHref,
    /// An element that may name an entry, but has a namespace or a place that is not that of
    /// RFC 4918.
    #[error(
        "the element \"{seen}\" may belong to an entry, but its namespace or place is not that of \
         RFC 4918"
    )]
    Foreign {
        /// The element, shortened and escaped.
        seen: String,
    },
    /// An `href` is not a path below the requested one.
    #[error("the server lists \"{href}\", {what}")]
    Href {
        /// The `href`, shortened and escaped.
        href: String,
        /// The rule that it breaks.
        what: &'static str,
    },
    /// A number or a status is invalid.
    #[error("the server states an invalid {property}: \"{seen}\"")]
    Value {
        /// The property.
        property: &'static str,
        /// The value, shortened and escaped.
        seen: String,
    },
}

const DAV: &str = "DAV:";
/// Maximum depth. A 207 response needs seven; values of unknown properties may have elements of
/// their own.
const MAX_DEPTH: usize = 64;

fn is(element: &Element<'_>, name: &str) -> bool {
    element.namespace == Some(DAV) && element.local() == name
}
