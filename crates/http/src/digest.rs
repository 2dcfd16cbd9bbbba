//! Checksums of files in header fields: `Digest` (RFC 3230), `Repr-Digest` (RFC 9530) and
//! `Content-MD5` (RFC 1864).
//!
//! All cover the whole file, also in a response with a part of it, except `Content-MD5` and
//! `Content-Digest` (RFC 9530), which cover the body. Of these a client reads only the first, a
//! server both ([`announced`]). An entity tag that looks like an MD5 is not one: object stores
//! compute it from the MD5s of pieces.
//!
//! `Digest` has hexadecimal values for 32-bit checksums, of which some servers drop leading zeros
//! (xrootd issue 1483), and base64 for the others, where some servers write hexadecimal. The length
//! distinguishes them. In `Repr-Digest` all values are byte sequences in base64 between colons. In
//! a response, values that cannot be parsed are skipped: a checksum is optional, and there may be
//! others. In a request, a field that cannot be verified is an error: the client relies on it.

use crate::field::{self, list_items};
use crate::text::trim;
use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hither_checksum::{Algorithm, Checksum};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, header};

/// `Digest` (RFC 3230).
pub const DIGEST: HeaderName = HeaderName::from_static("digest");
/// `Want-Digest` (RFC 3230).
pub const WANT_DIGEST: HeaderName = HeaderName::from_static("want-digest");
/// `Repr-Digest` (RFC 9530).
pub const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
/// `Content-Digest` (RFC 9530).
pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
/// `Want-Repr-Digest` (RFC 9530).
pub const WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");
/// `Content-MD5` (RFC 1864), obsolete in HTTP and still used by object stores.
pub const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// Looks up an algorithm by name, in any spelling of the fields and of Metalink documents.
#[must_use]
pub fn algorithm(name: &str) -> Option<Algorithm> {
    Some(match name.trim().to_ascii_lowercase().as_str() {
        "adler32" | "adler-32" | "adler" => Algorithm::Adler32,
        "crc32c" | "crc-32c" => Algorithm::Crc32c,
        "md5" => Algorithm::Md5,
        "sha" | "sha1" | "sha-1" => Algorithm::Sha1,
        "sha256" | "sha-256" => Algorithm::Sha256,
        "sha512" | "sha-512" => Algorithm::Sha512,
        _ => return None,
    })
}

/// The name in `Want-Digest`.
pub(crate) fn old_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Sha1 => "sha",
        Algorithm::Sha256 => "sha-256",
        Algorithm::Sha512 => "sha-512",
        other => other.name(),
    }
}

/// The name in `Want-Repr-Digest` (the registry of RFC 9530).
fn new_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Adler32 => "adler",
        other => old_name(other),
    }
}

/// Parses a value in hexadecimal (leading zeros of a 32-bit checksum may be missing) or base64,
/// with or without padding.
///
/// ```
/// use hither_checksum::Algorithm::Adler32;
/// use hither_http::digest::from_text;
/// assert_eq!(from_text(Adler32, "11e60398").unwrap().value(), [0x11, 0xe6, 0x03, 0x98]);
/// assert_eq!(from_text(Adler32, "398").unwrap().value(), [0, 0, 0x03, 0x98]);
/// assert_eq!(from_text(Adler32, "EeYDmA==").unwrap().value(), [0x11, 0xe6, 0x03, 0x98]);
/// assert_eq!(from_text(Adler32, "xyz"), None);
/// ```
#[must_use]
pub fn from_text(algorithm: Algorithm, text: &str) -> Option<Checksum> {
    let width = algorithm.width();
    let is_hex = if width == 4 { (1..=8).contains(&text.len()) } else { text.len() == 2 * width }
        && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let sum = if is_hex {
        Checksum::from_hex(algorithm, text)
    } else {
        Checksum::new(algorithm, &base64(text)?)
    };
    sum.ok()
}

/// Formats the value of a `Digest` field.
///
/// ```
/// use hither_http::digest::{to_field, to_repr_field};
/// let sum = "adler32:11e60398".parse()?;
/// assert_eq!(to_field(&sum), "adler32=11e60398");
/// assert_eq!(to_repr_field(&sum), "adler=:EeYDmA==:");
/// # Ok::<(), hither_checksum::ChecksumError>(())
/// ```
#[must_use]
pub fn to_field(sum: &Checksum) -> String {
    let value = match sum.algorithm().width() {
        4 => sum.hex(),
        _ => STANDARD.encode(sum.value()),
    };
    format!("{}={value}", old_name(sum.algorithm()))
}

/// Formats the value of a `Repr-Digest` field.
#[must_use]
pub fn to_repr_field(sum: &Checksum) -> String {
    format!("{}=:{}:", new_name(sum.algorithm()), STANDARD.encode(sum.value()))
}

/// The checksums of the file in a response of this status, each algorithm once.
#[must_use]
pub fn digests(status: StatusCode, headers: &HeaderMap) -> Vec<Checksum> {
    let new = headers.get_all(REPR_DIGEST).into_iter().flat_map(|value| members(value, true));
    let old = headers.get_all(DIGEST).into_iter().flat_map(|value| members(value, false));
    // This checksum covers the body, which is the file only if it is complete and unencoded.
    let whole = status == StatusCode::OK && !headers.contains_key(header::CONTENT_ENCODING);
    let md5 = headers.get(CONTENT_MD5).filter(|_| whole).and_then(|value| value.to_str().ok());
    let md5 = md5.and_then(|value| from_text(Algorithm::Md5, value.trim()));
    let mut found: Vec<Checksum> = Vec::new();
    for digest in new.chain(old).chain(md5) {
        if !found.iter().any(|known| known.algorithm() == digest.algorithm()) {
            found.push(digest);
        }
    }
    found
}

/// The members of a list `name=value, …`; as byte sequences between colons if `colons`.
fn members(list: &HeaderValue, colons: bool) -> Vec<Checksum> {
    list_items(list.as_bytes()).filter_map(|item| member(item, colons)?.1).collect()
}

/// The algorithm of a member, and its digest if the value is valid; none if the algorithm is not
/// known.
fn member(item: &[u8], colons: bool) -> Option<(Algorithm, Option<Checksum>)> {
    let equals = item.iter().position(|byte| *byte == b'=')?;
    let (name, value) = item.split_at_checked(equals)?;
    let algorithm = algorithm(std::str::from_utf8(name).ok()?)?;
    let digest = || {
        let (value, _) = field::value(trim(value.get(1..)?))?;
        let text = String::from_utf8(value).ok()?;
        if !colons {
            return from_text(algorithm, &text);
        }
        let inner = text.strip_prefix(':')?.strip_suffix(':')?;
        Checksum::new(algorithm, &base64(inner)?).ok()
    };
    Some((algorithm, digest()))
}

/// A digest field of a request that cannot be verified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnverifiableDigest {
    /// The field has no algorithm that the server verifies.
    #[error("{field} has no algorithm that this server verifies, expected one of {known}")]
    UnknownAlgorithm {
        /// The field.
        field: HeaderName,
        /// The algorithms that it verifies.
        known: String,
    },
    /// The value of an algorithm that the server verifies is invalid.
    #[error("the value of {algorithm} in {field} is not a checksum of that kind")]
    InvalidValue {
        /// The field.
        field: HeaderName,
        /// The algorithm.
        algorithm: &'static str,
    },
}

/// The digests in a field of a request (`Content-Digest`, `Repr-Digest`, `Digest`, `Content-MD5`),
/// for a server that verifies the algorithms `known`. Members with other algorithms are skipped.
///
/// ```
/// use hither_checksum::Algorithm::*;
/// use hither_http::digest::{CONTENT_DIGEST, announced};
/// let value = "sha-512=:AA==:, adler=:EeYDmA==:".parse().unwrap();
/// let both = [(CONTENT_DIGEST, value)].into_iter().collect();
/// assert_eq!(announced(&both, &CONTENT_DIGEST, &[Adler32]).unwrap().len(), 1);
/// let error = announced(&both, &CONTENT_DIGEST, &[Md5, Sha256]).unwrap_err().to_string();
/// assert!(error.ends_with("expected one of md5, sha-256"));
/// ```
///
/// # Errors
/// The field is present, and has no such member or an invalid value.
pub fn announced(
    headers: &HeaderMap,
    field: &HeaderName,
    known: &[Algorithm],
) -> Result<Vec<Checksum>, UnverifiableDigest> {
    let is_old = *field == DIGEST;
    let name = if is_old { old_name } else { new_name };
    let mut found = Vec::new();
    for list in headers.get_all(field) {
        let text = || from_text(Algorithm::Md5, list.to_str().ok()?.trim());
        let members: Vec<_> = if *field == CONTENT_MD5 {
            vec![(Algorithm::Md5, text())]
        } else {
            list_items(list.as_bytes()).filter_map(|item| member(item, !is_old)).collect()
        };
        for (algorithm, digest) in members {
            if known.contains(&algorithm) {
                let invalid = || UnverifiableDigest::InvalidValue {
                    field: field.clone(),
                    algorithm: name(algorithm),
                };
                found.push(digest.ok_or_else(invalid)?);
            }
        }
    }
    if found.is_empty() && headers.contains_key(field) {
        let known = known.iter().map(|algorithm| name(*algorithm)).collect::<Vec<_>>().join(", ");
        return Err(UnverifiableDigest::UnknownAlgorithm { field: field.clone(), known });
    }
    Ok(found)
}

/// The value of `Want-Digest` for these algorithms, the first one preferred.
///
/// ```
/// use hither_checksum::Algorithm::*;
/// use hither_http::digest::{want_digest, want_repr_digest};
/// assert_eq!(want_digest(&[Adler32, Md5]), "adler32;q=1.0,md5;q=0.9");
/// assert_eq!(want_repr_digest(&[Adler32, Sha256]), "adler=10,sha-256=9");
/// ```
#[must_use]
pub fn want_digest(algorithms: &[Algorithm]) -> String {
    let weight = |weight| format!(";q={}.{}", weight / 10, weight % 10);
    weighted(algorithms, old_name, weight)
}

/// The value of `Want-Repr-Digest` for these algorithms, the first one preferred.
#[must_use]
pub fn want_repr_digest(algorithms: &[Algorithm]) -> String {
    weighted(algorithms, new_name, |weight| format!("={weight}"))
}

/// The algorithms requested by a `Want-Digest` field, the preferred one first.
///
/// ```
/// use hither_checksum::Algorithm::*;
/// use hither_http::digest::{WANT_DIGEST, wanted};
/// let headers = [(WANT_DIGEST, "md5;q=0.5, adler32, sha;q=0".parse()?)].into_iter().collect();
/// assert_eq!(wanted(&headers), [Adler32, Md5]);
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[must_use]
pub fn wanted(headers: &HeaderMap) -> Vec<Algorithm> {
    wanted_by(headers, &WANT_DIGEST, |item| {
        let name = item.split(|byte| *byte == b';').next().unwrap_or_default();
        let weight = field::parameters(item).find(|(name, _)| name.eq_ignore_ascii_case(b"q"));
        (name, weight.map_or(1.0, |(_, weight)| number(&weight)))
    })
}

/// The algorithms requested by a `Want-Repr-Digest` field, the preferred one first.
///
/// ```
/// use hither_checksum::Algorithm::*;
/// use hither_http::digest::{WANT_REPR_DIGEST, wanted_repr};
/// let headers = [(WANT_REPR_DIGEST, "adler=3, sha-256=9, md5=0".parse()?)].into_iter().collect();
/// assert_eq!(wanted_repr(&headers), [Sha256, Adler32]);
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[must_use]
pub fn wanted_repr(headers: &HeaderMap) -> Vec<Algorithm> {
    wanted_by(headers, &WANT_REPR_DIGEST, |item| {
        let equals = item.iter().position(|byte| *byte == b'=').unwrap_or(item.len());
        let (name, weight) = item.split_at_checked(equals).unwrap_or((item, b""));
        (name, weight.strip_prefix(b"=").map_or(1.0, number))
    })
}

/// A weight that is not a number counts as 0, which excludes the algorithm.
fn number(text: &[u8]) -> f64 {
    let number = std::str::from_utf8(trim(text)).ok().and_then(|text| text.parse().ok());
    number.filter(|number: &f64| number.is_finite()).unwrap_or_default()
}

fn wanted_by(
    headers: &HeaderMap,
    name: &HeaderName,
    read: impl Fn(&[u8]) -> (&[u8], f64),
) -> Vec<Algorithm> {
    let mut found: Vec<(Algorithm, f64)> = Vec::new();
    for item in headers.get_all(name).into_iter().flat_map(|list| list_items(list.as_bytes())) {
        let (name, weight) = read(item);
        let name = std::str::from_utf8(name).ok().and_then(algorithm);
        if let Some(algorithm) = name.filter(|_| weight > 0.0)
            && !found.iter().any(|(known, _)| *known == algorithm)
        {
            found.push((algorithm, weight));
        }
    }
    // The sort is stable: equal weights keep their order.
    found.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    found.into_iter().map(|(algorithm, _)| algorithm).collect()
}

/// Weights fall from 10; 0 would exclude the algorithm.
fn weighted(
    algorithms: &[Algorithm],
    name: impl Fn(Algorithm) -> &'static str,
    weight: impl Fn(usize) -> String,
) -> String {
    let members = algorithms.iter().enumerate().map(|(place, algorithm)| {
        name(*algorithm).to_owned() + &weight(10usize.saturating_sub(place).max(1))
    });
    members.collect::<Vec<_>>().join(",")
}

fn base64(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    LENIENT.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_checksum::Algorithm::*;
    use proptest::prelude::*;

    fn found(status: u16, fields: &[(HeaderName, &str)]) -> Vec<(Algorithm, String)> {
        let headers: HeaderMap =
            fields.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        let found = digests(StatusCode::from_u16(status).unwrap(), &headers);
        found.iter().map(|it| (it.algorithm(), it.hex())).collect()
    }

    const EMPTY_MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";
    const EMPTY_SHA: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn the_old_field_is_read_in_all_its_spellings() {
        let expected = |sum: &str| vec![(Adler32, sum.to_owned())];
        for value in [
            "adler32=03da0195",
            "ADLER32=3DA0195",
            " adler32 = \"03da0195\" ",
            "x=1,,adler32=3da0195",
        ] {
            assert_eq!(found(206, &[(DIGEST, value)]), expected("03da0195"), "{value}");
        }
        assert_eq!(
            found(200, &[(DIGEST, "md5=1B2M2Y8AsgTpgAmY7PhCfg==,crc32c=0")]),
            [(Md5, EMPTY_MD5.to_owned()), (Crc32c, "00000000".to_owned())]
        );
        assert_eq!(found(200, &[(DIGEST, &format!("md5={EMPTY_MD5}"))]), [(Md5, EMPTY_MD5.into())]);
        let sha = "sha-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        assert_eq!(found(200, &[(DIGEST, sha)]), [(Sha256, EMPTY_SHA.into())]);
    }

    #[test]
    fn the_new_field_holds_byte_sequences() {
        let value = "adler=:A9oBlQ==:, sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:;x=1";
        let expected = [(Adler32, "03da0195".to_owned()), (Sha256, EMPTY_SHA.to_owned())];
        assert_eq!(found(206, &[(REPR_DIGEST, value)]), expected);
        assert_eq!(found(206, &[(REPR_DIGEST, "adler=03da0195")]), []);
    }

    #[test]
    fn content_md5_is_of_the_file_only_where_all_of_it_comes() {
        let md5 = (CONTENT_MD5, "1B2M2Y8AsgTpgAmY7PhCfg==");
        assert_eq!(found(200, std::slice::from_ref(&md5)), [(Md5, EMPTY_MD5.into())]);
        assert_eq!(found(206, std::slice::from_ref(&md5)), []);
        assert_eq!(found(200, &[md5, (header::CONTENT_ENCODING, "gzip")]), []);
    }

    #[test]
    fn tags_and_sums_of_messages_are_no_checksums() {
        let tag = format!("\"{EMPTY_MD5}\"");
        let of_message = HeaderName::from_static("content-digest");
        assert_eq!(
            found(200, &[(header::ETAG, &tag), (of_message, "md5=:1B2M2Y8AsgTpgAmY7PhCfg==:")]),
            []
        );
    }

    #[test]
    fn what_has_another_length_is_passed_over() {
        for value in [
            "adler32=",
            "adler32=123456789",
            "md5=AAAA",
            "md5=0123",
            "sha=1B2M2Y8AsgTpgAmY7PhCfg==",
            "adler32=+1",
        ] {
            assert_eq!(found(200, &[(DIGEST, value)]), [], "{value}");
        }
    }

    #[test]
    fn a_field_that_cannot_be_verified_is_an_error() {
        let known = [Adler32, Md5];
        let announced = |field: &HeaderName, value: &str| {
            let headers = HeaderMap::from_iter([(field.clone(), value.parse().unwrap())]);
            announced(&headers, field, &known)
        };
        for (field, value, count) in [
            (&DIGEST, "adler32=3da0195, sha=x", 1),
            (&REPR_DIGEST, "adler=:A9oBlQ==:, md5=:1B2M2Y8AsgTpgAmY7PhCfg==:", 2),
            (&CONTENT_DIGEST, "new=:AA==:, adler=:A9oBlQ==:", 1),
            (&CONTENT_MD5, "1B2M2Y8AsgTpgAmY7PhCfg==", 1),
        ] {
            assert_eq!(announced(field, value).unwrap().len(), count, "{field}: {value}");
        }
        for value in ["", "sha-512=:AA==:", "x", "adler", "unixsum=1"] {
            let error = announced(&REPR_DIGEST, value).unwrap_err();
            let named = matches!(&error, UnverifiableDigest::UnknownAlgorithm { known, .. } if known == "adler, md5");
            assert!(named, "{value}: {error}");
        }
        for (field, value) in [
            (&DIGEST, "adler32=x, md5=1B2M2Y8AsgTpgAmY7PhCfg=="),
            (&CONTENT_DIGEST, "md5=1B2M2Y8AsgTpgAmY7PhCfg=="),
            (&CONTENT_MD5, "1B2M2Y8AsgTpg"),
        ] {
            let error = announced(field, value).unwrap_err();
            assert!(matches!(error, UnverifiableDigest::InvalidValue { .. }), "{value}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(value in "[ -~]{0,60}") {
            let Ok(value) = HeaderValue::from_str(&value) else { return Ok(()) };
            let headers = HeaderMap::from_iter([(DIGEST, value.clone()), (REPR_DIGEST, value.clone()), (CONTENT_MD5, value)]);
            let _ = digests(StatusCode::OK, &headers);
        }

        #[test]
        fn values_round_trip(value in prop::collection::vec(any::<u8>(), 16)) {
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            let base64 = STANDARD.encode(&value);
            let digest = Checksum::new(Md5, &value).ok();
            prop_assert_eq!(from_text(Md5, &hex), digest);
            prop_assert_eq!(from_text(Md5, &base64), from_text(Md5, &hex));
        }
    }
}
