//! Properties of arbitrary bytes: for the fuzz targets, and for the replay of their seeds.

use bytes::Bytes;
use hither_formats::root::{Decompressor, RootFile};
use hither_formats::{Column, DecodeResult, SparseBytes, Values};

/// Maximum number of trees, branches and baskets of one input that are read.
const TREES: usize = 4;
const BRANCHES: usize = 200;
const BASKETS: usize = 50;
/// Offsets, in a file of `root_writer` in the small form, of its end and of the offset of its class
/// descriptions.
const END: usize = 12;
const DESCRIPTIONS: usize = 37;
/// A small file of every kind of branch, uncompressed, with class descriptions.
const EVERY_KIND: &[u8] = include_bytes!("../../../../fuzz/seeds/root_file/objects.root");

/// Reads a file: opens it, lists its trees, opens each, decodes every basket.
pub(crate) fn file(data: &[u8]) {
    let mut data = data.to_vec();
    // Changes alter the length; most should still pass the check of it.
    let end = end_of(&data);
    put(&mut data, END, &end);
    read_file(data);
}

/// Reads descriptions of classes, after a key that fits, in a file that needs them.
pub(crate) fn streamer(data: &[u8]) {
    let mut whole = EVERY_KIND.to_vec();
    let at = u32::try_from(whole.len()).unwrap_or(0);
    let key = key(&[b"TList", b"StreamerInfo", b""], 0, at, data);
    let bytes = u32::try_from(key.len() + data.len()).unwrap_or(0);
    whole.extend(key);
    whole.extend(data);
    put(&mut whole, DESCRIPTIONS, &[at.to_be_bytes(), bytes.to_be_bytes()].concat());
    let end = end_of(&whole);
    put(&mut whole, END, &end);
    read_file(whole);
}

/// Reads the object of a tree, in a file that describes its classes.
pub(crate) fn tree(data: &[u8]) {
    let mut whole = EVERY_KIND.to_vec();
    let seek = |whole: &[u8]| u32::try_from(whole.len()).unwrap_or(0);
    let at = seek(&whole);
    let tree = key(&[b"TTree", b"T", b""], 0, at, data);
    whole.extend(&tree);
    whole.extend(data);
    let list = [&1_u32.to_be_bytes()[..], &tree].concat();
    let keys = seek(&whole);
    whole.extend(key(&[b"TFile", b"f", b""], 0, keys, &list));
    whole.extend(list);
    // Updates the record of the top directory: its list of keys is at the end now.
    let bytes = seek(&whole) - keys;
    put(&mut whole, RECORD + 10, &bytes.to_be_bytes());
    put(&mut whole, RECORD + 26, &keys.to_be_bytes());
    let end = end_of(&whole);
    put(&mut whole, END, &end);
    read_file(whole);
}

/// Offset of the record of the top directory in [`EVERY_KIND`]: after the header and the key of the
/// file.
const RECORD: usize = 100 + 26 + 6 + 10 + 1;

/// Decodes a stored basket, for every kind of branch.
pub(crate) fn basket(data: &[u8]) {
    let bytes = SparseBytes::whole(Bytes::from_static(EVERY_KIND));
    let Ok(DecodeResult::Data(file)) = RootFile::open(&bytes) else { panic!("the seed is sound") };
    let Ok(DecodeResult::Data(tree)) = file.tree(None, &bytes) else { panic!("the seed is sound") };
    let mut decoder = Decompressor::new();
    for branch in tree.branches() {
        if let Ok(column) = branch.decode_basket_with(&mut decoder, 0, data) {
            check(&column);
            assert!(column.values.len() <= MAX_UNPACKED, "values without bytes");
        }
    }
}

/// Decompresses blocks of a codec; the two bytes before them are the uncompressed length.
pub(crate) fn codec(data: &[u8]) {
    let Some((length, blocks)) = data.split_at_checked(2) else { return };
    let length = u16::from_be_bytes([length[0], length[1]]);
    let head = key(&[b"TBasket", b"v", b"T"], u32::from(length), 0, blocks);
    basket(&[&head, blocks].concat());
}

/// A basket decompresses to less than its key states, which is an `i32`; tests stay far below that.
const MAX_UNPACKED: usize = 1 << 31;

/// Builds a key and the content of a basket after it; `unpacked` is 0 for an uncompressed payload.
fn key(strings: &[&[u8]; 3], unpacked: u32, seek: u32, payload: &[u8]) -> Vec<u8> {
    let basket = strings[0] == b"TBasket";
    let length =
        26 + strings.iter().map(|s| s.len() + 1).sum::<usize>() + if basket { 19 } else { 0 };
    let stored = u32::try_from(length + payload.len()).unwrap_or(u32::MAX);
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    let unpacked = if unpacked == 0 { stored - u32::from(length) } else { unpacked };
    let mut out = stored.to_be_bytes().to_vec();
    out.extend(4_u16.to_be_bytes());
    out.extend(unpacked.to_be_bytes());
    out.extend([0; 4]);
    out.extend(length.to_be_bytes());
    out.extend(1_u16.to_be_bytes());
    out.extend(seek.to_be_bytes());
    out.extend(100_u32.to_be_bytes());
    for text in strings {
        out.push(u8::try_from(text.len()).unwrap_or(0));
        out.extend(*text);
    }
    if basket {
        out.extend(3_u16.to_be_bytes());
        for number in [32_000, 3, 2, unpacked.saturating_add(u32::from(length))] {
            out.extend(u32::to_be_bytes(number));
        }
        out.push(0);
    }
    out
}

fn put(data: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = data.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn end_of(data: &[u8]) -> [u8; 4] {
    u32::try_from(data.len()).unwrap_or(0).to_be_bytes()
}

fn read_file(data: Vec<u8>) {
    let bytes = SparseBytes::whole(Bytes::from(data));
    let Ok(DecodeResult::Data(file)) = RootFile::open(&bytes) else { return };
    let Ok(DecodeResult::Data(trees)) = file.trees(&bytes) else { return };
    for found in trees.iter().take(TREES) {
        let Ok(DecodeResult::Data(tree)) = file.tree(Some(&found.path), &bytes) else { continue };
        let mut decoder = Decompressor::new();
        for branch in tree.branches().take(BRANCHES) {
            let baskets = branch.baskets();
            let mut pieces = Vec::new();
            for index in 0..baskets.len().min(BASKETS) {
                let stored = baskets.range(index).and_then(|range| bytes.get(range));
                let stored = stored.unwrap_or_default();
                if let Ok(column) = branch.decode_basket_with(&mut decoder, index, &stored) {
                    check(&column);
                    pieces.push(column);
                }
            }
            if !pieces.is_empty() {
                assert!(Column::concat(&pieces).is_ok(), "pieces of one column fit together");
            }
        }
    }
}

/// Checks the invariants of [`Column`].
fn check(column: &Column) {
    let items = column.offsets.as_ref().map_or(column.entries, |offsets| {
        assert_eq!(offsets.len(), column.entries + 1);
        assert!(offsets.first() == Some(&0) && offsets.is_sorted());
        offsets.last().copied().unwrap_or(0).try_into().unwrap_or(0)
    });
    assert_eq!(items * column.item_len(), column.values.len());
    match &column.values {
        Values::Lists(inner) => check(inner),
        Values::Text(strings) => {
            assert_eq!(strings.iter().map(<[u8]>::len).sum::<usize>(), strings.bytes.len())
        }
        _ => {}
    }
}
