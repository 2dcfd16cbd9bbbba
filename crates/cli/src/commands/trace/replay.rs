//! `hither trace replay`: repeats the reads of a trace.

use crate::arguments::Replay;
use crate::exit::CommandError;
use crate::output::{connections, human_bytes, print};
use hither::Client;
use hither::trace::{ReplayReport, ReplayRequest};
use hither_core::error::counted;
use serde_json::json;

pub(crate) fn run(client: &Client, replay: &Replay, json: bool) -> Result<(), CommandError> {
    let mut request = ReplayRequest::default();
    request.think = replay.think;
    request.url.clone_from(&replay.url);
    request.map.clone_from(&replay.map);
    let done = client.replay(&replay.file, &request)?;
    let text = if json {
        format!("{}\n", json!({ "trace": replay.file, "replay": done }))
    } else {
        text(&done)
    };
    Ok(print(&text)?)
}

fn text(done: &ReplayReport) -> String {
    let report = &done.report;
    let unsettled = match done.unsettled_bytes {
        0 => String::new(),
        bytes => format!(", without {} that were still on their way", human_bytes(bytes)),
    };
    format!(
        "{} of {} by {}: {} in {:.3} s\n\
         \x20 waited for reads       {:.3} s, at most {:.6} s\n\
         \x20 reads that waited      {}, longer than half a round trip of {:.2} ms\n\
         \x20 ranges found           {} hits, {} partial or in flight, {} misses: {:.1} % missed\n\
         \x20 paused                 {:.3} s\n\
         \x20 round trips            {}, after one another\n\
         \x20 requests               {} on {}\n\
         \x20 bytes requested        {}, {} fetched{unsettled}\n",
        counted(done.reads, "read"),
        counted(done.files, "file"),
        counted(done.threads, "thread"),
        human_bytes(done.bytes),
        done.seconds,
        done.waited_seconds,
        done.longest_wait_seconds,
        done.slow_reads,
        report.rtt_seconds * 1e3,
        done.hits,
        done.partial,
        done.misses,
        done.miss_share() * 100.0,
        done.paused_seconds,
        report.round_trips,
        report.requests,
        connections(report.connections),
        human_bytes(report.bytes_requested),
        human_bytes(report.bytes_payload),
    )
}
