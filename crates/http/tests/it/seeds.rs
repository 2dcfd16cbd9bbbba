//! The seeds of the fuzz targets, as they are and damaged: what a fuzzer would try first, without one.

use crate::any_bytes;
use std::path::Path;

/// Mutants of each seed.
const MUTANTS: u64 = 300;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut seeds = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let seed = std::fs::read(entry.unwrap().path()).unwrap();
        check(&seed);
        for number in 0..MUTANTS {
            check(&mutant(&seed, number));
        }
        seeds += 1;
    }
    assert!(seeds >= 3, "{seeds} seeds in {}", folder.display());
}

/// The seed with a few changes, the same for the same number.
fn mutant(seed: &[u8], number: u64) -> Vec<u8> {
    let mut state = number;
    let mut random = move |below: usize| {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % below.max(1) as u64).unwrap()
    };
    let mut data = seed.to_vec();
    for _ in 0..=random(4) {
        let at = random(data.len());
        let end = (at + random(40)).min(data.len());
        match random(5) {
            0 => data.truncate(at),
            1 => drop(data.drain(at..end)),
            2 => data.extend_from_within(at..end),
            3 => data.splice(at..at, *b"<!--\x00&#x;").for_each(drop),
            _ => data.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (end % 8)),
        }
    }
    data
}

#[test]
fn seeds_of_multipart() {
    replay("multipart", any_bytes::multipart);
}

#[test]
fn seeds_of_metalink() {
    replay("metalink", any_bytes::metalink);
}

#[test]
fn seeds_of_propfind() {
    replay("propfind", any_bytes::propfind);
}
