//! Replays the seeds of the fuzz targets, unchanged and damaged: the first inputs of a fuzzer,
//! without a fuzzer.

use crate::any_bytes;
use hither_testkit::fuzz_seeds;
use hither_testkit::root_writer::samples::{classes, mixed, objects};
use hither_testkit::root_writer::{Style, Tree, pack, write, write_with_classes};
use std::path::{Path, PathBuf};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target)
}

fn replay(target: &str, check: fn(&[u8])) {
    let seeds = fuzz_seeds::replay(target, &[0x40, 0, 0, 0xff], check).unwrap();
    assert!(seeds >= 3, "{seeds} seeds of {target}");
}

/// The seeds of all targets, by target and name.
fn written() -> Vec<(&'static str, String, Vec<u8>)> {
    let plain = Style::default();
    let every = write_with_classes(plain, &[objects("T")], &classes());
    let mut seeds = vec![("root_file", "objects.root".to_owned(), every.clone())];
    for (name, style) in [
        ("mixed", plain),
        ("large", Style { large: true, ..plain }),
        ("zlib", Style { codec: Some(*b"ZL"), ..plain }),
    ] {
        let file = write(style, &[mixed("dir/T", 1), mixed("T", 2)]);
        seeds.push(("root_file", format!("{name}.root"), file));
    }
    let be = |at: usize| u32::from_be_bytes(every[at..at + 4].try_into().unwrap()) as usize;
    // The payload after the key of the class descriptions.
    let described = be(37);
    let length = usize::from(u16::from_be_bytes([every[described + 14], every[described + 15]]));
    let list = every[described + length..described + be(41)].to_vec();
    seeds.push(("root_streamer_info", "classes".to_owned(), list));
    for (name, classes) in [("none", vec![]), ("one", classes()[..1].to_vec())] {
        let file = write_with_classes(plain, &[], &classes);
        let length = 26 + 6 + 13 + 1;
        let be = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        seeds.push((
            "root_streamer_info",
            name.to_owned(),
            file[be(37)..].iter().skip(length).copied().collect(),
        ));
    }
    let trees: [(&str, Tree); 3] = [
        ("objects", objects("T")),
        ("mixed", mixed("T", 1)),
        ("empty", Tree { path: "T", cycle: 1, branches: vec![] }),
    ];
    for (name, tree) in trees {
        let file = write(plain, &[tree]);
        seeds.push(("root_tree", name.to_owned(), object_of(&file, b"\x05TTree\x01T\x06a tree")));
    }
    baskets(&every, &mut seeds);
    for codec in [*b"ZL", *b"XZ", *b"L4", *b"ZS", *b"CS"] {
        let values: Vec<u8> = (0..600_u16).flat_map(|n| (n / 50).to_be_bytes()).collect();
        let style = Style { codec: Some(codec), block: Some(500), ..plain };
        let blocks = pack(style, &values);
        let length = u16::try_from(values.len()).unwrap();
        let seed = [&length.to_be_bytes()[..], &blocks].concat();
        seeds.push(("root_codec", String::from_utf8_lossy(&codec).into_owned(), seed));
    }
    seeds
}

/// The payload after the key with these strings.
fn object_of(file: &[u8], strings: &[u8]) -> Vec<u8> {
    let at = file.windows(strings.len()).position(|window| window == strings).unwrap();
    let key = &file[at - 26..];
    let stored = u32::from_be_bytes(key[..4].try_into().unwrap()) as usize;
    key[26 + strings.len()..stored].to_vec()
}

/// The baskets of the file with every kind of branch.
fn baskets(file: &[u8], seeds: &mut Vec<(&'static str, String, Vec<u8>)>) {
    let mut from = 0;
    while let Some(at) = file[from..].windows(8).position(|window| window == b"\x07TBasket") {
        let start = from + at - 26;
        let stored = u32::from_be_bytes(file[start..start + 4].try_into().unwrap()) as usize;
        seeds.push((
            "root_basket",
            format!("{}", seeds.len()),
            file[start..start + stored].to_vec(),
        ));
        from = start + stored;
    }
}

#[test]
fn the_fuzz_seeds_match_the_writer() {
    let again = std::env::var_os("HITHER_WRITE_SEEDS").is_some();
    for (target, name, seed) in written() {
        let path = folder(target).join(&name);
        if again {
            std::fs::create_dir_all(folder(target)).unwrap();
            std::fs::write(&path, &seed).unwrap();
        }
        let there = std::fs::read(&path).unwrap_or_default();
        assert!(
            there == seed,
            "{} is not what the writer makes; HITHER_WRITE_SEEDS=1",
            path.display()
        );
    }
}

#[test]
fn seeds_of_file_do_not_panic() {
    replay("root_file", any_bytes::file);
}

#[test]
fn seeds_of_streamer_do_not_panic() {
    replay("root_streamer_info", any_bytes::streamer);
}

#[test]
fn seeds_of_tree_do_not_panic() {
    replay("root_tree", any_bytes::tree);
}

#[test]
fn seeds_of_basket_do_not_panic() {
    replay("root_basket", any_bytes::basket);
}

#[test]
fn seeds_of_codec_do_not_panic() {
    replay("root_codec", any_bytes::codec);
}
