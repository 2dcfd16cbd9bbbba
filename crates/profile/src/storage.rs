//! A profile of storage: the rates of the layer on which a directory lies, by block size, requests
//! in flight and threads.
//!
//! A file is laid out in a scratch directory, and cases are measured on it one after the other
//! (`case.rs`); then operations on small files are measured. The time is bounded: each case has an
//! equal share of the remaining time, so a case that ends early leaves its time to others. Three
//! effects would show rates that the storage does not have, and are avoided:
//!
//! - *Pages that are already in memory.* Before each buffered read the file is written back and
//!   dropped from the page cache, its remaining share of the cache is measured, and no block is
//!   read twice. Lower caches, such as those of a server, cannot be dropped.
//! - *Writes that are only in memory.* The time of fdatasync(2) is included. Because that time is
//!   not known beforehand, buffered writes are made in rounds, each twice as large as the previous
//!   one, while there is time; the last round is the result.
//! - *Blocks that were never written*, which some storage returns without reading. So the whole
//!   file is written first, and on the device below only the ranges of the file are read.

mod case;
mod kernel_calls;
mod knee;
mod layer;
mod report;
mod ring;
pub(crate) mod scratch;
mod small_files;
mod test_file;
mod workload;

pub use case::{Case, Direction, Engine, Pattern, Series};
pub use knee::Knee;
pub use layer::Layer;
pub use report::{CopyWrites, KneeOfSeries, Measurement, StorageProfile};
pub use small_files::SmallFiles;

use crate::profile::monotonic;
use case::{Abilities, plan};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use test_file::{RESERVED_BYTES, TestFile};

/// Minimum size in bytes of a file for measurements.
pub const MIN_FILE_BYTES: u64 = 16_000_000;
/// The file is laid out in at most one of this many parts of the time.
const LAYOUT_SHARE: u32 = 6;
/// Minimum time of a case, if earlier cases have taken more than their shares.
const MIN_TIME: Duration = Duration::from_millis(20);
const SMALL_FILE_THREADS: [usize; 2] = [1, 8];
/// Number of operations on small files, each of which takes as much time as a case.
const SMALL_FILE_CASES: u32 = 4;
/// Maximum share of a file in the page cache, in percent, for a read to be cold.
const MAX_COLD_PERCENT: f64 = 1.0;

/// The storage to profile, and for how long.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StorageOptions {
    /// A directory, or a block device, which is opened only for reading.
    pub path: PathBuf,
    /// The time for all measurements.
    pub duration: Duration,
    /// The size of the file; none for a share of the free space and of the memory.
    pub file_bytes: Option<u64>,
    /// Bytes per write of a copy whose bottleneck is the disk; the rate of such writes is reported.
    pub copy_block_bytes: u64,
    /// The number of workers of that copy.
    pub copy_workers: usize,
}

impl StorageOptions {
    /// Options for a profile of the storage at `path`.
    #[must_use]
    pub fn new(path: PathBuf, duration: Duration) -> Self {
        Self { path, duration, file_bytes: None, copy_block_bytes: 0, copy_workers: 0 }
    }
}

/// The progress of a profile.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct StorageProgress {
    /// The time since the start.
    pub elapsed: Duration,
    /// Number of measured cases.
    pub done: usize,
    /// Number of all cases.
    pub all: usize,
}

/// The reason for which storage cannot be profiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The path does not exist.
    #[error("{0} does not exist")]
    NotFound(PathBuf),
    /// The path is neither a directory nor a block device.
    #[error("{0} is neither a directory nor a block device")]
    NotADirectory(PathBuf),
    /// The user may not write to the directory, or not read the device.
    #[error("{path} cannot be measured: {error}; it takes a directory that you may write to")]
    Refused {
        /// The directory.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// There is not enough free space.
    #[error(
        "{path} has room for {free} bytes, and a file of {needed} takes {RESERVED_BYTES} more: \
         free some, or set a smaller size, {MIN_FILE_BYTES} at least"
    )]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// The size of the file.
        needed: u64,
        /// Bytes that the user may write.
        free: u64,
    },
    /// A request failed.
    #[error("{path}: cannot {action}: {error}")]
    Io {
        /// The directory or device.
        path: PathBuf,
        /// The request that failed.
        action: String,
        /// The reason.
        error: std::io::Error,
    },
}

/// Measures the storage at a path until all cases are done, or `stop` is set. Blocks the thread.
///
/// # Errors
///
/// [`StorageError`]; nothing is left in the directory in this case, too.
pub fn profile_storage(
    options: &StorageOptions,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(StorageProgress),
) -> Result<StorageProfile, StorageError> {
    let began = monotonic();
    let path = options.path.as_path();
    let found = std::fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => StorageError::NotFound(path.to_owned()),
        _ => failed(path, "look at it")(error),
    })?;
    let layer = Layer::of(path).map_err(failed(path, "find its file system"))?;
    let mut notes = Vec::new();
    let file = if found.is_dir() {
        let time = options.duration / LAYOUT_SHARE;
        TestFile::lay_out(path, options.file_bytes, time, &layer, &mut notes, stop)?
    } else if found.file_type().is_block_device() {
        TestFile::device(path)?
    } else {
        return Err(StorageError::NotADirectory(path.to_owned()));
    };
    let io_uring = ring::try_ring();
    if let Err(error) = &io_uring {
        notes.push(format!("io_uring is not allowed ({error}): threads were used instead"));
    }
    let mut profile = StorageProfile {
        path: path.display().to_string(),
        layer,
        seconds: 0.0,
        file_bytes: file.bytes,
        direct: file.direct.is_some(),
        io_uring: io_uring.is_ok(),
        cases: Vec::new(),
        knees: Vec::new(),
        small_files: Vec::new(),
        copies: CopyWrites {
            block_bytes: options.copy_block_bytes,
            in_flight: options.copy_workers,
            ..CopyWrites::default()
        },
        notes,
    };
    let until = began + options.duration;
    measure(&file, path, &mut profile, until, stop, &mut |done, all| {
        progress(StorageProgress { elapsed: monotonic() - began, done, all });
    })?;
    profile.conclude();
    drop(file);
    profile.seconds = (monotonic() - began).as_secs_f64();
    Ok(profile)
}

/// Measures all cases, and small files, each for an equal share of the remaining time.
fn measure(
    file: &TestFile,
    path: &Path,
    profile: &mut StorageProfile,
    until: Duration,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), StorageError> {
    let cases = plan(Abilities {
        direct: profile.direct,
        io_uring: profile.io_uring,
        file: file.directory().is_some(),
        device: file.below.is_some(),
    });
    let small: &[usize] = file.directory().map_or(&[], |_| &SMALL_FILE_THREADS);
    let all = cases.len() + small.len();
    let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let mut shares = count(cases.len()) + SMALL_FILE_CASES * count(small.len());
    for (number, case) in cases.into_iter().enumerate() {
        progress(number, all);
        let time = MIN_TIME.max(until.saturating_sub(monotonic()) / shares);
        let action = format!("{:?} in {:?}", case.direction, case.series).to_lowercase();
        let measured = file.run(case, time, stop).map_err(failed(path, action))?;
        if measured.operations > 0 {
            profile.cases.push(measured);
        }
        shares -= 1;
    }
    for (threads, directory) in small.iter().zip(std::iter::repeat(file.directory()).flatten()) {
        progress(all - 1, all);
        let time = MIN_TIME.max(until.saturating_sub(monotonic()) / shares);
        let measured = small_files::measure(directory, *threads, time, stop);
        profile.small_files.push(measured.map_err(failed(path, "create small files"))?);
        shares -= SMALL_FILE_CASES;
    }
    let is_warm = |it: &Measurement| it.cached_percent.is_some_and(|it| it > MAX_COLD_PERCENT);
    if profile.cases.iter().any(is_warm) {
        let what = "the page cache could not be emptied: buffered reads were warm";
        profile.notes.push(what.to_owned());
    }
    if stop.load(Ordering::Relaxed) {
        profile.small_files.clear();
        profile.notes.push("it was interrupted: not everything was measured".to_owned());
    }
    Ok(())
}

/// Makes the error of an action.
fn failed(path: &Path, action: impl Into<String>) -> impl FnOnce(std::io::Error) -> StorageError {
    let action = action.into();
    move |error| StorageError::Io { path: path.to_owned(), action, error }
}
