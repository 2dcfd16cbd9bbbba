//! `hither check`: compares two trees.

use crate::arguments::Check;
use crate::commands::cp::{failures_json, progress_bar};
use crate::commands::sync::difference_output::DifferenceOutput;
use crate::exit::CommandError;
use crate::output::eprint_line;
use hither::{CheckOptions, CheckSummary, Client, CopyProgress};
use hither_core::error::counted;
use serde_json::json;
use std::sync::Arc;

pub(crate) fn run(client: &Client, arguments: &Check, json: bool) -> Result<(), CommandError> {
    let mut options = CheckOptions {
        by: arguments.compare.by(),
        one_way: arguments.one_way,
        copy: client.copy_options(),
    };
    options.copy.filter = Arc::new(arguments.filter.filter()?);
    let progress = Arc::new(CopyProgress::default());
    let output = DifferenceOutput::new(json);
    let summary = progress_bar::with_progress_bar(&progress, arguments.quiet, || {
        client.block_on(client.check(
            &arguments.source,
            &arguments.destination,
            options,
            Arc::clone(&progress),
            |difference| output.show(&difference),
        ))
    })?;
    for failure in &summary.failures {
        eprint_line(&format!("hither: {}", failure.error));
    }
    for notice in &summary.notices {
        eprint_line(&format!("hither: {notice}"));
    }
    if summary.without_times > 0 && !arguments.quiet {
        eprint_line(&format!(
            "hither: {} compared by size alone, because a server tells no times: --checksum compares contents",
            counted(summary.without_times, "file")
        ));
    }
    let outcome = outcome(&summary);
    if json {
        let mut object = json!({
            "equal": summary.equal,
            "only_in_source": summary.only_in_source,
            "only_in_destination": summary.only_in_target,
            "different": summary.different,
            "without_times": summary.without_times,
            "notices": summary.notices,
            "failures": failures_json(&summary.failures),
        });
        if let Err(failure) = &outcome {
            object["error"] = failure.object();
        }
        output.end(&object)?;
    } else if outcome.is_ok() && !arguments.quiet {
        eprint_line(&format!("{} equal", counted(summary.equal, "file")));
    }
    outcome.map_err(|failure| if json { failure.printed() } else { failure })
}

/// The error of the command: a failure takes precedence over a difference.
fn outcome(summary: &CheckSummary) -> Result<(), CommandError> {
    if let Some(failure) = summary.failures.first() {
        let failed = CommandError::from(failure.error.clone());
        return Err(match summary.failures.len() {
            1 => failed,
            n => failed.with_message(format!("{n} names could not be compared")),
        });
    }
    if summary.is_equal() {
        return Ok(());
    }
    let differences = summary.only_in_source + summary.only_in_target + summary.different;
    Err(CommandError::differences(format!(
        "{}, {} equal",
        counted(differences, "difference"),
        counted(summary.equal, "file")
    )))
}
