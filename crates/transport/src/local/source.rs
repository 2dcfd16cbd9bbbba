//! A local file as a source.

use futures_core::future::BoxFuture;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{
    Clock, Endpoint, Limits, LinkEstimate, Part, PartSink, Request, ResponseMeta, Source,
};
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::context::MonotonicClock;
use crate::counters::TransferCounters;

/// Bytes that a thread reads before it delivers them. A delivery takes some 30 microseconds, and so
/// does reading 200 KB; bytes that are being read cannot be decoded yet.
const BYTES_TOGETHER: u64 = 512 << 10;

/// A local file.
#[derive(Debug)]
pub struct LocalSource {
    path: PathBuf,
    file: Arc<File>,
    size: u64,
    /// Time of the last change when the file was opened.
    modified: Option<SystemTime>,
    counters: Arc<TransferCounters>,
    clock: MonotonicClock,
}

impl LocalSource {
    /// Opens `path`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`], [`ErrorKind::PermissionDenied`], [`ErrorKind::Local`];
    /// [`ErrorKind::Invalid`] for anything but a regular file; [`ErrorKind::Unsupported`] for one
    /// whose size the kernel does not state.
    pub fn open(path: &Path, counters: Arc<TransferCounters>) -> Result<Self> {
        let failed = |error: std::io::Error| {
            let what = format!("cannot open {}: {error}", path.display());
            Error::new(ErrorKind::of_local(&error), what)
        };
        // Opening a pipe would wait for its writer, so the type is checked first.
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("{} is not a regular file", path.display()),
            ));
        }
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        // The kernel states a size of 0 for files that it generates, as in `/proc`.
        if metadata.len() == 0 && file.read_at(&mut [0], 0).is_ok_and(|read| read > 0) {
            let what = format!(
                "{} has bytes although its size is said to be 0: copy what a program prints of it",
                path.display()
            );
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            size: metadata.len(),
            modified: metadata.modified().ok(),
            counters,
            clock: MonotonicClock::start(),
        })
    }

    /// The size when the file was opened, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads all of `ranges`.
    fn read(file: &File, ranges: &[Range<u64>]) -> std::io::Result<Vec<Part>> {
        let read = |range: &Range<u64>| {
            let len = usize::try_from(range.end - range.start)
                .map_err(|_| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
            let mut buffer = vec![0; len];
            file.read_exact_at(&mut buffer, range.start)?;
            Ok(Part { offset: range.start, bytes: buffer.into() })
        };
        ranges.iter().map(read).collect()
    }

    /// Fails if the file was written to since it was opened. A file that was replaced is still read
    /// in its old version.
    fn check_version(&self) -> Result<()> {
        let same = |now: Metadata| now.len() == self.size && now.modified().ok() == self.modified;
        if self.file.metadata().is_ok_and(same) {
            return Ok(());
        }
        let what = format!("{} has changed since it was opened", self.name());
        Err(Error::new(ErrorKind::Changed, what))
    }

    /// Groups `ranges` into runs of at most [`BYTES_TOGETHER`], with one range at least.
    fn runs(ranges: Vec<Range<u64>>) -> Vec<Vec<Range<u64>>> {
        let mut runs: Vec<Vec<Range<u64>>> = Vec::new();
        let mut bytes = u64::MAX;
        for range in ranges {
            let len = hither_core::range::len(&range);
            bytes = bytes.saturating_add(len);
            match runs.last_mut() {
                Some(run) if bytes <= BYTES_TOGETHER => run.push(range),
                _ => {
                    bytes = len;
                    runs.push(vec![range]);
                }
            }
        }
        runs
    }
}

impl Source for LocalSource {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn limits(&self) -> Limits {
        Limits { max_total_bytes: 8 << 20, ..Limits::unlimited() }
    }

    fn link(&self) -> LinkEstimate {
        LinkEstimate::default()
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::default()
    }

    fn max_connections(&self) -> usize {
        2
    }

    fn idle_connections(&self) -> usize {
        2
    }

    fn preconnect(&self, _connections: usize) {}

    fn fetch(&self, request: Request, mut sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        Box::pin(async move {
            let size = self.size;
            let mut ranges = request.ranges;
            if request.tail > 0 {
                let tail = size.saturating_sub(request.tail)..size;
                let head: Vec<_> =
                    ranges.iter().map(|r| r.start.min(tail.start)..r.end.min(tail.start)).collect();
                ranges = hither_core::range::merged(&head, 0);
                ranges.push(tail);
            }
            if let Some(beyond) = ranges.iter().find(|range| range.end > size) {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "{} has {size} bytes, but bytes {}..{} were requested: it is truncated",
                        self.name(),
                        beyond.start,
                        beyond.end
                    ),
                ));
            }
            let round_trip = self.counters.next_round_trip();
            self.counters.sent(round_trip, hither_core::range::total_bytes(&ranges));
            for run in Self::runs(ranges) {
                let file = Arc::clone(&self.file);
                let read = tokio::task::spawn_blocking(move || Self::read(&file, &run)).await;
                // A file that has become shorter has changed.
                self.check_version()?;
                let parts =
                    read.map_err(std::io::Error::other).and_then(|read| read).map_err(|error| {
                        Error::new(
                            ErrorKind::Local,
                            format!("cannot read {}: {error}", self.name()),
                        )
                        .with_source(error)
                    })?;
                self.counters.answered(round_trip);
                for part in parts {
                    self.counters.payload(part.bytes.len() as u64);
                    sink(part);
                }
            }
            Ok(ResponseMeta { size: Some(size), ..ResponseMeta::default() })
        })
    }
}
