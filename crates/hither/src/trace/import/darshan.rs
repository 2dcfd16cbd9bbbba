//! Text of `darshan-dxt-parser`, which prints the extended traces of Darshan.
//!
//! Reads stand under the file and the rank that did them:
//!
//! ```text
//! # DXT, file_id: 17855743881390289785, file_name: /data/f.root
//! # DXT, rank: 3, hostname: node7
//! # Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
//!  X_POSIX       3   read        0               0       262144      0.1041      0.1052
//! ```
//!
//! Times are seconds since the start of the job, a rank is a thread here. Calls of MPI-IO
//! (`X_MPIIO`) are left out: they appear again as the calls of POSIX that they made.

use super::{Importer, Line, Read};
use hither_core::error::Result;
use hither_core::trace::ReadTimes;
use std::time::Duration;

/// The file under which the next reads stand.
#[derive(Debug, Default)]
pub(super) struct Darshan {
    name: Option<String>,
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
        Ok(self.operation(line).unwrap_or(Line::Unknown))
    }
}

impl Darshan {
    fn operation(&self, line: &str) -> Option<Line> {
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
            return is_known.then_some(Line::Other);
        }
        Some(Line::Read(Read {
            name: self.name.clone()?,
            thread: rank.parse().ok()?,
            ranges: vec![offset..offset.checked_add(length)?],
            times: ReadTimes { submitted, completed, consumed: completed },
        }))
    }
}

fn time(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}
