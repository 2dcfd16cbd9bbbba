//! Learned sets of trees, kept under the schema.

use crate::values::{at, store};
use hither_core::layout::LearnedSet;
use hither_store::{LearnedTree, Store, StoreConfig};
use std::time::Duration;

const SCHEMA: &str = "00112233445566778899aabbccddeeff";

fn set(steady: &[&str], now_and_then: &[&str]) -> LearnedSet {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    LearnedSet { steady: owned(steady), now_and_then: owned(now_and_then) }
}

fn only_file(store: &Store, folder: &std::path::Path) -> std::path::PathBuf {
    assert!(store.usage() > 0);
    let files = std::fs::read_dir(folder.join("store")).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    files.find(|path| path.file_name().unwrap().to_string_lossy().starts_with("learned-")).unwrap()
}

#[test]
fn sets_are_returned_newest_first() {
    let (_folder, store) = store(StoreConfig::default());
    assert_eq!(store.learned(SCHEMA, at(0)), None);
    store.put_learned(SCHEMA, "T", set(&["E33", "rawtr"], &[]), at(0));
    store.put_learned(SCHEMA, "T", set(&["x"], &["y", "z"]), at(1));
    let known = store.learned(SCHEMA, at(2)).unwrap();
    assert_eq!(known.tree, "T");
    assert_eq!(known.sets, [set(&["x"], &["y", "z"]), set(&["E33", "rawtr"], &[])]);
    assert_eq!(store.learned(&SCHEMA.replace('0', "1"), at(2)), None);
}

#[test]
fn sets_expire_unless_they_are_learned_again() {
    let config = StoreConfig { learned_ttl: Duration::from_secs(100), ..StoreConfig::default() };
    let (_folder, store) = store(config);
    store.put_learned(SCHEMA, "T", set(&["a"], &[]), at(0));
    store.put_learned(SCHEMA, "T", set(&["a"], &[]), at(90));
    assert!(store.learned(SCHEMA, at(180)).is_some());
    assert_eq!(store.learned(SCHEMA, at(190)), None);
}

#[test]
fn a_damaged_file_reads_as_nothing_and_is_rewritten() {
    let (folder, store) = store(StoreConfig::default());
    store.put_learned(SCHEMA, "T", set(&["a"], &[]), at(0));
    let path = only_file(&store, folder.path());
    let whole = std::fs::read(&path).unwrap();
    for damaged in [&whole[..whole.len() - 1], b"", b"{}"] {
        std::fs::write(&path, damaged).unwrap();
        assert_eq!(store.learned(SCHEMA, at(1)), None);
    }
    store.put_learned(SCHEMA, "T", set(&["b"], &[]), at(2));
    assert_eq!(store.learned(SCHEMA, at(3)).unwrap().sets, [set(&["b"], &[])]);
}

#[test]
fn imported_sets_are_checked_and_merged() {
    let (_folder, store) = store(StoreConfig::default());
    store.put_learned(SCHEMA, "T", set(&["own"], &[]), at(0));
    let sets = vec![set(&["a"], &[]), set(&["b"], &[])];
    let shipped = LearnedTree { schema: SCHEMA.to_owned(), tree: "T".to_owned(), sets };
    assert!(store.import_learned(&shipped, at(1)));
    let known = store.learned(SCHEMA, at(2)).unwrap();
    assert_eq!(known.sets, [set(&["a"], &[]), set(&["b"], &[]), set(&["own"], &[])]);
    for schema in ["", "../../etc/passwd", &SCHEMA.to_uppercase()] {
        let hostile = LearnedTree { schema: schema.to_owned(), ..shipped.clone() };
        assert!(!store.import_learned(&hostile, at(3)), "{schema}");
        assert_eq!(store.learned(schema, at(3)), None);
    }
    let hostile = LearnedTree { sets: vec![set(&["a", "a"], &[])], ..shipped };
    assert!(!store.import_learned(&hostile, at(3)));
}

#[test]
fn sets_without_a_tree_are_not_written() {
    let (_folder, store) = store(StoreConfig::default());
    store.put_learned(SCHEMA, "T", set(&[], &[]), at(0));
    store.put_learned(SCHEMA, "T", set(&["line\nbreak"], &[]), at(0));
    assert_eq!(store.learned(SCHEMA, at(1)), None);
}
