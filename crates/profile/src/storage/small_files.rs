//! The rates at which small files are created, looked at, opened and removed.
//!
//! Created files are on the storage at the end of the measured time: one `syncfs` for all of them,
//! as `hither cp` does it for many small files. Looking and opening come right after, so they show
//! what the kernel does with names that it knows, and where a server is asked each time, its
//! latency.

use super::workload::{Block, Done, Turns, in_threads};
use crate::profile::monotonic;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{Read, Result, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Bytes of a file.
const FILE_BYTES: u64 = 4 << 10;
/// The most files: enough for a rate, and not too many to remove.
const MAX_FILES: u64 = 10_000;
/// The longest time that the removal of the files may take; what is left goes with the directory.
const MAX_REMOVAL: Duration = Duration::from_secs(60);

/// Rates of operations on files of 4 KiB in one directory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SmallFiles {
    /// Threads that work at the same time.
    pub threads: usize,
    /// Files that were created.
    pub files: u64,
    /// Files created and written in a second, until all are on the storage.
    pub create_per_second: f64,
    /// Calls of stat(2) in a second.
    pub stat_per_second: f64,
    /// Files opened and read in a second.
    pub open_per_second: f64,
    /// Files removed in a second.
    pub remove_per_second: f64,
}

/// Measures with files in `directory`, each kind of operation for at most `time`.
pub(super) fn measure(
    directory: &Path,
    threads: usize,
    time: Duration,
    stop: &AtomicBool,
) -> Result<SmallFiles> {
    let name = |number: u64| directory.join(format!("{threads}-{number}"));
    let mut files = MAX_FILES;
    let mut rate = |time, sync: bool, work: &(dyn Fn(u64, &mut [u8]) -> Result<()> + Sync)| {
        let memory = (0..threads).map(|_| Block::new(FILE_BYTES)).collect::<Result<Vec<_>>>()?;
        let began = monotonic();
        let turns = Turns::new(time, files, stop);
        let done = in_threads(memory, |mut block| {
            let mut done = Done::default();
            while let Some(number) = turns.take() {
                work(number, block.bytes())?;
                done.operations += 1;
            }
            Ok(done)
        })?;
        if sync {
            rustix::fs::syncfs(File::open(directory)?)?;
            files = done.operations;
        }
        let seconds = (monotonic() - began).as_secs_f64();
        Ok::<_, std::io::Error>(done.operations as f64 / seconds)
    };
    let create_per_second =
        rate(time, true, &|number, block| File::create_new(name(number))?.write_all(block))?;
    let stat_per_second = rate(time, false, &|number, _| fs::metadata(name(number)).map(drop))?;
    let open_per_second =
        rate(time, false, &|number, block| File::open(name(number))?.read_exact(block))?;
    let remove_per_second = rate(MAX_REMOVAL, false, &|number, _| fs::remove_file(name(number)))?;
    Ok(SmallFiles {
        threads,
        files,
        create_per_second,
        stat_per_second,
        open_per_second,
        remove_per_second,
    })
}
