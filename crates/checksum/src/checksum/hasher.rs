//! Incremental computation of checksums.
//!
//! Adler-32 and CRC-32C are linear, so the checksum of a whole can be computed from the checksums
//! of its parts and the lengths of all but the first. If the blocks of a file arrive in any order
//! over several connections, the thread that receives a block computes its checksum, and the
//! checksums of the blocks are combined at the end. MD5, SHA-1, SHA-256 and SHA-512 are chains:
//! their input has to be in order.
//!
//! Adler-32 (RFC 1950 section 8.2) has two numbers modulo 65521: `a`, one plus the sum of the
//! bytes, and `b`, the sum of all values of `a`. Appending `n` bytes with the numbers `(a', b')`
//! results in `a + a' - 1`, and `b + b' + n (a - 1)`, because each of the `n` new values of `a` is
//! larger by `a - 1`.
//!
//! A CRC is the remainder of a polynomial; appending `n` bytes first multiplies it by `x^(8n)`,
//! which takes one product for each bit of `n` that is set.

use super::{Algorithm, Checksum};
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use simd_adler32::Adler32;
use std::fmt;

/// The modulus of Adler-32: the largest prime below 2^16.
const ADLER: u64 = 65_521;

/// The computation of a checksum from bytes in order, in pieces of any size.
#[derive(Clone)]
pub struct Hasher {
    state: State,
    bytes: u64,
}

#[derive(Clone)]
enum State {
    Adler32(Adler32),
    Crc32c(u32),
    Md5(Box<Md5>),
    Sha256(Box<Sha256>),
    Sha512(Box<Sha512>),
    Sha1(Box<Sha1>),
}

impl Hasher {
    /// Starts a checksum with no bytes.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        let state = match algorithm {
            Algorithm::Adler32 => State::Adler32(Adler32::new()),
            Algorithm::Crc32c => State::Crc32c(0),
            Algorithm::Md5 => State::Md5(Box::default()),
            Algorithm::Sha256 => State::Sha256(Box::default()),
            Algorithm::Sha512 => State::Sha512(Box::default()),
            Algorithm::Sha1 => State::Sha1(Box::default()),
        };
        Self { state, bytes: 0 }
    }

    /// Computes the checksum of `bytes`.
    #[must_use]
    pub fn of(algorithm: Algorithm, bytes: &[u8]) -> Checksum {
        let mut hasher = Self::new(algorithm);
        hasher.update(bytes);
        hasher.finish()
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        match &mut self.state {
            State::Adler32(sum) => sum.write(bytes),
            State::Crc32c(crc) => *crc = crc32c::crc32c_append(*crc, bytes),
            State::Md5(digest) => digest.update(bytes),
            State::Sha256(digest) => digest.update(bytes),
            State::Sha512(digest) => digest.update(bytes),
            State::Sha1(digest) => digest.update(bytes),
        }
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self.state {
            State::Adler32(_) => Algorithm::Adler32,
            State::Crc32c(_) => Algorithm::Crc32c,
            State::Md5(_) => Algorithm::Md5,
            State::Sha256(_) => Algorithm::Sha256,
            State::Sha512(_) => Algorithm::Sha512,
            State::Sha1(_) => Algorithm::Sha1,
        }
    }

    /// Number of bytes added so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the checksum of all bytes added.
    #[must_use]
    pub fn finish(self) -> Checksum {
        let algorithm = self.algorithm();
        let value = match self.state {
            State::Adler32(sum) => sum.finish().to_be_bytes().to_vec(),
            State::Crc32c(crc) => crc.to_be_bytes().to_vec(),
            State::Md5(digest) => digest.finalize().to_vec(),
            State::Sha256(digest) => digest.finalize().to_vec(),
            State::Sha512(digest) => digest.finalize().to_vec(),
            State::Sha1(digest) => digest.finalize().to_vec(),
        };
        Checksum { algorithm, value }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher")
            .field("algorithm", &self.algorithm())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// The checksum of the bytes of `first` followed by the `next_bytes` bytes of `next`; `None` if the
/// algorithm is not combinable or the two algorithms differ.
pub(super) fn combined(first: &Checksum, next: &Checksum, next_bytes: u64) -> Option<Checksum> {
    if first.algorithm != next.algorithm {
        return None;
    }
    let number = |sum: &Checksum| <[u8; 4]>::try_from(sum.value()).ok().map(u32::from_be_bytes);
    let value = match first.algorithm {
        Algorithm::Adler32 => adler32_combined(number(first)?, number(next)?, next_bytes),
        Algorithm::Crc32c => crc32c_combined(number(first)?, number(next)?, next_bytes),
        Algorithm::Md5 | Algorithm::Sha256 | Algorithm::Sha512 | Algorithm::Sha1 => return None,
    };
    Some(Checksum { algorithm: first.algorithm, value: value.to_be_bytes().to_vec() })
}

/// The polynomial of CRC-32C (RFC 3720 section 12.1), with the coefficient of x^31 in the lowest
/// bit.
const CRC32C: u32 = 0x82f6_3b78;
/// x^(2^n) modulo the polynomial, for n from 0 on. From n = 31 on the values repeat those from n =
/// 0 on, because the period of x divides 2^31 - 1.
const POWERS: [u32; 31] = powers();

/// Shifts `first` by the length of `next` and adds `next`. The shift is a multiplication by x^(8
/// n), with one product for each bit of `n` that is set. The function of the crate crc32c squares
/// matrices in each call instead, which took 4 % of a copy.
fn crc32c_combined(first: u32, next: u32, next_bytes: u64) -> u32 {
    let ones = (0..64).filter(|n| next_bytes >> n & 1 == 1);
    ones.fold(first, |sum, n| product(sum, POWERS[(n + 3) % POWERS.len()])) ^ next
}

/// The product of two polynomials modulo the polynomial of CRC-32C.
const fn product(left: u32, mut right: u32) -> u32 {
    let mut sum = 0;
    let mut at = 0;
    while at < u32::BITS {
        if left << at & 1 << 31 != 0 {
            sum ^= right;
        }
        right = right >> 1 ^ if right & 1 == 1 { CRC32C } else { 0 };
        at += 1;
    }
    sum
}

const fn powers() -> [u32; 31] {
    let mut powers = [1 << 30; 31];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = product(powers[at - 1], powers[at - 1]);
        at += 1;
    }
    powers
}

fn adler32_combined(first: u32, next: u32, next_bytes: u64) -> u32 {
    let parts = |sum: u32| (u64::from(sum & 0xffff) % ADLER, u64::from(sum >> 16) % ADLER);
    let (a, b) = parts(first);
    let (next_a, next_b) = parts(next);
    // `a - 1`, without going below zero.
    let before = a + ADLER - 1;
    let joined_a = (before + next_a) % ADLER;
    let joined_b = (b + next_b + next_bytes % ADLER * (before % ADLER)) % ADLER;
    // Both are below 2^16.
    u32::try_from(joined_b << 16 | joined_a).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Published values: RFC 1321 appendix A.5, the examples of FIPS 180-4, RFC 3720 appendix B.4.
    #[test]
    fn checksums_match_published_values() {
        let sum = |algorithm, bytes: &[u8]| Hasher::of(algorithm, bytes).hex();
        assert_eq!(sum(Algorithm::Adler32, b"Wikipedia"), "11e60398");
        assert_eq!(sum(Algorithm::Adler32, b""), "00000001");
        assert_eq!(sum(Algorithm::Crc32c, b"123456789"), "e3069283");
        assert_eq!(sum(Algorithm::Crc32c, &[0; 32]), "8a9136aa");
        assert_eq!(sum(Algorithm::Md5, b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sum(Algorithm::Sha256, b"abc"), sha);
        let sha = "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                   2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";
        assert_eq!(sum(Algorithm::Sha512, b"abc"), sha);
    }

    #[test]
    fn cryptographic_checksums_are_not_combined() {
        let a = Hasher::of(Algorithm::Md5, b"a");
        let b = Hasher::of(Algorithm::Adler32, b"b");
        assert_eq!(a.followed_by(&a, 1), None);
        assert_eq!(a.followed_by(&b, 1), None);
        assert!(!Algorithm::Sha256.is_combinable());
    }

    #[test]
    fn checksums_of_long_parts_combine() {
        // Long enough to overflow if nothing were reduced before the end.
        let bytes = vec![0xff; 3 << 20];
        for algorithm in [Algorithm::Adler32, Algorithm::Crc32c] {
            let (head, tail) = bytes.split_at(1 << 20);
            let joined = Hasher::of(algorithm, head)
                .followed_by(&Hasher::of(algorithm, tail), tail.len() as u64);
            assert_eq!(joined, Some(Hasher::of(algorithm, &bytes)));
        }
    }

    proptest! {
        #[test]
        fn long_parts_combine_as_by_squared_matrices(
            first: u32, next: u32, bits in 1_u32..48, bytes: u64,
        ) {
            // Without bytes, that function ignores `next`.
            let bytes = (bytes & ((1 << bits) - 1)).max(1);
            let expected = crc32c::crc32c_combine(first, next, usize::try_from(bytes).unwrap());
            prop_assert_eq!(crc32c_combined(first, next, bytes), expected);
        }

        #[test]
        fn checksums_of_parts_combine_to_that_of_the_whole(
            bytes in prop::collection::vec(any::<u8>(), 0..4000),
            cuts in prop::collection::vec(0_usize..4000, 0..6),
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            for algorithm in Algorithm::ALL {
                let whole = Hasher::of(algorithm, &bytes);
                let mut hasher = Hasher::new(algorithm);
                let mut joined = Hasher::of(algorithm, b"");
                for cut in cuts.windows(2) {
                    let piece = &bytes[cut[0]..cut[1]];
                    hasher.update(piece);
                    let sum = Hasher::of(algorithm, piece);
                    if let Some(sum) = joined.followed_by(&sum, piece.len() as u64) {
                        joined = sum;
                    }
                }
                prop_assert_eq!(hasher.bytes(), bytes.len() as u64);
                prop_assert_eq!(hasher.finish(), whole.clone());
                if algorithm.is_combinable() {
                    prop_assert_eq!(joined, whole);
                }
            }
        }
    }
}
