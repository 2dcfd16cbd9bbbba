//! The content of a Metalink document: the URLs of a file, and its checksums.

use super::name_of;
use crate::location::Location;
use hither_checksum::Checksum;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::replica_set::PieceChecksums;
use hither_http::metalink::{Metalink, MetalinkFile, MetalinkLimits};
use tracing::debug;

/// The content of a document about one file.
#[derive(Debug, Clone, Default)]
pub struct ReplicaList {
    /// Its name, perhaps with directories. Untrusted.
    pub name: String,
    /// The checksums of its pieces, if they are of a supported algorithm.
    pub pieces: Option<PieceChecksums>,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Its strongest checksum of a supported algorithm.
    pub checksum: Option<Checksum>,
    /// The file has checksums, none of which is of a supported algorithm.
    pub is_unverifiable: bool,
    /// Its URLs, best first.
    pub locations: Vec<Location>,
}

impl ReplicaList {
    /// Parses the document at `place`. Its URLs come from that server: credentials for `place` are
    /// sent to other servers only where they may follow redirects.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] for an invalid document, [`ErrorKind::NotFound`] if it describes
    /// other files or has no URL that can be read here.
    pub fn parse(document: &[u8], place: &Location) -> Result<Self> {
        let name = name_of(place);
        let parsed = parsed(document, name)?;
        let of = |file| Self::of(file, &|url| place.join(url));
        let replicas = parsed.file(name).map(of).unwrap_or_default();
        if replicas.locations.is_empty() {
            return Err(no_url(name));
        }
        Ok(replicas)
    }

    /// Parses a document and returns all its files. Its URLs are those of
    /// [`Location::of_document`] if it is a local file (no `place`), else of
    /// [`ReplicaList::parse`].
    ///
    /// # Errors
    ///
    /// As [`ReplicaList::parse`]; each file must have a URL that can be read here.
    pub fn parse_all(document: &[u8], name: &str, place: Option<&Location>) -> Result<Vec<Self>> {
        let resolve =
            |url: &str| place.map_or_else(|| Location::of_document(url), |it| it.join(url));
        let parsed = parsed(document, name)?;
        let files: Vec<_> = parsed.files.iter().map(|file| Self::of(file, &resolve)).collect();
        if files.is_empty() || files.iter().any(|file| file.locations.is_empty()) {
            return Err(no_url(name));
        }
        Ok(files)
    }

    fn of(file: &MetalinkFile, resolve: &dyn Fn(&str) -> Result<Location>) -> Self {
        let usable = |url: &str| {
            let skipped = |error: &Error| debug!(%error, "replica of the document not used");
            resolve(url).inspect_err(skipped).ok()
        };
        let pieces = file.pieces.as_ref().map(|pieces| PieceChecksums {
            piece_bytes: pieces.length,
            checksums: pieces.digests.clone(),
        });
        let checksum = Checksum::strongest(&file.digests).cloned();
        Self {
            name: file.name.clone(),
            size: file.size,
            is_unverifiable: checksum.is_none() && pieces.is_none() && file.has_unknown_digest,
            checksum,
            pieces,
            locations: file.replicas.iter().filter_map(|it| usable(&it.url)).collect(),
        }
    }
}

fn parsed(document: &[u8], name: &str) -> Result<Metalink> {
    Metalink::parse(document, &MetalinkLimits::default()).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("{name}: {error}")).with_source(error)
    })
}

fn no_url(name: &str) -> Error {
    let what = format!("{name}: the Metalink document names no URL that can be read here");
    Error::new(ErrorKind::NotFound, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_checksum::Algorithm;

    const MD5: &str = "<hash type='md5'>6f5902ac237024bdd0c176cb93063dc4</hash>";
    const ADLER32: &str = "<hash type='adler32'>3da0195</hash>";
    const UNKNOWN: &str = "<hash type='whirlpool'>00</hash>";

    fn listed(hashes: &str, place: Option<&Location>) -> ReplicaList {
        let document = format!(
            "<metalink xmlns='urn:ietf:params:xml:ns:metalink'><file name='f'>{hashes}\
             <url>https://me:hush@b.example/f</url><url>pelican://fed.example/f</url></file></metalink>"
        );
        ReplicaList::parse_all(document.as_bytes(), "f.meta4", place).unwrap().remove(0)
    }

    #[test]
    fn the_strongest_checksum_counts_in_any_order_and_unknown_ones_are_reported() {
        for (hashes, algorithm, is_unverifiable) in [
            (format!("{MD5}{ADLER32}"), Some(Algorithm::Md5), false),
            (format!("{ADLER32}{UNKNOWN}{MD5}"), Some(Algorithm::Md5), false),
            (ADLER32.to_owned(), Some(Algorithm::Adler32), false),
            (UNKNOWN.to_owned(), None, true),
            (String::new(), None, false),
        ] {
            let list = listed(&hashes, None);
            let strongest = list.checksum.map(|checksum| checksum.algorithm());
            assert_eq!((strongest, list.is_unverifiable), (algorithm, is_unverifiable), "{hashes}");
        }
    }

    #[test]
    fn the_urls_of_a_document_are_named_by_its_server_and_those_of_a_local_one_by_none() {
        let place = Location::parse("https://a.example/f.meta4").unwrap();
        for (place, named_by) in [(Some(&place), "https://a.example"), (None, "a document")] {
            let [location] = &listed(MD5, place).locations[..] else { panic!("one URL") };
            assert_eq!((location.named_by().as_str(), location.is_elsewhere()), (named_by, true));
            assert_eq!(location.to_string(), "https://b.example/f");
        }
    }
}
