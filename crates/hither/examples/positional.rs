//! Reads ranges of a file one after the other, as a program does that waits for each, and prints the account of it as
//! JSON: how often it waited, and how long.
//!
//! `positional URL RANGES [--store DIR] [--connections N] [--no-trees] [--output FILE]`
//!
//! RANGES is a file, or `-` for the standard input: a line for each range, with its first byte and its length. The bytes
//! go to FILE in the order of the lines. `--no-trees` reads without knowledge of the file's trees, for comparison.
#![expect(clippy::print_stdout, reason = "printing is what this program is for")]
#![expect(clippy::disallowed_methods, reason = "measures real time")]

use hither::{Client, ClientConfig};
use serde_json::json;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: positional URL RANGES [--store DIR] [--connections N] [--no-trees] \
                     [--output FILE]";

/// A read that takes longer has waited for the network: a look-up takes a microsecond.
const WAITED: Duration = Duration::from_millis(2);

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
                "--no-trees" => arguments.config.tree_cache.enabled = false,
                _ => *places.pop().ok_or(USAGE)? = word,
            }
        }
        if places.is_empty() { Ok(arguments) } else { Err(USAGE.into()) }
    }

    fn ranges(&self) -> Result<Vec<(u64, usize)>, Box<dyn Error>> {
        let mut text = String::new();
        match self.ranges.as_str() {
            "-" => std::io::stdin().read_to_string(&mut text)?,
            path => File::open(path)?.read_to_string(&mut text)?,
        };
        let range = |line: &str| {
            let (first, length) = line.split_once(' ').ok_or("a line is FIRST LENGTH")?;
            Ok((first.parse()?, length.parse()?))
        };
        text.lines().map(range).collect()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let ranges = arguments.ranges()?;
    let mut output = arguments.output.as_ref().map(File::create).transpose()?.map(BufWriter::new);
    let started = Instant::now();
    let client = Client::new(arguments.config)?;
    let file = client.open(&arguments.url)?;
    let (mut waits, mut bytes) = (Vec::new(), 0);
    let mut target = Vec::new();
    for (number, (offset, length)) in ranges.iter().enumerate() {
        target.resize(*length, 0);
        let asked = Instant::now();
        let read = file.read_at(&client, *offset, &mut target)?;
        let took = asked.elapsed();
        if took > WAITED {
            waits.push((number, took.as_secs_f64()));
        }
        bytes += read;
        if let Some(output) = &mut output {
            output.write_all(target.get(..read).unwrap_or_default())?;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let rtt = Duration::from_micros(file.endpoint().rtt_micros).as_secs_f64();
    drop(file);
    if let Some(mut output) = output {
        output.flush()?;
    }
    let waited: f64 = waits.iter().map(|(_, seconds)| seconds).sum();
    let totals = client.account().totals();
    let report = json!({
        "seconds": seconds,
        "reads": ranges.len(),
        "bytes": bytes,
        "waits": waits.len(),
        "waited_seconds": waited,
        "round_trips_waited": if rtt > 0.0 { waited / rtt } else { 0.0 },
        "first_waits": waits.iter().take(20).collect::<Vec<_>>(),
        "rtt_seconds": rtt,
        "requests": totals.requests,
        "round_trips": totals.flights,
        "connections": totals.connections,
        "bytes_payload": totals.bytes_payload,
        "bytes_received": totals.bytes_received,
    });
    println!("{report}");
    Ok(())
}
