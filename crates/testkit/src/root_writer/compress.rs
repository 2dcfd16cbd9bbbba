//! Compressed blocks.

use super::Style;

/// Compresses a payload in blocks; returns it unchanged if it does not become shorter.
#[must_use]
pub fn pack(style: Style, plain: &[u8]) -> Vec<u8> {
    let Some(codec) = style.codec else { return plain.to_vec() };
    let mut packed = Vec::new();
    for piece in plain.chunks(style.block.unwrap_or(0xff_ffff)) {
        let body = match &codec {
            b"ZL" | b"CS" => {
                // The fastest level does not compress.
                let level = libdeflater::CompressionLvl::default();
                let mut packer = libdeflater::Compressor::new(level);
                let mut out = vec![0; packer.zlib_compress_bound(piece.len())];
                let n = if &codec == b"ZL" {
                    packer.zlib_compress(piece, &mut out).unwrap()
                } else {
                    packer.deflate_compress(piece, &mut out).unwrap()
                };
                out.truncate(n);
                out
            }
            b"XZ" => liblzma::encode_all(piece, 1).unwrap(),
            b"L4" => {
                let body = lz4_flex::block::compress(piece);
                [&xxhash_rust::xxh64::xxh64(&body, 0).to_be_bytes()[..], &body].concat()
            }
            _ => zstd::bulk::compress(piece, 1).unwrap(),
        };
        packed.extend(codec);
        packed.push(8);
        packed.extend(&body.len().to_le_bytes()[..3]);
        packed.extend(&piece.len().to_le_bytes()[..3]);
        packed.extend(body);
    }
    // A reader distinguishes compressed payloads from uncompressed ones by their size.
    if packed.len() < plain.len() { packed } else { plain.to_vec() }
}
