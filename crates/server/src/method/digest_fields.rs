//! Checksums in header fields: `Digest` and `Repr-Digest`, as requested by `Want-` fields.

use crate::backend::{ChecksumMode, FileReader};
use hither_core::checksum::Algorithm;
use hither_http::digest::{self, DIGEST, Digest, DigestAlgorithm, REPR_DIGEST};
use http::header::{HeaderMap, HeaderValue};

/// The algorithm for this kind of digest, if the server has it.
pub(crate) fn supported(algorithm: DigestAlgorithm) -> Option<Algorithm> {
    Some(match algorithm {
        DigestAlgorithm::Adler32 => Algorithm::Adler32,
        DigestAlgorithm::Crc32c => Algorithm::Crc32c,
        DigestAlgorithm::Md5 => Algorithm::Md5,
        DigestAlgorithm::Sha256 => Algorithm::Sha256,
        _ => return None,
    })
}

/// The fields with the checksums of a file that a request wants. A checksum that cannot be computed
/// is left out.
pub(crate) async fn wanted(reader: &dyn FileReader, headers: &HeaderMap) -> HeaderMap {
    let mut fields = HeaderMap::new();
    let first = |wanted: Vec<DigestAlgorithm>| {
        wanted.into_iter().find_map(|kind| supported(kind).map(|algorithm| (kind, algorithm)))
    };
    for (wanted, name, write) in [
        (first(digest::wanted(headers)), DIGEST, Digest::to_field as fn(&Digest) -> String),
        (first(digest::wanted_repr(headers)), REPR_DIGEST, Digest::to_repr_field),
    ] {
        let Some((kind, algorithm)) = wanted else { continue };
        let computed = reader.checksum(algorithm, ChecksumMode::Compute).await;
        let Some(sum) = computed.ok().flatten() else { continue };
        let digest = Digest { algorithm: kind, value: sum.value().to_vec() };
        if let Ok(value) = HeaderValue::from_str(&write(&digest)) {
            fields.insert(name, value);
        }
    }
    fields
}

/// The stored checksums of a file.
pub(crate) async fn stored(reader: &dyn FileReader) -> Vec<Digest> {
    let mut digests = Vec::new();
    for kind in [
        DigestAlgorithm::Adler32,
        DigestAlgorithm::Crc32c,
        DigestAlgorithm::Md5,
        DigestAlgorithm::Sha256,
    ] {
        let Some(algorithm) = supported(kind) else { continue };
        if let Ok(Some(sum)) = reader.checksum(algorithm, ChecksumMode::Cached).await {
            digests.push(Digest { algorithm: kind, value: sum.value().to_vec() });
        }
    }
    digests
}
