//! The file on which cases are measured, in its scratch directory; or a device.

use super::case::{Case, Direction, Engine, Pattern, Series};
use super::kernel_calls::{cached_share, extents};
use super::layer::Layer;
use super::report::Measurement;
use super::scratch::{Scratch, remove_left_over};
use super::workload::{ALIGNMENT, Block, Done, Spans, Workload};
use super::{MIN_FILE_BYTES, StorageError};
use crate::profile::monotonic;
use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate, statvfs};
use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum default size of the file, in bytes.
const DEFAULT_MAX_BYTES: u64 = 4 << 30;
/// The default size is the free space, or the memory, divided by this number.
const DEFAULT_SHARE: u64 = 8;
/// Space for small files, and for other writers, in bytes.
pub(super) const RESERVED_BYTES: u64 = 64 << 20;
/// Bytes per write when the file is laid out.
const LAYOUT_BLOCK_BYTES: u64 = 1 << 20;
const LAYOUT_THREADS: usize = 2;
/// Bytes written between two checks of the time.
const LAYOUT_STEP_BYTES: u64 = 16 << 20;
/// Number of blocks in the first round of buffered writes.
const FIRST_ROUND: u64 = 16;
/// Maximum time of a round, whose duration is not known beforehand.
const MAX_ROUND: Duration = Duration::from_secs(3600);

/// A file, or a device.
#[derive(Debug)]
pub(super) struct TestFile {
    /// The file through the page cache; none for a device.
    buffered: Option<File>,
    /// The file without the page cache; none if the layer refuses that.
    pub(super) direct: Option<File>,
    spans: Spans,
    pub(super) bytes: u64,
    /// The device below, and the ranges of the file on it.
    pub(super) below: Option<(File, Spans)>,
    scratch: Option<Scratch>,
}

impl TestFile {
    /// Opens a block device, only for reading.
    pub(super) fn device(path: &Path) -> std::result::Result<Self, StorageError> {
        let refused = |error| StorageError::Refused { path: path.to_owned(), error };
        let mut device = open_direct(path, false).map_err(refused)?;
        let bytes = device.seek(SeekFrom::End(0)).map_err(refused)?;
        let spans = Spans(vec![0..bytes]);
        Ok(Self { buffered: None, direct: Some(device), spans, bytes, below: None, scratch: None })
    }

    /// Creates a scratch directory in `path`, and a file in it, with fewer bytes than `wanted` if
    /// these cannot be written in `time`.
    pub(super) fn lay_out(
        path: &Path,
        wanted: Option<u64>,
        time: Duration,
        layer: &Layer,
        notes: &mut Vec<String>,
        stop: &AtomicBool,
    ) -> std::result::Result<Self, StorageError> {
        let refused = |error| StorageError::Refused { path: path.to_owned(), error };
        if remove_left_over(path).map_err(refused)? > 0 {
            notes.push("removed what a killed profile had left".to_owned());
        }
        let free = free_bytes(path).map_err(refused)?;
        let wanted = wanted.unwrap_or_else(|| default_bytes(free)) / LAYOUT_BLOCK_BYTES;
        let wanted = wanted * LAYOUT_BLOCK_BYTES;
        let no_space = || StorageError::NoSpace { path: path.to_owned(), needed: wanted, free };
        if wanted.saturating_add(RESERVED_BYTES) > free {
            return Err(no_space());
        }
        let scratch = Scratch::create(path).map_err(refused)?;
        let name = scratch.path().join("data");
        let mut new = OpenOptions::new();
        let file = new.read(true).write(true).create_new(true).open(&name).map_err(refused)?;
        let direct = open_direct(&name, true).and_then(tried);
        if let Err(error) = &direct {
            notes.push(format!(
                "{} refuses direct requests ({error}): all went through the page cache",
                layer.file_system
            ));
        }
        let filled = fill(&file, direct.as_ref().ok(), wanted, monotonic() + time, stop);
        let bytes = filled.map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => no_space(),
            _ => super::failed(path, "write the file")(error),
        })?;
        if bytes < wanted && !stop.load(Ordering::Relaxed) {
            notes.push(format!(
                "the file has {bytes} bytes instead of {wanted}, which would take too much of the time"
            ));
        }
        let below = below(&file, layer, notes);
        if !matches!(layer.kind, "disk" | "memory") || layer.source.starts_with("/dev/loop") {
            notes.push("caches of what lies below this layer were not dropped".to_owned());
        }
        let spans = Spans(vec![0..bytes]);
        let scratch = Some(scratch);
        Ok(Self { buffered: Some(file), direct: direct.ok(), spans, bytes, below, scratch })
    }

    /// The directory for small files; none for a device.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.scratch.as_ref().map(Scratch::path)
    }

    /// Measures one case for at most about `time`.
    pub(super) fn run(&self, case: Case, time: Duration, stop: &AtomicBool) -> Result<Measurement> {
        let (file, spans) = match &self.below {
            Some((device, spans)) if case.series == Series::Device => (Some(device), spans),
            _ if case.direct => (self.direct.as_ref(), &self.spans),
            _ => (self.buffered.as_ref(), &self.spans),
        };
        let file = file.ok_or(ErrorKind::Unsupported)?;
        let work = Workload::new(case, file, spans);
        if case.direct {
            return Ok(Measurement::new(case, work.run(time, u64::MAX, stop)?, None));
        }
        let blocks = spans.blocks(case.block_bytes);
        let (done, cached) = if case.direction == Direction::Read {
            fadvise(file, 0, None, Advice::DontNeed)?;
            let cached = cached_share(file, self.bytes).ok().map(|share| 100.0 * share);
            (work.run(time, blocks, stop)?, cached)
        } else {
            (in_rounds(&work, time, blocks, stop)?, None)
        };
        // Direct writes would have to look up these pages.
        fadvise(file, 0, None, Advice::DontNeed)?;
        Ok(Measurement::new(case, done, cached))
    }
}

/// Writes in rounds, each twice as large as the previous one; returns the last.
fn in_rounds(work: &Workload<'_>, time: Duration, most: u64, stop: &AtomicBool) -> Result<Done> {
    let began = monotonic();
    let mut blocks = FIRST_ROUND.min(most);
    loop {
        // Writes to cached pages would be faster.
        fadvise(work.file, 0, None, Advice::DontNeed)?;
        let done = work.run(MAX_ROUND, blocks, stop)?;
        let next = Duration::from_secs_f64(2.0 * done.seconds);
        if blocks == most || stop.load(Ordering::Relaxed) || monotonic() - began + next > time {
            return Ok(done);
        }
        blocks = most.min(2 * blocks);
    }
}

/// Writes up to `wanted` bytes until the time is over; returns the number of written bytes, at
/// least one step.
fn fill(
    file: &File,
    direct: Option<&File>,
    wanted: u64,
    until: Duration,
    stop: &AtomicBool,
) -> Result<u64> {
    match fallocate(file, FallocateFlags::empty(), 0, wanted).map_err(Error::from) {
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            return Err(error);
        }
        // Some file systems do not support it.
        _ => {}
    }
    let mut written = 0;
    while written < wanted && !stop.load(Ordering::Relaxed) {
        let spans = Spans(vec![written..wanted.min(written + LAYOUT_STEP_BYTES)]);
        let case = Case {
            series: Series::BlockSize,
            engine: Engine::Threads,
            direct: direct.is_some(),
            direction: Direction::Write,
            pattern: Pattern::Sequential,
            block_bytes: LAYOUT_BLOCK_BYTES,
            in_flight: LAYOUT_THREADS,
        };
        let blocks = spans.blocks(LAYOUT_BLOCK_BYTES);
        let work = Workload::new(case, direct.unwrap_or(file), &spans);
        written += work.run(MAX_ROUND, blocks, stop)?.bytes;
        if monotonic() > until {
            break;
        }
    }
    file.set_len(written)?;
    file.sync_all()?;
    Ok(written)
}

/// The device below a file, and the ranges of the file on it; none if these cannot be read.
fn below(file: &File, layer: &Layer, notes: &mut Vec<String>) -> Option<(File, Spans)> {
    let device = layer.device.as_ref().filter(|_| layer.kind == "disk")?;
    let spans = Spans(extents(file).ok()?);
    match open_direct(device, false) {
        Ok(opened) => (spans.blocks(LAYOUT_BLOCK_BYTES) > 0).then_some((opened, spans)),
        Err(error) => {
            notes.push(format!("{} was not read itself: {error}", device.display()));
            None
        }
    }
}

fn open_direct(path: &Path, write: bool) -> Result<File> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)
}

/// Tests if a file accepts direct requests: some layers refuse them only at the first write.
fn tried(file: File) -> Result<File> {
    file.write_at(Block::new(ALIGNMENT as u64)?.bytes(), 0)?;
    Ok(file)
}

/// The bytes that the user may write; some layers do not report them.
fn free_bytes(path: &Path) -> Result<u64> {
    let room = statvfs(path)?;
    Ok(if room.f_blocks == 0 { u64::MAX } else { room.f_bavail.saturating_mul(room.f_frsize) })
}

fn default_bytes(free: u64) -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").ok();
    let kilobytes = memory.and_then(|it| it.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    let memory = kilobytes.map_or(u64::MAX, |it| it << 10);
    let share = free.min(memory) / DEFAULT_SHARE;
    share.clamp(MIN_FILE_BYTES, DEFAULT_MAX_BYTES)
}
