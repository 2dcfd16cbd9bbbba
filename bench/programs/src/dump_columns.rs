//! Prints what the reader makes of ROOT files, as one JSON object per line: for each tree and
//! column its type and either digests of its values and offsets, or why it cannot be decoded.
//! `tests/oracle.py` compares it with uproot.
//!
//! `dump-columns [--values] FILE...`; with `--values` the values themselves are there, too, in
//! hexadecimal digits.

use crate::ProgramResult;
use bytes::Bytes;
use hither_formats::root::{Branch, Decompressor, RootFile};
use hither_formats::{Column, DecodeResult, FormatError, SparseBytes, Values};
use serde_json::{Value, json};
use xxhash_rust::xxh64::xxh64;

pub(crate) fn run(mut paths: Vec<String>) -> ProgramResult {
    let with_values = paths.first().is_some_and(|first| first == "--values");
    for path in paths.drain(usize::from(with_values)..) {
        let report = match std::fs::read(&path) {
            Ok(data) => file(data.into(), with_values)
                .unwrap_or_else(|error| json!({"error": describe(&error)})),
            Err(error) => json!({"error": {"kind": "Local", "text": error.to_string()}}),
        };
        println!("{}", json!({"file": path, "report": report}));
    }
    Ok(())
}

fn describe(error: &FormatError) -> Value {
    json!({"kind": format!("{:?}", error.kind()), "text": error.to_string()})
}

/// The answer of a reader that has the whole file.
fn done<T>(step: Result<DecodeResult<T>, FormatError>) -> Result<T, FormatError> {
    match step? {
        DecodeResult::Data(value) => Ok(value),
        DecodeResult::NeedsData(need) => {
            Err(FormatError::Invalid { what: format!("still needs {need:?}") })
        }
    }
}

fn file(data: Bytes, with_values: bool) -> Result<Value, FormatError> {
    let bytes = SparseBytes::whole(data);
    let file = done(RootFile::open(&bytes))?;
    let mut trees = serde_json::Map::new();
    for found in done(file.trees(&bytes))? {
        let report = match done(file.tree(Some(&found.path), &bytes)) {
            Ok(tree) => {
                let columns = tree
                    .branches()
                    .map(|branch| (branch.name().to_owned(), column(branch, &bytes, with_values)));
                json!({"entries": tree.entries(), "columns": columns.collect::<Vec<_>>()})
            }
            Err(error) => json!({"error": describe(&error)}),
        };
        trees.insert(found.path, report);
    }
    Ok(json!({"trees": trees}))
}

fn column(branch: &Branch, bytes: &SparseBytes, with_values: bool) -> Value {
    let kind = match branch.column_type() {
        Ok(kind) => kind,
        Err(error) => return json!({"type": branch.type_name(), "error": describe(&error)}),
    };
    let baskets = branch.baskets();
    let mut decoder = Decompressor::new();
    let mut pieces = Vec::new();
    for index in 0..baskets.len() {
        let stored = baskets.range(index).and_then(|range| bytes.get(range)).unwrap_or_default();
        match branch.decode_basket_with(&mut decoder, index, &stored) {
            Ok(piece) => pieces.push(piece),
            Err(error) => return json!({"type": branch.type_name(), "error": describe(&error)}),
        }
    }
    let mut report = json!({
        "type": branch.type_name(),
        "counter": kind.counter,
        "baskets": baskets.len(),
        "entries": 0,
        "values": 0,
        "lists": [],
    });
    if let (false, Some(fields)) = (pieces.is_empty(), report.as_object_mut()) {
        match Column::concat(&pieces) {
            Ok(column) => {
                let mut lists = Vec::new();
                let values = innermost(&column, &mut lists);
                fields.insert("entries".into(), column.entries.into());
                fields.insert("values".into(), values.len().into());
                fields.insert("lists".into(), lists.into());
                let digest = match values {
                    Values::Text(strings) => {
                        fields.insert("texts".into(), offsets_digest(&strings.offsets).into());
                        xxh64(&strings.bytes, 0)
                    }
                    numbers => xxh64(&le(numbers), 0),
                };
                fields.insert("digest".into(), format!("{digest:016x}").into());
                if with_values {
                    let hex =
                        le(values).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                    fields.insert("hex".into(), hex.into());
                }
            }
            Err(error) => return json!({"type": branch.type_name(), "error": describe(&error)}),
        }
    }
    report
}

/// The innermost values, and the digests of the offsets of all lists on the way.
fn innermost<'a>(column: &'a Column, lists: &mut Vec<String>) -> &'a Values {
    lists.extend(column.offsets.as_deref().map(offsets_digest));
    match &column.values {
        Values::Lists(inner) => innermost(inner, lists),
        values => values,
    }
}

fn offsets_digest(offsets: &[i64]) -> String {
    let raw: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
    format!("{:016x}", xxh64(&raw, 0))
}

/// The values as little-endian bytes.
fn le(values: &Values) -> Vec<u8> {
    macro_rules! bytes {
        ($v:expr) => {
            $v.iter().flat_map(|x| x.to_le_bytes()).collect()
        };
    }
    match values {
        Values::Bool(v) => v.iter().map(|&x| u8::from(x)).collect(),
        Values::I8(v) => bytes!(v),
        Values::U8(v) => bytes!(v),
        Values::I16(v) => bytes!(v),
        Values::U16(v) => bytes!(v),
        Values::I32(v) => bytes!(v),
        Values::U32(v) => bytes!(v),
        Values::I64(v) => bytes!(v),
        Values::U64(v) => bytes!(v),
        Values::F32(v) => bytes!(v),
        Values::F64(v) => bytes!(v),
        _ => Vec::new(),
    }
}
