//! Opens many ROOT files one after the other, then reads three small ranges of each, then closes
//! them: a program that knows nothing of open-ahead.
//!
//! `open-many-files LIST [--store DIR] [--staleness SECONDS] [--max-connections N] [--piece N]`
//!
//! LIST is a file with one URL per line. The ranges are the header, the list of keys that it points
//! to, and the first 1,000 bytes of the object of the first key, or of the range N bytes from the
//! start. Prints as JSON the times and counters, a digest of all bytes, and the interval in which
//! each file was opened. Benchmarks run it.
#![expect(clippy::disallowed_methods, reason = "measures real time")]

use crate::ProgramResult;
use hither::{Client, ClientConfig, RemoteFile};
use serde_json::json;
use std::error::Error;
use std::ops::Range;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: open-many-files LIST [--store DIR] [--staleness SECONDS] \
    [--max-connections N] [--piece N]";

#[derive(Default)]
struct Arguments {
    list: String,
    piece: Option<u64>,
    config: ClientConfig,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut arguments = Self::default();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            let config = &mut arguments.config;
            match word.as_str() {
                "--store" => config.store = Some(value()?.into()),
                "--staleness" => config.staleness = Duration::from_secs(value()?.parse()?),
                "--max-connections" => config.transport.max_connections = value()?.parse()?,
                "--piece" => arguments.piece = Some(value()?.parse()?),
                _ => arguments.list = word,
            }
        }
        if arguments.list.is_empty() { Err(USAGE.into()) } else { Ok(arguments) }
    }
}

pub(crate) fn run(words: Vec<String>) -> ProgramResult {
    let arguments = Arguments::parse(words.into_iter())?;
    let list = std::fs::read_to_string(&arguments.list)?;
    let client = Client::new(arguments.config)?;
    let started = Instant::now();
    let files = list.lines().map(|url| client.open(url)).collect::<Result<Vec<_>, _>>()?;
    let opened = started.elapsed();
    let mut digest = Digest::default();
    let mut first_read = Vec::new();
    for file in &files {
        read_pieces(&client, file, arguments.piece, &mut digest)?;
        first_read.push(started.elapsed().as_secs_f64());
    }
    let since = |at: Instant| at.saturating_duration_since(started).as_secs_f64();
    let opens: Vec<_> = files
        .iter()
        .map(|file| file.open_ahead_interval().map(|it| (since(it.start), since(it.end))))
        .collect();
    drop(files);
    let seconds = started.elapsed().as_secs_f64();
    let totals = client.counters().totals();
    drop(client);
    let object = json!({
        "seconds": seconds,
        "seconds_with_the_end_of_the_client": started.elapsed().as_secs_f64(),
        "open_calls_seconds": opened.as_secs_f64(),
        "requests": totals.requests,
        "connections": totals.connections,
        "bytes_payload": totals.bytes_payload,
        "digest": format!("{:016x}", digest.0),
        "opens": opens,
        "read": first_read,
    });
    println!("{object}");
    Ok(())
}

fn read_pieces(
    client: &Client,
    file: &RemoteFile,
    piece: Option<u64>,
    digest: &mut Digest,
) -> Result<(), Box<dyn Error>> {
    let mut read = |range: Range<u64>| -> Result<Vec<u8>, Box<dyn Error>> {
        let mut bytes = vec![0; usize::try_from(range.end - range.start)?];
        let read = file.read_at(client, range.start, &mut bytes)?;
        bytes.truncate(read);
        digest.add(&bytes);
        Ok(bytes)
    };
    let header = read(0..300)?;
    let keys = keys(&header).ok_or_else(|| format!("{}: no ROOT file", file.name()))?;
    let keys = read(keys)?;
    let object = match piece {
        Some(at) => at,
        None => first_object(&keys).ok_or_else(|| format!("{}: no key", file.name()))?,
    };
    read(object..object + 1_000)?;
    Ok(())
}

/// A big-endian number of `length` bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// The range of the keys of the top directory, from the header and the record behind it.
fn keys(header: &[u8]) -> Option<Range<u64>> {
    let large = number(header, 4, 4)? >= 1_000_000;
    let (begin, name) = (number(header, 8, 4)?, number(header, if large { 36 } else { 28 }, 4)?);
    let record = usize::try_from(begin + name).ok()?;
    let length = number(header, record + 10, 4)?;
    let large = number(header, record, 2)? > 1000;
    let at = if large { number(header, record + 34, 8)? } else { number(header, record + 26, 4)? };
    (length > 0).then_some(at..at + length)
}

/// The offset of the object of the first listed key.
fn first_object(keys: &[u8]) -> Option<u64> {
    // The list begins with a key of its own, then the number of keys.
    let first = usize::try_from(number(keys, 14, 2)?).ok()? + 4;
    let length = if number(keys, first + 4, 2)? > 1000 { 8 } else { 4 };
    number(keys, first + 18, length)
}

/// FNV-1a, to compare the bytes that were read.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
