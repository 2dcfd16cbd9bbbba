//! Integers of variable length: seven bits in each byte, the lowest first; the eighth bit means
//! that more bytes follow (LEB128).

/// Appends `value` in 1 to 10 bytes.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the low seven bits are meant")]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 128")]
    out.push(value as u8);
}

/// Appends a difference; values near 0 are short.
pub(super) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned());
}

/// Takes a number from the front; returns `None` if the bytes end within it, or if it needs more
/// than 64 bits.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Takes a difference from the front.
pub(super) fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    let value = take(bytes)?;
    Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_encoded_number_decodes_to_itself(value: u64, signed: i64, small in -70_i64..70) {
            let mut out = Vec::new();
            put(&mut out, value);
            put_signed(&mut out, signed);
            put_signed(&mut out, small);
            let mut bytes = &out[..];
            prop_assert_eq!(take(&mut bytes), Some(value));
            prop_assert_eq!(take_signed(&mut bytes), Some(signed));
            prop_assert!(bytes.len() <= 2);
            prop_assert_eq!(take_signed(&mut bytes), Some(small));
            prop_assert!(bytes.is_empty());
        }
    }

    #[test]
    fn a_truncated_or_overlong_number_is_none() {
        assert_eq!(take(&mut &[0x80][..]), None);
        assert_eq!(take(&mut &[][..]), None);
        assert_eq!(take(&mut &[0xff; 11][..]), None);
        let mut largest = Vec::new();
        put(&mut largest, u64::MAX);
        assert_eq!(largest.len(), 10);
        largest[9] = 2;
        assert_eq!(take(&mut &largest[..]), None);
    }
}
