//! The table `[tape]` of the settings.

use hither_core::error::{Error, ErrorKind, Result};
use serde::Deserialize;

/// Files on tape. With this table, the server answers the WLCG Tape REST API and reads only files
/// that are on disk.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TapeSettings {
    /// The command that speaks with the tape system, with its first arguments. It is run with an
    /// action and the path of a file on this machine as its last arguments. `state` prints
    /// `online`, `nearline`, `online_and_nearline` or `lost`; `stage` asks for the file to be
    /// brought to disk, and may return before it is there; `release` lets it leave the disk. If its
    /// exit code is not 0, clients get what it printed. It runs as the server's user, outside of
    /// the server's confinement.
    pub command: Vec<String>,
    /// The maximum number of commands that run at the same time; 4 by default.
    #[serde(default = "four")]
    pub commands: usize,
    /// Seconds after which a command is killed; 60 by default.
    #[serde(default = "minute")]
    pub command_seconds: u64,
    /// The maximum number of requests of a client that are kept; 64 by default. Those that are over
    /// make room for new ones.
    #[serde(default = "sixty_four")]
    pub requests: usize,
    /// The maximum number of files in a request; 10000 by default.
    #[serde(default = "ten_thousand")]
    pub files: usize,
    /// Seconds after which a file that is not on disk has failed, and for which a request is kept;
    /// a week by default.
    #[serde(default = "week")]
    pub request_seconds: u64,
}

fn four() -> usize {
    4
}

fn minute() -> u64 {
    60
}

fn sixty_four() -> usize {
    64
}

fn ten_thousand() -> usize {
    10_000
}

fn week() -> u64 {
    7 * 24 * 3_600
}

impl TapeSettings {
    /// Fails for values that make no sense.
    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |what: &str| Err(Error::new(ErrorKind::Invalid, what));
        if self.command.first().is_none_or(|program| !program.starts_with('/')) {
            return invalid("tape.command has no program with an absolute path");
        }
        if !(1..=1000).contains(&self.commands) {
            return invalid("tape.commands is out of range, expected 1 to 1000");
        }
        if self.command_seconds == 0 || self.request_seconds == 0 {
            return invalid("tape.command_seconds and tape.request_seconds must be at least 1");
        }
        if self.requests == 0 || self.files == 0 {
            return invalid("tape.requests and tape.files must be at least 1");
        }
        Ok(())
    }
}
