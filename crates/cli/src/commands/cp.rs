//! `hither cp`: copies files and directories between any two storages.

mod progress_bar;

use crate::arguments::Copy;
use crate::exit::CommandError;
use crate::interrupt;
use crate::output::{count, eprint_line, human_bytes, print};
use hither::{Client, CopyOptions, CopyProgress, CopySummary, OverwritePolicy, Verify};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

const RESUME: &str = "the copied part is kept: run the same command to resume";
const START_AGAIN: &str = "without a store, the same command starts again";

pub(super) fn run(client: &Client, arguments: &Copy, json: bool) -> Result<(), CommandError> {
    let (destination, sources) =
        arguments.names.split_last().ok_or_else(|| CommandError::usage("nothing to copy"))?;
    let options = options(client, arguments)?;
    let resumable = options.journal.is_some();
    interrupt::advise(if resumable { RESUME } else { START_AGAIN });
    let progress = Arc::new(CopyProgress::default());
    #[expect(clippy::disallowed_methods, reason = "the command prints how long it took")]
    let started = Instant::now();
    let summary = progress_bar::with_progress_bar(&progress, arguments.quiet, || {
        client.block_on(client.copy(sources, destination, options, Arc::clone(&progress)))
    })?;
    let seconds = started.elapsed().as_secs_f64();
    print_summary(&summary, seconds, resumable, arguments.quiet || json);
    let failure = summary.error().map(CommandError::from);
    if json {
        let object = format!("{}\n", as_json(&summary, seconds, failure.as_ref()));
        // The standard output may have the bytes of the file.
        if destination == "-" { eprint_line(object.trim_end()) } else { print(&object)? }
    }
    match failure {
        Some(failure) => Err(failure.printed()),
        None => Ok(()),
    }
}

fn options(client: &Client, arguments: &Copy) -> Result<CopyOptions, CommandError> {
    let mut options = client.copy_options();
    options.recursive = arguments.recursive;
    options.existing = match (arguments.no_clobber, arguments.update) {
        (true, _) => OverwritePolicy::Keep,
        (_, true) => OverwritePolicy::Update,
        _ => OverwritePolicy::Replace,
    };
    options.verify = match arguments.checksum.as_deref() {
        None => Verify::Automatic,
        Some("none") => Verify::Nothing,
        Some(text) if text.contains(':') => Verify::Value(text.parse()?),
        Some(text) => Verify::Algorithm(text.parse()?),
    };
    Ok(options)
}

/// Prints errors, notices and a summary as text.
fn print_summary(summary: &CopySummary, seconds: f64, resumable: bool, quiet: bool) {
    if summary.failures.len() > 1 {
        for failure in &summary.failures {
            eprint_line(&format!("hither: {}", failure.error));
        }
    }
    for notice in &summary.notices {
        eprint_line(&format!("hither: {notice}"));
    }
    if resumable && summary.can_go_on() {
        eprint_line(&format!("hither: {RESUME}"));
    }
    if quiet {
        return;
    }
    for checked in &summary.checksums {
        let compared = if checked.compared { "" } else { ", not compared" };
        eprint_line(&format!("{} {}{compared}", checked.checksum, checked.target));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "for people"
    )]
    let rate =
        (summary.bytes.saturating_sub(summary.bytes_resumed) as f64 / seconds.max(1e-3)) as u64;
    let skipped = match summary.files_skipped {
        0 => String::new(),
        n => format!(", {} skipped", count(n, "file")),
    };
    let resumed = match summary.bytes_resumed {
        0 => String::new(),
        bytes => format!(", {} of them copied before", human_bytes(bytes)),
    };
    eprint_line(&format!(
        "{}, {}{resumed}{skipped}, in {seconds:.2} s, {}/s",
        count(summary.files, "file"),
        human_bytes(summary.bytes),
        human_bytes(rate)
    ));
}

fn as_json(
    summary: &CopySummary,
    seconds: f64,
    failure: Option<&CommandError>,
) -> serde_json::Value {
    let checksums: Vec<_> = summary
        .checksums
        .iter()
        .map(|checked| {
            json!({
                "file": checked.target,
                "algorithm": checked.checksum.algorithm(),
                "value": checked.checksum.hex(),
                "compared": checked.compared,
            })
        })
        .collect();
    let failures: Vec<_> = summary
        .failures
        .iter()
        .map(|it| json!({ "source": it.source, "error": CommandError::from(it.error.clone()).object() }))
        .collect();
    let mut object = json!({
        "files": summary.files,
        "bytes": summary.bytes,
        "files_skipped": summary.files_skipped,
        "directories": summary.directories,
        "seconds": seconds,
        "bytes_arrived": summary.bytes_arrived,
        "bytes_resumed": summary.bytes_resumed,
        "bytes_resent": summary.bytes_resent,
        "checksums": checksums,
        "notices": summary.notices,
        "failures": failures,
    });
    if let Some(failure) = failure {
        object["error"] = failure.object();
    }
    object
}
