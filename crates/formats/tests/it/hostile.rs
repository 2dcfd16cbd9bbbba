//! Corrupt files: every kind of read ends with an error, or with other values if no checksum
//! protects the bytes.

use bytes::Bytes;
use hither_formats::root::{Decompressor, RootFile};
use hither_formats::{DecodeResult, SparseBytes};
use hither_testkit::root_writer::samples::mixed;
use hither_testkit::root_writer::{Style, write};
use proptest::prelude::*;

/// Reads everything; returns true if there was no error.
pub(crate) fn read_all(bytes: &SparseBytes) -> bool {
    let Ok(DecodeResult::Data(file)) = RootFile::open(bytes) else { return false };
    let Ok(DecodeResult::Data(trees)) = file.trees(bytes) else { return false };
    let mut fine = true;
    for tree in trees {
        let Ok(DecodeResult::Data(tree)) = file.tree(Some(&tree.path), bytes) else {
            fine = false;
            continue;
        };
        let mut decoder = Decompressor::new();
        for branch in tree.branches() {
            for index in 0..branch.baskets().len() {
                let stored = branch.baskets().range(index).and_then(|range| bytes.get(range));
                let stored = stored.unwrap_or_default();
                let decoded = branch.decode_basket_with(&mut decoder, index, &stored);
                fine &= decoded.is_ok() || branch.column_type().is_err();
            }
        }
    }
    fine
}

#[test]
fn every_prefix_of_a_file_is_an_error() {
    for codec in [None, Some(*b"ZL")] {
        let data = Bytes::from(write(Style { codec, ..Style::default() }, &[mixed("dir/T", 1)]));
        assert!(read_all(&SparseBytes::whole(data.clone())));
        for end in 0..data.len() {
            assert!(!read_all(&SparseBytes::whole(data.slice(..end))), "prefix of {end} bytes");
            // The same bytes without a size of the file: the reader must request more, or fail.
            let mut open_end = SparseBytes::new();
            open_end.insert(0, data.slice(..end));
            assert!(!read_all(&open_end), "first {end} bytes");
        }
    }
}

#[test]
fn no_flipped_byte_causes_a_panic() {
    let whole = write(Style::default(), &[mixed("dir/T", 1), mixed("T", 2)]);
    for at in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut data = whole.clone();
            data[at] ^= flip;
            read_all(&SparseBytes::whole(data.into()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_random_damage_causes_a_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..8),
        codec in prop::sample::select(vec![None, Some(*b"ZL"), Some(*b"L4"), Some(*b"ZS"), Some(*b"XZ")]),
    ) {
        let mut data = write(Style { codec, ..Style::default() }, &[mixed("dir/T", 1), mixed("T", 2)]);
        for (at, value) in damage {
            let at = at.index(data.len() - 3);
            data[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        read_all(&SparseBytes::whole(data.into()));
    }

    #[test]
    fn no_garbage_after_a_header_causes_a_panic(body in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut data = write(Style::default(), &[]);
        data.splice(100.., body);
        let end = u32::try_from(data.len()).unwrap();
        data[12..16].copy_from_slice(&end.to_be_bytes());
        read_all(&SparseBytes::whole(data.into()));
    }
}
