//! Encodings of numbers: plain ones, and the truncated `Double32_t` and `Float16_t`.
//!
//! The comment of a member or the title of a leaf states the encoding of a truncated number, as
//! `[min, max, bits]`: with a range, a four-byte integer that counts steps from the minimum;
//! without one, an exponent of one byte and a mantissa of two. By default a `Double32_t` is stored
//! as a `float`, and a `Float16_t` has 12 bits.
//!
//! Source: `TStreamerElement::GetRange`, `TBufferFile::ReadWithFactor`,
//! `TBufferFile::ReadWithNbits`.

use crate::{ElementType, Values};

/// The encoding of one number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NumberEncoding {
    /// As in memory, but big-endian.
    Plain(ElementType),
    /// A double stored as a float.
    Single,
    /// A number of steps of `1 / factor`, from `min` on.
    Ranged { min: f64, factor: f64, double: bool },
    /// Exponent, and a mantissa of `bits` bits.
    Short { bits: u32, double: bool },
}

/// Default bits of the mantissa of a `Float16_t`.
const HALF_BITS: u32 = 12;
/// Bits of a range for which only the limits are stated.
const ALL_BITS: u32 = 32;
/// Maximum number of bits of a two-byte mantissa, without its sign.
const MANTISSA_BITS: u32 = 14;

impl NumberEncoding {
    /// The encoding of a `Double32_t` (`double`) or `Float16_t` with this comment or title.
    pub(crate) fn truncated(double: bool, title: &str) -> Self {
        let plain = if double { Self::Single } else { Self::Short { bits: HALF_BITS, double } };
        match range(title) {
            None => plain,
            Some((min, max, bits)) if min < max => {
                let bits = bits.unwrap_or(ALL_BITS);
                let steps =
                    if bits < ALL_BITS { f64::from(1_u32 << bits) } else { f64::from(u32::MAX) };
                Self::Ranged { min, factor: steps / (max - min), double }
            }
            Some((_, _, Some(bits))) if bits <= MANTISSA_BITS => Self::Short { bits, double },
            Some(_) => plain,
        }
    }

    /// Bytes of one number.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Plain(element) => element.size(),
            Self::Single | Self::Ranged { .. } => 4,
            Self::Short { .. } => 3,
        }
    }

    /// The type of the number in memory.
    pub(crate) const fn element(self) -> ElementType {
        match self {
            Self::Plain(element) => element,
            Self::Ranged { double: false, .. } | Self::Short { double: false, .. } => {
                ElementType::F32
            }
            Self::Single | Self::Ranged { .. } | Self::Short { .. } => ElementType::F64,
        }
    }

    /// Appends the numbers stored in `data`, without an incomplete last one. Returns false if
    /// `values` has another type.
    pub(crate) fn append(self, values: &mut Values, data: &[u8]) -> bool {
        match self {
            Self::Plain(_) => return append_plain(values, data),
            Self::Single => {
                let Values::F64(values) = values else { return false };
                let (chunks, _) = data.as_chunks::<4>();
                values.extend(chunks.iter().map(|chunk| f64::from(f32::from_be_bytes(*chunk))));
            }
            Self::Ranged { min, factor, .. } => {
                let (chunks, _) = data.as_chunks::<4>();
                let real = |chunk: &[u8; 4]| f64::from(u32::from_be_bytes(*chunk)) / factor + min;
                extend(values, chunks.iter().map(real));
            }
            Self::Short { bits, .. } => {
                let (chunks, _) = data.as_chunks::<3>();
                extend(values, chunks.iter().map(|chunk| short(*chunk, bits)));
            }
        }
        true
    }
}

fn extend(values: &mut Values, numbers: impl Iterator<Item = f64>) {
    match values {
        Values::F64(values) => values.extend(numbers),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "single precision is what the member has"
        )]
        Values::F32(values) => values.extend(numbers.map(|number| number as f32)),
        _ => {}
    }
}

/// Decodes a number of one byte of exponent and two bytes of sign and mantissa.
fn short([exponent, high, low]: [u8; 3], bits: u32) -> f64 {
    let mantissa = u32::from(u16::from_be_bytes([high, low]));
    let kept = (mantissa & ((1 << (bits + 1)) - 1)) << (23 - bits);
    let value = f64::from(f32::from_bits(u32::from(exponent) << 23 | kept));
    if mantissa & (1 << (bits + 1)) == 0 { value } else { -value }
}

/// Appends big-endian numbers in native byte order, without an incomplete last one.
fn append_plain(values: &mut Values, data: &[u8]) -> bool {
    macro_rules! swap {
        ($v:expr, $t:ty) => {{
            let (chunks, _) = data.as_chunks::<{ size_of::<$t>() }>();
            $v.extend(chunks.iter().map(|chunk| <$t>::from_be_bytes(*chunk)));
        }};
    }
    match values {
        Values::Bool(v) => v.extend(data.iter().map(|&byte| byte != 0)),
        Values::U8(v) => v.extend_from_slice(data),
        Values::I8(v) => v.extend(data.iter().map(|&byte| byte.cast_signed())),
        Values::I16(v) => swap!(v, i16),
        Values::U16(v) => swap!(v, u16),
        Values::I32(v) => swap!(v, i32),
        Values::U32(v) => swap!(v, u32),
        Values::I64(v) => swap!(v, i64),
        Values::U64(v) => swap!(v, u64),
        Values::F32(v) => swap!(v, f32),
        Values::F64(v) => swap!(v, f64),
        Values::Text(_) | Values::Lists(_) => return false,
    }
    true
}

/// The range in a comment: minimum, maximum, and bits, if they are stated and valid. Brackets with
/// other content, such as the dimensions `[3]` of an array, are skipped.
fn range(title: &str) -> Option<(f64, f64, Option<u32>)> {
    let mut rest = title;
    while let Some((_, after)) = rest.split_once('[') {
        let (inside, after) = after.split_once(']')?;
        let parts: Vec<&str> = inside.split(',').map(str::trim).collect();
        let limits = match parts.as_slice() {
            [min, max] => Some((limit(min)?, limit(max)?, None)),
            [min, max, bits] => {
                let bits = bits.parse::<u32>().ok().filter(|bits| (2..=ALL_BITS).contains(bits));
                Some((limit(min)?, limit(max)?, bits))
            }
            _ => None,
        };
        if limits.is_some() {
            return limits;
        }
        rest = after;
    }
    None
}

/// Parses a limit of a range: a number, or a multiple or fraction of pi.
fn limit(text: &str) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return Some(number);
    }
    let (sign, text) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest.trim_start()));
    let lower = text.to_ascii_lowercase();
    let unit = |name: &str| match name.trim() {
        "pi" => Some(std::f64::consts::PI),
        "twopi" => Some(std::f64::consts::TAU),
        number => number.parse().ok(),
    };
    if let Some((a, b)) = lower.split_once('*') {
        return Some(sign * unit(a)? * unit(b)?);
    }
    if let Some((a, b)) = lower.split_once('/') {
        return Some(sign * unit(a)? / unit(b)?);
    }
    // ROOT also accepts `2pi`.
    if let Some(factor) = lower.strip_suffix("pi").filter(|factor| factor.trim() == "2") {
        return Some(sign * unit(factor)? * std::f64::consts::PI);
    }
    unit(&lower).map(|value| sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    #[test]
    fn ranges_come_from_comments() {
        assert_eq!(range("[-1, 1, 8]"), Some((-1.0, 1.0, Some(8))));
        assert_eq!(range("x[3]/d[0,100]"), Some((0.0, 100.0, None)));
        assert_eq!(range("[-pi, 2*pi, 16] angle"), Some((-PI, 2.0 * PI, Some(16))));
        assert_eq!(range("[0,0,10]"), Some((0.0, 0.0, Some(10))));
        for none in ["", "x[3]", "[a, b]", "[1, 2", "energy [GeV]"] {
            assert_eq!(range(none), None, "{none}");
        }
    }

    #[test]
    fn storage_follows_the_range() {
        assert_eq!(NumberEncoding::truncated(true, "x"), NumberEncoding::Single);
        assert_eq!(
            NumberEncoding::truncated(false, "x"),
            NumberEncoding::Short { bits: 12, double: false }
        );
        assert_eq!(
            NumberEncoding::truncated(true, "[0,0,10]"),
            NumberEncoding::Short { bits: 10, double: true }
        );
        let ranged = NumberEncoding::truncated(true, "[-1,1,8]");
        assert_eq!(ranged, NumberEncoding::Ranged { min: -1.0, factor: 128.0, double: true });
        let mut values = Values::F64(vec![]);
        assert!(ranged.append(&mut values, &[0, 0, 0, 0, 0, 0, 0, 192, 9]));
        assert_eq!(values, Values::F64(vec![-1.0, 0.5]));
        assert!(!NumberEncoding::Single.append(&mut Values::F32(vec![]), &[0; 4]));
    }

    #[test]
    fn short_numbers_have_exponent_sign_and_mantissa() {
        // 1.5: exponent 127, and the highest of the twelve bits of the mantissa.
        assert_eq!(short([127, 0x08, 0x00], 12), 1.5);
        assert_eq!(short([127, 0x28, 0x00], 12), -1.5);
    }
}
