//! `hither explain`: runs a job, and names its bottleneck.

use super::{cat, cp, draw};
use crate::arguments::{Explain, ExplainedJob, ExplanationArgs};
use crate::exit::CommandError;
use crate::output::standard_streams::standard_input;
use crate::output::{connections, human_bytes, print};
use chrono::DateTime;
use hither::{
    Client, Diagnosis, DrawResult, Error, ErrorKind, Explanation, MeasuredJob, StageSeconds,
};
use hither_core::error::counted;
use hither_explain::server_log::LoggedRequest;
use hither_explain::server_log::explain_log;
use hither_transport::redact_url;
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

pub(super) fn run(client: &Client, arguments: &Explain, json: bool) -> Result<(), CommandError> {
    client.record_activity();
    let explain = |options: &ExplanationArgs, measured| {
        let probe_url = Some(arguments.url()).filter(|_| !options.no_probe);
        client.block_on(client.explain_job(MeasuredJob { probe_url, ..measured }))
    };
    match &arguments.job {
        ExplainedJob::Draw(job) => {
            let drawing = draw::draw(client, &job.request)?;
            let report = &drawing.report;
            let decode_seconds = report.decode_seconds + report.compute_seconds;
            let measured = MeasuredJob { decode_seconds, ..MeasuredJob::default() };
            let explained = explain(&job.options, measured);
            let object = || draw::as_json(&job.request, &drawing);
            show(&job.options, &explained, json, object, || draw_times(&drawing))
        }
        ExplainedJob::Cp(job) => {
            let copied = cp::copy(client, &job.request)?;
            if copied.end().is_err() {
                // The time of a job that failed says nothing about the time of the job.
                if json {
                    print(&format!("{}\n", copied.as_json()))?;
                }
                return copied.end();
            }
            let write = copied.progress.stages().write;
            let write = StageSeconds {
                busy: write.busy.as_secs_f64(),
                starved: write.starved.as_secs_f64(),
                blocked: write.blocked.as_secs_f64(),
            };
            let measured = MeasuredJob { write: Some(write), ..MeasuredJob::default() };
            let explained = explain(&job.options, measured);
            show(&job.options, &explained, json, || copied.as_json(), String::new)
        }
        ExplainedJob::Cat(job) => {
            cat::write_all(client, &job.request, false, &mut std::io::sink())?;
            let explained = explain(&job.options, MeasuredJob::default());
            let urls = || job.request.urls.iter().map(|url| redact_url(url)).collect::<Vec<_>>();
            let object = || json!({ "urls": urls() });
            show(&job.options, &explained, json, object, String::new)
        }
        ExplainedJob::Serve { log } => serve(log, json),
    }
}

/// Prints an explanation, followed by the job's own result.
fn show(
    options: &ExplanationArgs,
    explained: &Explanation,
    json: bool,
    object: impl FnOnce() -> Value,
    text: impl FnOnce() -> String,
) -> Result<(), CommandError> {
    if let Some(file) = &options.timeline {
        let failed = |error| CommandError::local(format!("cannot write {}", file.display()), error);
        std::fs::write(file, explained.to_svg()).map_err(failed)?;
    }
    if json {
        let mut object = object();
        object["explanation"] = as_json(&explained.diagnosis);
        return Ok(print(&format!("{object}\n"))?);
    }
    Ok(print(&(explained.to_text() + &text()))?)
}

fn as_json(diagnosis: &Diagnosis) -> Value {
    let mut object = json!(diagnosis);
    object["sentence"] = json!(diagnosis.sentence());
    object
}

/// Explains an access log.
pub(super) fn serve(log: &Path, json: bool) -> Result<(), CommandError> {
    let failed = |error| CommandError::local(format!("cannot read {}", log.display()), error);
    let input: Box<dyn Read> = if log == Path::new("-") {
        Box::new(standard_input().map_err(failed)?)
    } else {
        Box::new(std::fs::File::open(log).map_err(failed)?)
    };
    let mut requests = Vec::new();
    for line in BufReader::new(input).lines() {
        // The last line may be incomplete, and other programs may have written to the log.
        requests.extend(logged_request(&line.map_err(failed)?));
    }
    let Some(diagnosis) = explain_log(&requests) else {
        let what =
            format!("{}: no requests, expected the access log of hither serve", log.display());
        return Err(Error::new(ErrorKind::Invalid, what).into());
    };
    let text = diagnosis.to_text().replacen("this job", "the requests", 1);
    Ok(print(&if json { format!("{}\n", as_json(&diagnosis)) } else { text })?)
}

fn logged_request(line: &str) -> Option<LoggedRequest> {
    let object: Value = serde_json::from_str(line).ok()?;
    let began = DateTime::parse_from_rfc3339(object.get("time")?.as_str()?).ok()?;
    let mut request: LoggedRequest = serde_json::from_value(object).ok()?;
    request.began = f64::from(u32::try_from(began.timestamp()).ok()?)
        + f64::from(began.timestamp_subsec_micros()) / 1e6;
    Some(request)
}

/// The times and counts of a drawing.
fn draw_times(drawing: &DrawResult) -> String {
    let report = &drawing.report;
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {label:<26} {value}");
    };
    // If the metadata comes from the store, the first connection is opened for data. Opening it may
    // take longer than the phase if a connection of an earlier read serves the phase.
    let [mut open, mut data] = [report.open_seconds, report.data_seconds];
    let first = if report.metadata_from_store { &mut data } else { &mut open };
    let connect = report.connect_seconds.min(*first);
    *first -= connect;
    let rest = (report.seconds - report.open_seconds - report.data_seconds).max(0.0);
    let source = if report.metadata_from_store { "from the store" } else { "from the server" };
    line("total", format!("{:8.3} s", report.seconds));
    let rtt = report.rtt_seconds * 1e3;
    line("connect", format!("{connect:8.3} s   (round trip {rtt:.2} ms)"));
    line("open: find the tree", format!("{open:8.3} s   {source}"));
    line("data: baskets arriving", format!("{data:8.3} s"));
    line("after the last byte", format!("{rest:8.3} s"));
    line(
        "waiting for round trips",
        format!(
            "{:8.3} s   {} and the handshake",
            (report.round_trips + 1) as f64 * report.rtt_seconds,
            counted(report.round_trips, "dependent round trip")
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
            connections(report.connections),
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
