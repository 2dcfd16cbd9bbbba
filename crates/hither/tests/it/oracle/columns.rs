//! Results of `TTree::Draw` on scalars and arrays, which `tests/draw_oracle.py` writes to
//! `tests/data/draw_oracle.json`.

use std::collections::BTreeMap;

use hither_formats::{Column, Values};
use hither_query::{Chunk, Histogram, HistogramBuilder, Selection};
use serde_json::Value;

/// The fixture's columns by name, and the whole fixture.
fn fixture() -> (BTreeMap<String, Column>, Value) {
    let text = include_str!("../../data/draw_oracle.json");
    let fixture: Value = serde_json::from_str(text).unwrap();
    let entries = usize::try_from(fixture["entries"].as_u64().unwrap()).unwrap();
    let columns = fixture["columns"].as_object().unwrap();
    let columns = columns.iter().map(|(name, json)| (name.clone(), column(json, entries)));
    (columns.collect(), fixture)
}

fn column(json: &Value, entries: usize) -> Column {
    let list = |key: &str| json.get(key).map(|list| list.as_array().unwrap());
    let values = list("values").unwrap();
    let int = |v: &Value| v.as_i64().unwrap();
    #[expect(clippy::cast_possible_truncation, reason = "single precision is what the branch has")]
    let values = match json["type"].as_str().unwrap() {
        "O" => Values::Bool(values.iter().map(|v| int(v) != 0).collect()),
        "B" => Values::I8(values.iter().map(|v| int(v).try_into().unwrap()).collect()),
        "b" => Values::U8(values.iter().map(|v| int(v).try_into().unwrap()).collect()),
        "S" => Values::I16(values.iter().map(|v| int(v).try_into().unwrap()).collect()),
        "s" => Values::U16(values.iter().map(|v| int(v).try_into().unwrap()).collect()),
        "I" => Values::I32(values.iter().map(|v| int(v).try_into().unwrap()).collect()),
        "i" => Values::U32(values.iter().map(|v| int(v).try_into().unwrap()).collect()),
        "L" => Values::I64(values.iter().map(int).collect()),
        "l" => Values::U64(values.iter().map(|v| v.as_u64().unwrap()).collect()),
        "F" => Values::F32(values.iter().map(|v| v.as_f64().unwrap() as f32).collect()),
        "D" => Values::F64(values.iter().map(|v| v.as_f64().unwrap()).collect()),
        other => panic!("type {other}"),
    };
    let shape = list("shape").unwrap().iter();
    Column {
        entries,
        offsets: list("offsets").map(|offsets| offsets.iter().map(int).collect()),
        item_shape: shape.map(|size| usize::try_from(size.as_u64().unwrap()).unwrap()).collect(),
        values,
    }
}

/// The entries `range` of a column.
fn slice(column: &Column, range: std::ops::Range<usize>) -> Column {
    let values = column.value_range(range.start).start..column.value_range(range.end - 1).end;
    macro_rules! cut {
        ($($kind:ident)*) => {
            match &column.values {
                $(Values::$kind(v) => Values::$kind(v[values].to_vec()),)*
                other => panic!("{other:?}"),
            }
        };
    }
    let offsets = column.offsets.as_ref().map(|offsets| {
        offsets[range.start..=range.end]
            .iter()
            .map(|offset| offset - offsets[range.start])
            .collect()
    });
    Column {
        entries: range.len(),
        offsets,
        item_shape: column.item_shape.clone(),
        values: cut!(Bool I8 U8 I16 U16 I32 U32 I64 U64 F32 F64),
    }
}

/// Evaluates a case in chunks of `step` entries.
fn run(columns: &BTreeMap<String, Column>, case: &Value, bins: usize, step: usize) -> Histogram {
    let cut = case["cut"].as_str().filter(|cut| !cut.is_empty());
    let selection = Selection::parse(case["expression"].as_str().unwrap(), cut).unwrap();
    let limit = |i: usize| case["range"][i].as_f64().unwrap();
    let mut builder = HistogramBuilder::new(bins, Some((limit(0), limit(1)))).unwrap();
    let entries = columns["i"].entries;
    for start in (0..entries).step_by(step) {
        let end = entries.min(start + step);
        let names = selection.columns();
        let sliced: Vec<Column> =
            names.iter().map(|name| slice(&columns[name], start..end)).collect();
        let mut chunk = Chunk::new(start as u64, end - start).of_tree(entries as u64);
        for (name, column) in names.iter().zip(&sliced) {
            chunk = chunk.with(name, column);
        }
        builder.fill(&selection.evaluate(&chunk).unwrap());
    }
    builder.finish()
}

/// Returns true if `ours` equals ROOT's value within a relative `tolerance`; the fixture has null
/// for NaN.
fn agrees(ours: f64, root: &Value, tolerance: f64) -> bool {
    match root.as_f64() {
        Some(root) => (ours - root).abs() <= tolerance * root.abs(),
        None => ours.is_nan(),
    }
}

/// The first difference from ROOT, if there is one.
fn difference(case: &Value, h: &Histogram) -> Option<String> {
    if Some(h.selected) != case["selected"].as_u64() {
        return Some(format!("selected {}, ROOT {}", h.selected, case["selected"]));
    }
    let edges = [(h.underflow, "underflow"), (h.overflow, "overflow")];
    for (ours, key) in edges {
        if !agrees(ours, &case[key], 1e-14) {
            return Some(format!("{key} {ours}, ROOT {}", case[key]));
        }
    }
    for (bin, (ours, root)) in h.counts.iter().zip(case["counts"].as_array().unwrap()).enumerate() {
        if !agrees(*ours, root, 1e-14) {
            return Some(format!("bin {bin}: {ours}, ROOT {root}"));
        }
    }
    for (ours, key) in [(h.mean, "mean"), (h.stddev, "stddev")] {
        if !agrees(ours, &case[key], 1e-12) {
            return Some(format!("{key} {ours}, ROOT {}", case[key]));
        }
    }
    None
}

fn compare(step: usize) {
    let (columns, fixture) = fixture();
    let bins = usize::try_from(fixture["bins"].as_u64().unwrap()).unwrap();
    let cases = fixture["cases"].as_array().unwrap();
    assert!(cases.len() > 300);
    let differences: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let difference = difference(case, &run(&columns, case, bins, step))?;
            Some(format!("{} where {}: {difference}", case["expression"], case["cut"]))
        })
        .collect();
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}

#[test]
fn every_result_equals_root() {
    compare(usize::MAX / 2);
}

#[test]
fn every_result_equals_root_entry_by_entry() {
    compare(1);
}

#[test]
fn every_result_equals_root_in_chunks_of_seven_entries() {
    compare(7);
}
