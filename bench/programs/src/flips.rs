//! `flips ROOT_URL FILE READS CHANCE`: random reads over `root://` with page checksums, through a
//! proxy that flips each bit with that probability.
//!
//! Compares the received bytes with the file, prints the outcome as JSON, and fails if a byte is
//! wrong.

use crate::ProgramResult;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hither_netem::random::Random;
use hither_read::{Reader, ReaderConfig};
use hither_testkit::tcp_proxy::{TcpProxy, TcpProxyConfig};
use hither_transport::{Location, Network, PageChecksums, TransportConfig, XrootdSource};
use hither_tune::ReadTrial;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Parallel reads.
const SIDE_BY_SIDE: usize = 256;
/// The maximum length of a read in bytes.
const MAX_LENGTH: u64 = 8192;

/// The outcome of the reads.
#[derive(Debug, Default)]
struct Outcome {
    bytes: u64,
    wrong_bytes: usize,
    retries: u64,
    /// The number of errors by their text without digits.
    errors: BTreeMap<String, u64>,
}

pub(crate) async fn run(words: Vec<String>) -> ProgramResult {
    let [url, file, reads, chance] = words.as_slice() else {
        return Err("flips ROOT_URL FILE READS CHANCE".into());
    };
    let content = Bytes::from(std::fs::read(file)?);
    let (reads, flips): (u64, f64) = (reads.parse()?, chance.parse()?);
    let server = url.strip_prefix("root://").and_then(|rest| rest.split_once("//"));
    let (server, path) = server.ok_or("the URL is root://HOST:PORT//PATH")?;
    let config = TcpProxyConfig { flips, seed: 1, ..TcpProxyConfig::default() };
    let proxy = TcpProxy::start("127.0.0.1:0".parse()?, server, config).await?;

    let mut config = TransportConfig::default();
    config.verify = PageChecksums::Always;
    config.max_connections = 8;
    // A length that is another than it was ends in silence.
    config.first_byte_timeout = Duration::from_secs(5);
    config.no_progress_timeout = Duration::from_secs(5);
    let network = Network::new(config, tokio::runtime::Handle::current(), None);
    let location = Location::parse(&format!("root://{}//{path}", proxy.address()))?;
    let source = XrootdSource::new(location, std::sync::Arc::clone(&network));

    let outcome = Mutex::new(Outcome::default());
    let mut random = Random::new(7);
    let started = Instant::now();
    let mut running = FuturesUnordered::new();
    for _ in 0..reads {
        let length = 1 + random.next_u64() % MAX_LENGTH.min(content.len() as u64);
        let start = random.next_u64() % (content.len() as u64 - length + 1);
        running.push(read(&source, &content, start..start + length, &outcome));
        if running.len() == SIDE_BY_SIDE {
            running.next().await;
        }
    }
    while running.next().await.is_some() {}

    let seconds = started.elapsed().as_secs_f64();
    let (counts, totals) = (proxy.counts(), network.counters().totals());
    let outcome = outcome.lock().map_err(|_| "a read panicked")?;
    let failed: u64 = outcome.errors.values().sum();
    let told = serde_json::json!({
        "reads": reads, "bytes": outcome.bytes, "chance": flips, "seconds": seconds,
        "flips_to_client": counts.to_client_flips, "flips_to_server": counts.to_server_flips,
        "damaged_pages": totals.damaged_pages, "connections": totals.connections,
        "retries": outcome.retries, "failed_reads": failed, "errors": outcome.errors,
        "wrong_bytes": outcome.wrong_bytes,
    });
    writeln!(std::io::stdout(), "{told}")?;
    if outcome.wrong_bytes > 0 { Err("wrong bytes were handed on".into()) } else { Ok(()) }
}

/// Reads one range, and notes what came of it.
async fn read(source: &XrootdSource, content: &[u8], range: Range<u64>, outcome: &Mutex<Outcome>) {
    let mut reader =
        Reader::new(source, None, ReaderConfig::default().with_trial(ReadTrial::begin));
    reader.push(std::slice::from_ref(&range), usize::MAX);
    let (mut got, mut wrong, mut error) = (0, 0, None);
    while let Some(part) = reader.next().await {
        match part {
            Ok(part) => {
                reader.release(part.bytes.len() as u64);
                got += part.bytes.len() as u64;
                let at = usize::try_from(part.offset).unwrap_or(usize::MAX);
                let right = content.get(at..at + part.bytes.len()).unwrap_or_default();
                wrong += part.bytes.len()
                    - right.iter().zip(&part.bytes).filter(|(a, b)| a == b).count();
            }
            Err(failed) => error = Some(failed),
        }
    }
    let missing = error.is_none() && got != range.end - range.start;
    let said = error.map(|error| format!("{:?}: {error}", error.kind()));
    let said = said.or_else(|| missing.then(|| "not all of it came".to_owned()));
    let Ok(mut outcome) = outcome.lock() else { return };
    outcome.bytes += got;
    outcome.wrong_bytes += wrong;
    outcome.retries += reader.retries();
    if let Some(said) = said {
        let bare: String = said.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        *outcome.errors.entry(bare).or_default() += 1;
    }
}
