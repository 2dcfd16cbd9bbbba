//! Real files, damaged. The files are not part of the repository. Without them the tests print a
//! message and pass, unless `HITHER_REQUIRE_SAMPLES` is 1.

use crate::hostile::read_all;
use bytes::Bytes;
use hither_formats::SparseBytes;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::path::PathBuf;

fn real_file(name: &str) -> Option<Vec<u8>> {
    let folder = "../../../shared/testdata/root";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder).join(name);
    let data = std::fs::read(&path).ok();
    if data.is_none() {
        let is_required = std::env::var("HITHER_REQUIRE_SAMPLES").is_ok_and(|value| value == "1");
        assert!(!is_required, "{} is missing", path.display());
        eprintln!("skipped: {} is not there", path.display());
    }
    data
}

#[test]
fn prefixes_of_a_real_file_are_an_error() {
    let Some(data) = real_file("uproot-issue335.root") else { return };
    let data = Bytes::from(data);
    assert!(read_all(&SparseBytes::whole(data.clone())));
    for end in 0..data.len() {
        assert!(!read_all(&SparseBytes::whole(data.slice(..end))), "prefix of {end} bytes");
    }
}

#[test]
fn no_flipped_bit_in_a_real_file_causes_a_panic() {
    let names = [
        "uproot-sample-5.23.02-uncompressed.root",
        "uproot-sample-6.20.04-lz4.root",
        "uproot-sample-6.14.00-lzma.root",
        "uproot-Zmumu-zstd.root",
        "uproot-issue-214.root",
        "uproot-small-dy-nooffsets.root",
        "uproot-leaflist.root",
    ];
    for name in names {
        let Some(whole) = real_file(name) else { continue };
        let mut runner = TestRunner::new(ProptestConfig { cases: 40, ..ProptestConfig::default() });
        let flips = prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 1..6);
        runner
            .run(&flips, |flips| {
                let mut data = whole.clone();
                for (at, bit) in flips {
                    let at = at.index(data.len());
                    data[at] ^= 1 << bit;
                }
                read_all(&SparseBytes::whole(data.into()));
                Ok(())
            })
            .unwrap();
    }
}
