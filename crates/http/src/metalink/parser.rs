//! Metalink documents, versions 3 and 4.
//!
//! The two versions differ in their namespace and in two levels of wrapping, which carry no
//! information: version 3 puts `files` around the files, `verification` around the checksums and
//! `resources` around the URLs. So wrappers are entered, whatever the version. All other unknown
//! elements are skipped. Of several lists of `pieces`, the first one of a known algorithm is used.

use super::{
    LOWEST_PRIORITY, Metalink, MetalinkError, MetalinkFile, MetalinkLimits, MetalinkPieces,
    MetalinkUrl, country, is_readable, priority,
};
use crate::digest::{self, old_name};
use crate::text::excerpt;
use crate::xml::{Element, Tokens, seen};
use hither_checksum::Algorithm;

const VERSION_4: &str = "urn:ietf:params:xml:ns:metalink";
const VERSION_3: &str = "http://www.metalinker.org/";
/// Maximum depth; both versions need five.
const MAX_DEPTH: usize = 32;
/// Maximum number of bytes kept of one value: a URL with a signed query is long.
const MAX_VALUE_BYTES: usize = 16 * 1024;

pub(super) fn parse(document: &[u8], bounds: &MetalinkLimits) -> Result<Metalink, MetalinkError> {
    let tokens = Tokens::new(document, &[VERSION_3, VERSION_4], bounds.max_bytes, MAX_DEPTH)?;
    let mut reader = Reader { tokens, bounds, metalink: Metalink::default() };
    reader.document()?;
    Ok(reader.metalink)
}

struct Reader<'a> {
    tokens: Tokens<'a>,
    bounds: &'a MetalinkLimits,
    metalink: Metalink,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<(), MetalinkError> {
        let outermost = self.tokens.outermost()?;
        if outermost.as_ref().is_none_or(|element| !is(element, "metalink")) {
            return Err(MetalinkError::NotMetalink { seen: seen(outermost.as_ref()) });
        }
        self.files()
    }

    fn files(&mut self) -> Result<(), MetalinkError> {
        while let Some(element) = self.tokens.child()? {
            if is(&element, "files") {
                self.files()?;
            } else if is(&element, "file") {
                let most = self.bounds.max_files;
                if self.metalink.files.len() >= most {
                    return Err(MetalinkError::TooMany { most });
                }
                let name = element.attribute("name").unwrap_or_default();
                let mut file = MetalinkFile { name, ..MetalinkFile::default() };
                self.file(&mut file)?;
                file.replicas.sort_by_key(|replica| replica.priority);
                self.metalink.files.push(file);
            } else {
                self.tokens.skip_element()?;
            }
        }
        Ok(())
    }

    fn file(&mut self, file: &mut MetalinkFile) -> Result<(), MetalinkError> {
        while let Some(element) = self.tokens.child()? {
            if is(&element, "verification") || is(&element, "resources") {
                self.file(file)?;
            } else if is(&element, "pieces") {
                self.pieces(&element, file)?;
            } else if is(&element, "size") {
                file.size = self.value()?.parse().ok().or(file.size);
            } else if is(&element, "hash") {
                let algorithm = element.attribute("type");
                let algorithm = algorithm.as_deref().and_then(digest::algorithm);
                let text = self.value()?;
                match algorithm {
                    Some(algorithm) => add_digest(file, algorithm, &text)?,
                    None => file.has_unknown_digest = true,
                }
            } else if is(&element, "url") {
                let url = self.value()?;
                if is_readable(&url) && file.replicas.len() < self.bounds.max_replicas {
                    let location = country(element.attribute("location").as_deref());
                    file.replicas.push(MetalinkUrl { url, priority: rank(&element), location });
                }
            } else {
                self.tokens.skip_element()?;
            }
        }
        Ok(())
    }

    /// A list of checksums of pieces. Their number is bounded by the size of the document.
    fn pieces(&mut self, list: &Element<'_>, file: &mut MetalinkFile) -> Result<(), MetalinkError> {
        let length = list.attribute("length").and_then(|text| text.trim().parse().ok());
        let algorithm = list.attribute("type");
        let Some(algorithm) = algorithm.as_deref().and_then(digest::algorithm) else {
            file.has_unknown_digest = true;
            return Ok(self.tokens.skip_element()?);
        };
        let wrong = || wrong_digest(file, algorithm);
        let length = length.filter(|length| *length > 0).ok_or_else(wrong)?;
        let mut digests = Vec::new();
        while let Some(element) = self.tokens.child()? {
            if !is(&element, "hash") {
                self.tokens.skip_element()?;
                continue;
            }
            let text = self.value()?;
            digests.push(digest::from_text(algorithm, &text).ok_or_else(wrong)?);
        }
        file.pieces.get_or_insert(MetalinkPieces { length, digests });
        Ok(())
    }

    fn value(&mut self) -> Result<String, MetalinkError> {
        Ok(self.tokens.text_of_element(MAX_VALUE_BYTES)?)
    }
}

/// Adds a checksum of the whole file. An invalid one, or one that contradicts another, is an error:
/// a defect in a document must not disable the comparison.
fn add_digest(
    file: &mut MetalinkFile,
    algorithm: Algorithm,
    text: &str,
) -> Result<(), MetalinkError> {
    let digest = digest::from_text(algorithm, text).ok_or_else(|| wrong_digest(file, algorithm))?;
    match file.digests.iter().find(|known| known.algorithm() == algorithm) {
        Some(known) if *known != digest => Err(wrong_digest(file, algorithm)),
        Some(_) => Ok(()),
        None => {
            file.digests.push(digest);
            Ok(())
        }
    }
}

fn wrong_digest(file: &MetalinkFile, algorithm: Algorithm) -> MetalinkError {
    let name = excerpt(file.name.as_bytes());
    MetalinkError::BadDigest { algorithm: old_name(algorithm), file: name }
}

/// The priority of a URL; a preference of version 3 is inverted.
fn rank(element: &Element<'_>) -> u32 {
    let preference = element.attribute("preference").and_then(|text| text.trim().parse().ok());
    match (element.attribute("priority"), preference) {
        (None, Some(preference)) => 101_u32.saturating_sub(preference).clamp(1, LOWEST_PRIORITY),
        (stated, _) => priority(stated.as_deref()),
    }
}

fn is(element: &Element<'_>, name: &str) -> bool {
    element.namespace.is_some() && element.local() == name
}
