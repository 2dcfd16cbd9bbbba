//! Values: the values read are those that were written.

use crate::done;
use hither_formats::root::{
    Branch as Column_, Decompressor, RecordType, RootFile, Tree as ReadTree,
};
use hither_formats::{Column, FormatError, SparseBytes, Values};
use hither_testkit::root_writer::samples::{big_endian_f32, floats, jagged, mixed};
use hither_testkit::root_writer::{Basket, Branch, Leaf, Style, Tree, write};
use proptest::prelude::*;

fn open(style: Style, tree: Tree) -> (ReadTree, SparseBytes) {
    let bytes = SparseBytes::whole(write(style, &[tree]).into());
    let file = done(RootFile::open(&bytes));
    (done(file.tree(None, &bytes)), bytes)
}

fn whole(branch: &Column_, bytes: &SparseBytes) -> Result<Column, FormatError> {
    let mut decoder = Decompressor::new();
    let pieces = (0..branch.baskets().len()).map(|index| {
        let stored = branch.baskets().range(index).map(|range| bytes.get(range).unwrap());
        branch.decode_basket_with(&mut decoder, index, &stored.unwrap_or_default())
    });
    Column::concat(&pieces.collect::<Result<Vec<_>, _>>()?)
}

#[test]
fn a_tree_lists_its_columns_with_types_and_counters() {
    let (tree, _) = open(Style::default(), mixed("T", 1));
    let listed: Vec<(String, String)> =
        tree.branches().map(|b| (b.name().to_owned(), b.type_name())).collect();
    let listed: Vec<(&str, &str)> = listed.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(
        listed,
        [
            ("E", "float"),
            ("n", "int32_t"),
            ("x", "int32_t[]"),
            ("pair", "unknown"),
            ("pair.a", "int16_t"),
            ("pair.b", "float[2]"),
            ("s", "char*"),
            ("group", "unknown"),
            ("group/E", "float"),
        ]
    );
    assert_eq!(tree.branch("x").unwrap().column_type().unwrap().counter.as_deref(), Some("n"));
    assert_eq!((tree.name(), tree.title(), tree.entries()), ("T", "a tree", 3));
}

#[test]
fn scalars_leaf_lists_and_embedded_baskets_are_decoded() {
    let (tree, bytes) = open(Style::default(), mixed("T", 1));
    let column = |name: &str| whole(tree.branch(name).unwrap(), &bytes).unwrap();
    assert_eq!(column("E").values, Values::F32(vec![1.0, 2.0, 3.0]));
    assert_eq!(column("n").values, Values::I32(vec![2, 0, 1]));
    assert_eq!(column("x").offsets, Some(vec![0, 2, 2, 3]));
    assert_eq!(column("x").values, Values::I32(vec![0, 1, 2]));
    assert_eq!(column("pair.a").values, Values::I16(vec![0, 1, 2]));
    assert_eq!(column("pair.b").values, Values::F32(vec![0.0, 0.5, 1.0, 1.5, 2.0, 2.5]));
    assert_eq!(column("pair.b").item_shape, [2]);
    let x = tree.branch("x").unwrap();
    assert_eq!(x.baskets().range(1), None, "the last basket is embedded");
    assert_eq!(x.baskets().holding(&(2..3)), 1..2);
}

#[test]
fn columns_are_found_by_path_own_name_and_leaf() {
    let (tree, _) = open(Style::default(), mixed("T", 1));
    for (name, found) in
        [("E", "E"), ("E.E", "E"), ("group/E", "group/E"), ("b", "pair.b"), ("n.n", "n")]
    {
        assert_eq!(tree.branch(name).unwrap().name(), found, "{name}");
    }
    let pair = tree.branch("pair").unwrap();
    assert!(pair.column_type().unwrap_err().to_string().contains("it is a record"));
    assert_eq!(pair.record().unwrap().columns(), ["pair.a", "pair.b"]);
    let missing = tree.branch("par.a").unwrap_err();
    assert_eq!(missing.to_string(), "no branch `par.a`; did you mean `pair.a` or `pair.b`?");
}

#[test]
fn a_name_is_found_as_it_is_written_in_the_file() {
    let pair = mixed("T", 1).branches.remove(3);
    let names = ["track.", "a:b", "x/y", "p.q.", "n-1", "[0]"];
    let mut branches: Vec<_> =
        names.iter().map(|name| Branch { name, ..floats("E", &[&[1.0]], false) }).collect();
    branches.push(Branch { name: "pair.", ..pair });
    let inner = ["E.", "track."].map(|name| Branch { name, ..floats("E", &[&[2.0]], false) });
    branches.push(Branch { name: "group.", branches: inner.to_vec(), ..Branch::default() });
    let (tree, _) = open(Style::default(), Tree { path: "T", cycle: 1, branches });
    for name in names.into_iter().chain(["pair.", "pair.a", "group.", "group./E.", "group./track."])
    {
        assert_eq!(tree.branch(name).map(Column_::name), Ok(name));
        assert_eq!(tree.has_branch(name), Ok(true));
    }
    assert_eq!(tree.branch("E.").map(Column_::name), Ok("group./E."));
    assert_eq!(tree.has_branch("n-2"), Ok(false));
    let fields = ["E.", "track."]
        .map(|name| (name.to_owned(), RecordType::Column(format!("group./{name}"))));
    let record = RecordType::Record { class: None, fields: fields.to_vec() };
    assert_eq!(tree.branch("group.").unwrap().record(), Some(&record));
}

#[test]
fn the_error_for_an_unsupported_branch_has_name_and_type() {
    let (tree, _) = open(Style::default(), mixed("T", 1));
    let text = |name: &str| tree.branch(name).unwrap().column_type().unwrap_err().to_string();
    assert!(text("group").contains("`group`") && text("group").contains("group of branches"));
}

#[test]
fn every_leaf_class_has_its_type() {
    let classes = [
        ("TLeafO", false, Values::Bool(vec![true])),
        ("TLeafB", false, Values::I8(vec![-64])),
        ("TLeafB", true, Values::U8(vec![192])),
        ("TLeafS", false, Values::I16(vec![-1 << 14])),
        ("TLeafS", true, Values::U16(vec![3 << 14])),
        ("TLeafI", false, Values::I32(vec![-1 << 30])),
        ("TLeafI", true, Values::U32(vec![3 << 30])),
        ("TLeafL", false, Values::I64(vec![-1 << 62])),
        ("TLeafL", true, Values::U64(vec![3 << 62])),
        ("TLeafG", false, Values::I64(vec![-1 << 62])),
        ("TLeafG", true, Values::U64(vec![3 << 62])),
        ("TLeafF", false, Values::F32(vec![-2.0])),
        ("TLeafD", false, Values::F64(vec![-2.0])),
    ];
    for (class, unsigned, values) in classes {
        let leaf = Leaf { class, unsigned, name: "x", title: "x", len: 1, counter: None };
        let mut data = vec![0; values.element_type().size()];
        *data.first_mut().unwrap() = 0xC0;
        let basket = Basket { entries: 1, data, table: None };
        let branch =
            Branch { name: "x", leaves: vec![leaf], baskets: vec![basket], ..Branch::default() };
        let (tree, bytes) =
            open(Style::default(), Tree { path: "T", cycle: 1, branches: vec![branch] });
        let column = whole(tree.branch("x").unwrap(), &bytes).unwrap();
        assert_eq!(column.values, values, "{class} {unsigned}");
    }
}

#[test]
fn a_basket_with_other_bytes_than_its_entries_need_is_corrupt() {
    let mut branch = floats("E", &[&[1.0, 2.0]], false);
    branch.baskets[0].data.push(0);
    let (tree, bytes) =
        open(Style::default(), Tree { path: "T", cycle: 1, branches: vec![branch] });
    let error = whole(tree.branch("E").unwrap(), &bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "basket 0 of branch `E` is corrupt: 9 bytes for 2 entries of 4 bytes each"
    );
}

#[test]
fn empty_trees_and_empty_baskets_decode() {
    let (tree, _) = open(Style::default(), Tree { path: "T", cycle: 1, branches: vec![] });
    assert_eq!((tree.entries(), tree.branches().count()), (0, 0));
    let branch = floats("E", &[&[1.0], &[], &[2.0]], false);
    let (tree, bytes) =
        open(Style::default(), Tree { path: "T", cycle: 1, branches: vec![branch] });
    let branch = tree.branch("E").unwrap();
    assert_eq!(
        branch
            .decode_basket(1, &bytes.get(branch.baskets().range(1).unwrap()).unwrap())
            .unwrap()
            .entries,
        0
    );
    assert_eq!(whole(branch, &bytes).unwrap().values, Values::F32(vec![1.0, 2.0]));
    assert!(branch.decode_basket(3, &[]).is_err());
    let (tree, bytes) = open(
        Style::default(),
        Tree { path: "T", cycle: 1, branches: vec![floats("E", &[], false)] },
    );
    assert!(
        whole(tree.branch("E").unwrap(), &bytes).is_err(),
        "no baskets, nothing to put together"
    );
}

#[test]
fn objects_of_several_blocks_are_joined() {
    let values: Vec<f32> = (0..20_000_u16).map(f32::from).collect();
    let style = Style { codec: Some(*b"ZS"), block: Some(1000), large: true };
    let branch = floats("E", &[&values], false);
    let (tree, bytes) = open(style, Tree { path: "T", cycle: 1, branches: vec![branch] });
    assert_eq!(whole(tree.branch("E").unwrap(), &bytes).unwrap().values, Values::F32(values));
}

const CODECS: [Option<[u8; 2]>; 6] =
    [None, Some(*b"ZL"), Some(*b"XZ"), Some(*b"L4"), Some(*b"ZS"), Some(*b"CS")];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn jagged_columns_are_read_back_in_every_style(
        counts in prop::collection::vec(0_usize..6, 1..60),
        wide in any::<bool>(),
        per_basket in 1_usize..20,
        embedded in any::<bool>(),
        large in any::<bool>(),
        codec in 0_usize..6,
    ) {
        let k = if wide { 2 } else { 1 };
        let branches = jagged(&counts, k, per_basket, embedded).to_vec();
        let style = Style { large, codec: CODECS[codec], block: None };
        let (tree, bytes) = open(style, Tree { path: "T", cycle: 1, branches });
        let branch = tree.branch("x").unwrap();
        let column = whole(branch, &bytes).unwrap();
        let mut offsets = vec![0_i64];
        for &count in &counts {
            offsets.push(offsets.last().unwrap() + i64::try_from(count).unwrap());
        }
        let total = i32::try_from(counts.iter().sum::<usize>() * k).unwrap();
        prop_assert_eq!(column.entries, counts.len());
        prop_assert_eq!(column.offsets, Some(offsets));
        prop_assert_eq!(column.values, Values::I32((0..total).collect()));
        for entry in 0..counts.len() as u64 {
            let holding = branch.baskets().holding(&(entry..entry + 1));
            prop_assert_eq!(holding.len(), 1);
            prop_assert!(branch.baskets().entries(holding.start).contains(&entry));
        }
    }

    #[test]
    fn floats_are_read_back_bit_by_bit(
        values in prop::collection::vec(any::<u32>(), 1..400),
        per_basket in 1_usize..100,
        codec in 0_usize..6,
    ) {
        let values: Vec<f32> = values.into_iter().map(f32::from_bits).collect();
        let pieces: Vec<&[f32]> = values.chunks(per_basket).collect();
        let style = Style { codec: CODECS[codec], ..Style::default() };
        let tree = Tree { path: "T", cycle: 1, branches: vec![floats("E", &pieces, false)] };
        let (tree, bytes) = open(style, tree);
        let Values::F32(read) = whole(tree.branch("E").unwrap(), &bytes).unwrap().values else {
            panic!("not floats");
        };
        prop_assert_eq!(big_endian_f32(&read), big_endian_f32(&values));
    }
}
