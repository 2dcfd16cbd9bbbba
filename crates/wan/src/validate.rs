//! Validation of the emulator from outside, with ping and iperf3.
//!
//! For each of the talk's links `ping` must see the round-trip time within 2 % or 0.15 ms, and
//! `iperf3` at least 93 % of the rate as payload (headers alone take 3.5 %); without rate and delay
//! at least 1 Gbit/s must pass. Downloads are measured, because the project uses links for those.

use crate::control::{ControlRequest, ask};
use crate::error::local;
use crate::lifecycle::{LinkSpec, down, up};
use crate::namespace::{self, Side};
use crate::registry::LinkRecord;
use hither_core::Result;
use hither_netem::link::Link;
use serde::Serialize;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Minimum payload rate of a link without limits, in bits per second.
const MIN_UNLIMITED: f64 = 1e9;

/// Maximum number of series of ping and of iperf3 for each link.
const SERIES: usize = 3;

/// Seconds at the start that iperf3 omits, because of slow start.
const OMITTED: u32 = 2;

/// The measurements of one link.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// The link's letter.
    pub link: String,
    /// Configured round-trip time in milliseconds.
    pub rtt_ms: f64,
    /// Round-trip times of ping in milliseconds: minimum, mean, maximum.
    pub ping_ms: [f64; 3],
    /// Configured rate in Mbit/s.
    pub rate_mbit: Option<f64>,
    /// Payload rate of iperf3 at the client, in Mbit/s.
    pub iperf_mbit: f64,
    /// Packets to the client dropped by the queue during iperf3.
    pub drops: u64,
    /// CPU time of the forwarder during iperf3, as a fraction of one core.
    pub cpu: f64,
}

impl Measured {
    /// Returns true if both the round-trip time and the rate are within tolerance.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.rtt_good() && self.rate_good()
    }

    fn rtt_good(&self) -> bool {
        let off = (self.ping_ms[1] - self.rtt_ms).abs();
        off <= 0.15 || off <= 0.02 * self.rtt_ms
    }

    fn rate_good(&self) -> bool {
        match self.rate_mbit {
            Some(rate) => self.iperf_mbit >= 0.93 * rate,
            // With delay the windows of the end hosts are the limit, not the link.
            None => self.rtt_ms > 1.0 || self.iperf_mbit * 1e6 >= MIN_UNLIMITED,
        }
    }
}

/// Measures the talk's links; prints a line for each unless `quiet`.
///
/// # Errors
/// A link cannot be brought up, or `ping` or `iperf3` cannot be run or parsed.
pub fn run(
    program: &Path,
    quick: bool,
    quiet: bool,
    out: &mut impl Write,
) -> Result<Vec<Measured>> {
    let failed = |error| local("cannot write to standard output").with_source(error);
    if !quiet {
        writeln!(
            out,
            "{:<5} {:>8} {:>27} {:>9} {:>11} {:>7} {:>6}",
            "link", "RTT ms", "ping min/mean/max ms", "Mbit/s", "iperf3", "drops", "CPU"
        )
        .map_err(failed)?;
    }
    let mut all = Vec::new();
    for (letter, link) in Link::TALK {
        let name = format!("validate-{}-{letter}", std::process::id());
        let wanted = LinkSpec {
            name: name.clone(),
            link,
            congestion: "cubic".to_owned(),
            offload: None,
            owner: i32::try_from(std::process::id()).ok(),
        };
        let saved = up(program, &wanted)?;
        let measured = measure(letter, &saved, quick);
        down(&name)?;
        let it = measured?;
        if !quiet {
            let ping = it.ping_ms.map(|ms| format!("{ms:.3}")).join(" / ");
            writeln!(
                out,
                "{:<5} {:>8} {ping:>27} {:>9} {:>11.1} {:>7} {:>5.0}% {}",
                it.link,
                it.rtt_ms,
                it.rate_mbit.map_or_else(|| "-".to_owned(), |rate| rate.to_string()),
                it.iperf_mbit,
                it.drops,
                it.cpu * 100.0,
                if it.passed() { "ok" } else { "FAILED" }
            )
            .map_err(failed)?;
        }
        all.push(it);
    }
    Ok(all)
}

fn measure(letter: &str, saved: &LinkRecord, quick: bool) -> Result<Measured> {
    #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
    let rate_mbit = saved.link.bandwidth.map(|rate| rate as f64 / 1e6);
    let mut measured = Measured {
        link: letter.to_owned(),
        rtt_ms: saved.link.rtt.as_secs_f64() * 1e3,
        ping_ms: [f64::INFINITY; 3],
        rate_mbit,
        iperf_mbit: 0.0,
        drops: 0,
        cpu: 0.0,
    };
    let (pings, seconds) = if quick { (20, 3) } else { (40, 8) };
    // Other programs on the machine only lengthen the times of ping and slow iperf3 down, so the
    // best of several series is the most accurate.
    for _ in 0..SERIES {
        let seen = ping(saved, pings)?;
        if seen[1] < measured.ping_ms[1] {
            measured.ping_ms = seen;
        }
        if measured.rtt_good() {
            break;
        }
    }
    for _ in 0..SERIES {
        ask(&saved.name, ControlRequest::Stats { port: None, reset: true })?;
        let before = processor_seconds(&saved.name);
        let seen = iperf(saved, seconds)? / 1e6;
        let cpu = (processor_seconds(&saved.name) - before) / f64::from(seconds + OMITTED);
        let report = ask(&saved.name, ControlRequest::Stats { port: None, reset: false })?;
        if seen > measured.iperf_mbit {
            measured.iperf_mbit = seen;
            measured.cpu = cpu;
            measured.drops = report.map_or(0, |it| it.to_client.dropped_queue);
        }
        if measured.rate_good() {
            break;
        }
    }
    Ok(measured)
}

/// A command that runs at one end.
fn on(saved: &LinkRecord, side: Side, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace::of(&saved.name, side), program]);
    command.stdin(Stdio::null());
    command
}

fn ping(saved: &LinkRecord, count: u32) -> Result<[f64; 3]> {
    let output = on(saved, Side::Client, "ping")
        .args(["-q", "-i", "0.05", "-c", &count.to_string(), &saved.server().to_string()])
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| local("cannot run ping, install iputils-ping").with_source(error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // rtt min/avg/max/mdev = 0.331/0.356/0.401/0.020 ms
    let numbers: Vec<f64> = text
        .lines()
        .find_map(|line| line.strip_prefix("rtt ")?.split(" = ").nth(1))
        .unwrap_or_default()
        .split(['/', ' '])
        .map_while(|number| number.parse().ok())
        .collect();
    match numbers[..] {
        [least, mean, most, ..] => Ok([least, mean, most]),
        _ => Err(local(format!("expected a summary of ping, saw {text:?}"))),
    }
}

/// Payload rate of a download, in bits per second.
fn iperf(saved: &LinkRecord, seconds: u32) -> Result<f64> {
    let missing = |error| local("cannot run iperf3, install iperf3").with_source(error);
    let mut server = on(saved, Side::Server, "iperf3")
        .args(["-s", "-1", "--forceflush"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(missing)?;
    wait_for_listening(&mut server);
    let output = on(saved, Side::Client, "iperf3")
        .args(["-c", &saved.server().to_string(), "-R", "-J", "-O", &OMITTED.to_string()])
        .args(["-t", &seconds.to_string()])
        .output()
        .map_err(missing);
    let _ = server.kill();
    let _ = server.wait();
    let text = output?.stdout;
    let result: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|error| local("cannot read what iperf3 printed").with_source(error))?;
    result
        .pointer("/end/sum_received/bits_per_second")
        .and_then(serde_json::Value::as_f64)
        .ok_or_else(|| {
            let words = result.get("error").and_then(|it| it.as_str()).unwrap_or("no words");
            local(format!("expected a rate from iperf3, saw {words}"))
        })
}

/// Reads the server's lines until it reports that it listens; ignores its later output.
fn wait_for_listening(server: &mut Child) {
    if let Some(out) = server.stdout.take() {
        let mut lines = BufReader::new(out);
        let mut line = String::new();
        while !line.contains("listening") {
            line.clear();
            if lines.read_line(&mut line).unwrap_or(0) == 0 {
                break;
            }
        }
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    }
}

/// CPU time of the link's forwarder in seconds; 0 if it is unknown.
fn processor_seconds(name: &str) -> f64 {
    let ticks = || -> Option<f64> {
        let pid = std::fs::read_to_string(crate::registry::folder(name).join("pid")).ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok()?;
        // Fields after the command's name, which may contain blanks: user and system time are the
        // 14th and 15th field.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
    };
    ticks().unwrap_or_default() / 100.0
}
