//! Metalink: where else a file is, how long it is, and what its checksums are.
//!
//! Two forms carry the same facts. A document (RFC 5854, media type `application/metalink4+xml`) describes one or more
//! files; its predecessor of version 3 is still what grid tools write, and is read too. Header fields (RFC 6249) describe
//! the file that was asked for: `Link` with `rel=duplicate` names another, with `rel=describedby` a document; checksums
//! come as [digests](crate::digest).
//!
//! **Priorities** are those of version 4: 1 is the best, 999,999 the worst and the default. Preferences of version 3 (0 to
//! 100, 100 the best) are turned round. Copies are listed best first, equals in the order of the document.
//!
//! **What is kept** of addresses are those with a scheme that a file can be read by: `http`, `https`, `dav`, `davs`,
//! `root`, `roots` and `xroot`; others (`ftp`, torrents) are passed over. A document comes from outside: its length,
//! depth, files and addresses are bounded, and nothing in it is expanded. A name in it is there to be compared with,
//! not to write to.
//!
//! ```
//! use hither_http::metalink::{Bounds, Metalink};
//! let document = br#"<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="a.root"><size>12</size>
//!     <hash type="md5">6f5902ac237024bdd0c176cb93063dc4</hash>
//!     <url priority="2">http://far.example/a.root</url><url priority="1" location="ch">http://near.example/a.root</url>
//!     </file></metalink>"#;
//! let metalink = Metalink::parse(document, &Bounds::default())?;
//! let file = metalink.file("a.root").unwrap();
//! assert_eq!((file.size, file.replicas[0].url.as_str()), (Some(12), "http://near.example/a.root"));
//! # Ok::<(), hither_http::metalink::MetalinkError>(())
//! ```

mod link_header;
mod parser;
mod writer;

pub use link_header::{MetalinkLinks, links};
pub use writer::{describedby, duplicate};

use crate::digest::Digest;
use crate::xml::XmlError;

/// Media type of documents of version 4, for `Accept`.
pub const MEDIA_TYPE: &str = "application/metalink4+xml";
/// Media type of documents of version 3.
pub const MEDIA_TYPE_3: &str = "application/metalink+xml";

/// The priority of a replica that states none, and the lowest there is (RFC 5854 section 4.2.16.1).
pub const LOWEST_PRIORITY: u32 = 999_999;

/// What a document may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetalinkLimits {
    /// Most bytes of it. 16 MiB by default.
    pub max_bytes: usize,
    /// Most files in it. 10,000 by default.
    pub max_files: usize,
    /// Most replicas of one file; the rest is passed over, in the order of the document. 100 by default.
    pub max_replicas: usize,
}

impl Default for MetalinkLimits {
    fn default() -> Self {
        Self { max_bytes: 16 << 20, max_files: 10_000, max_replicas: 100 }
    }
}

/// A document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metalink {
    /// The files that it describes, in its order.
    pub files: Vec<MetalinkFile>,
}

/// A file in a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetalinkFile {
    /// Its name, perhaps with directories. Untrusted.
    pub name: String,
    /// Its length in bytes.
    pub size: Option<u64>,
    /// Checksums of the whole file, each algorithm once; those of unknown algorithms are left out.
    pub digests: Vec<Digest>,
    /// Where it is, the best first.
    pub replicas: Vec<MetalinkUrl>,
}

/// One place where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetalinkUrl {
    /// Its address: absolute in a document, perhaps relative in a header field. Untrusted.
    pub url: String,
    /// 1 (best) to [`LOWEST_PRIORITY`].
    pub priority: u32,
    /// Country, as a code of two letters (ISO 3166) in lower case.
    pub location: Option<String>,
}

/// Why a document can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetalinkError {
    /// Not XML, or beyond what is read of it.
    #[error("the Metalink document cannot be read")]
    Xml(#[from] XmlError),
    /// XML of another kind.
    #[error("the document is an element \"{seen}\", expected \"metalink\" of version 3 or 4")]
    NotMetalink {
        /// The outermost element, shortened and escaped.
        seen: String,
    },
    /// More files than the bounds allow.
    #[error("the Metalink document describes more than {most} files")]
    TooMany {
        /// The bound.
        most: usize,
    },
}

impl Metalink {
    /// Reads a document of version 3 or 4.
    ///
    /// # Errors
    /// See [`MetalinkError`]. A size, checksum or address that can't be read is passed over.
    pub fn parse(document: &[u8], bounds: &MetalinkLimits) -> Result<Self, MetalinkError> {
        parser::parse(document, bounds)
    }

    /// The file of this name (a path or its last component): the one with the same name; else the only one with the same
    /// last component; else the only one there is, because who is asked for a file may describe it under another name.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&MetalinkFile> {
        if let Some(same) = self.files.iter().find(|file| file.name == name) {
            return Some(same);
        }
        let mut alike = self.files.iter().filter(|file| last(&file.name) == last(name));
        match (alike.next(), alike.next(), self.files.as_slice()) {
            (Some(file), None, _) | (None, _, [file]) => Some(file),
            _ => None,
        }
    }
}

/// The last component of a path.
fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether a file can be read from an address of this kind: absolute, and of one of the schemes above.
#[must_use]
pub fn is_readable(url: &str) -> bool {
    scheme(url).is_some_and(|scheme| {
        ["http", "https", "dav", "davs", "root", "roots", "xroot"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
    }) && !url.contains(|c: char| c.is_control() || c.is_whitespace())
}

/// The scheme of an absolute address.
fn scheme(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    // Without the slashes it would be a name with a colon, or a URN.
    (is_scheme && rest.starts_with("//")).then_some(scheme)
}

/// A priority as text; the lowest where it is none.
fn priority(text: Option<&str>) -> u32 {
    let number = text.and_then(|text| text.trim().parse().ok());
    number.map_or(LOWEST_PRIORITY, |number: u32| number.clamp(1, LOWEST_PRIORITY))
}

/// A country as text.
fn country(text: Option<&str>) -> Option<String> {
    let text = text?.trim();
    let is_code = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_code.then(|| text.to_ascii_lowercase())
}
