//! `hither explain`: draws, and shows where the time went.

use super::draw;
use crate::arguments::Draw;
use crate::exit::CommandError;
use crate::output::{count, human_bytes, print};
use hither::{Client, DrawResult};
use std::fmt::Write;

pub(super) fn run(client: &Client, arguments: &Draw, json: bool) -> Result<(), CommandError> {
    let drawing = draw::draw(client, arguments)?;
    let text =
        if json { format!("{}\n", draw::as_json(arguments, &drawing)) } else { explain(&drawing) };
    Ok(print(&text)?)
}

fn explain(drawing: &DrawResult) -> String {
    let report = &drawing.report;
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {label:<26} {value}");
    };
    let open = (report.open_seconds - report.connect_seconds).max(0.0);
    let rest = (report.seconds - report.open_seconds - report.data_seconds).max(0.0);
    // With metadata from the store, the first connection is opened for data.
    let connect_in_data = if report.metadata_from_store { report.connect_seconds } else { 0.0 };
    let source = if report.metadata_from_store { "from the store" } else { "from the server" };
    line("total", format!("{:8.3} s", report.seconds));
    line(
        "connect",
        format!(
            "{:8.3} s   (round trip {:.2} ms)",
            report.connect_seconds,
            report.rtt_seconds * 1e3
        ),
    );
    line("open: find the tree", format!("{open:8.3} s   {source}"));
    line(
        "data: baskets arriving",
        format!("{:8.3} s", (report.data_seconds - connect_in_data).max(0.0)),
    );
    line("after the last byte", format!("{rest:8.3} s"));
    line(
        "waiting for round trips",
        format!(
            "{:8.3} s   {} and the handshake",
            (report.round_trips + 1) as f64 * report.rtt_seconds,
            count(report.round_trips, "dependent round trip")
        ),
    );
    line(
        "decode",
        format!("{:8.3} s   summed over threads, while data arrived", report.decode_seconds),
    );
    line("compute", format!("{:8.3} s   likewise", report.compute_seconds));
    line(
        "requests",
        format!(
            "{:8}     on {}, {} retried",
            report.requests,
            count(report.connections, "connection"),
            report.retries
        ),
    );
    if report.whole_file_downloads > 0 {
        let files = report.whole_file_downloads;
        line("whole files", format!("{files:8}     downloaded, because the server sent no ranges"));
    }
    line(
        "bytes requested",
        format!("{:8}     {}", report.bytes_requested, human_bytes(report.bytes_requested)),
    );
    line(
        "bytes fetched",
        format!(
            "{:8}     {} with headers and framing {}",
            report.bytes_payload,
            human_bytes(report.bytes_payload),
            human_bytes(report.bytes_received)
        ),
    );
    line("bytes used", format!("{:8}     {}", report.bytes_used, human_bytes(report.bytes_used)));
    line(
        "bytes wasted",
        format!("{:8}     {}", report.bytes_wasted(), human_bytes(report.bytes_wasted())),
    );
    for replica in report.sources.iter().filter(|_| report.sources.len() > 1) {
        line(
            "from",
            format!("{:8}     {} failed, {}", replica.bytes, replica.failures, replica.name),
        );
    }
    line(
        "selected",
        format!("{:8}     values of {} entries", drawing.histogram.selected, drawing.entries),
    );
    text
}
