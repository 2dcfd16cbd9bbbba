//! Responses to queries, as text of many kinds.

use crate::wire::{MAX_ELEMENT_BYTES, VectorLimits, WireError, before_nul};

/// Decodes the limits of vector reads from the response to a query of `readv_ior_max
/// readv_iov_max`, clamped to those that every server accepts. A server that does not know a
/// setting returns its name.
#[must_use]
pub fn vector_limits(answer: &[u8]) -> Option<VectorLimits> {
    let text = std::str::from_utf8(before_nul(answer)).ok()?;
    let (element_bytes, elements) = text.trim_end_matches('\n').split_once('\n')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let element_bytes = number(element_bytes)?;
    let elements = number(elements)?;
    let usual = VectorLimits::default();
    Some(
        VectorLimits {
            elements: usize::try_from(elements).unwrap_or(usual.elements),
            element_bytes: u32::try_from(element_bytes).unwrap_or(MAX_ELEMENT_BYTES),
            ..usual
        }
        .clamped(),
    )
}

/// Decodes a checksum, `algorithm value`. Returns it in lower case.
///
/// # Errors
/// There are not two words.
pub fn checksum(answer: &[u8]) -> Result<(String, String), WireError> {
    let bytes = before_nul(answer);
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let mut words = text.split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some(algorithm), Some(value)) => Ok((algorithm.to_owned(), value.to_owned())),
        _ => Err(WireError::text("a checksum", bytes, "\"algorithm value\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_believed_downwards_only() {
        let usual = VectorLimits::default();
        assert_eq!(vector_limits(b"2097136\n1024\n"), Some(usual));
        assert_eq!(vector_limits(b"8388592\n178956970\n"), Some(usual));
        let small = vector_limits(b"65536\n16").unwrap();
        assert_eq!((small.element_bytes, small.elements), (65_536, 16));
        assert_eq!(vector_limits(b"readv_ior_max\nreadv_iov_max"), None);
        assert_eq!(vector_limits(b"1024\n\0"), None);
        assert_eq!(vector_limits(b"1\n2\n3\n"), None);
        assert_eq!(vector_limits(b""), None);
    }

    #[test]
    fn checksums_are_two_words() {
        assert_eq!(checksum(b"adler32 0A0B0c0d\0").unwrap(), ("adler32".into(), "0a0b0c0d".into()));
        assert!(checksum(b"none").is_err());
    }
}
