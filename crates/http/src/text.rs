//! Bytes of a peer in error messages.

/// Maximum length of an excerpt.
const MAX_CHARS: usize = 80;

/// The first 80 bytes, with non-printable and non-ASCII bytes escaped.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let shown = bytes.get(..MAX_CHARS).unwrap_or(bytes);
    let mut text = shown.escape_ascii().to_string();
    if shown.len() < bytes.len() {
        text.push('…');
    }
    text
}

/// Trims blanks and tabs at both ends (optional white space, RFC 9110 section 5.6.3).
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r', rest @ ..] | [rest @ .., b' ' | b'\t' | b'\r'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Splits a decimal number off the front: `None` if there is no digit or it exceeds 64 bits.
pub(crate) fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (head, rest) = bytes.split_at_checked(digits)?;
    if head.is_empty() {
        return None;
    }
    let value = head.iter().try_fold(0u64, |value, digit| {
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_printable_and_bounded() {
        assert_eq!(excerpt(b"a\r\nb\xff"), "a\\r\\nb\\xff");
        assert_eq!(excerpt(&[b'x'; 500]).chars().count(), MAX_CHARS + 1);
    }

    #[test]
    fn numbers_stop_at_the_first_other_byte_and_refuse_overflow() {
        assert_eq!(number(b"18446744073709551615-"), Some((u64::MAX, &b"-"[..])));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b"-1"), None);
        assert_eq!(number(b""), None);
    }

    #[test]
    fn trimming_takes_blanks_of_both_ends_only() {
        assert_eq!(trim(b" \ta b\r "), b"a b");
        assert_eq!(trim(b" \t "), b"");
    }
}
