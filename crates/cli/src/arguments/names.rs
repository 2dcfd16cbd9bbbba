//! Arguments of the commands on names, and on the contents of single files.

use crate::arguments::copies::FilterArgs;
use clap::{ArgAction, Args, ValueEnum};
use hither::{Algorithm, FileKind, byte_size, duration};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Arguments of `hither ls`.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Show kind, size and date.
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Descend into directories, not links.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Show names that begin with a dot.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Show sizes as 1.5 GiB.
    #[arg(short = 'h', long)]
    pub(crate) human_readable: bool,
    /// The directories or files; patterns as in 'https://host/run*/*.root'.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// Arguments of `hither stat`.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// Show extended attributes (XRootD).
    #[arg(long)]
    pub(crate) attributes: bool,
    /// The files and directories, or patterns.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// Arguments of `hither cat`.
#[derive(Debug, Args)]
pub(crate) struct Cat {
    /// Write only these bytes of each file, as in HTTP: 0-99, 100- or -50.
    #[arg(long, value_name = "A-B", allow_hyphen_values = true)]
    pub(crate) range: Option<String>,
    /// The files, or patterns.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// Arguments of `hither checksum`.
#[derive(Debug, Args)]
pub(crate) struct Checksum {
    /// Set the algorithm: adler32, crc32c, md5, sha256 or sha512 [default: adler32; with --check,
    /// what fits the lines].
    #[arg(short, long, value_name = "NAME")]
    pub(crate) algorithm: Option<Algorithm>,
    /// Compare with the checksums in this file, as md5sum and hither checksum print them; - for
    /// standard input. URL is the directory of relative names.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) check: Option<PathBuf>,
    /// Print failures only.
    #[arg(short, long, requires = "check")]
    pub(crate) quiet: bool,
    /// The files, or patterns.
    #[arg(value_name = "URL", required_unless_present = "check")]
    pub(crate) urls: Vec<String>,
}

/// Arguments of `hither du`.
#[derive(Debug, Args)]
pub(crate) struct Du {
    /// Show directories down to this level, too.
    #[arg(short = 'd', long, value_name = "N", default_value_t = 0)]
    pub(crate) max_depth: usize,
    /// Show sizes as 1.5 GiB.
    #[arg(short = 'h', long)]
    pub(crate) human_readable: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// The directories or files, or patterns.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// Arguments of `hither find`.
#[derive(Debug, Args)]
pub(crate) struct Find {
    /// Take matching names, as '*.root'; repeatable.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) name: Vec<String>,
    /// Take one kind: f for files, d for directories, l for links.
    #[arg(long = "type", value_name = "KIND")]
    pub(crate) kind: Option<EntryKind>,
    /// Take files larger than +SIZE, smaller than -SIZE, or of SIZE, as in +10M.
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = size_limit)]
    pub(crate) size: Option<SizeLimit>,
    /// Take what changed after a time: 7d ago, or 2026-11-20 (UTC).
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) newer: Option<SystemTime>,
    /// Take what changed before a time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) older: Option<SystemTime>,
    /// Descend to this level only.
    #[arg(long, value_name = "N")]
    pub(crate) max_depth: Option<usize>,
    /// End names by a zero byte, for xargs -0.
    #[arg(short = '0', long)]
    pub(crate) null: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// The directories or files, or patterns.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// Arguments of `hither mkdir`.
#[derive(Debug, Args)]
pub(crate) struct Mkdir {
    /// Create missing parents; accept existing directories.
    #[arg(short, long)]
    pub(crate) parents: bool,
    /// The directories.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// Arguments of `hither rm`.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Remove directories and their contents.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Ignore missing files.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Allow removal of a server's root.
    #[arg(long, requires = "recursive")]
    pub(crate) no_preserve_root: bool,
    /// The files, and with -r directories, or patterns.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// Arguments of `hither mv`.
#[derive(Debug, Args)]
pub(crate) struct Mv {
    /// Replace existing targets, as without options.
    #[arg(short, long, conflicts_with = "no_clobber")]
    force: bool,
    /// Skip existing targets.
    #[arg(short, long)]
    pub(crate) no_clobber: bool,
    /// The files and directories, or patterns, and last the new name or the directory to move them
    /// into.
    #[arg(value_names = ["SRC", "DST"], required = true, num_args = 1..)]
    pub(crate) urls: Vec<String>,
}

/// Arguments of `hither chmod`.
#[derive(Debug, Args)]
pub(crate) struct Chmod {
    /// Octal permissions of owner, group and others.
    #[arg(value_name = "MODE", value_parser = octal)]
    pub(crate) mode: u16,
    /// The files and directories, on root:// or roots:// servers, or patterns.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

fn octal(text: &str) -> Result<u16, String> {
    let mode = u16::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "expected three octal digits, as in 640".to_owned())
}

/// A kind of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EntryKind {
    #[value(name = "f")]
    File,
    #[value(name = "d")]
    Directory,
    #[value(name = "l")]
    Link,
}

impl EntryKind {
    pub(crate) fn is(self, kind: FileKind) -> bool {
        let own = match self {
            Self::File => FileKind::File,
            Self::Directory => FileKind::Directory,
            Self::Link => FileKind::Link,
        };
        own == kind
    }
}

/// A limit on sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SizeLimit {
    Above(u64),
    Below(u64),
    Exactly(u64),
}

impl SizeLimit {
    pub(crate) fn takes(self, size: u64) -> bool {
        match self {
            Self::Above(limit) => size > limit,
            Self::Below(limit) => size < limit,
            Self::Exactly(limit) => size == limit,
        }
    }
}

fn size_limit(text: &str) -> Result<SizeLimit, String> {
    match text.split_at_checked(1) {
        Some(("+", rest)) => Ok(SizeLimit::Above(byte_size(rest)?)),
        Some(("-", rest)) => Ok(SizeLimit::Below(byte_size(rest)?)),
        _ => Ok(SizeLimit::Exactly(byte_size(text)?)),
    }
}

/// A time: an age such as `7d`, or a date with an optional time of day, in UTC.
fn time(text: &str) -> Result<SystemTime, String> {
    use chrono::{NaiveDate, NaiveDateTime};
    // A year without a month must not be parsed as a number of seconds.
    let age = duration(text).ok().filter(|_| text.ends_with(char::is_alphabetic));
    if let Some(age) = age {
        let then = SystemTime::now().checked_sub(age);
        return then.ok_or_else(|| format!("{text} is too long ago"));
    }
    let plain = text.trim_end_matches('Z').replace(' ', "T");
    let date = NaiveDate::parse_from_str(&plain, "%Y-%m-%d").ok();
    let time = date
        .and_then(|date| date.and_hms_opt(0, 0, 0))
        .or_else(|| NaiveDateTime::parse_from_str(&plain, "%Y-%m-%dT%H:%M:%S").ok());
    let seconds = time.and_then(|time| u64::try_from(time.and_utc().timestamp()).ok());
    seconds
        .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)))
        .ok_or_else(|| "expected an age, as in 7d or 12h, or a date, as in 2026-11-20".to_owned())
}

/// The option `--help` without its letter, for commands that use the letter.
pub(super) fn help_without_letter() -> clap::Arg {
    clap::Arg::new("help").long("help").action(ArgAction::Help).help("Print help")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_limited_as_in_find() {
        for (text, below, at, above) in
            [("+1k", false, false, true), ("-1k", true, false, false), ("1k", false, true, false)]
        {
            let limit = size_limit(text).unwrap();
            let seen = (limit.takes(999), limit.takes(1000), limit.takes(1001));
            assert_eq!(seen, (below, at, above), "{text}");
        }
        assert!(size_limit("").is_err() && size_limit("+x").is_err() && size_limit("--1").is_err());
    }

    #[test]
    fn times_are_ages_or_dates() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(time("2024-02-29"), Ok(at(1_709_164_800)));
        assert_eq!(time("2024-02-29 00:00:01"), Ok(at(1_709_164_801)));
        assert_eq!(time("2024-02-29T00:00:01Z"), Ok(at(1_709_164_801)));
        let week = Duration::from_secs(7 * 86_400);
        assert!(time("7d").unwrap() <= SystemTime::now() - week);
        for wrong in ["", "yesterday", "2024-02-30", "-1d", "2024"] {
            assert!(time(wrong).is_err(), "{wrong:?}");
        }
    }
}
