//! Reads small pieces of many files at once, one thread for each file, and checks every byte.
//!
//! `many-readers BASE READERS SECONDS`
//!
//! Reader N opens `BASEN`, 512 KiB of 64-bit words with their own numbers, and reads 2 KiB at a
//! time, scattered. Prints `reading` when all have their first piece, and after SECONDS a JSON
//! object: the reads, those with wrong bytes, the errors, and the longest read, with the median, of
//! each half of the time. A benchmark kills a server at half-time.
#![expect(clippy::disallowed_methods, reason = "measures real time")]

use crate::ProgramResult;
use hither::{CacheConfig, Client, ClientConfig, RemoteFile};
use serde_json::json;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const PIECE: usize = 2048;
const PIECES: usize = (512 << 10) / PIECE;

/// The reads of one thread: when each began, since all did, and how long it took.
#[derive(Default)]
struct Reads {
    times: Vec<(Duration, Duration)>,
    wrong: usize,
    errors: Vec<String>,
}

impl Reads {
    fn piece(&mut self, client: &Client, file: &RemoteFile, at: usize) {
        let mut piece = [0; PIECE];
        match file.read_at(client, at as u64, &mut piece) {
            Ok(PIECE) if is_right(at, &piece) => {}
            Ok(_) => self.wrong += 1,
            Err(error) => self.errors.push(error.to_string()),
        }
    }
}

fn is_right(at: usize, piece: &[u8]) -> bool {
    let words = piece.chunks_exact(8).zip(at as u64 / 8..);
    words.into_iter().all(|(word, number)| word == number.to_le_bytes())
}

fn halves(all: &[Reads], half: Duration) -> [serde_json::Value; 2] {
    [false, true].map(|is_second| {
        let times = all.iter().flat_map(|reads| &reads.times);
        // A read under way at half-time belongs to the second half.
        let mut took: Vec<_> = times
            .filter(|(began, took)| (*began + *took >= half) == is_second)
            .map(|(_, took)| took.as_secs_f64() * 1e3)
            .collect();
        took.sort_by(f64::total_cmp);
        let median = took.get(took.len() / 2);
        json!({ "reads": took.len(), "median_ms": median, "max_ms": took.last() })
    })
}

pub(crate) fn run(words: Vec<String>) -> ProgramResult {
    let [base, readers, seconds] = words.as_slice() else {
        return Err("usage: many-readers BASE READERS SECONDS".into());
    };
    let (readers, whole) =
        (readers.parse::<usize>()?, Duration::try_from_secs_f64(seconds.parse()?)?);
    let mut config = ClientConfig::default();
    config.cache = CacheConfig::with_budget(64 << 20);
    config.transport.max_connections = readers;
    config.reader.exact = true;
    let client = Client::new(config)?;
    let begin = Barrier::new(readers + 1);
    let all = std::thread::scope(|scope| {
        let read = |number: usize| {
            let (client, begin, base) = (&client, &begin, base.as_str());
            move || {
                let mut reads = Reads::default();
                let file = client.open(&format!("{base}{number}"));
                let file = file.inspect_err(|error| reads.errors.push(error.to_string()));
                if let Ok(file) = &file {
                    reads.piece(client, file, 0);
                }
                begin.wait();
                let Ok(file) = file else { return reads };
                let began = Instant::now();
                // Steps that visit all pieces, far apart, so that nothing is read ahead in vain.
                for step in 1.. {
                    let before = began.elapsed();
                    if before >= whole {
                        break;
                    }
                    reads.piece(client, &file, (step * 89 + number) % PIECES * PIECE);
                    reads.times.push((before, began.elapsed() - before));
                }
                reads
            }
        };
        let threads: Vec<_> = (0..readers).map(|number| scope.spawn(read(number))).collect();
        begin.wait();
        println!("reading");
        threads.into_iter().map(|it| it.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    let [before, after] = halves(&all, whole / 2);
    let errors: Vec<_> = all.iter().flat_map(|reads| &reads.errors).collect();
    let report = json!({
        "wrong": all.iter().map(|reads| reads.wrong).sum::<usize>(),
        "errors": errors.len(),
        "first_error": errors.first(),
        "before": before,
        "after": after,
    });
    println!("{report}");
    Ok(())
}
