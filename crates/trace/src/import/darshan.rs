//! Text of `darshan-dxt-parser`, which prints the extended traces of Darshan.
//!
//! Reads follow a header with their file and rank:
//!
//! ```text
//! # DXT, file_id: 17855743881390289785, file_name: /data/f.root
//! # DXT, rank: 3, hostname: node7
//! # Module    Rank  Wt/Rd  Segment      Offset      Length    Start(s)      End(s)   Pthread-ID
//!  X_POSIX       3   read        0           0      262144      0.1041      0.1052   14063714889
//! ```
//!
//! Times are in seconds since the start of the job. A thread of the trace is a rank or, since
//! Darshan 3.5, which states them, a thread of a rank. Calls of MPI-IO (`X_MPIIO`) are ignored:
//! they appear again as the POSIX calls that they made.

use super::{Importer, Line, Read};
use crate::ReadTimes;
use hither_core::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

/// Maximum number of threads in a recording.
const MAX_THREADS: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Darshan {
    /// The file of the following reads.
    name: Option<String>,
    /// Numbers of threads, by rank and, if stated, identifier. Invariant: at most [`MAX_THREADS`].
    threads: BTreeMap<(u32, Option<u64>), u32>,
}

impl Importer for Darshan {
    fn line(&mut self, line: &str) -> Result<Line> {
        if let Some(header) = line.strip_prefix("# DXT, file_id:") {
            self.name = header.split_once("file_name:").map(|(_, name)| name.trim().to_owned());
            return Ok(if self.name.is_some() { Line::Other } else { Line::Unknown });
        }
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(Line::Other);
        }
        self.operation(line).unwrap_or(Ok(Line::Unknown))
    }
}

impl Darshan {
    /// The number of a thread.
    fn thread(&mut self, rank: u32, identifier: Option<u64>) -> Result<u32> {
        let count = self.threads.len();
        match self.threads.entry((rank, identifier)) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(_) if count >= MAX_THREADS => {
                let message = format!("the record has more than {MAX_THREADS} threads");
                Err(Error::new(ErrorKind::Unsupported, message))
            }
            Entry::Vacant(new) => Ok(*new.insert(u32::try_from(count).unwrap_or(u32::MAX))),
        }
    }

    fn operation(&mut self, line: &str) -> Option<Result<Line>> {
        let mut fields = line.split_whitespace();
        let mut next = || fields.next();
        let module = next()?;
        let rank = next()?;
        let operation = next()?;
        let _segment = next()?;
        let offset: u64 = next()?.parse().ok()?;
        let length: u64 = next()?.parse().ok()?;
        let submitted = time(next()?)?;
        let completed = time(next()?)?.max(submitted);
        if module != "X_POSIX" || operation != "read" || length == 0 {
            let is_known = module.starts_with("X_") && ["read", "write"].contains(&operation);
            return is_known.then_some(Ok(Line::Other));
        }
        let identifier = next().and_then(|it| it.parse().ok());
        let name = self.name.clone()?;
        let ranges = vec![offset..offset.checked_add(length)?];
        let times = ReadTimes { submitted, completed, consumed: completed };
        let thread = self.thread(rank.parse().ok()?, identifier);
        Some(thread.map(|thread| Line::Read(Read { name, thread, ranges, times })))
    }
}

fn time(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}
