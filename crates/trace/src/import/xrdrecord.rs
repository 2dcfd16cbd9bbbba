//! Recordings of `XrdClRecorder`, a plug-in of the `XRootD` client.
//!
//! One line per operation, written when it ends (`XrdClAction.hh` of `XRootD` 5):
//!
//! ```text
//! "id","Open","start","URL;flags;mode;timeout","stop","status",""
//! "id","Read","start","offset;size;timeout","stop","status","length"
//! "id","PgRead","start","offset;size;timeout","stop","status","length;repaired"
//! "id","VectorRead","start","offset;size;offset;size;...;timeout","stop","status","..."
//! ```
//!
//! Some versions write the same without quotes. A comma in a URL or in the text of an error then
//! looks like the end of a field; the fields after a URL have known formats, which determine its
//! end. Times are in seconds since 1970. The id is the address of the file object, so it is reused
//! after a close.

use super::{Importer, Line, Read, Redact};
use crate::ReadTimes;
use hither_core::error::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

/// Maximum number of files that are open at the same time.
const MAX_OPEN: usize = 1 << 16;

/// The names of the open files.
#[derive(Debug)]
pub(super) struct Xrdrecord {
    open: HashMap<String, String>,
    redact: Redact,
}

impl Importer for Xrdrecord {
    fn line(&mut self, line: &str) -> Result<Line> {
        if line.is_empty() {
            return Ok(Line::Other);
        }
        let Some(row) = Row::parse(line) else { return Ok(Line::Unknown) };
        match row.action {
            "Open" => self.opened(&row),
            "Close" => {
                self.open.remove(row.id);
                Ok(Line::Other)
            }
            "Read" | "PgRead" | "VectorRead" => Ok(self.read(&row).unwrap_or(Line::Unknown)),
            "Stat" | "Write" | "PgWrite" | "VectorWrite" | "Sync" | "Truncate" | "Fcntl" => {
                Ok(Line::Other)
            }
            _ => Ok(Line::Unknown),
        }
    }
}

/// The parts of a line.
struct Row<'a> {
    id: &'a str,
    action: &'a str,
    start: Duration,
    arguments: &'a str,
    stop: Duration,
    status: &'a str,
    response: &'a str,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        if let Some(line) = line.strip_prefix('"').and_then(|line| line.strip_suffix('"')) {
            let fields: Vec<_> = line.splitn(8, "\",\"").collect();
            let [id, action, start, arguments, stop, status, response] = fields[..] else {
                return None;
            };
            let start = time(start)?;
            let stop = time(stop)?;
            return Some(Self { id, action, start, arguments, stop, status, response });
        }
        let fields: Vec<_> = line.splitn(4, ',').collect();
        let [id, action, start, rest] = fields[..] else { return None };
        // The arguments end before the first field that is a time.
        let (arguments, stop, rest) = rest.match_indices(',').find_map(|(comma, _)| {
            let arguments = rest.get(..comma)?;
            let after = rest.get(comma + 1..)?;
            let (stop, rest) = after.split_once(',')?;
            Some((arguments, time(stop)?, rest))
        })?;
        let (status, response) = rest.rsplit_once(',')?;
        Some(Self { id, action, start: time(start)?, arguments, stop, status, response })
    }
}

impl Xrdrecord {
    pub(super) fn new(redact: Redact) -> Self {
        Self { open: HashMap::new(), redact }
    }

    /// Adds a file. If its open failed, no reads follow.
    fn opened(&mut self, row: &Row<'_>) -> Result<Line> {
        // flags, mode, timeout
        let Some(url) = row.arguments.rsplitn(4, ';').nth(3) else { return Ok(Line::Unknown) };
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(row.id) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the record has more than {MAX_OPEN} open files"),
            ));
        }
        self.open.insert(row.id.to_owned(), (self.redact)(url));
        Ok(Line::Other)
    }

    fn read(&self, row: &Row<'_>) -> Option<Line> {
        let numbers = row.arguments.split(';').map(|number| number.parse::<u64>().ok());
        let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        let (_timeout, numbers_of_ranges) = numbers.split_last()?;
        let ranges = numbers_of_ranges.chunks(2).map(|place| {
            let [offset, length] = *place else { return None };
            Some(offset..offset.checked_add(length)?)
        });
        let mut ranges: Vec<Range<u64>> = ranges.collect::<Option<_>>()?;
        let succeeded = row.status.contains("SUCCESS");
        if let ("Read" | "PgRead", [range]) = (row.action, &mut ranges[..]) {
            // At the end of a file fewer bytes arrive than were requested.
            let length = row.response.split(';').next()?.parse::<u64>().unwrap_or(0);
            range.end = range.end.min(range.start.checked_add(length)?);
        }
        ranges.retain(|range| succeeded && !range.is_empty());
        if ranges.is_empty() {
            return Some(Line::Other);
        }
        let name = self.open.get(row.id)?.clone();
        let submitted = row.start;
        let completed = row.stop.max(row.start);
        let times = ReadTimes { submitted, completed, consumed: completed };
        Some(Line::Read(Read { name, thread: 0, ranges, times }))
    }
}

fn time(text: &str) -> Option<Duration> {
    // An integer is not a time.
    let seconds = text.parse().ok().filter(|_| text.contains('.'))?;
    Duration::try_from_secs_f64(seconds).ok()
}
