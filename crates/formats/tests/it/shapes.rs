//! Vectors, strings, objects and collections: the values read are those that were written.

use crate::done;
use hither_formats::root::{Decompressor, ListKind, RecordType, RootFile, Tree};
use hither_formats::{Column, FormatError, SparseBytes, Strings, Values};
use hither_testkit::root_writer::samples::{classes, counted, headed, hit, objects, variable};
use hither_testkit::root_writer::{self as writer, Element, Style, write_with_classes};

fn open(tree: writer::Tree) -> (Tree, SparseBytes) {
    let bytes = write_with_classes(Style::default(), &[tree], &classes());
    let bytes = SparseBytes::whole(bytes.into());
    let file = done(RootFile::open(&bytes));
    (done(file.tree(None, &bytes)), bytes)
}

fn whole(tree: &Tree, bytes: &SparseBytes, name: &str) -> Result<Column, FormatError> {
    let branch = tree.branch(name)?;
    let mut decoder = Decompressor::new();
    let pieces = (0..branch.baskets().len()).map(|index| {
        let stored = branch.baskets().range(index).map(|range| bytes.get(range).unwrap());
        branch.decode_basket_with(&mut decoder, index, &stored.unwrap_or_default())
    });
    Column::concat(&pieces.collect::<Result<Vec<_>, _>>()?)
}

/// Reads the only branch of a tree.
fn read(branch: writer::Branch, name: &str) -> Result<Column, FormatError> {
    let (tree, bytes) = open(writer::Tree { path: "T", cycle: 1, branches: vec![branch] });
    whole(&tree, &bytes, name)
}

fn strings(texts: &[&str]) -> Values {
    let mut all = Strings::default();
    texts.iter().for_each(|text| all.push(text.as_bytes()));
    Values::Text(all)
}

#[test]
fn a_record_has_the_fields_of_its_class_at_any_depth() {
    let (tree, _) = open(objects("T"));
    let column = |path: &str| RecordType::Column(path.to_owned());
    let record = |class: Option<&str>, fields: &[(&str, &str)]| RecordType::Record {
        class: class.map(str::to_owned),
        fields: fields.iter().map(|(name, path)| ((*name).to_owned(), column(path))).collect(),
    };
    let of = |name: &str| tree.branch(name).unwrap().record().cloned();
    let hit = [("fE", "hits.fE"), ("fCell", "hits.fCell"), ("fTimes", "hits.fTimes")];
    let hits = Box::new(record(Some("Hit"), &hit));
    assert_eq!(of("hits"), Some(RecordType::List(ListKind::Plain, hits)));
    let map = ["map.first", "map.second"].map(column);
    assert_eq!(of("map"), Some(RecordType::Map(Box::new(map))));
    let split = [("split.fE", "split/split.fE"), ("split.fTimes", "split/split.fTimes")];
    assert_eq!(of("split"), Some(record(None, &split)));
    assert_eq!(of("v"), None);
}

#[test]
fn a_set_is_marked_wherever_it_stands() {
    let set = |name, class| variable(name, class, &[headed(9, &counted(0, &[]))]);
    let branches = vec![
        set("s", "set<int>"),
        set("vs", "vector<set<int> >"),
        set("b.", "bitset<4>"),
        set("v", "vector<int>"),
    ];
    let (tree, _) = open(writer::Tree { path: "T", cycle: 1, branches });
    let of = |name: &str| tree.branch(name).unwrap().record().cloned();
    let list = |kind, item| RecordType::List(kind, Box::new(item));
    let column = |path: &str| RecordType::Column(path.to_owned());
    assert_eq!(of("s"), Some(list(ListKind::Set, column("s"))));
    assert_eq!(of("vs"), Some(list(ListKind::Plain, list(ListKind::Set, column("vs")))));
    assert_eq!(of("b."), Some(list(ListKind::Bitset, column("b."))));
    assert_eq!(of("v"), None);
}

#[test]
fn columns_of_objects_are_listed_with_their_types() {
    let (tree, _) = open(objects("T"));
    let listed: Vec<String> =
        tree.branches().map(|b| format!("{} {}", b.name(), b.type_name())).collect();
    assert_eq!(
        listed,
        [
            "v std::vector<float>",
            "vv std::vector<std::vector<int32_t>>",
            "s std::string",
            "vs std::vector<std::string>",
            "hits std::vector<Hit>",
            "hits.fUniqueID uint32_t[]",
            "hits.fBits uint32_t[]",
            "hits.fE float[]",
            "hits.fCell int32_t[][2]",
            "hits.fTimes double[][]",
            "pad Pad",
            "pad.fN int32_t",
            "pad.fQ float[]",
            "pad.fSum double",
            "map std::map<std::string, double>",
            "map.first std::string[]",
            "map.second double[]",
            "name char*",
            "bare char*",
            "split vector<Hit>",
            "@split.size() int32_t",
            "split/split.fE float[]",
            "split/split.fTimes std::vector<double>[]",
        ]
    );
}

#[test]
fn values_of_objects_are_those_written() {
    let (tree, bytes) = open(objects("T"));
    let column = |name: &str| whole(&tree, &bytes, name).unwrap();
    let values = |name: &str| column(name).values;
    assert_eq!(values("v"), Values::F32(vec![1.0, 2.0]));
    assert_eq!(column("v").offsets, Some(vec![0, 2, 2]));
    assert_eq!(values("s"), strings(&["one", ""]));
    assert_eq!(values("vs"), strings(&["x", "yz"]));
    assert_eq!(values("name"), strings(&["ab", ""]));
    assert_eq!(values("bare"), strings(&["ab", ""]));
    assert_eq!(values("hits.fE"), Values::F32(vec![0.5, 1.5]));
    assert_eq!(values("hits.fUniqueID"), Values::U32(vec![5, 5]));
    assert_eq!(column("hits.fCell").item_shape, [2]);
    assert_eq!(values("hits.fCell"), Values::I32(vec![1, 2, 3, 4]));
    assert_eq!(values("pad.fQ"), Values::F32(vec![0.5, 1.5]));
    assert_eq!(column("pad.fQ").offsets, Some(vec![0, 2, 2]));
    assert_eq!(values("pad.fSum"), Values::F64(vec![5.0, 0.0]));
    assert_eq!(values("map.first"), strings(&["a", "bc"]));
    assert_eq!(values("map.second"), Values::F64(vec![1.5, 2.5]));
    assert_eq!(values("@split.size()"), Values::I32(vec![2, 0]));
    assert_eq!(values("split.fE"), Values::F32(vec![0.25, 0.75]));
    let Values::Lists(times) = values("split.fTimes") else { panic!("lists of lists") };
    assert_eq!((times.offsets, times.values), (Some(vec![0, 1, 1]), Values::F64(vec![2.5])));
    let vv = column("vv");
    assert_eq!(vv.offsets, Some(vec![0, 3, 3]));
    let Values::Lists(inner) = vv.values else { panic!("lists of lists") };
    assert_eq!(inner.offsets, Some(vec![0, 1, 1, 3]));
    assert_eq!(inner.values, Values::I32(vec![7, 8, 9]));
}

#[test]
fn the_process_id_after_the_bits_of_referenced_objects_is_skipped() {
    let referred = [&0x0300_0010_u32.to_be_bytes()[..], &[0, 1]].concat();
    let plain = 0x0300_0000_u32.to_be_bytes().to_vec();
    let element = Element { class_name: "Hit", class_version: 2, id: 0, kind: 31, code: 15 };
    let entries = [[&referred[..], &plain, &referred].concat(), Vec::new(), plain];
    let column = read(writer::samples::element("hits.fBits", element, &entries), "hits.fBits");
    let column = column.unwrap();
    assert_eq!(column.offsets, Some(vec![0, 3, 3, 4]));
    let bits = [0x0300_0010, 0x0300_0000, 0x0300_0010, 0x0300_0000];
    assert_eq!(column.values, Values::U32(bits.to_vec()));
    let whole = Element { kind: 0, ..element };
    let entries = [referred.clone(), referred];
    let column = read(writer::samples::element("fBits", whole, &entries), "fBits").unwrap();
    assert_eq!(column.values, Values::U32(vec![0x0300_0010; 2]));
}

#[test]
fn a_count_beyond_the_available_bytes_is_an_error() {
    for (class, count) in [
        ("vector<float>", i32::MAX),
        ("vector<string>", i32::MAX),
        ("vector<Hit>", 1 << 24),
        ("vector<bool>", -1),
    ] {
        let branch = variable("x", class, &[headed(9, &counted(count, &[0; 16]))]);
        let name = if class == "vector<Hit>" { "x.fE" } else { "x" };
        assert!(read(branch, name).is_err(), "{class}");
    }
}

#[test]
fn bytes_that_contradict_the_streamer_info_are_unsupported() {
    let mut long = hit(1.0, [1, 2], &[]);
    long.extend([0; 4]);
    let entry = headed(9, &counted(1, &long));
    let error = read(variable("x", "vector<Hit>", &[entry]), "x.fE").unwrap_err();
    assert!(
        matches!(&error, FormatError::Unsupported { branch, .. } if branch == "x.fE"),
        "{error}"
    );
    let other = headed(9, &counted(1, &headed(3, &[0; 8])));
    let error = read(variable("x", "vector<Hit>", &[other]), "x.fE").unwrap_err();
    assert!(error.to_string().contains("version 3 of `Hit`"), "{error}");
}

#[test]
fn a_type_without_streamer_info_is_unsupported_with_its_reason() {
    for (class, part) in [
        ("vector<Track>", "does not describe its class `Track`"),
        ("vector<TH1D*>", "pointers cannot be followed"),
        ("TRefArray", "written by hand"),
    ] {
        let error = read(variable("x", class, &[vec![0; 8]]), "x").unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("branch `x` of type `"), "{error}");
    }
}
