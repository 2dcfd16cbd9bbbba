//! Opening: the requested bytes, and the trees found.

use crate::done;
use bytes::Bytes;
use hither_formats::root::RootFile;
use hither_formats::{DecodeResult, FormatError, NeededRanges, SparseBytes};
use hither_testkit::root_writer::samples::{floats, mixed};
use hither_testkit::root_writer::{Style, Tree, write};

/// Fetches the ranges that a reader needs until it is done; also returns the number of round trips.
fn drive<T>(
    data: &Bytes,
    bytes: &mut SparseBytes,
    read: impl Fn(&SparseBytes) -> Result<DecodeResult<T>, FormatError>,
) -> (T, usize) {
    for round_trip in 0..20 {
        match read(bytes).unwrap() {
            DecodeResult::Data(value) => return (value, round_trip),
            DecodeResult::NeedsData(need) => {
                bytes.set_size(data.len() as u64);
                fetch(data, bytes, &need);
            }
        }
    }
    panic!("no end of round trips");
}

fn fetch(data: &Bytes, bytes: &mut SparseBytes, need: &NeededRanges) {
    let size = data.len() as u64;
    assert!(!need.required.is_empty(), "a need that needs nothing");
    let tail = size.saturating_sub(need.tail)..size;
    for range in need.required.iter().cloned().chain([tail]) {
        let part =
            usize::try_from(range.start).unwrap()..usize::try_from(range.end.min(size)).unwrap();
        bytes.insert(range.start, data.slice(part));
    }
}

/// A file whose baskets separate head and tail.
fn long_file() -> Bytes {
    let values = vec![1.5_f32; 50_000];
    let tree = |path, cycle| Tree { path, cycle, branches: vec![floats("E", &[&values], false)] };
    write(Style::default(), &[tree("deep/T", 1), tree("T", 1), tree("T", 2), mixed("other", 1)])
        .into()
}

#[test]
fn a_tree_is_open_after_two_round_trips() {
    let data = long_file();
    let mut bytes = SparseBytes::new();
    let (file, round_trips) = drive(&data, &mut bytes, RootFile::open);
    assert_eq!(round_trips, 1, "head and tail");
    let (tree, more) = drive(&data, &mut bytes, |bytes| file.tree(Some("T"), bytes));
    assert!(more <= 1, "{more} more round trips");
    assert_eq!(tree.entries(), 50_000);
    let held: usize = bytes.pieces().map(|(_, piece)| piece.len()).sum();
    assert!(held < 20_000, "{held} bytes fetched for the metadata");
    let (_, again) = drive(&data, &mut bytes, RootFile::open);
    assert_eq!(again, 0, "replayed from what is there");
}

#[test]
fn the_first_need_fits_an_initial_window() {
    let DecodeResult::NeedsData(need) = RootFile::open(&SparseBytes::new()).unwrap() else {
        panic!("no need")
    };
    let head: u64 = need.required.iter().map(|range| range.end - range.start).sum();
    let tail = need.tail;
    assert!(tail > 0);
    assert!(head + tail <= 13_500, "{head} + {tail}");
    let mut sized = SparseBytes::new();
    sized.set_size(1_000_000);
    let DecodeResult::NeedsData(need) = RootFile::open(&sized).unwrap() else { panic!("no need") };
    assert_eq!(need.required, [0..head, 1_000_000 - tail..1_000_000]);
    sized.set_size(100);
    let DecodeResult::NeedsData(need) = RootFile::open(&sized).unwrap() else { panic!("no need") };
    assert_eq!(need.required, [0..100]);
}

#[test]
fn cycles_and_directories_are_found() {
    let bytes = SparseBytes::whole(long_file());
    let file = done(RootFile::open(&bytes));
    assert_eq!(&file.uuid(), b"0123456789abcdef");
    let trees = done(file.trees(&bytes));
    let found: Vec<(&str, u16)> = trees.iter().map(|t| (t.path.as_str(), t.key.cycle)).collect();
    assert_eq!(found, [("T", 2), ("other", 1), ("deep/T", 1)]);
    for path in ["T", "T;1", "T;2", "deep/T", "/deep/T", "deep/T;1", "other"] {
        done(file.tree(Some(path), &bytes));
    }
}

#[test]
fn the_error_for_an_unknown_tree_suggests_similar_ones() {
    let bytes = SparseBytes::whole(long_file());
    let file = done(RootFile::open(&bytes));
    let error = |path| file.tree(path, &bytes).unwrap_err().to_string();
    assert_eq!(error(None), "which tree? there are `T`, `other`");
    assert_eq!(error(Some("othr")), "no tree `othr`; did you mean `other`?");
    assert_eq!(error(Some("T;3")), "no tree `T;3`; there are `T;1`, `T;2`");
    assert_eq!(error(Some("dep/T")), "no directory `dep`; did you mean `deep`?");
    assert_eq!(error(Some("deep")), "unsupported: `deep` is a TDirectory, not a TTree");
}

#[test]
fn the_only_tree_of_a_directory_needs_no_name() {
    let bytes = SparseBytes::whole(write(Style::default(), &[mixed("dir/T", 4)]).into());
    let file = done(RootFile::open(&bytes));
    assert_eq!(done(file.tree(None, &bytes)).name(), "T");
}

/// A file of trees, with the key strings `to` instead of `from`.
fn renamed(names: &[&'static str], from: &str, to: &str) -> SparseBytes {
    let trees: Vec<_> = names.iter().map(|name| mixed(name, 1)).collect();
    assert_eq!(from.len(), to.len());
    let mut data = write(Style::default(), &trees);
    for at in 0..data.len() - from.len() {
        if data[at..].starts_with(from.as_bytes()) {
            data[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
    }
    SparseBytes::whole(data.into())
}

#[test]
fn an_rntuple_is_found_and_the_error_names_the_way_to_read_it() {
    let ntuple = ("\x05TTree\x09ntuple_xy", "\x0dROOT::RNTuple\x01n");
    let bytes = renamed(&["ntuple_xy"], ntuple.0, ntuple.1);
    let file = done(RootFile::open(&bytes));
    assert_eq!(done(file.trees(&bytes)), []);
    assert_eq!(done(file.ntuples(&bytes)).first().map(|it| it.path.as_str()), Some("n"));
    for path in [None, Some("n")] {
        let error = file.tree(path, &bytes).unwrap_err().to_string();
        assert!(error.contains("`n` is an RNTuple; read it from Python"), "{error}");
    }
    let bytes = renamed(&["ntuple_xy", "T"], ntuple.0, ntuple.1);
    let file = done(RootFile::open(&bytes));
    assert_eq!(done(file.tree(None, &bytes)).name(), "T", "an RNTuple is not a tree");
}

#[test]
fn a_tree_with_a_slash_in_its_name_is_found_at_the_top_and_in_a_directory() {
    let bytes = renamed(&["slXash", "T", "deep/slXash", "slX/T"], "slXash", "sl/ash");
    let file = done(RootFile::open(&bytes));
    let trees = done(file.trees(&bytes));
    let paths: Vec<_> = trees.iter().map(|tree| tree.path.as_str()).collect();
    assert_eq!(paths, ["sl/ash", "T", "deep/sl/ash", "slX/T"]);
    for path in paths.into_iter().chain(["sl/ash;1", "/deep/sl/ash"]) {
        done(file.tree(Some(path), &bytes));
    }
    let error = file.tree(Some("sl/as"), &bytes).unwrap_err().to_string();
    assert!(error.starts_with("no directory `sl`"), "{error}");
}

#[test]
fn the_error_for_a_file_without_trees_names_its_objects() {
    let bytes = renamed(&["T"], "\x05TTree\x01T", "\x05TList\x01T");
    let error = done(RootFile::open(&bytes)).tree(None, &bytes).unwrap_err().to_string();
    assert_eq!(error, "no tree in this file; there is only `T (TList)`");
}

#[test]
fn other_formats_are_recognized_by_their_first_bytes() {
    for (data, message) in [
        (
            &b"<!DOCTYPE html>\n<title>404</title>"[..],
            "not a ROOT file: it begins with `<!DOCTYPE html>`, expected `root` and a version number",
        ),
        (
            b"\x89HDF\r\n",
            r"not a ROOT file: it begins with `\x89HDF`, expected `root` and a version number",
        ),
        (
            b"root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n",
            "not a ROOT file: it begins with `root:x:0:0:root:/root:/b`, expected `root` and a version number",
        ),
        (
            b"",
            "not a ROOT file: it begins with nothing, it is empty, expected `root` and a version number",
        ),
    ] {
        let bytes = SparseBytes::whole(Bytes::from_static(data));
        assert_eq!(RootFile::open(&bytes).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_file_shorter_than_its_header_states_is_truncated() {
    let data = write(Style::default(), &[mixed("T", 1)]);
    let bytes = SparseBytes::whole(Bytes::from(data[..data.len() - 1].to_vec()));
    let error = RootFile::open(&bytes).unwrap_err().to_string();
    let n = data.len() - 1;
    let all = data.len();
    assert_eq!(error, format!("file is cut off: {all} bytes are needed, {n} are there"));
}
