//! `hither explain`: where the time of a draw went.

use super::draw;
use crate::arguments::Draw;
use crate::exit::CommandError;
use crate::output::{human_bytes, print};
use hither::{Client, DrawResult};
use std::fmt::Write;

pub(super) fn run(client: &Client, arguments: &Draw, json: bool) -> Result<(), CommandError> {
    let drawing = draw::draw(client, arguments)?;
    let text = match json {
        true => format!("{}\n", draw::as_json(arguments, &drawing)),
        false => explain(&drawing),
    };
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
    let (connect_in_open, connect_in_data) = match report.metadata_from_store {
        true => (0.0, report.connect_seconds),
        false => (report.connect_seconds, 0.0),
    };
    let source = if report.metadata_from_store { "from the store" } else { "from the server" };
    line("total", format!("{:8.3} s", report.seconds));
    line(
        "connect",
        format!(
            "{:8.3} s   (round trip {:.2} ms)",
            connect_in_open + connect_in_data,
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
            "{:8.3} s   {} dependent round trips and the handshake",
            (report.round_trips + 1) as f64 * report.rtt_seconds,
            report.round_trips
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
            "{:8}     on {} connections, {} sent again",
            report.requests, report.connections, report.retries
        ),
    );
    if report.whole_file_downloads > 0 {
        let count = report.whole_file_downloads;
        line("whole files", format!("{count:8}     downloaded: the server sent no ranges of them"));
    }
    line(
        "bytes asked for",
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
    for place in report.sources.iter().filter(|_| report.sources.len() > 1) {
        line("from", format!("{:8}     {} failed, {}", place.bytes, place.failures, place.name));
    }
    line(
        "selected",
        format!("{:8}     values of {} entries", drawing.histogram.selected, drawing.entries),
    );
    text
}
