//! Metalink: replicas of a file, its size, and its checksums.
//!
//! Two forms carry the same information. A document (RFC 5854, media type
//! `application/metalink4+xml`) describes one or more files; grid tools still write its predecessor
//! of version 3, which is read too. Header fields (RFC 6249) describe the requested file: `Link`
//! with `rel=duplicate` names a replica, with `rel=describedby` a document; checksums come as
//! [digests](crate::digest).
//!
//! **Priorities** are those of version 4: 1 is the best, 999,999 the worst and the default.
//! Preferences of version 3 (0 to 100, 100 the best) are inverted. Replicas are listed best first,
//! equal ones in the order of the document.
//!
//! **URLs** are kept if their scheme can be read from: `http`, `https`, `dav`, `davs`, `root`,
//! `roots` and `xroot`; others (`ftp`, torrents) are skipped. A document is untrusted input: its
//! length, depth, files and URLs are bounded, and nothing in it is expanded. A file name in it is
//! only compared; never write to it.
//!
//! ```
//! use hither_http::metalink::{Metalink, MetalinkLimits};
//! let document = br#"<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="a.root">
//!     <size>12</size><hash type="md5">6f5902ac237024bdd0c176cb93063dc4</hash>
//!     <url priority="2">http://far.example/a.root</url>
//!     <url priority="1" location="ch">http://near.example/a.root</url>
//!     </file></metalink>"#;
//! let metalink = Metalink::parse(document, &MetalinkLimits::default())?;
//! let file = metalink.file("a.root").unwrap();
//! assert_eq!(file.size, Some(12));
//! assert_eq!(file.replicas[0].url, "http://near.example/a.root");
//! # Ok::<(), hither_http::metalink::MetalinkError>(())
//! ```

mod link_header;
mod parser;
mod writer;

pub use link_header::{MetalinkLinks, has_next_page, links};
pub use writer::{describedby, duplicate};

use crate::xml::XmlError;
use hither_checksum::Checksum;

/// Media type of documents of version 4, for `Accept`.
pub const MEDIA_TYPE: &str = "application/metalink4+xml";
/// Media type of documents of version 3.
pub const MEDIA_TYPE_3: &str = "application/metalink+xml";

/// The priority of a replica that states none, and the lowest one (RFC 5854 section 4.2.16.1).
pub const LOWEST_PRIORITY: u32 = 999_999;

/// Limits on a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetalinkLimits {
    /// Maximum size in bytes. 16 MiB by default.
    pub max_bytes: usize,
    /// Maximum number of files. 10,000 by default.
    pub max_files: usize,
    /// Maximum number of replicas of one file; later ones are skipped. 100 by default.
    pub max_replicas: usize,
}

impl Default for MetalinkLimits {
    fn default() -> Self {
        Self { max_bytes: 16 << 20, max_files: 10_000, max_replicas: 100 }
    }
}

/// A Metalink document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metalink {
    /// The described files, in the order of the document.
    pub files: Vec<MetalinkFile>,
}

/// A file in a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetalinkFile {
    /// The name, perhaps with directories. Untrusted.
    pub name: String,
    /// The size in bytes.
    pub size: Option<u64>,
    /// Checksums of the whole file, each algorithm once; unknown algorithms are skipped.
    pub digests: Vec<Checksum>,
    /// There is a checksum of an unknown algorithm, of the file or of its pieces.
    pub has_unknown_digest: bool,
    /// Checksums of its pieces, if the document states them.
    pub pieces: Option<MetalinkPieces>,
    /// The URLs of the replicas, best first.
    pub replicas: Vec<MetalinkUrl>,
}

/// Checksums of the pieces of a file (RFC 5854 section 4.1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetalinkPieces {
    /// Bytes of each piece but the last one; not 0.
    pub length: u64,
    /// The checksum of each piece, in order, all of one algorithm.
    pub digests: Vec<Checksum>,
}

/// The URL of one replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetalinkUrl {
    /// The URL: absolute in a document, perhaps relative in a header field. Untrusted.
    pub url: String,
    /// 1 (best) to [`LOWEST_PRIORITY`].
    pub priority: u32,
    /// Country, as a two-letter code (ISO 3166) in lower case.
    pub location: Option<String>,
}

/// Reason why a document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetalinkError {
    /// The document is not XML, or exceeds a limit.
    #[error("the Metalink document cannot be parsed")]
    Xml(#[from] XmlError),
    /// The document is XML of another kind.
    #[error("the document is an element \"{seen}\", expected \"metalink\" of version 3 or 4")]
    NotMetalink {
        /// The outermost element, shortened and escaped.
        seen: String,
    },
    /// A checksum of a file or of its pieces is invalid for its algorithm, the length of the pieces
    /// is, or a checksum contradicts an earlier one.
    #[error("the document states no valid {algorithm} of {file:?}, or two different ones")]
    BadDigest {
        /// The algorithm.
        algorithm: &'static str,
        /// The name of the file, shortened.
        file: String,
    },
    /// The document describes more files than its limit.
    #[error("the Metalink document describes more than {most} files")]
    TooMany {
        /// The limit.
        most: usize,
    },
}

impl Metalink {
    /// Parses a document of version 3 or 4.
    ///
    /// # Errors
    /// See [`MetalinkError`]. Invalid sizes and URLs are skipped.
    pub fn parse(document: &[u8], bounds: &MetalinkLimits) -> Result<Self, MetalinkError> {
        parser::parse(document, bounds)
    }

    /// Finds the file of this name (a path or its last component): the one with the same name; else
    /// the only one with the same last component; else the only file in the document, because a
    /// server may describe a file under another name.
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

/// Returns true if a file can be read from this URL: absolute, with one of the schemes above.
#[must_use]
pub fn is_readable(url: &str) -> bool {
    scheme(url).is_some_and(|scheme| {
        ["http", "https", "dav", "davs", "root", "roots", "xroot"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
    }) && !url.contains(|c: char| c.is_control() || c.is_whitespace())
}

/// The scheme of an absolute URL.
fn scheme(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    // Without the slashes the text is a name with a colon, or a URN.
    (is_scheme && rest.starts_with("//")).then_some(scheme)
}

/// Parses a priority; the lowest one if it is invalid.
fn priority(text: Option<&str>) -> u32 {
    let number = text.and_then(|text| text.trim().parse().ok());
    number.map_or(LOWEST_PRIORITY, |number: u32| number.clamp(1, LOWEST_PRIORITY))
}

/// Parses a country.
fn country(text: Option<&str>) -> Option<String> {
    let text = text?.trim();
    let is_code = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_code.then(|| text.to_ascii_lowercase())
}
