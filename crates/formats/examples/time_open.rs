//! Times opening a tree and decoding columns of a local file, on one thread, with everything in
//! memory.
//!
//! `time_open FILE COLUMN...`
#![expect(clippy::print_stdout, reason = "printing is what this program is for")]
#![expect(clippy::disallowed_methods, reason = "measures real time")]

use hither_formats::root::{Decompressor, RootFile};
use hither_formats::{Column, DecodeResult, FormatError, SparseBytes};
use std::time::Instant;

fn done<T>(step: DecodeResult<T>) -> Result<T, FormatError> {
    match step {
        DecodeResult::Data(value) => Ok(value),
        DecodeResult::NeedsData(need) => {
            Err(FormatError::Invalid { what: format!("still needs {need:?}") })
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let columns: Vec<String> = arguments.collect();
    let bytes = SparseBytes::whole(std::fs::read(path)?.into());
    for _ in 0..5 {
        let start = Instant::now();
        let file = done(RootFile::open(&bytes)?)?;
        let tree = done(file.tree(None, &bytes)?)?;
        let opened = start.elapsed();
        let all: usize = tree.branches().map(|branch| branch.baskets().len()).sum();
        println!("open {opened:?}: {} columns, {all} baskets", tree.branches().count());
        let start = Instant::now();
        let mut baskets = 0;
        let mut packed = 0;
        let mut values = 0;
        let mut decoder = Decompressor::new();
        for name in &columns {
            let branch = tree.branch(name)?;
            let mut pieces = Vec::new();
            for index in 0..branch.baskets().len() {
                let range = branch.baskets().range(index).unwrap_or_default();
                let stored = bytes.get(range).unwrap_or_default();
                packed += stored.len();
                pieces.push(branch.decode_basket_with(&mut decoder, index, &stored)?);
            }
            baskets += pieces.len();
            values += pieces.iter().map(|piece| piece.values.len()).sum::<usize>();
            let decoded = start.elapsed();
            let whole = Column::concat(&pieces)?;
            println!(
                "  {name}: {decoded:?} so far, joined {} entries in {:?}",
                whole.entries,
                start.elapsed() - decoded
            );
        }
        println!(
            "decode {:?}: {baskets} baskets, {packed} bytes, {values} values",
            start.elapsed()
        );
    }
    Ok(())
}
