//! Reads many ranges of one file in one call, and prints the account of it as JSON.
//!
//! `read_ranges URL RANGES [--store DIR] [--connections N] [--output FILE]`
//!
//! RANGES is a file, or `-` for the standard input: a line for each range, with its first byte and its length. The bytes
//! go to FILE, one range after the other, in the order of the lines. Tests compare them; benchmarks measure the reading.
#![expect(clippy::print_stdout, reason = "printing is what this program is for")]
#![expect(clippy::disallowed_methods, reason = "measures real time")]

use hither::{Client, ClientConfig};
use serde_json::json;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

const USAGE: &str = "usage: read_ranges URL RANGES [--store DIR] [--connections N] [--output FILE]";

#[derive(Default)]
struct Arguments {
    url: String,
    ranges: String,
    output: Option<PathBuf>,
    config: ClientConfig,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut arguments = Self::default();
        let mut places = vec![&mut arguments.ranges, &mut arguments.url];
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--store" => arguments.config.store = Some(value()?.into()),
                "--connections" => arguments.config.transport.max_lanes = value()?.parse()?,
                "--output" => arguments.output = Some(value()?.into()),
                _ => *places.pop().ok_or(USAGE)? = word,
            }
        }
        if places.is_empty() { Ok(arguments) } else { Err(USAGE.into()) }
    }

    fn ranges(&self) -> Result<Vec<Range<u64>>, Box<dyn Error>> {
        let mut text = String::new();
        match self.ranges.as_str() {
            "-" => std::io::stdin().read_to_string(&mut text)?,
            path => File::open(path)?.read_to_string(&mut text)?,
        };
        text.lines().map(range).collect()
    }
}

fn range(line: &str) -> Result<Range<u64>, Box<dyn Error>> {
    let (first, length) = line.split_once(' ').ok_or("a line is FIRST LENGTH")?;
    let first: u64 = first.parse()?;
    Ok(first..first.checked_add(length.parse()?).ok_or("a range beyond all files")?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let ranges = arguments.ranges()?;
    let started = Instant::now();
    let client = Client::new(arguments.config)?;
    let found = client.open(&arguments.url)?.read_ranges(&client, &ranges)?;
    let seconds = started.elapsed().as_secs_f64();
    let totals = client.account().totals();
    let report = json!({
        "seconds": seconds,
        "ranges": ranges.len(),
        "bytes_used": found.iter().map(bytes::Bytes::len).sum::<usize>(),
        "requests": totals.requests,
        "round_trips": totals.flights,
        "connections": totals.connections,
        "bytes_requested": totals.bytes_requested,
        "bytes_payload": totals.bytes_payload,
        "bytes_received": totals.bytes_received,
    });
    if let Some(path) = arguments.output {
        let mut output = BufWriter::new(File::create(path)?);
        found.iter().try_for_each(|bytes| output.write_all(bytes))?;
        output.flush()?;
    }
    println!("{report}");
    Ok(())
}
