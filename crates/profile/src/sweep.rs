//! Sweeps: how settings of transfers move their rate, and what they cost the server. The axes are
//! those with which Kola, Kosar and Livny measured GridFTP and NeST in 2004.
//!
//! An experiment file names servers, and values of each axis; every combination is a *point*. A
//! *run* transfers the files of a point once, with a client that is a command of its own, so that
//! all clients are measured alike, from the start of the first process to the end of the last.
//!
//! - *Other load, caches and clocks change with time.* So rounds have every point once, each round
//!   beginning with another, and no point has all of its runs at a good time.
//! - *A client may end without an error and have copied nothing.* So the sizes of what arrived are
//!   looked at after each run, outside of its time.
//! - *Few runs do not tell how they are distributed.* So results are medians with intervals between
//!   order statistics, which hold for every distribution (`report.rs`).
//! - *Sweeps take hours.* So each run is in a journal on the disk before the next one begins, and
//!   the same command goes on after an interruption (`journal.rs`). Files lie in scratch
//!   directories at both ends, which are removed at the end, and after a kill at the next start.
//!
//! CPU time of a server comes from the kernel's counters of its processes, read before and after a
//! run. Those count in hundredths of a second: a run should take a second.

mod commands;
mod experiment;
mod journal;
mod page;
mod report;
#[cfg(test)]
mod tests;
mod transfers;

pub use experiment::{Axis, ByteSize};
pub use report::{Interval, PointReport, SweepReport};

use crate::profile::monotonic;
use experiment::Experiment;
use journal::{Journal, Record};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use transfers::Transfers;

/// A sweep that cannot be made, or did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// This file, an experiment or a journal, is refused.
    #[error("{path}: {1}", path = .0.display())]
    Refused(PathBuf, String),
    /// The machine refuses an action.
    #[error("cannot {0}: {1}")]
    Io(String, std::io::Error),
    /// A command failed, or did not do its work.
    #[error("`{0}` failed: {1}")]
    Failed(String, String),
    /// It was stopped.
    #[error("interrupted: the same command goes on")]
    Interrupted,
}

impl SweepError {
    fn io(action: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let action = format!("{action} {}", path.display());
        |error| Self::Io(action, error)
    }
}

/// A sweep, and the runs of it that are done.
#[derive(Debug)]
pub struct Sweep {
    experiment: Experiment,
    record: Record,
}

impl Sweep {
    /// Reads an experiment file and its journal, and changes nothing. `hither` is the program that
    /// copies where the file names no client.
    ///
    /// # Errors
    ///
    /// [`SweepError::Refused`], [`SweepError::Io`].
    pub fn read(file: &Path, hither: &Path, byte_size: ByteSize) -> Result<Self, SweepError> {
        let experiment = Experiment::read(file, hither, byte_size)?;
        let record = Record::read(&experiment)?;
        Ok(Self { experiment, record })
    }

    /// Makes all runs that are not done yet, and shows what is done before each. Blocks the thread.
    ///
    /// # Errors
    ///
    /// [`SweepError`]; what was done until then is in the journal.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Duration, &SweepReport),
    ) -> Result<(), SweepError> {
        let experiment = &self.experiment;
        let mut journal = Journal::open(experiment)?;
        let left: Vec<_> =
            experiment.order().filter(|it| !journal.record.done.contains(it)).collect();
        let Some(last) = left.last() else { return Ok(()) };
        let transfers = Transfers::new(experiment, &journal.record.id, stop)?;
        // A killed sweep may have left files. Those of one whose runs are all recorded are removed.
        transfers.remove()?;
        let began = monotonic();
        let mut run_all = || {
            transfers.prepare()?;
            for at in &left {
                progress(monotonic() - began, &SweepReport::new(experiment, &journal.record));
                let run = transfers.run(at.0, at.1)?;
                if at == last {
                    transfers.remove()?;
                }
                journal.add(experiment, run)?;
            }
            Ok(())
        };
        let done = run_all();
        self.record = journal.record;
        if done.is_err() {
            // If that fails, too, the first error says more, and the next start tries again.
            let _ = transfers.remove();
        }
        done
    }

    /// The results of what is done.
    #[must_use]
    pub fn report(&self) -> SweepReport {
        SweepReport::new(&self.experiment, &self.record)
    }
}
