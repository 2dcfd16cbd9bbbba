//! `hither profile`: profiles of a server's time, of storage, and of a path.

mod network;
mod storage;
pub(super) mod sweep;

use crate::arguments::{GlobalArgs, Profile, ProfileOf};
use crate::exit::CommandError;
use crate::interrupt;
use crate::output::print;
use hither::{Error, ErrorKind};
use hither_profile::{Options, Profiler, Progress, Target};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const DEFAULT_TIME: Duration = Duration::from_secs(60);
const ENDS: &str = "Ctrl-C ends it early";
const BEFORE_SHOWING: Duration = Duration::from_secs(1);

pub(super) fn run(request: &Profile, common: &GlobalArgs) -> Result<(), CommandError> {
    let json = common.json;
    match &request.of {
        Some(ProfileOf::Storage(request)) => return storage::run(request, json),
        Some(ProfileOf::Network(request)) => return network::run(request, common),
        None => {}
    }
    let (stopper, stop) = mpsc::channel();
    interrupt::handle(move || {
        // The profile may have ended already.
        let _ = stopper.send(());
    });
    let profiler = Profiler::prepare();
    let mut child = match request.command.split_first() {
        Some((program, arguments)) => Some(start(program, arguments, json)?),
        None => None,
    };
    let target = match (&child, request.pid, &request.unit) {
        (Some(child), ..) => Target::Process(child.0.id()),
        (None, Some(process), _) => Target::Process(process),
        (None, None, Some(unit)) => Target::Unit(unit.clone()),
        (None, None, None) => Target::Machine,
    };
    let mut options = Options::new(target);
    options.duration = request.seconds.map(Duration::from_secs_f64);
    if child.is_none() {
        options.duration = options.duration.or(Some(DEFAULT_TIME));
    }
    options.bytes = request.bytes;
    let bar = progress_line();
    let total = options.duration.map(|it| format!(" of {} s", it.as_secs())).unwrap_or_default();
    let profile = profiler
        .run(options, &stop, &mut |now| {
            let Progress { elapsed, samples, .. } = now;
            let how_far =
                || format!("profiling: {} s{total}, {samples} samples; {ENDS}", elapsed.as_secs());
            show(&bar, elapsed, how_far);
            child.as_mut().is_none_or(Running::goes_on)
        })
        .map_err(|error| Error::new(ErrorKind::NotFound, error.to_string()))?;
    bar.finish_and_clear();
    drop(child);
    write(request.html.as_deref(), || profile.to_html())?;
    write(request.folded.as_deref(), || profile.to_folded())?;
    let object = || serde_json::to_string(&profile).map_err(std::io::Error::from);
    Ok(print(&if json { object()? + "\n" } else { profile.to_text() })?)
}

/// A progress line for a terminal, hidden until it has a text.
pub(super) fn progress_line() -> ProgressBar {
    let bar = ProgressBar::hidden();
    if stderr().is_terminal() {
        bar.set_style(
            ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
    }
    bar
}

/// Shows the progress of a command on a terminal, `elapsed` after its start.
pub(super) fn show(bar: &ProgressBar, elapsed: Duration, how_far: impl FnOnce() -> String) {
    if elapsed < BEFORE_SHOWING || !stderr().is_terminal() {
        return;
    }
    if bar.is_hidden() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    bar.set_message(how_far());
}

/// A running command, which is ended on drop.
#[derive(Debug)]
struct Running(Child);

impl Running {
    fn goes_on(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.goes_on() {
            let id = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
            // The command may have ended already.
            let _ = id.map(|id| kill_process(id, Signal::TERM));
            let _ = self.0.wait();
        }
    }
}

/// Starts the command. With `--json`, its output goes to the standard error.
fn start(program: &OsString, arguments: &[OsString], json: bool) -> Result<Running, CommandError> {
    let mut command = Command::new(program);
    command.args(arguments);
    if json {
        command.stdout(Stdio::from(stderr()));
    }
    let started = command.spawn();
    let failed = |error| CommandError::local(format!("cannot run {}", program.display()), error);
    started.map(Running).map_err(failed)
}

/// Writes a requested file.
pub(super) fn write(
    path: Option<&Path>,
    content: impl FnOnce() -> String,
) -> Result<(), CommandError> {
    let Some(path) = path else { return Ok(()) };
    let failed = |error| CommandError::local(format!("cannot write {}", path.display()), error);
    std::fs::write(path, content()).map_err(failed)
}
