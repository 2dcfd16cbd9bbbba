//! Results of `TTree::Draw` on vectors, vectors of vectors, maps and objects, in a file that ROOT
//! wrote: `tests/lists_oracle.py` makes both.

use hither_core::ErrorKind;
use hither_formats::root::{RootFile, Tree};
use hither_formats::{Column, DecodeResult, FormatError, SparseBytes};
use hither_query::{Chunk, Selection};
use serde_json::Value;

fn open() -> (Tree, SparseBytes) {
    let bytes = SparseBytes::whole(include_bytes!("../../data/lists.root").as_slice().into());
    let Ok(DecodeResult::Data(file)) = RootFile::open(&bytes) else { panic!("the file is sound") };
    let Ok(DecodeResult::Data(tree)) = file.tree(None, &bytes) else { panic!("the tree is sound") };
    (tree, bytes)
}

fn column(tree: &Tree, bytes: &SparseBytes, name: &str) -> Result<Column, FormatError> {
    let branch = tree.branch(name)?;
    let baskets = 0..branch.baskets().len();
    let pieces = baskets.map(|index| {
        let stored = branch.baskets().range(index).and_then(|range| bytes.get(range));
        branch.decode_basket(index, &stored.unwrap_or_default())
    });
    Column::concat(&pieces.collect::<Result<Vec<_>, _>>()?)
}

fn values(
    tree: &Tree,
    bytes: &SparseBytes,
    value: &str,
    cut: &str,
) -> Result<Vec<f64>, hither_core::Error> {
    let selection = Selection::parse(value, Some(cut).filter(|cut| !cut.is_empty()))?;
    let names = selection.columns();
    let columns: Vec<Column> =
        names.iter().map(|name| column(tree, bytes, name)).collect::<Result<_, _>>()?;
    let entries = usize::try_from(tree.entries()).unwrap();
    let chunk = names
        .iter()
        .zip(&columns)
        .fold(Chunk::new(0, entries), |chunk, (name, column)| chunk.with(name, column));
    Ok(selection.evaluate(&chunk)?.values)
}

#[test]
fn every_result_on_lists_equals_root() {
    let (tree, bytes) = open();
    let oracle: Value = serde_json::from_str(include_str!("../../data/lists_oracle.json")).unwrap();
    let cases = oracle["cases"].as_array().unwrap();
    assert!(cases.len() > 25);
    for case in cases {
        let (expression, cut) =
            (case["expression"].as_str().unwrap(), case["cut"].as_str().unwrap());
        let ours = values(&tree, &bytes, expression, cut).unwrap();
        let root: Vec<f64> = case["values"]
            .as_array()
            .unwrap()
            .iter()
            .map(|value| value.as_f64().unwrap())
            .collect();
        let same = ours.len() == root.len()
            && ours.iter().zip(&root).all(|(a, b)| (a - b).abs() <= 1e-12 * b.abs());
        assert!(same, "{expression} where {cut}: {ours:?}, ROOT {root:?}");
    }
}

#[test]
fn strings_and_pairs_of_lists_are_errors() {
    let (tree, bytes) = open();
    for (expression, part) in [
        ("s", "branch `s` holds strings"),
        ("vs", "branch `vs` holds strings"),
        ("vv[1]", "`vv` holds lists of lists"),
        ("vv+x", "not with other arrays"),
        ("vv+v", "not with other arrays"),
    ] {
        let error = values(&tree, &bytes, expression, "").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{expression}");
        assert!(error.to_string().contains(part), "{expression}: {error}");
    }
}
