//! Checksums in header fields: those that a client requests by `Want-` fields, and those that it
//! announces for what it sends.
//!
//! Every announced checksum is verified, or the request is refused. `Content-Digest` and
//! `Content-MD5` are about the body of any request ([`ContentDigests`]); `Digest` and `Repr-Digest`
//! are about the whole file that a PUT makes ([`announced_file`]). They may come in trailers, too.

use crate::backend::{ChecksumMode, FileReader};
use crate::http_error::HttpError;
use hither_core::checksum::{Algorithm, Checksum, Hasher};
use hither_http::digest::{
    self, CONTENT_DIGEST, CONTENT_MD5, DIGEST, Digest, DigestAlgorithm, REPR_DIGEST,
};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The algorithms that the server has.
const KNOWN: [DigestAlgorithm; 5] = [
    DigestAlgorithm::Adler32,
    DigestAlgorithm::Crc32c,
    DigestAlgorithm::Md5,
    DigestAlgorithm::Sha256,
    DigestAlgorithm::Sha512,
];

/// The algorithm for this kind of digest, if the server has it.
pub(crate) fn supported(algorithm: DigestAlgorithm) -> Option<Algorithm> {
    Some(match algorithm {
        DigestAlgorithm::Adler32 => Algorithm::Adler32,
        DigestAlgorithm::Crc32c => Algorithm::Crc32c,
        DigestAlgorithm::Md5 => Algorithm::Md5,
        DigestAlgorithm::Sha256 => Algorithm::Sha256,
        DigestAlgorithm::Sha512 => Algorithm::Sha512,
        _ => return None,
    })
}

/// Returns true if a request wants a checksum.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    !digest::wanted(headers).is_empty() || !digest::wanted_repr(headers).is_empty()
}

/// The kind of the first checksum that a request wants and that the server has.
pub(crate) fn first_wanted(headers: &HeaderMap) -> Option<Algorithm> {
    let wanted = digest::wanted_repr(headers).into_iter().chain(digest::wanted(headers));
    wanted.into_iter().find_map(supported)
}

/// A checksum as a digest of HTTP.
pub(crate) fn digest(sum: &Checksum) -> Option<Digest> {
    let kind = KNOWN.into_iter().find(|kind| supported(*kind) == Some(sum.algorithm()))?;
    Some(Digest { algorithm: kind, value: sum.value().to_vec() })
}

/// The fields with this checksum of a file, in the forms in which a request wants it.
pub(crate) fn told(headers: &HeaderMap, sum: &Checksum) -> HeaderMap {
    let mut fields = HeaderMap::new();
    let Some(found) = digest(sum) else { return fields };
    for (wanted, name, text) in [
        (digest::wanted(headers), DIGEST, found.to_field()),
        (digest::wanted_repr(headers), REPR_DIGEST, found.to_repr_field()),
    ] {
        if let (true, Ok(value)) = (wanted.contains(&found.algorithm), text.parse()) {
            fields.insert(name, value);
        }
    }
    fields
}

/// The fields with the checksums of a file that a request wants. A checksum that cannot be computed
/// is left out.
pub(crate) async fn wanted(
    reader: &dyn FileReader,
    headers: &HeaderMap,
    mode: ChecksumMode,
) -> HeaderMap {
    let mut fields = HeaderMap::new();
    let first = |wanted: Vec<DigestAlgorithm>| {
        wanted.into_iter().find_map(|kind| supported(kind).map(|algorithm| (kind, algorithm)))
    };
    for (wanted, name, write) in [
        (first(digest::wanted(headers)), DIGEST, Digest::to_field as fn(&Digest) -> String),
        (first(digest::wanted_repr(headers)), REPR_DIGEST, Digest::to_repr_field),
    ] {
        let Some((kind, algorithm)) = wanted else { continue };
        let computed = reader.checksum(algorithm, mode).await;
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
    for kind in KNOWN {
        let Some(algorithm) = supported(kind) else { continue };
        if let Ok(Some(sum)) = reader.checksum(algorithm, ChecksumMode::Cached).await {
            digests.push(Digest { algorithm: kind, value: sum.value().to_vec() });
        }
    }
    digests
}

/// The checksums of the whole file that a header or its trailers announce.
pub(crate) fn announced_file(fields: &HeaderMap) -> Result<Vec<Checksum>, HttpError> {
    announced(fields, &[REPR_DIGEST, DIGEST])
}

fn announced(fields: &HeaderMap, names: &[HeaderName]) -> Result<Vec<Checksum>, HttpError> {
    let mut found = Vec::new();
    for name in names {
        let digests = digest::announced(fields, name, &KNOWN);
        let digests = digests.map_err(|error| bad(error.to_string()))?.into_iter();
        let sums = digests.filter_map(|it| Checksum::new(supported(it.algorithm)?, &it.value).ok());
        found.extend(sums);
    }
    Ok(found)
}

fn bad(what: String) -> HttpError {
    HttpError::new(StatusCode::BAD_REQUEST, what)
}

/// The error for bytes that do not have an announced checksum.
pub(crate) fn mismatch(announced: &Checksum) -> HttpError {
    bad(format!("checksum mismatch: the bytes that arrived do not have {announced}"))
}

/// The checksums of a body: those that are announced, and those of the bytes so far.
#[derive(Debug)]
pub(crate) struct ContentDigests {
    announced: Vec<Checksum>,
    hashers: Vec<Hasher>,
}

impl ContentDigests {
    /// The checksums that a header announces. If trailers will follow, they may name any algorithm.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, HttpError> {
        let announced = announced(headers, &[CONTENT_DIGEST, CONTENT_MD5])?;
        let is_wanted = |algorithm: &Algorithm| {
            headers.contains_key(header::TRAILER)
                || announced.iter().any(|sum| sum.algorithm() == *algorithm)
        };
        let hashers = Algorithm::ALL.into_iter().filter(is_wanted).map(Hasher::new).collect();
        Ok(Self { announced, hashers })
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        for hasher in &mut self.hashers {
            hasher.update(bytes);
        }
    }

    /// Fails unless the whole body has all announced checksums.
    pub(crate) fn verify(&self, trailers: &HeaderMap) -> Result<(), HttpError> {
        let in_trailers = announced(trailers, &[CONTENT_DIGEST, CONTENT_MD5])?;
        for sum in self.announced.iter().chain(&in_trailers) {
            let hasher = self.hashers.iter().find(|it| it.algorithm() == sum.algorithm());
            let Some(hasher) = hasher else {
                let what =
                    "a digest of the content in trailers needs a field Trailer that names it";
                return Err(bad(what.to_owned()));
            };
            if hasher.clone().finish() != *sum {
                return Err(mismatch(sum));
            }
        }
        Ok(())
    }
}
