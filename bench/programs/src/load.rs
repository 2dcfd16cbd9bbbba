//! A load generator for an HTTP server, used by `bench/server/many_clients.py`: idle connections
//! that are kept open, active readers that prefer some files, and slow readers of a kilobyte a
//! second. Prints the result as JSON.
//!
//! `load 127.0.0.1:8080 SECONDS IDLE ACTIVE SLOW FILES`
//!
//! The files are `/0`, `/1`, ... of FILES; the n-th is read with a probability proportional to 1/n.
//! A file begins with its number in eight bytes of ASCII. Slow readers read `/large`. Active
//! readers measure the time from the request to the first byte.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failure ends the program")]
#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers are small")]

use crate::ProgramResult;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Interval between requests on an idle connection.
const IDLE: Duration = Duration::from_secs(45);
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Plan {
    address: SocketAddr,
    until: Instant,
    /// For each file, the first of a million numbers that no longer stands for it.
    shares: Vec<u32>,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl Plan {
    fn file(&self, number: u32) -> usize {
        self.shares.partition_point(|share| *share <= number % 1_000_000).min(self.shares.len() - 1)
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    fn failed(&self, what: &str, why: &dyn std::fmt::Display) {
        if self.errors.fetch_add(1, Ordering::Relaxed) < 5 {
            println!("# {what}: {why}");
        }
    }
}

/// A connection, and the unread bytes of the next response.
#[derive(Debug)]
struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(plan: &Plan) -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        let stream = socket.connect(plan.address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Reads a file; returns the time to the first byte, and the number of bytes.
    async fn get(&mut self, name: &str) -> Result<(Duration, u64), String> {
        let request = format!("GET /{name} HTTP/1.1\r\nHost: load\r\n\r\n");
        let began = Instant::now();
        self.stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
        self.buffer.clear();
        let mut first = None;
        let (head, length) = loop {
            self.more().await?;
            let came = first.get_or_insert_with(|| began.elapsed());
            let end = self.buffer.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                break (
                    end + 4,
                    length(&self.buffer[..end]).ok_or_else(|| {
                        format!("after {came:?}: {}", String::from_utf8_lossy(&self.buffer[..end]))
                    })?,
                );
            }
        };
        let mut came = self.buffer.len() - head;
        while came < length {
            if came >= 8 || self.buffer.len() > 65_536 {
                self.buffer.truncate(head + 8.min(came));
            }
            let before = self.buffer.len();
            self.more().await?;
            came += self.buffer.len() - before;
        }
        let told = self.buffer.get(head..head + 8).unwrap_or_default();
        if came != length || String::from_utf8_lossy(told) != format!("{name:>8}") {
            return Err(format!(
                "{name} came as {:?} of {came} of {length} bytes",
                String::from_utf8_lossy(told)
            ));
        }
        Ok((first.unwrap_or_default(), length as u64))
    }

    async fn more(&mut self) -> Result<(), String> {
        match timeout(PATIENCE, self.stream.read_buf(&mut self.buffer)).await {
            Ok(Ok(0)) => Err("the connection has ended".to_owned()),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("nothing came for a minute".to_owned()),
        }
    }
}

/// The length of the body, if the response is a success.
fn length(head: &[u8]) -> Option<usize> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let field = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
    head.starts_with("http/1.1 200").then(|| field.trim().parse().ok())?
}

/// Pseudo-random numbers.
fn next(chance: &mut u64) -> u32 {
    *chance ^= *chance << 13;
    *chance ^= *chance >> 7;
    *chance ^= *chance << 17;
    (*chance >> 16) as u32
}

async fn read(plan: Arc<Plan>, number: u64, pause: Duration) -> Vec<u32> {
    let (mut chance, mut times) = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, Vec::new());
    let mut client = None;
    if !pause.is_zero() {
        let part = f64::from(next(&mut chance) % 1000) / 1000.0;
        sleep_until(Instant::now() + pause.mul_f64(part)).await;
    }
    while !plan.is_over() {
        if client.is_none() {
            client = Client::connect(&plan).await.inspect_err(|e| plan.failed("connect", e)).ok();
        }
        let Some(open) = &mut client else { continue };
        match open.get(&plan.file(next(&mut chance)).to_string()).await {
            Ok((first, bytes)) => {
                times.push(u32::try_from(first.as_micros()).unwrap_or(u32::MAX));
                plan.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            Err(error) => {
                plan.failed("read", &error);
                client = None;
            }
        }
        if !pause.is_zero() {
            let rest = plan.until.saturating_duration_since(Instant::now());
            sleep_until(Instant::now() + pause.min(rest)).await;
        }
    }
    times
}

/// A kilobyte a second.
async fn crawl(plan: Arc<Plan>) -> u64 {
    let mut came = 0;
    let Ok(mut client) = Client::connect(&plan).await else { return 0 };
    let request = b"GET /large HTTP/1.1\r\nHost: load\r\n\r\n";
    if client.stream.write_all(request).await.is_err() {
        return 0;
    }
    let mut kilobyte = [0; 1000];
    while !plan.is_over() {
        match client.stream.read_exact(&mut kilobyte).await {
            Ok(_) => came += 1000,
            Err(error) => {
                plan.failed("slow reader", &error);
                return came;
            }
        }
        sleep_until(Instant::now() + Duration::from_secs(1)).await;
    }
    came
}

pub(crate) async fn run(words: Vec<String>) -> ProgramResult {
    let [address, numbers @ ..] = words.as_slice() else { panic!("no address") };
    let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
    let &[seconds, idle, active, slow, files] = numbers.as_slice() else { panic!("five numbers") };
    let weights: Vec<f64> = (1..=files).map(|n| 1.0 / n as f64).collect();
    let all: f64 = weights.iter().sum();
    let mut sum = 0.0;
    let shares = weights.iter().map(|weight| {
        sum += weight / all;
        (sum * 1e6) as u32
    });
    let plan = Arc::new(Plan {
        address: address.parse().unwrap(),
        until: Instant::now() + Duration::from_secs(seconds),
        shares: shares.collect(),
        bytes: AtomicU64::new(0),
        errors: AtomicU64::new(0),
    });
    let (mut kept, mut readers, mut crawlers) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    for _ in 0..slow {
        crawlers.spawn(crawl(Arc::clone(&plan)));
    }
    for number in 0..idle {
        kept.spawn(read(Arc::clone(&plan), number + active + 1, IDLE));
    }
    for number in 0..active {
        readers.spawn(read(Arc::clone(&plan), number + 1, Duration::ZERO));
    }
    let mut times: Vec<u32> = readers.join_all().await.into_iter().flatten().collect();
    let seldom: usize = kept.join_all().await.iter().map(Vec::len).sum();
    let crawled: u64 = crawlers.join_all().await.iter().sum();
    times.sort_unstable();
    let at =
        |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or_default();
    println!(
        "{}",
        json!({
            "requests": times.len(), "seldom": seldom, "slow_bytes": crawled,
            "errors": plan.errors.load(Ordering::Relaxed),
            "bytes": plan.bytes.load(Ordering::Relaxed), "seconds": seconds,
            "p50_us": at(0.5), "p90_us": at(0.9), "p99_us": at(0.99), "p999_us": at(0.999), "max_us": times.last(),
        })
    );
    Ok(())
}
