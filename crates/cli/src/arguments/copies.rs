//! Arguments of `hither cp`, `hither sync` and `hither check`.

use crate::exit::CommandError;
use crate::output::standard_streams::standard_input;
use clap::Args;
use hither::{
    BandwidthTimetable, CompareBy, CopyOptions, Filter, FilterOptions, ThirdParty,
    bandwidth_limiter, minute_of_week,
};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum size of a file of rules or names, in bytes.
const MAX_LIST_BYTES: u64 = 1 << 30;

/// Arguments of `hither cp`.
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// The sources, as URLs, paths, patterns as in 'https://host/*.root', or - for standard input;
    /// and last the destination: a file, a directory, - for standard output, or /dev/null.
    #[arg(value_names = ["SRC", "DST"], required = true, num_args = 1..)]
    pub(crate) names: Vec<String>,
    /// Copy directories and their contents.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Copy directories, and keep links, permissions and times.
    #[arg(short, long)]
    pub(crate) archive: bool,
    /// Replace existing targets, as without options.
    #[arg(short, long, conflicts_with_all = ["no_clobber", "update"])]
    force: bool,
    /// Skip existing targets.
    #[arg(short, long, conflicts_with = "update")]
    pub(crate) no_clobber: bool,
    /// Skip targets of equal size that are not older.
    #[arg(short, long)]
    pub(crate) update: bool,
    /// Verify this checksum: adler32, crc32c, md5, sha256, sha512 or none; ALGORITHM:VALUE for one
    /// file [default: adler32, if the server has it].
    #[arg(long, value_name = "ALGORITHM[:VALUE]")]
    pub(crate) checksum: Option<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Bring the files from tape to disk first.
    #[arg(long, conflicts_with = "third_party")]
    pub(crate) stage: bool,
    /// Let the servers copy: pull by the target, push by the source, or auto for either, else
    /// through here.
    #[arg(long, value_name = "MODE")]
    pub(crate) third_party: Option<ThirdParty>,
    /// Copy by the nodes of a Dask cluster: the address of its scheduler, or its file.
    #[arg(long, value_name = "ADDRESS|FILE", requires = "recursive", conflicts_with_all = NOT_BY_CLUSTER)]
    pub(crate) cluster: Option<String>,
    /// Leave the copy to the cluster, and end at once.
    #[arg(long, requires = "cluster")]
    pub(crate) detach: bool,
    /// Print errors only.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The options that a cluster does not support.
const NOT_BY_CLUSTER: [&str; 12] = [
    "archive",
    "no_clobber",
    "update",
    "checksum",
    "stage",
    "filter",
    "filter_from",
    "files_from",
    "transfers",
    "retry",
    "no_tuning",
    "explain_tuning",
];

/// Arguments of `hither sync`.
#[derive(Debug, Args)]
pub(crate) struct Sync {
    /// The source directory.
    #[arg(value_name = "SRC")]
    pub(crate) source: String,
    /// The directory to change; created if missing.
    #[arg(value_name = "DST")]
    pub(crate) destination: String,
    /// Delete what only DST has, after all copies.
    #[arg(long)]
    pub(crate) delete: bool,
    /// Delete nothing if more names would go.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, requires = "delete")]
    pub(crate) max_delete: usize,
    /// Print what would be done.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) compare: CompareArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Print errors only.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Arguments of `hither check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The one directory.
    #[arg(value_name = "SRC")]
    pub(crate) source: String,
    /// The other directory.
    #[arg(value_name = "DST")]
    pub(crate) destination: String,
    /// Accept files that only DST has.
    #[arg(long)]
    pub(crate) one_way: bool,
    #[command(flatten)]
    pub(crate) compare: CompareArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Print differences and errors only.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The property by which files are compared.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CompareArgs {
    /// Compare checksums, computed where the server has none [default: sizes and times].
    #[arg(long)]
    checksum: bool,
    /// Compare sizes only.
    #[arg(long, conflicts_with = "checksum")]
    size_only: bool,
}

impl CompareArgs {
    pub(crate) fn by(&self) -> CompareBy {
        match (self.checksum, self.size_only) {
            (true, _) => CompareBy::Checksum,
            (_, true) => CompareBy::Size,
            _ => CompareBy::Time,
        }
    }
}

/// Limits of a copy.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LimitArgs {
    /// Limit the bandwidth, as in 10M, UP:DOWN or "08:00,512k 23:00,off" [default: off].
    #[arg(long, value_name = "RATE")]
    bwlimit: Option<BandwidthTimetable>,
    /// Limit the files copied at a time [default: as many as connections].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    transfers: Option<u16>,
    /// Attempt each file up to N times [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    retry: Option<u32>,
    /// Use all of --max-connections from the beginning.
    #[arg(long)]
    no_tuning: bool,
    /// Print what was tuned, and why.
    #[arg(long)]
    pub(crate) explain_tuning: bool,
}

impl LimitArgs {
    /// The current bandwidth limit, in bytes per second.
    pub(crate) fn rate_now(&self) -> Option<u64> {
        self.bwlimit.as_ref()?.rates_at(minute_of_week()).down
    }

    /// Sets these limits.
    pub(crate) fn set(&self, options: &mut CopyOptions) {
        options.bandwidth = self.bwlimit.clone().map(bandwidth_limiter);
        if self.no_tuning {
            options.control.set_workers(options.max_workers);
        }
        options.transfers = self.transfers.map(usize::from);
        options.attempts = self.retry.unwrap_or(1);
    }
}

/// The sources and the destination of a command that takes them in this order. Options may stand
/// between them, so the parser cannot require two.
pub(crate) fn sources_and_destination(names: &[String]) -> Result<(&[String], &str), CommandError> {
    match names {
        [sources @ .., destination] if !sources.is_empty() => Ok((sources, destination.as_str())),
        _ => Err(CommandError::usage("name a source and a destination: SRC... DST")),
    }
}

/// Filters, in the syntax of rclone.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FilterArgs {
    /// Take only matching files; repeatable.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Leave out matching files; repeatable.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Add a rule: "+ PATTERN", "- PATTERN" or "!"; repeatable.
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    filter: Vec<String>,
    /// Read rules from a file; - for standard input.
    #[arg(long, value_name = "FILE")]
    filter_from: Vec<PathBuf>,
    /// Take the files listed here; - for standard input.
    #[arg(long, value_name = "FILE")]
    files_from: Vec<PathBuf>,
}

impl FilterArgs {
    /// The filter of these arguments.
    pub(crate) fn filter(&self) -> Result<Filter, CommandError> {
        let mut rules = self.filter.clone();
        for path in &self.filter_from {
            rules.extend(FilterOptions::lines(&read_list(path)?));
        }
        let mut files = (!self.files_from.is_empty()).then(Vec::new);
        for path in &self.files_from {
            let text = read_list(path)?;
            files.iter_mut().for_each(|files| files.extend(FilterOptions::lines(&text)));
        }
        let include = self.include.clone();
        let exclude = self.exclude.clone();
        Ok(Filter::new(&FilterOptions { include, exclude, rules, files })?)
    }
}

/// Reads a file of rules, names or checksums; `-` reads the standard input.
pub(crate) fn read_list(path: &Path) -> Result<String, CommandError> {
    let failed = |error| CommandError::local(format!("cannot read {}", path.display()), error);
    let mut text = String::new();
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(standard_input().map_err(failed)?)
    } else {
        Box::new(std::fs::File::open(path).map_err(failed)?)
    };
    input.take(MAX_LIST_BYTES).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 == MAX_LIST_BYTES {
        let message = format!("{} is larger than 1 GiB, expected a list", path.display());
        return Err(CommandError::usage(message));
    }
    Ok(text)
}
