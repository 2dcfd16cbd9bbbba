//! Compressed payloads.
//!
//! A payload is a sequence of blocks of at most 16 MiB - 1 bytes each: two letters for the codec, a
//! method byte, the compressed and the uncompressed size (three little-endian bytes each), then the
//! compressed bytes. `L4` blocks begin with the XXH64 of the rest, big-endian, which counts as
//! compressed bytes. The sizes of all blocks are readable without decompression, so they are
//! checked against the declared size of the object and the maximum ratio of the codec before any
//! allocation.

use crate::error::{FormatError, Result};
use liblzma::stream::{Action, Stream};
use std::fmt;

/// Bytes of a block's header.
const HEADER: usize = 9;
/// Memory limit of the XZ decoder: ROOT's presets use dictionaries up to 64 MiB at level 9.
const XZ_MEMORY: u64 = 128 << 20;
/// Maximum size of a decompressed object; ROOT's own buffers are limited to 1 GiB.
const MAX_BYTES: usize = 1 << 30;

/// Reusable decompressors and a scratch buffer, for one decoding thread.
///
/// Holds the largest uncompressed basket so far, and about 200 KiB of decoder state.
pub struct Decompressor {
    deflate: libdeflater::Decompressor,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    scratch: Vec<u8>,
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor")
            .field("scratch_bytes", &self.scratch.len())
            .finish_non_exhaustive()
    }
}

impl Default for Decompressor {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Zlib,
    Deflate,
    Xz,
    Lz4,
    Zstd,
}

impl Codec {
    /// Maximum uncompressed size of `compressed` bytes. Deflate emits at most 258 bytes per two
    /// bits, LZ4 255 per byte. XZ and Zstandard have no useful limit below the size of a block.
    fn largest_output(self, compressed: usize) -> usize {
        match self {
            Self::Zlib | Self::Deflate => compressed.saturating_mul(1032).saturating_add(1032),
            Self::Lz4 => compressed.saturating_mul(255).saturating_add(64),
            Self::Xz | Self::Zstd => usize::MAX,
        }
    }
}

struct Block<'a> {
    codec: Codec,
    payload: &'a [u8],
    output: usize,
}

impl Decompressor {
    /// Creates decompressors; allocates only the state of deflate.
    #[must_use]
    pub fn new() -> Self {
        Self { deflate: libdeflater::Decompressor::new(), zstd: None, scratch: Vec::new() }
    }

    /// Decompresses a payload to `size` bytes. `packed` is the payload as stored; if it has exactly
    /// `size` bytes, it is not compressed.
    pub(super) fn unpack(&mut self, packed: &[u8], size: usize) -> Result<Vec<u8>> {
        if packed.len() == size {
            return Ok(packed.to_vec());
        }
        check_sizes(packed, size)?;
        let mut out = vec![0; size];
        self.unpack_blocks(packed, &mut out)?;
        Ok(out)
    }

    /// Decompresses as [`Self::unpack`] does, into the scratch buffer, and passes the bytes to
    /// `read`.
    pub(super) fn unpacked<T>(
        &mut self,
        packed: &[u8],
        size: usize,
        read: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        if packed.len() == size {
            return read(packed);
        }
        check_sizes(packed, size)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        // The buffer only grows: clearing bytes that are overwritten next would cost as much as a
        // fast codec.
        if scratch.len() < size {
            scratch.resize(size, 0);
        }
        let unpacked = scratch.get_mut(..size).unwrap_or_default();
        let result = self.unpack_blocks(packed, unpacked).and_then(|()| read(unpacked));
        self.scratch = scratch;
        result
    }

    /// Decompresses blocks that together fill `out`.
    fn unpack_blocks(&mut self, packed: &[u8], out: &mut [u8]) -> Result<()> {
        let mut packed = packed;
        let mut out = out;
        while !out.is_empty() {
            let (block, after) = split_block(packed)?;
            let (now, later) = out
                .split_at_mut_checked(block.output)
                .ok_or_else(|| corrupt("more than the object has"))?;
            self.unpack_block(&block, now)?;
            (packed, out) = (after, later);
        }
        Ok(())
    }

    fn unpack_block(&mut self, block: &Block<'_>, out: &mut [u8]) -> Result<()> {
        let written = match block.codec {
            Codec::Zlib => self.deflate.zlib_decompress(block.payload, out).map_err(bad("zlib"))?,
            Codec::Deflate => {
                self.deflate.deflate_decompress(block.payload, out).map_err(bad("deflate"))?
            }
            Codec::Xz => unpack_xz(block.payload, out)?,
            Codec::Lz4 => unpack_lz4(block.payload, out)?,
            Codec::Zstd => {
                let zstd = match &mut self.zstd {
                    Some(zstd) => zstd,
                    none => none.insert(zstd::bulk::Decompressor::new().map_err(bad("zstd"))?),
                };
                zstd.decompress_to_buffer(block.payload, out).map_err(bad("zstd"))?
            }
        };
        if written == out.len() {
            return Ok(());
        }
        Err(corrupt(format!("gave {written} bytes, {} were announced", out.len())))
    }
}

fn corrupt(why: impl Into<String>) -> FormatError {
    FormatError::corrupt("compressed block", why)
}

fn bad<E: fmt::Display>(codec: &'static str) -> impl Fn(E) -> FormatError {
    move |error| corrupt(format!("{codec}: {error}"))
}

/// Checks the headers of all blocks: together they must decompress `packed` to `size` bytes, each
/// within the maximum ratio of its codec.
fn check_sizes(packed: &[u8], size: usize) -> Result<()> {
    if size > MAX_BYTES {
        return Err(corrupt(format!("announces {size} bytes, the format allows {MAX_BYTES}")));
    }
    let mut total = 0_usize;
    let mut rest = packed;
    while total < size {
        let (block, after) = split_block(rest)?;
        if block.output == 0 || block.output > block.codec.largest_output(block.payload.len()) {
            return Err(corrupt(format!(
                "announces {} bytes from {} compressed ones",
                block.output,
                block.payload.len()
            )));
        }
        total += block.output;
        rest = after;
    }
    if total == size {
        return Ok(());
    }
    Err(corrupt(format!("blocks add up to {total} bytes, the object has {size}")))
}

fn split_block(bytes: &[u8]) -> Result<(Block<'_>, &[u8])> {
    let Some((&[a, b, _method, c0, c1, c2, u0, u1, u2], rest)) =
        bytes.split_first_chunk::<HEADER>()
    else {
        return Err(corrupt(format!("{} bytes left, a block needs more", bytes.len())));
    };
    let codec = match &[a, b] {
        b"ZL" => Codec::Zlib,
        b"CS" => Codec::Deflate,
        b"XZ" => Codec::Xz,
        b"L4" => Codec::Lz4,
        b"ZS" => Codec::Zstd,
        other => {
            return Err(corrupt(format!(
                "unknown codec `{}`, expected ZL, XZ, L4, ZS or CS",
                other.escape_ascii()
            )));
        }
    };
    let three = |low, middle, high| {
        usize::from(low) | usize::from(middle) << 8_u32 | usize::from(high) << 16_u32
    };
    let compressed = three(c0, c1, c2);
    match rest.split_at_checked(compressed) {
        Some((payload, after)) => Ok((Block { codec, payload, output: three(u0, u1, u2) }, after)),
        None => Err(corrupt(format!("of {compressed} bytes has only {}", rest.len()))),
    }
}

fn unpack_xz(payload: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut stream = Stream::new_stream_decoder(XZ_MEMORY, 0).map_err(bad("xz"))?;
    stream.process(payload, out, Action::Finish).map_err(bad("xz"))?;
    usize::try_from(stream.total_out()).map_err(bad("xz"))
}

fn unpack_lz4(payload: &[u8], out: &mut [u8]) -> Result<usize> {
    let Some((sum, data)) = payload.split_first_chunk::<8>() else {
        return Err(corrupt("lz4: no room for the checksum"));
    };
    let expected = u64::from_be_bytes(*sum);
    let seen = xxhash_rust::xxh64::xxh64(data, 0);
    if expected != seen {
        return Err(corrupt(format!("lz4: checksum {seen:016x}, expected {expected:016x}")));
    }
    lz4_flex::block::decompress_into(data, out).map_err(bad("lz4"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn three(n: usize) -> [u8; 3] {
        let [a, b, c, ..] = n.to_le_bytes();
        [a, b, c]
    }

    fn block(magic: [u8; 2], payload: &[u8], output: usize) -> Vec<u8> {
        let header = [&magic[..], &[8], &three(payload.len()), &three(output)].concat();
        [&header, payload].concat()
    }

    fn pack(magic: [u8; 2], plain: &[u8]) -> Vec<u8> {
        let payload = match &magic {
            b"ZL" | b"CS" => {
                let mut compressor =
                    libdeflater::Compressor::new(libdeflater::CompressionLvl::fastest());
                let mut out = vec![0; compressor.zlib_compress_bound(plain.len())];
                let n = if &magic == b"ZL" {
                    compressor.zlib_compress(plain, &mut out).unwrap()
                } else {
                    compressor.deflate_compress(plain, &mut out).unwrap()
                };
                out.truncate(n);
                out
            }
            b"XZ" => {
                let mut stream =
                    Stream::new_easy_encoder(1, liblzma::stream::Check::Crc32).unwrap();
                let mut out = Vec::with_capacity(plain.len() + 1024);
                stream.process_vec(plain, &mut out, Action::Finish).unwrap();
                out
            }
            b"L4" => {
                let data = lz4_flex::block::compress(plain);
                let sum = xxhash_rust::xxh64::xxh64(&data, 0).to_be_bytes();
                [&sum[..], &data].concat()
            }
            _ => zstd::bulk::compress(plain, 1).unwrap(),
        };
        block(magic, &payload, plain.len())
    }

    const ALL: [[u8; 2]; 5] = [*b"ZL", *b"CS", *b"XZ", *b"L4", *b"ZS"];

    #[test]
    fn an_impossible_declared_size_is_an_error_before_allocation() {
        let bomb = block(*b"ZL", &[0; 10], 0xff_ffff);
        let error = Decompressor::new().unpack(&bomb, 0xff_ffff).unwrap_err();
        assert!(error.to_string().contains("announces 16777215 bytes from 10"), "{error}");
    }

    #[test]
    fn a_damaged_lz4_block_fails_its_checksum() {
        let mut packed = pack(*b"L4", &[7; 1000]);
        *packed.last_mut().unwrap() ^= 1;
        let error = Decompressor::new().unpack(&packed, 1000).unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
    }

    #[test]
    fn an_unknown_codec_is_named() {
        let error = Decompressor::new().unpack(&block(*b"Q\x01", &[], 5), 5).unwrap_err();
        assert!(error.to_string().contains(r"`Q\x01`"), "{error}");
    }

    #[test]
    fn a_block_that_unpacks_to_less_than_declared_is_corrupt() {
        for magic in ALL {
            let mut packed = pack(magic, &[7; 1000]);
            packed[6..9].copy_from_slice(&three(1001));
            assert!(Decompressor::new().unpack(&packed, 1001).is_err(), "{magic:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn blocks_of_all_codecs_unpack_to_the_original(
            pieces in prop::collection::vec((0_usize..5, prop::collection::vec(0_u8..4, 1..3000)), 1..4),
        ) {
            let plain: Vec<u8> = pieces.iter().flat_map(|(_, piece)| piece.clone()).collect();
            let packed: Vec<u8> =
                pieces.iter().flat_map(|(codec, piece)| pack(ALL[*codec], piece)).collect();
            prop_assume!(packed.len() != plain.len());
            prop_assert_eq!(Decompressor::new().unpack(&packed, plain.len()).unwrap(), plain);
        }

        #[test]
        fn damaged_blocks_never_panic(codec in 0_usize..5, at in 0_usize..400, flip in 1_u8..=255) {
            let mut packed = pack(ALL[codec], &[1, 2, 3, 4].repeat(100));
            let at = at % packed.len();
            packed[at] ^= flip;
            let _ = Decompressor::new().unpack(&packed, 400);
        }
    }
}
