//! Sweeps: the rate of transfers by their settings, and their cost at the server. The axes are
//! those with which Kola, Kosar and Livny measured GridFTP and NeST in 2004.
//!
//! An experiment file names servers, and values of each axis; every combination is a *point*. A
//! *run* transfers the files of a point once. The client is a separate command, so all clients are
//! measured in the same way, from the start of the first process to the end of the last.
//!
//! - *Other load, caches and clocks change with time.* So each round has every point once, and
//!   starts with a different one: no point has all of its runs at a favourable time.
//! - *A client may succeed without copying anything.* So the sizes of the copied files are checked
//!   after each run, outside of its measured time.
//! - *A few runs do not show their distribution.* So results are medians with intervals between
//!   order statistics, which hold for every distribution (`report.rs`).
//! - *Sweeps take hours.* So each run is written to a journal on disk before the next one starts,
//!   and the same command continues after an interruption (`journal.rs`). Files lie in scratch
//!   directories at both ends, which are removed at the end, or at the next start after a kill.
//!
//! The CPU time of a server comes from the kernel's counters of its processes, read before and
//! after a run. They count in hundredths of a second, so a run should take at least a second.

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

/// The reason for which a sweep cannot be made, or did not finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// A file, an experiment or a journal, is invalid.
    #[error("{path}: {1}", path = .0.display())]
    Refused(PathBuf, String),
    /// An action failed on this machine.
    #[error("cannot {0}: {1}")]
    Io(String, std::io::Error),
    /// A command failed, or did not do its work.
    #[error("`{0}` failed: {1}")]
    Failed(String, String),
    /// The sweep was stopped.
    #[error("interrupted: the same command goes on")]
    Interrupted,
}

impl SweepError {
    fn io(action: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let action = format!("{action} {}", path.display());
        |error| Self::Io(action, error)
    }
}

/// A sweep, and its completed runs.
#[derive(Debug)]
pub struct Sweep {
    experiment: Experiment,
    record: Record,
}

impl Sweep {
    /// Reads an experiment file and its journal, and writes nothing. `hither` is the program that
    /// copies for servers without a client in the file.
    ///
    /// # Errors
    ///
    /// [`SweepError::Refused`], [`SweepError::Io`].
    pub fn read(file: &Path, hither: &Path, byte_size: ByteSize) -> Result<Self, SweepError> {
        let experiment = Experiment::read(file, hither, byte_size)?;
        let record = Record::read(&experiment)?;
        Ok(Self { experiment, record })
    }

    /// Makes all missing runs, and reports the progress before each. Blocks the thread.
    ///
    /// # Errors
    ///
    /// [`SweepError`]; completed runs are in the journal.
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
        // A killed sweep may have left files. One whose runs are all recorded has not: files are
        // removed before the last run is recorded.
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
            // If this also fails, the first error is more useful, and the next start tries again.
            let _ = transfers.remove();
        }
        done
    }

    /// The results of the completed runs.
    #[must_use]
    pub fn report(&self) -> SweepReport {
        SweepReport::new(&self.experiment, &self.record)
    }
}
