//! Numbers of up to 64 bits in groups of seven (LEB128), as in lists of ranges and records of
//! trees.

/// Maximum size of a number: ten bytes of seven bits.
pub(crate) const MAX_BYTES: usize = 10;

/// Bytes that are not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// They end within it.
    Truncated,
    /// It has more than 64 bits.
    Overlong,
}

/// Maps small differences of either sign to small numbers: 0, -1, 1, -2 …
pub(crate) fn zigzag(difference: u64) -> u64 {
    let sign = if difference >> 63 == 1 { u64::MAX } else { 0 };
    (difference << 1) ^ sign
}

#[expect(clippy::cast_possible_wrap, reason = "the bits are reinterpreted")]
pub(crate) fn unzigzag(number: u64) -> i64 {
    ((number >> 1) ^ (number & 1).wrapping_neg()) as i64
}

pub(crate) fn put(body: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            body.push(low & 0x7f);
            return;
        }
        body.push(low | 0x80);
    }
}

/// Splits a number off the front of `rest`.
pub(crate) fn take(rest: &mut &[u8]) -> Result<u64, NumberError> {
    let mut number = 0u64;
    for place in 0..MAX_BYTES {
        let Some((byte, after)) = rest.split_first() else { return Err(NumberError::Truncated) };
        *rest = after;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if place == MAX_BYTES - 1 && bits > 1 {
            break;
        }
        number |= bits << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(NumberError::Overlong)
}
