//! Commands that run, several at a time, until they end, time out, or the sweep is stopped.
//!
//! Each is the leader of a process group: Ctrl-C in a terminal reaches only the sweep, which then
//! ends the group, so that a script leaves no client behind. The sweep waits for the end of a
//! process on its descriptor (`pidfd_open(2)`), so it notices the end immediately.

use super::SweepError;
use crate::profile::monotonic;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Maximum number of characters of a command and of its output in an error.
const MAX_SHOWN: usize = 600;

/// Limits and output of commands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits<'a> {
    /// The time limit of all commands together.
    pub(super) timeout: Duration,
    pub(super) stop: &'a AtomicBool,
    /// The file for their output.
    pub(super) output: &'a Path,
}

impl Limits<'_> {
    /// Runs one command; returns its output.
    pub(super) fn run(self, command: Vec<String>) -> Result<String, SweepError> {
        self.run_all(&[command], 1)?;
        Ok(printed(self.output))
    }

    /// Runs commands, `at_a_time` concurrently; returns their duration in seconds.
    ///
    /// # Errors
    ///
    /// A command fails, or exceeds the time limit; the others are then ended.
    pub(super) fn run_all(
        self,
        commands: &[Vec<String>],
        at_a_time: usize,
    ) -> Result<f64, SweepError> {
        File::create(self.output).map_err(SweepError::io("write", self.output))?;
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let is_set = |it: &AtomicBool| it.load(Ordering::Relaxed);
        let began = monotonic();
        let is_late = || monotonic() > began + self.timeout;
        let work = || {
            while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
                let ends = || is_set(self.stop) || is_set(&failed) || is_late();
                let what = match run_one(command, self.output, &ends) {
                    Ok(Some(status)) if status.success() => continue,
                    Ok(Some(status)) => format!("{status}: {}", last(&printed(self.output))),
                    Ok(None) if is_late() => format!("no end within {:?}", self.timeout),
                    Ok(None) => break,
                    Err(error) => error.to_string(),
                };
                failed.store(true, Ordering::Relaxed);
                return Err(SweepError::Failed(last(&command.join(" ")), what));
            }
            Ok(())
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (1..at_a_time.min(commands.len())).map(|_| scope.spawn(work)).collect();
            let own = work();
            let others = workers.into_iter().filter_map(|it| it.join().ok());
            others.chain([own]).collect()
        });
        let seconds = (monotonic() - began).as_secs_f64();
        if is_set(self.stop) {
            return Err(SweepError::Interrupted);
        }
        results.into_iter().collect::<Result<(), _>>().map(|()| seconds)
    }
}

/// Runs a command to its end; returns none if it was ended.
fn run_one(
    command: &[String],
    output: &Path,
    ends: &dyn Fn() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let out = OpenOptions::new().append(true).open(output)?;
    let mut prepared = Command::new(program);
    prepared.args(arguments).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let mut child = prepared.process_group(0).spawn()?;
    let ended = wait(&child, ends);
    if !matches!(ended, Ok(true)) {
        // The process group may have ended already.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let status = child.wait()?;
    Ok(ended?.then_some(status))
}

/// Returns true when the process has ended, false when it has to be ended.
fn wait(child: &Child, ends: &dyn Fn() -> bool) -> io::Result<bool> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    while !ends() {
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&TURN)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

fn printed(output: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(output).unwrap_or_default()).into_owned()
}

/// The last [`MAX_SHOWN`] characters of a text.
fn last(text: &str) -> String {
    let text = text.trim_end();
    let skipped = text.chars().count().saturating_sub(MAX_SHOWN);
    text.chars().skip(skipped).collect()
}
