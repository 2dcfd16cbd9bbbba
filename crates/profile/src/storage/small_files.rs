//! The rates of creating, examining, opening and removing small files.
//!
//! Created files are on the storage at the end of the measured time: one `syncfs` for all of them,
//! as `hither cp` does for many small files. The other operations follow directly. So they show the
//! rate of the kernel for names in its caches and, if each operation is a request to a server, the
//! latency of the server.

use super::workload::{Block, Done, Turns, in_threads};
use crate::profile::monotonic;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{Read, Result, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Bytes per file.
const FILE_BYTES: u64 = 4 << 10;
/// Maximum number of files: enough for a rate, and quick to remove.
const MAX_FILES: u64 = 10_000;
/// Maximum time for the removal of the files; the remaining ones are removed with the directory.
const MAX_REMOVAL: Duration = Duration::from_secs(60);

/// Rates of operations on files of 4 KiB in one directory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SmallFiles {
    /// Number of threads.
    pub threads: usize,
    /// Number of created files.
    pub files: u64,
    /// Files created and written per second, including the time until all are on the storage.
    pub create_per_second: f64,
    /// Calls of stat(2) per second.
    pub stat_per_second: f64,
    /// Files opened and read per second.
    pub open_per_second: f64,
    /// Files removed per second.
    pub remove_per_second: f64,
}

/// Measures with files in `directory`, each operation for at most `time`.
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
