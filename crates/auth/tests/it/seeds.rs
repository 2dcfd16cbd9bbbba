//! The seeds of the fuzz target, as they are and damaged: what a fuzzer would try first, without one.

use crate::any_bytes;
use proptest::prelude::*;
use std::path::Path;

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/token");
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn seeds_are_explained_as_they_are() {
    let seeds = seeds();
    assert!(seeds.len() >= 3, "{} seeds", seeds.len());
    for seed in seeds {
        any_bytes::token(&seed);
    }
}

proptest! {
    #[test]
    fn seeds_are_explained_with_bytes_exchanged(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let seeds = seeds();
        let mut seed = which.get(&seeds).clone();
        for (at, byte) in changes {
            let at = at.index(seed.len());
            seed[at] = byte;
        }
        any_bytes::token(&seed);
        seed.truncate(end.index(seed.len()));
        any_bytes::token(&seed);
    }
}
