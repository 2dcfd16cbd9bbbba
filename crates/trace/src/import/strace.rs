//! Output of `strace`.
//!
//! ```text
//! 812   1763749200.100000 openat(AT_FDCWD, "/data/a.root", O_RDONLY) = 3 <0.000020>
//! 812   1763749200.200000 pread64(3, "root"..., 512, 0) = 512 <0.000010>
//! 813   1763749200.200100 read(3,  <unfinished ...>
//! 812   1763749200.200200 close(4)          = 0 <0.000003>
//! 813   1763749200.200300 <... read resumed>"\0\1"..., 64) = 64 <0.000200>
//! ```
//!
//! The number of the thread is present with `-f` (also as `[pid 813]`), the time with `-ttt` or
//! `-tt`, the duration with `-T`, names of descriptors (`3</data/a.root>`) with `-y`. Threads of
//! one process share their descriptors. A child process has a copy of its parent's descriptors if
//! the recording shows its start (`-e trace=process`); otherwise it is treated as a thread.
//! Duplicated descriptors share their position, as in the kernel.

mod call;
mod descriptors;

use super::{Importer, Line, Read};
use crate::ReadTimes;
use call::{Call, Row, Text};
use descriptors::Descriptors;
use hither_core::error::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::time::Duration;

/// Maximum number of interrupted calls, and maximum length of the first part of one, in bytes.
const MAX_UNFINISHED: usize = 1 << 12;
const MAX_BEGINNING_BYTES: usize = 16 << 10;

/// The state of an import.
#[derive(Debug, Default)]
pub(super) struct Strace {
    /// Calls that another line interrupted, by thread: their start time, and the text so far.
    unfinished: HashMap<u32, (Duration, String)>,
    descriptors: Descriptors,
}

impl Importer for Strace {
    fn line(&mut self, line: &str) -> Result<Line> {
        let Some(Row { thread, at, text }) = Row::parse(line) else { return Ok(Line::Unknown) };
        match text {
            Text::Nothing => Ok(Line::Other),
            Text::Begun(text) => {
                if self.unfinished.len() >= MAX_UNFINISHED {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        format!("the record has more than {MAX_UNFINISHED} unfinished calls"),
                    ));
                }
                if text.len() > MAX_BEGINNING_BYTES {
                    return Ok(Line::Unknown);
                }
                self.unfinished.insert(thread, (at, text.to_owned()));
                Ok(Line::Other)
            }
            Text::Resumed(rest) => {
                let Some((began, text)) = self.unfinished.remove(&thread) else {
                    return Ok(Line::Unknown);
                };
                self.done(thread, began, Some(at), &(text + rest))
            }
            Text::Whole(text) => self.done(thread, at, None, text),
        }
    }
}

impl Strace {
    /// Handles a complete call.
    fn done(
        &mut self,
        thread: u32,
        began: Duration,
        resumed: Option<Duration>,
        text: &str,
    ) -> Result<Line> {
        let Some(call) = Call::parse(text) else { return Ok(Line::Unknown) };
        let Some(result) = call.result else { return Ok(Line::Other) };
        let completed = match call.took {
            Some(took) => began.saturating_add(took),
            None => resumed.unwrap_or(began),
        };
        let times = ReadTimes { submitted: began, completed, consumed: completed.max(began) };
        let read = match call.name {
            "open" | "openat" | "openat2" | "creat" => {
                if let Some(path) = call.path() {
                    self.descriptors.open(thread, result, path)?;
                }
                None
            }
            "close" => {
                self.descriptors.close(thread, call.descriptor());
                None
            }
            "dup" | "dup2" | "dup3" => {
                self.descriptors.duplicate(thread, call.descriptor(), result)?;
                None
            }
            "fcntl" | "fcntl64" if call.arguments.contains("F_DUPFD") => {
                self.descriptors.duplicate(thread, call.descriptor(), result)?;
                None
            }
            "lseek" | "_llseek" => {
                let position =
                    if call.name == "lseek" { Some(result) } else { call.new_position() };
                self.descriptors.seek(thread, call.descriptor(), position);
                None
            }
            "write" | "writev" => {
                self.descriptors.advance(thread, call.descriptor(), result);
                None
            }
            "clone" | "clone3" | "fork" | "vfork" => {
                let shared = call.arguments.contains("CLONE_FILES");
                self.descriptors.child(thread, result, shared)?;
                None
            }
            "read" | "readv" => {
                self.descriptors.name(thread, &call)?;
                let start = self.descriptors.advance(thread, call.descriptor(), result);
                Some(start)
            }
            "pread64" | "pread" | "preadv" | "preadv2" => {
                self.descriptors.name(thread, &call)?;
                Some(call.offset())
            }
            _ => None,
        };
        let Some(start) = read else { return Ok(Line::Other) };
        if result == 0 {
            return Ok(Line::Other);
        }
        let name = self.descriptors.name_of(thread, call.descriptor());
        let range = start.and_then(|start| Some(start..start.checked_add(result)?));
        Ok(match (name, range) {
            (Some(name), Some(range)) => {
                Line::Read(Read { name, thread, ranges: vec![range], times })
            }
            _ => Line::Unknown,
        })
    }
}
