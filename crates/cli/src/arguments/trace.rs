//! What `hither trace` takes.

use super::PictureFiles;
use clap::{Args, Subcommand, ValueEnum};
use hither::trace::ImportFormat;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// Show how a program reads: how far it jumps, how much at a time, what it reads again, how long it waits.
    #[command(after_help = "Example: hither trace show job.trace --png displacements.png")]
    Show(Show),
    /// Make a trace from what another program recorded.
    #[command(
        after_help = "Examples:\n  strace -f -ttt -T -e trace=openat,open,read,pread64,readv,preadv,lseek,close -o job.strace PROGRAM\n  hither trace import --format strace job.strace -o job.trace\n\n  XRD_PLUGIN=libXrdClRecorder-5.so XRD_RECORDERPATH=job.csv PROGRAM\n  hither trace import --format xrdrecord job.csv -o job.trace"
    )]
    Import(Import),
    /// Do the reads of a trace again, and show how long they took.
    #[command(
        after_help = "Example: hither trace replay job.trace http://host/path/file.root --think 1"
    )]
    Replay(Replay),
}

impl Trace {
    /// The URL that it is about, if one is named.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Show(_) | Self::Import(_) => String::new(),
            Self::Replay(replay) => replay.url.clone().unwrap_or_default(),
        }
    }
}

/// Which trace to look at, and how.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Trace.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What to draw.
    #[arg(long, value_enum, default_value_t = Histogram::Displacements, value_name = "NAME")]
    pub(crate) histogram: Histogram,
    #[command(flatten)]
    pub(crate) pictures: PictureFiles,
}

/// What there is to draw of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Histogram {
    /// How far a read begins from where the one before it ended, in logarithmic bins either way.
    Displacements,
    /// The same, in plain bins of 10,000 bytes.
    Plain,
    /// Sizes of reads.
    Sizes,
    /// Reads in a row without a gap.
    Runs,
}

/// What to make a trace of.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// xrdrecord: what XRootD's client records with its plug-in XrdClRecorder; strace: what strace writes with -ttt -T.
    #[arg(long, value_name = "NAME")]
    pub(crate) format: ImportFormat,
    /// The record; `-` for the standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Only files with this in their names.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Trace to write.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// What to read again.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Trace.
    #[arg(value_name = "TRACE")]
    pub(crate) file: PathBuf,
    /// File to read in place of those in the trace [default: the names in the trace].
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// File to read in place of the one of this name; may be given several times.
    #[arg(long, value_name = "NAME=URL", value_parser = pair)]
    pub(crate) map: Vec<(String, String)>,
    /// How long to pause between reads, as a multiple of what the program did; 0 not at all.
    #[arg(long, value_name = "FACTOR", default_value_t = 0.0, value_parser = factor)]
    pub(crate) think: f64,
}

fn pair(text: &str) -> Result<(String, String), String> {
    // A URL may hold the sign, and so may a name that is one: what follows must be one.
    let cut = text.find("=http").or_else(|| text.find('=')).ok_or("expected NAME=URL")?;
    let (name, url) = text.split_at(cut);
    Ok((name.to_owned(), url.trim_start_matches('=').to_owned()))
}

fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    (0.0..=1000.0)
        .contains(&factor)
        .then_some(factor)
        .ok_or_else(|| "expected 0 to 1000".to_owned())
}
