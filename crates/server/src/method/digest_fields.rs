//! Checksums in header fields: those that a client requests by `Want-` fields, and those that it
//! announces for its body.
//!
//! Every announced checksum is verified, or the request is refused. `Content-Digest` and
//! `Content-MD5` are about the body of any request ([`ContentDigests`]); `Digest` and `Repr-Digest`
//! are about the whole file that a PUT makes ([`announced_file`]). They may come in trailers, too.

use crate::backend::{ChecksumMode, FileReader};
use crate::http_error::HttpError;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_http::digest::{self, CONTENT_DIGEST, CONTENT_MD5, DIGEST, REPR_DIGEST};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The algorithms that the server has.
pub(crate) const KNOWN: [Algorithm; 5] =
    [Algorithm::Adler32, Algorithm::Crc32c, Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512];

/// Returns true if a request asks for a checksum.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    !digest::wanted(headers).is_empty() || !digest::wanted_repr(headers).is_empty()
}

/// The kind of the first checksum that a request asks for and that the server has.
pub(crate) fn first_wanted(headers: &HeaderMap) -> Option<Algorithm> {
    first_known(&digest::wanted_repr(headers)).or_else(|| first_known(&digest::wanted(headers)))
}

/// Returns true if the server has the algorithm of this checksum.
pub(crate) fn is_known(sum: &Checksum) -> bool {
    KNOWN.contains(&sum.algorithm())
}

fn first_known(wanted: &[Algorithm]) -> Option<Algorithm> {
    wanted.iter().copied().find(|algorithm| KNOWN.contains(algorithm))
}

/// The fields with this checksum of a file, in the forms that a request asks for.
pub(crate) fn of_checksum(headers: &HeaderMap, sum: &Checksum) -> HeaderMap {
    let mut fields = HeaderMap::new();
    if !is_known(sum) {
        return fields;
    }
    for (wanted, name, text) in [
        (digest::wanted(headers), DIGEST, digest::to_field(sum)),
        (digest::wanted_repr(headers), REPR_DIGEST, digest::to_repr_field(sum)),
    ] {
        if let (true, Ok(value)) = (wanted.contains(&sum.algorithm()), text.parse()) {
            fields.insert(name, value);
        }
    }
    fields
}

/// The fields with the requested checksums of a file. A checksum that cannot be computed is left
/// out.
pub(crate) async fn wanted(
    reader: &dyn FileReader,
    headers: &HeaderMap,
    mode: ChecksumMode,
) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (wanted, name, write) in [
        (digest::wanted(headers), DIGEST, digest::to_field as fn(&Checksum) -> String),
        (digest::wanted_repr(headers), REPR_DIGEST, digest::to_repr_field),
    ] {
        let Some(algorithm) = first_known(&wanted) else { continue };
        let computed = reader.checksum(algorithm, mode).await;
        let Some(sum) = computed.ok().flatten() else { continue };
        if let Ok(value) = HeaderValue::from_str(&write(&sum)) {
            fields.insert(name, value);
        }
    }
    fields
}

/// The stored checksums of a file.
pub(crate) async fn stored(reader: &dyn FileReader) -> Vec<Checksum> {
    let mut sums = Vec::new();
    for algorithm in KNOWN {
        if let Ok(Some(sum)) = reader.checksum(algorithm, ChecksumMode::Cached).await {
            sums.push(sum);
        }
    }
    sums
}

/// The checksums of the whole file that a header or its trailers announce.
pub(crate) fn announced_file(fields: &HeaderMap) -> Result<Vec<Checksum>, HttpError> {
    announced(fields, &[REPR_DIGEST, DIGEST])
}

fn announced(fields: &HeaderMap, names: &[HeaderName]) -> Result<Vec<Checksum>, HttpError> {
    let mut found = Vec::new();
    for name in names {
        let sums = digest::announced(fields, name, &KNOWN);
        found.extend(sums.map_err(|error| bad(error.to_string()))?);
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
