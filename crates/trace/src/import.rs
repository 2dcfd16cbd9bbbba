//! Traces imported from recordings of other programs.
//!
//! An importer takes one line at a time and may return a read. Lines that it does not understand
//! are counted and skipped, because recordings come from programs that may be killed, from several
//! threads at once, and in unknown versions. Recordings are not trusted: the length of a line is
//! bounded, and so are the tables of open files.
//!
//! Times are those of the recording, usually since 1970. Recordings do not state whether a read
//! found its bytes in a cache; all reads count as misses.

mod darshan;
mod lines;
mod strace;
mod xrdrecord;

use crate::{CacheStatus, ReadEvent, ReadTimes, TraceWriter};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::unique_partial_name;
use lines::Lines;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufWriter};
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

/// The program that wrote a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportFormat {
    /// CSV of `XrdClRecorder`, a plug-in of the `XRootD` client; `xrdreplay` reads it.
    Xrdrecord,
    /// Output of `strace -ttt -T`, with or without `-f` and `-y`.
    Strace,
    /// Output of `darshan-dxt-parser`.
    Darshan,
}

impl FromStr for ImportFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "xrdrecord" => Ok(Self::Xrdrecord),
            "strace" => Ok(Self::Strace),
            "darshan" => Ok(Self::Darshan),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!("unknown format {text:?}, expected xrdrecord, strace or darshan"),
            )),
        }
    }
}

/// The result of an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ImportSummary {
    /// Reads in the trace.
    pub reads: u64,
    /// Files that were read.
    pub files: u64,
    /// Lines of the recording.
    pub lines: u64,
    /// Lines that were not understood, were too long, or read files of unknown names.
    pub lines_skipped: u64,
}

/// A read in a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Read {
    name: String,
    thread: u32,
    ranges: Vec<Range<u64>>,
    times: ReadTimes,
}

/// The meaning of a line.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// A read of a known file.
    Read(Read),
    /// A line without a read.
    Other,
    /// A line that was not understood.
    Unknown,
}

/// Returns a URL without secrets.
pub type Redact = fn(&str) -> String;

/// An importer of one format.
trait Importer {
    /// Parses the next line, without its line end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a recording that would need too much memory.
    fn line(&mut self, line: &str) -> Result<Line>;
}

/// Converts the recording `input` to a trace at `path`. Imports only files with `only` in their
/// names; all if it is empty. URLs are stored as `redact` returns them. The trace gets its name
/// once it is complete.
///
/// # Errors
///
/// [`ErrorKind::Local`] if the recording cannot be read or the trace cannot be written,
/// [`ErrorKind::Unsupported`] for a recording that would need too much memory,
/// [`ErrorKind::Corrupt`] for a recording in which no line is understood.
pub fn import(
    format: ImportFormat,
    input: impl BufRead,
    only: &str,
    path: &Path,
    redact: Redact,
) -> Result<ImportSummary> {
    let failed = |error: io::Error| {
        Error::new(ErrorKind::Local, format!("cannot write {}: {error}", path.display()))
    };
    // Nobody can have put a file or a link under this name.
    let part = path.with_file_name(unique_partial_name(path));
    let output = BufWriter::new(File::create_new(&part).map_err(failed)?);
    let summary = TraceWriter::new(output).map_err(failed).and_then(|mut writer| {
        let summary = import_to(format, input, only, &mut writer, redact)?;
        writer.flush().map_err(failed)?;
        Ok(summary)
    });
    match summary {
        Ok(_) => std::fs::rename(&part, path).map_err(failed)?,
        // Removes the incomplete trace. A failure has no remedy.
        Err(_) => drop(std::fs::remove_file(&part)),
    }
    summary
}

fn import_to<W: io::Write>(
    format: ImportFormat,
    input: impl BufRead,
    only: &str,
    writer: &mut TraceWriter<W>,
    redact: Redact,
) -> Result<ImportSummary> {
    let local = |what: &str, error: io::Error| {
        Error::new(ErrorKind::Local, format!("cannot {what}: {error}"))
    };
    let mut importer: Box<dyn Importer> = match format {
        ImportFormat::Xrdrecord => Box::new(xrdrecord::Xrdrecord::new(redact)),
        ImportFormat::Strace => Box::new(strace::Strace::default()),
        ImportFormat::Darshan => Box::new(darshan::Darshan::default()),
    };
    let mut summary = ImportSummary::default();
    let mut lines = Lines::new(input);
    while let Some(line) = lines.next().map_err(|error| local("read the record", error))? {
        summary.lines += 1;
        let read = match line.map(|line| importer.line(line)).transpose()? {
            Some(Line::Read(read)) => read,
            Some(Line::Other) => continue,
            Some(Line::Unknown) | None => {
                summary.lines_skipped += 1;
                continue;
            }
        };
        if !read.name.contains(only) {
            continue;
        }
        let written = writer.number(&read.name).and_then(|file| {
            summary.files = summary.files.max(u64::from(file) + 1);
            writer.record(&ReadEvent {
                file,
                thread: read.thread,
                ranges: &read.ranges,
                times: read.times,
                found: CacheStatus::Miss,
                absent_bytes: hither_core::range::total_bytes(&read.ranges),
            })
        });
        written.map_err(|error| local("write the trace", error))?;
        summary.reads += 1;
    }
    if summary.lines > 0 && summary.lines == summary.lines_skipped {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("none of the {} lines of the record was understood", summary.lines),
        ));
    }
    Ok(summary)
}

#[cfg(test)]
mod tests;
