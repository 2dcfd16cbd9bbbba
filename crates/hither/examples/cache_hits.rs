//! Measures the time of a read that hits the client's cache in memory.
//!
//! `cache_hits [READS]`, ten million by default: reads of 100 B to 8 KB at random offsets of a file
//! of 64 MB, on one thread. Prints nanoseconds per read as JSON. Fails if there are more than a
//! thousand, or if a read was not a hit.
#![expect(clippy::print_stdout, reason = "printing is what this program is for")]
#![expect(clippy::disallowed_methods, reason = "measures real time")]

use hither::{Client, ClientConfig};
use hither_simulate::random::Random;
use hither_testkit::mock_http::MockHttpServer;
use serde_json::json;
use std::error::Error;
use std::time::Instant;

const SIZE: u64 = 64_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let reads: u64 = std::env::args().nth(1).map_or(Ok(10_000_000), |word| word.parse())?;
    let bytes: Vec<u8> = (0..SIZE).map(|i| (i * 7 + i / 251).to_le_bytes()[0]).collect();
    let peer = MockHttpServer::start(bytes)?;
    let client = Client::new(ClientConfig::default())?;
    let file = client.open(&peer.url())?;
    let mut target = vec![0; 1_000_000];
    for offset in (0..SIZE).step_by(target.len()) {
        file.read_at(&client, offset, &mut target)?;
    }
    let before = client.reads();
    let mut random = Random::new(1);
    let mut copied = 0;
    let started = Instant::now();
    for _ in 0..reads {
        let random = random.next_u64();
        let len = usize::try_from(100 + random % 8_093)?;
        let offset = (random >> 16) % (SIZE - 8_192);
        copied += file.read_at(&client, offset, &mut target[..len])?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let hits = client.reads().hits - before.hits;
    #[expect(clippy::cast_precision_loss, reason = "printed with three digits")]
    let nanoseconds = seconds * 1e9 / reads as f64;
    println!(
        "{}",
        json!({ "reads": reads, "hits": hits, "bytes": copied, "seconds": seconds, "ns_per_read": nanoseconds })
    );
    if hits == reads && nanoseconds <= 1000.0 {
        Ok(())
    } else {
        Err("every read must be a hit of at most a microsecond".into())
    }
}
