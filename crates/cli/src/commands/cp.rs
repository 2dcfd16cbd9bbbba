//! `hither cp`: copies files and directories between any two storages.

pub(super) mod cluster;
pub(super) mod mover;
pub(super) mod progress_bar;
mod spooled_input;
pub(super) mod tuning_log;

use crate::arguments::{Copy, sources_and_destination};
use crate::exit::CommandError;
use crate::interrupt;
use crate::output::standard_streams::standard_output;
use crate::output::{eprint_line, human_bytes, print};
use crate::per_argument::expand;
use hither::{
    Client, CopyFailure, CopyOptions, CopyProgress, CopySummary, ErrorKind, OverwritePolicy,
    StageTimes, ThirdParty, Verify,
};
use hither_core::error::counted;
use serde_json::json;
use spooled_input::SpooledInput;
use std::sync::Arc;
use std::time::Instant;

const RESUME: &str = "the copied part is kept: run the same command to resume";
const RESUME_IF_KEPT: &str = "the same command resumes what was copied";
const START_AGAIN: &str = "without a store, the same command starts again";

pub(super) fn run(client: &Client, arguments: &Copy, json: bool) -> Result<(), CommandError> {
    let copied = copy(client, arguments)?;
    let Copied { summary, seconds, .. } = &copied;
    if !arguments.quiet && !json {
        print_totals(summary, *seconds, arguments.checksum.is_some());
    }
    let explains = arguments.limits.explain_tuning;
    if explains && !json {
        tuning_log::print_table(&summary.tuning);
    }
    let traffic = client.source_traffic();
    if !arguments.quiet && !json {
        for it in &traffic {
            let moved = human_bytes(it.bytes_received + it.bytes_sent);
            eprint_line(&format!("{moved} over {}", it.source));
        }
    }
    if json {
        let mut object = copied.as_json();
        if !traffic.is_empty() {
            object["source_addresses"] = json!(traffic);
        }
        if explains {
            object["tuning"] = tuning_log::as_json(&summary.tuning);
        }
        let object = format!("{object}\n");
        // The standard output may contain the bytes of the file.
        let is_output = arguments.names.last().is_some_and(|it| it == "-");
        if is_output { eprint_line(object.trim_end()) } else { print(&object)? }
    }
    copied.end()
}

/// A finished copy.
pub(super) struct Copied {
    pub(super) summary: CopySummary,
    pub(super) progress: Arc<CopyProgress>,
    pub(super) seconds: f64,
}

impl Copied {
    fn failure(&self) -> Option<CommandError> {
        self.summary.error().map(CommandError::from)
    }

    /// The summary as JSON.
    pub(super) fn as_json(&self) -> serde_json::Value {
        as_json(&self.summary, &self.progress, self.seconds, self.failure().as_ref())
    }

    /// The result of the command, after everything was printed.
    pub(super) fn end(&self) -> Result<(), CommandError> {
        self.failure().map_or(Ok(()), |failure| Err(failure.printed()))
    }
}

/// Copies, and prints failures.
pub(super) fn copy(client: &Client, arguments: &Copy) -> Result<Copied, CommandError> {
    let (sources, destination) = sources_and_destination(&arguments.names)?;
    let mut unlisted = None;
    let sources = &expand(client, sources, |_, error| unlisted = Some(error));
    if let Some(error) = unlisted {
        return Err(error);
    }
    let mut options = options(client, arguments)?;
    let spooled = match &**sources {
        [source] if source == "-" => Some(spool(destination, &options)?),
        _ => None,
    };
    let is_output = destination == "-";
    if is_output {
        standard_output()?;
    }
    if is_output || spooled.is_some() {
        // An output cannot be resumed, and the next standard input has other bytes under the same
        // name.
        options.journal = None;
    } else {
        interrupt::advise(if options.journal.is_some() { RESUME_IF_KEPT } else { START_AGAIN });
    }
    let resumable = options.journal.is_some();
    let progress = Arc::new(CopyProgress::default());
    if arguments.limits.explain_tuning {
        tuning_log::print_if_interrupted(&progress);
    }
    #[expect(clippy::disallowed_methods, reason = "the command prints how long it took")]
    let started = Instant::now();
    let summary = progress_bar::with_progress_bar(&progress, arguments.quiet, || {
        let progress = Arc::clone(&progress);
        if let Some(input) = &spooled {
            let path = input.path();
            return client.block_on(client.copy_from_file(&path, destination, options, progress));
        }
        let copying = client.copy(sources, &[], destination, options, progress);
        client.block_on(async {
            match arguments.third_party {
                // An interrupted copy would leave its file at the target's server, so it is cleaned
                // up.
                Some(_) => interrupt::droppable(copying, client.clean_up()).await,
                None => copying.await,
            }
        })
    })?;
    let seconds = started.elapsed().as_secs_f64();
    print_problems(&summary, resumable);
    Ok(Copied { summary, progress, seconds })
}

/// Spools the standard input as the source of a copy to `destination`.
fn spool(destination: &str, options: &CopyOptions) -> Result<SpooledInput, CommandError> {
    if destination == "-" || destination.ends_with('/') {
        let what = "the standard input has no name: name the file to write, as in URL/name";
        return Err(CommandError::usage(what));
    }
    if options.recursive || options.stager.is_some() || options.third_party.is_some() {
        let what = "the standard input is one file here: leave out -r, --stage and --third-party";
        return Err(CommandError::usage(what));
    }
    SpooledInput::take().map_err(|error| {
        let what = format!("cannot keep the standard input in TMPDIR until it ends: {error}");
        hither::Error::new(ErrorKind::of_local(&error), what).into()
    })
}

fn options(client: &Client, arguments: &Copy) -> Result<CopyOptions, CommandError> {
    let mut options = client.copy_options();
    options.recursive = arguments.recursive || arguments.archive;
    options.archive = arguments.archive;
    options.filter = Arc::new(arguments.filter.filter()?);
    if !options.recursive && !options.filter.is_empty() {
        return Err(CommandError::usage("filters choose files in directories: add -r"));
    }
    arguments.limits.set(&mut options);
    // What `auto` copies through this machine keeps to the limit.
    let is_elsewhere = matches!(arguments.third_party, Some(ThirdParty::Pull | ThirdParty::Push));
    if is_elsewhere && options.bandwidth.is_some() {
        let what = "--bwlimit limits what goes through here, and the servers copy: leave one out";
        return Err(CommandError::usage(what));
    }
    options.stager = arguments.stage.then(|| client.stager());
    options.third_party = arguments.third_party.map(|mode| client.third_party(mode));
    options.existing = match (arguments.no_clobber, arguments.update) {
        (true, _) => OverwritePolicy::Keep,
        (_, true) => OverwritePolicy::Update,
        _ => OverwritePolicy::Replace,
    };
    options.verify = match arguments.checksum.as_deref() {
        None => Verify::Automatic,
        Some("none") => Verify::Nothing,
        Some(text) if text.contains(':') => {
            Verify::Value(text.parse().map_err(hither::Error::from)?)
        }
        Some(text) => Verify::Algorithm(text.parse().map_err(hither::Error::from)?),
    };
    Ok(options)
}

/// Prints errors and notices as text.
pub(super) fn print_problems(summary: &CopySummary, resumable: bool) {
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
}

/// Prints a summary line, and the checksums if requested. If a copy transferred nothing and failed,
/// its errors suffice.
pub(super) fn print_totals(summary: &CopySummary, seconds: f64, with_checksums: bool) {
    let done = summary.files + summary.files_skipped + summary.files_deleted;
    if done == 0 && !summary.failures.is_empty() {
        return;
    }
    // A server that redirects to others sends nothing itself.
    let sources = summary.sources.iter().filter(|(_, counted)| **counted != (0, 0));
    for (server, (bytes, failures)) in sources {
        let failed = match failures {
            0 => String::new(),
            n => format!(", {} failed", counted(*n, "request")),
        };
        eprint_line(&format!("{} from {server}{failed}", human_bytes(*bytes)));
    }
    for checked in summary.checksums.iter().filter(|_| with_checksums) {
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
        n => format!(", {} skipped", counted(n, "file")),
    };
    let resumed = match summary.bytes_resumed {
        0 => String::new(),
        bytes => format!(", {} of them copied before", human_bytes(bytes)),
    };
    let deleted = match summary.files_deleted + summary.directories_deleted {
        0 => String::new(),
        n => format!(", {} deleted", counted(n, "name")),
    };
    eprint_line(&format!(
        "{}, {}{resumed}{skipped}{deleted}, in {seconds:.2} s, {}/s",
        counted(summary.files, "file"),
        human_bytes(summary.bytes),
        human_bytes(rate)
    ));
}

/// The times of the stages as JSON, in seconds.
fn stages_json(progress: &CopyProgress) -> serde_json::Value {
    let times = |it: StageTimes| {
        json!({
            "busy": it.busy.as_secs_f64(),
            "starved": it.starved.as_secs_f64(),
            "blocked": it.blocked.as_secs_f64(),
        })
    };
    let stages = progress.stages();
    json!({
        "fetch": times(stages.fetch), "verify": times(stages.verify), "write": times(stages.write),
    })
}

/// Failures as JSON.
pub(super) fn failures_json(failures: &[CopyFailure]) -> Vec<serde_json::Value> {
    let object = |it: &CopyFailure| json!({ "source": it.source, "error": CommandError::from(it.error.clone()).object() });
    failures.iter().map(object).collect()
}

pub(super) fn as_json(
    summary: &CopySummary,
    progress: &CopyProgress,
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
    let sources: Vec<_> = summary
        .sources
        .iter()
        .map(|(server, (bytes, failures))| json!({ "server": server, "bytes": bytes, "failures": failures }))
        .collect();
    let mut object = json!({
        "files": summary.files,
        "bytes": summary.bytes,
        "files_skipped": summary.files_skipped,
        "directories": summary.directories,
        "files_deleted": summary.files_deleted,
        "directories_deleted": summary.directories_deleted,
        "seconds": seconds,
        "bytes_arrived": summary.bytes_arrived,
        "bytes_resumed": summary.bytes_resumed,
        "bytes_resent": summary.bytes_resent,
        "checksums": checksums,
        "sources": sources,
        "notices": summary.notices,
        "failures": failures_json(&summary.failures),
        "stages": stages_json(progress),
    });
    if let Some(failure) = failure {
        object["error"] = failure.object();
    }
    object
}
