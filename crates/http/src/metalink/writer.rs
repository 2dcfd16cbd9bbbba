//! Writer of Metalink: documents of version 4, and `Link` fields.

use crate::digest::old_name;
use crate::metalink::{LOWEST_PRIORITY, MEDIA_TYPE, Metalink, MetalinkFile};
use crate::propfind::escape;
use hither_checksum::{Algorithm, Checksum};
use std::borrow::Cow;
use std::fmt::Write as _;

impl Metalink {
    /// Writes a document of version 4 (RFC 5854). Checksums of algorithms without a registered name
    /// (the registry has no cyclic sums) get the names that grid tools use.
    ///
    /// ```
    /// use hither_http::metalink::{Metalink, MetalinkFile, MetalinkLimits, MetalinkUrl};
    /// let mut file = MetalinkFile::default();
    /// file.name = "a&b.root".to_owned();
    /// let url = "https://a.example/a&b.root".to_owned();
    /// file.replicas = vec![MetalinkUrl { url, priority: 1, location: None }];
    /// let metalink = Metalink { files: vec![file] };
    /// let document = metalink.to_document();
    /// let parsed = Metalink::parse(document.as_bytes(), &MetalinkLimits::default());
    /// assert_eq!(parsed, Ok(metalink));
    /// ```
    #[must_use]
    pub fn to_document(&self) -> String {
        let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                       <metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\n"
            .to_owned();
        for file in &self.files {
            push(file, &mut out);
        }
        out.push_str("</metalink>\n");
        out
    }
}

// Writing to a String cannot fail.
fn push(file: &MetalinkFile, out: &mut String) {
    let _ = writeln!(out, " <file name=\"{}\">", escape(&file.name));
    if let Some(size) = file.size {
        let _ = writeln!(out, "  <size>{size}</size>");
    }
    for digest in &file.digests {
        let _ = write!(out, "  <hash type=\"{}\">", name(digest.algorithm()));
        push_value(digest, out);
    }
    if let Some(pieces) = &file.pieces
        && let Some(first) = pieces.digests.first()
    {
        let length = pieces.length;
        let name = name(first.algorithm());
        let _ = writeln!(out, "  <pieces length=\"{length}\" type=\"{name}\">");
        for digest in &pieces.digests {
            out.push_str("   <hash>");
            push_value(digest, out);
        }
        out.push_str("  </pieces>\n");
    }
    for replica in &file.replicas {
        out.push_str("  <url");
        if replica.priority < LOWEST_PRIORITY {
            let _ = write!(out, " priority=\"{}\"", replica.priority);
        }
        if let Some(location) = &replica.location {
            let _ = write!(out, " location=\"{}\"", escape(location));
        }
        let _ = writeln!(out, ">{}</url>", escape(&replica.url));
    }
    out.push_str(" </file>\n");
}

fn push_value(sum: &Checksum, out: &mut String) {
    let _ = writeln!(out, "{}</hash>", sum.hex());
}

/// The name in the registry of hash functions (RFC 5854 section 7.2), else the name in HTTP.
fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Sha1 => "sha-1",
        other => old_name(other),
    }
}

/// A `Link` field for a replica of the requested file (RFC 6249 section 3).
#[must_use]
pub fn duplicate(url: &str, priority: u32) -> String {
    format!("<{}>; rel=duplicate; pri={priority}", target(url))
}

/// A `Link` field for a Metalink document about the file (RFC 6249 section 4).
#[must_use]
pub fn describedby(url: &str) -> String {
    format!("<{}>; rel=describedby; type=\"{MEDIA_TYPE}\"", target(url))
}

/// Encodes characters that would end the target of a link.
fn target(url: &str) -> Cow<'_, str> {
    if !url.contains(['<', '>', ' ', '"']) {
        return url.into();
    }
    url.replace('<', "%3C").replace('>', "%3E").replace(' ', "%20").replace('"', "%22").into()
}
