//! Reads ranges of one file, and prints counters as JSON: the number and the duration of its waits.
//!
//! `read-ranges URL RANGES [--singly] [--think SECONDS] [--no-trees] [--cache MIB] [--store DIR]
//! [--max-connections N] [--output FILE]`
//!
//! RANGES is a file, or `-` for the standard input, with one range per line: its first byte and its
//! length. An empty line ends a step. The ranges of a step are one vector read, or with `--singly`
//! one read each, one after the other; then the program computes for SECONDS. `--no-trees` reads
//! without knowledge of the file's trees, for comparison. The bytes go to FILE, in the order of the
//! lines. Tests compare them; benchmarks measure the reads.
#![expect(clippy::disallowed_methods, reason = "measures real time")]

use crate::ProgramResult;
use hither::{CacheConfig, Client, ClientConfig, RemoteFile};
use serde_json::json;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: read-ranges URL RANGES [--exact] [--singly] [--think SECONDS] [--no-trees] \
                     [--cache MIB] [--store DIR] [--max-connections N] [--output FILE]";

/// A read that takes longer has waited for the network: a look-up takes a microsecond.
const WAITED: Duration = Duration::from_millis(2);

#[derive(Default)]
struct Arguments {
    url: String,
    ranges: String,
    output: Option<PathBuf>,
    singly: bool,
    think: Duration,
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
                "--max-connections" => {
                    arguments.config.transport.max_connections = value()?.parse()?
                }
                "--output" => arguments.output = Some(value()?.into()),
                "--think" => arguments.think = Duration::try_from_secs_f64(value()?.parse()?)?,
                "--cache" => {
                    let mib: u64 = value()?.parse()?;
                    arguments.config.cache = CacheConfig::with_budget(mib << 20);
                }
                "--exact" => arguments.config.reader.exact = true,
                "--singly" => arguments.singly = true,
                "--no-trees" => arguments.config.tree_cache.enabled = false,
                _ => *places.pop().ok_or(USAGE)? = word,
            }
        }
        if places.is_empty() { Ok(arguments) } else { Err(USAGE.into()) }
    }

    /// Steps, each a list of ranges.
    fn steps(&self) -> Result<Vec<Vec<Range<u64>>>, Box<dyn Error>> {
        let mut text = String::new();
        match self.ranges.as_str() {
            "-" => std::io::stdin().read_to_string(&mut text)?,
            path => File::open(path)?.read_to_string(&mut text)?,
        };
        let step = |lines: &str| lines.lines().map(range).collect();
        text.split("\n\n").filter(|lines| !lines.trim().is_empty()).map(step).collect()
    }
}

fn range(line: &str) -> Result<Range<u64>, Box<dyn Error>> {
    let (first, length) = line.split_once(' ').ok_or("a line is FIRST LENGTH")?;
    let first: u64 = first.parse()?;
    Ok(first..first.checked_add(length.parse()?).ok_or("a range beyond all files")?)
}

/// The program: its file, its counters, and the file for the bytes.
struct Job<'a> {
    client: &'a Client,
    file: &'a RemoteFile,
    output: Option<BufWriter<File>>,
    reads: usize,
    bytes: usize,
    /// The number of each read that waited, and for how many seconds.
    waits: Vec<(usize, f64)>,
}

impl Job<'_> {
    /// One read of some ranges.
    fn read(&mut self, ranges: &[Range<u64>]) -> Result<(), Box<dyn Error>> {
        let asked = Instant::now();
        let found = self.file.read_ranges(self.client, ranges)?;
        let took = asked.elapsed();
        if took > WAITED {
            self.waits.push((self.reads, took.as_secs_f64()));
        }
        self.reads += 1;
        self.bytes += found.iter().map(bytes::Bytes::len).sum::<usize>();
        if let Some(output) = &mut self.output {
            found.iter().try_for_each(|bytes| output.write_all(bytes))?;
        }
        Ok(())
    }
}

/// Occupies a processor for the duration, as decoding does.
fn compute(think: Duration) {
    let began = Instant::now();
    while began.elapsed() < think {
        std::hint::spin_loop();
    }
}

pub(crate) fn run(words: Vec<String>) -> ProgramResult {
    let arguments = Arguments::parse(words.into_iter())?;
    let steps = arguments.steps()?;
    let output = arguments.output.as_ref().map(File::create).transpose()?.map(BufWriter::new);
    let started = Instant::now();
    let client = Client::new(arguments.config)?;
    let file = client.open(&arguments.url)?;
    let mut job =
        Job { client: &client, file: &file, output, reads: 0, bytes: 0, waits: Vec::new() };
    for step in &steps {
        if arguments.singly {
            step.chunks(1).try_for_each(|range| job.read(range))?;
        } else {
            job.read(step)?;
        }
        compute(arguments.think);
    }
    let seconds = started.elapsed().as_secs_f64();
    let Job { output, reads, bytes, waits, .. } = job;
    if let Some(mut output) = output {
        output.flush()?;
    }
    let totals = client.counters().totals();
    let report = json!({
        "seconds": seconds,
        "reads": reads,
        "ranges": steps.iter().map(Vec::len).sum::<usize>(),
        "waits": waits,
        "bytes_used": bytes,
        "requests": totals.requests,
        "round_trips": totals.round_trips,
        "connections": totals.connections,
        "bytes_requested": totals.bytes_requested,
        "bytes_payload": totals.bytes_payload,
        "bytes_received": totals.bytes_received,
    });
    println!("{report}");
    Ok(())
}
