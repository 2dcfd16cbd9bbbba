//! `hither simulate`: a recorded job on other links and with other settings.

use crate::arguments::{GlobalArgs, Simulate};
use crate::commands::profile::{progress_line, show, write};
use crate::environment::client;
use crate::exit::CommandError;
use crate::interrupt;
use crate::output::{print, print_notices};
use hither::trace;
use hither_netem::Link;
use hither_simulate::job::{Grid, Job, sweep};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum time of the profile of a path.
const PROFILE_TIME: Duration = Duration::from_secs(3);
/// Maximum bytes received for the profile of a path.
const PROFILE_BYTES: u64 = 256_000_000;
/// Bytes of a TCP segment.
const SEGMENT_BYTES: f64 = 1448.0;
/// Bytes of the IP packet that carries a segment.
const PACKET_BYTES: f64 = 1500.0;

pub(in super::super) fn run(request: &Simulate, common: &GlobalArgs) -> Result<(), CommandError> {
    let mut job = Job::new(trace::script(&request.file)?);
    if let Some(bytes) = request.file_size {
        job = job.with_file_bytes(bytes);
    }
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::handle({
        let stop = Arc::clone(&stop);
        move || stop.store(true, Ordering::Relaxed)
    });
    let mut grid = Grid::default();
    if let Some(url) = &request.like {
        let (link, server_time) = measured(url, common, &stop)?;
        let server = server_time.as_secs_f64() * 1e3;
        print_notices(&[format!("the path to {url}: {link}, {server:.2} ms of the server")]);
        (grid.latencies, grid.bandwidths) = (vec![link.rtt], vec![link.bandwidth]);
        (grid.each, grid.server_time) = (link.each, server_time);
    }
    set(&mut grid.latencies, &request.latency);
    set(&mut grid.bandwidths, &request.bandwidth);
    set(&mut grid.caches, &request.cache);
    set(&mut grid.blocks, &request.block);
    set(&mut grid.read_aheads, &request.read_ahead);
    set(&mut grid.connections, &request.connections);
    grid.server_time = request.server_time.unwrap_or(grid.server_time);
    let bar = progress_line();
    let report = sweep(&job, &grid, &stop, &|done, all| {
        let how_far = || format!("simulation: {done} of {all} runs; Ctrl-C ends it early");
        show(&bar, bar.elapsed(), how_far);
    })?;
    bar.finish_and_clear();
    let name = request.file.file_name().unwrap_or_default().to_string_lossy();
    write(request.html.as_deref(), || report.to_html(&format!("Simulation of {name}")))?;
    let object = || format!("{}\n", json!({ "trace": request.file, "simulation": report }));
    Ok(print(&if common.json { object() } else { report.to_text() })?)
}

fn set<T: Clone>(values: &mut Vec<T>, requested: &[T]) {
    if !requested.is_empty() {
        *values = requested.to_vec();
    }
}

/// The measured path to a file, and the server's time per request.
fn measured(
    url: &str,
    common: &GlobalArgs,
    stop: &AtomicBool,
) -> Result<(Link, Duration), CommandError> {
    let client = client(&common.without_store(), url)?;
    let goes_on = |_, _| !stop.load(Ordering::Relaxed);
    let profile =
        client.block_on(client.profile_path(url, PROFILE_TIME, PROFILE_BYTES, goes_on))?;
    let milliseconds = |time: f64| Duration::try_from_secs_f64(time / 1e3).unwrap_or_default();
    let request = milliseconds(profile.request_ms.unwrap_or_default());
    let rtt = profile.tcp_handshake_ms.map_or(request, milliseconds);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a measured rate")]
    let bits = |bytes: f64| (bytes * 8.0 * PACKET_BYTES / SEGMENT_BYTES) as u64;
    let one = profile.bandwidth.first().map(|step| step.bytes_per_s);
    let all = profile.bandwidth.iter().map(|step| step.bytes_per_s).reduce(f64::max);
    let is_limited = profile.limit == hither::PathLimit::Connection;
    let each = one.filter(|_| is_limited).map(bits);
    Ok((Link { each, ..Link::new(rtt, all.map(bits)) }, request.saturating_sub(rtt)))
}
