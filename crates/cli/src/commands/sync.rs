//! `hither sync`: makes a tree equal to another tree.

pub(super) mod check;
mod difference_output;

use crate::arguments::Sync;
use crate::commands::cp::{self, progress_bar};
use crate::exit::CommandError;
use crate::interrupt;
use crate::output::{eprint_line, human_bytes, print};
use difference_output::DifferenceOutput;
use hither::{Client, CopyProgress, CopySummary, SyncOptions};
use hither_core::error::counted;
use std::sync::Arc;
use std::time::Instant;

const AGAIN: &str = "run the same command to go on";

pub(super) fn run(client: &Client, arguments: &Sync, json: bool) -> Result<(), CommandError> {
    let mut options = SyncOptions::default();
    options.by = arguments.compare.by();
    options.delete = arguments.delete;
    options.max_delete = arguments.max_delete;
    options.dry_run = arguments.dry_run;
    options.copy = client.copy_options();
    arguments.limits.set(&mut options.copy);
    options.copy.filter = Arc::new(arguments.filter.filter()?);
    let dry_run = options.dry_run;
    let resumable = options.copy.journal.is_some();
    interrupt::advise(AGAIN);
    let progress = Arc::new(CopyProgress::default());
    let explains = arguments.limits.explain_tuning;
    if explains {
        cp::tuning_log::print_if_interrupted(&progress);
    }
    let output = Arc::new(DifferenceOutput::new(json));
    let shown = Arc::clone(&output);
    #[expect(clippy::disallowed_methods, reason = "the command prints how long it took")]
    let started = Instant::now();
    let summary = progress_bar::with_progress_bar(&progress, arguments.quiet || dry_run, || {
        client.block_on(client.sync(
            &arguments.source,
            &arguments.destination,
            options,
            Arc::clone(&progress),
            move |difference| {
                if dry_run {
                    shown.show(difference);
                }
            },
        ))
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let quiet = arguments.quiet || json;
    cp::print_problems(&summary, resumable);
    if !quiet {
        if dry_run {
            print_plan(&summary);
        } else {
            cp::print_totals(&summary, seconds, false);
        }
    }
    if explains && !json {
        cp::tuning_log::print_table(&summary.tuning);
    }
    let failure = summary.error().map(CommandError::from);
    if json {
        let mut object = cp::as_json(&summary, &progress, seconds, failure.as_ref());
        object["dry_run"] = dry_run.into();
        if explains {
            object["tuning"] = cp::tuning_log::as_json(&summary.tuning);
        }
        if dry_run { output.end(&object)? } else { print(&format!("{object}\n"))? }
    }
    match failure {
        Some(failure) if json => Err(failure.printed()),
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

fn print_plan(summary: &CopySummary) {
    let deleted = summary.files_deleted + summary.directories_deleted;
    eprint_line(&format!(
        "dry run: {} ({}) to copy, {} to delete, {} equal",
        counted(summary.files, "file"),
        human_bytes(summary.bytes),
        counted(deleted, "name"),
        counted(summary.files_skipped, "file")
    ));
}
