//! Shared set-up of the tests: a file behind a link, and a reader that is driven to its end.

use bytes::Bytes;
use hither_core::{Error, Source};
use hither_netem::Link;
use hither_read::{Reader, ReaderConfig};
use hither_simulate::source::SimulatedSource;
use std::ops::Range;
use std::sync::LazyLock;
use std::time::Duration;

/// Far beyond anything a test waits for, in virtual time.
const HANGS: Duration = Duration::from_secs(100_000);

pub(crate) const SIZE: usize = 4_000_000;

/// A file in which bytes tell where they belong.
pub(crate) fn content() -> Bytes {
    static CONTENT: LazyLock<Bytes> =
        LazyLock::new(|| (0..SIZE).map(|i| (i * 7 + i / 251 * 3).to_le_bytes()[0]).collect());
    CONTENT.clone()
}

/// 240 ms, and as fast as anything.
pub(crate) fn far() -> SimulatedSource {
    SimulatedSource::new(content(), Link::G)
}

/// Connects, so that the round-trip time is known and connections can be chosen by it.
pub(crate) async fn connect(source: &SimulatedSource, connections: usize) {
    source.preconnect(connections);
    tokio::time::sleep(Link::G.rtt).await;
}

/// `n` ranges of `len` bytes, far apart.
pub(crate) fn scattered(n: u64, len: u64) -> Vec<Range<u64>> {
    let step = SIZE as u64 / n;
    (0..n).map(|i| i * step..i * step + len).collect()
}

pub(crate) fn config(budget_bytes: u64, attempts: u32) -> ReaderConfig {
    let mut config = ReaderConfig::default();
    (config.budget_bytes, config.retry.attempts) = (budget_bytes, attempts);
    config
}

/// Every byte of `ranges` is among the pieces, and every piece is of the file.
pub(crate) fn check(pieces: &[(u64, Bytes)], ranges: &[Range<u64>]) -> Result<(), String> {
    let content = content();
    let mut seen = vec![false; SIZE];
    for (offset, bytes) in pieces {
        let at = usize::try_from(*offset).unwrap();
        if content.get(at..at + bytes.len()) != Some(&bytes[..]) {
            return Err(format!("wrong bytes at {offset}"));
        }
        seen[at..at + bytes.len()].fill(true);
    }
    for range in ranges {
        let (from, to) =
            (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
        if from < to && !seen[from..to].iter().all(|seen| *seen) {
            return Err(format!("bytes of {range:?} are missing"));
        }
    }
    Ok(())
}

/// Reads to the end, giving memory back at once; what came is kept even where it fails.
pub(crate) async fn drain(reader: &mut Reader<'_>) -> (Vec<(u64, Bytes)>, Result<(), Error>) {
    let mut pieces = Vec::new();
    let reading = async {
        while let Some(part) = reader.next().await {
            let part = part?;
            reader.release(part.bytes.len() as u64);
            pieces.push((part.offset, part.bytes));
        }
        Ok(())
    };
    let result =
        tokio::time::timeout(HANGS, reading).await.unwrap_or_else(|_| panic!("the reader hangs"));
    (pieces, result)
}

/// Reads `ranges` exactly. Gives the retries.
pub(crate) async fn read(source: &dyn Source, ranges: &[Range<u64>], config: ReaderConfig) -> u64 {
    let mut reader = Reader::new(source, None, config);
    reader.push(ranges, usize::MAX);
    let (pieces, result) = drain(&mut reader).await;
    result.unwrap();
    check(&pieces, ranges).unwrap();
    reader.retries()
}
