//! Any bytes as a ROOT file: open it, list its trees, open each, decode every basket. Good seeds are small real files;
//! `cargo fuzz run root_file CORPUS -- -rss_limit_mb=512` also finds allocations that nothing pays for.
#![no_main]

use bytes::Bytes;
use hither_formats::root::{Decoder, RootFile};
use hither_formats::{Column, SparseBytes, Step};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut data = data.to_vec();
    // Mutations change the length; most should still get past the check of it.
    if let (Ok(size), Some(end)) = (u32::try_from(data.len()), data.get_mut(12..16)) {
        end.copy_from_slice(&size.to_be_bytes());
    }
    let bytes = SparseBytes::whole(Bytes::from(data));
    let Ok(Step::Done(file)) = RootFile::open(&bytes) else { return };
    let Ok(Step::Done(trees)) = file.trees(&bytes) else { return };
    for found in trees.iter().take(4) {
        let Ok(Step::Done(tree)) = file.tree(Some(&found.path), &bytes) else { continue };
        let mut decoder = Decoder::new();
        for branch in tree.branches().take(200) {
            let baskets = branch.baskets();
            let mut pieces = Vec::new();
            for index in 0..baskets.len().min(50) {
                let stored = baskets.range(index).and_then(|range| bytes.get(range));
                let decoded = branch.decode_basket_with(&mut decoder, index, &stored.unwrap_or_default());
                if let Ok(column) = decoded {
                    let values = column.values.len();
                    let items = column.offsets.as_ref().map_or(column.entries, |offsets| {
                        offsets.last().copied().unwrap_or(0).try_into().unwrap_or(0)
                    });
                    assert_eq!(items * column.item_len(), values, "the invariant of a column");
                    pieces.push(column);
                }
            }
            if !pieces.is_empty() {
                assert!(Column::concat(&pieces).is_ok(), "pieces of one column fit together");
            }
        }
    }
});
