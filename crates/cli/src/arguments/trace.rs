//! Arguments of `hither trace`.

use super::ImageFiles;
use clap::{Args, Subcommand, ValueEnum};
use hither::trace::ImportFormat;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// Show how a program reads.
    #[command(after_help = "Example: hither trace show job.trace --png displacements.png")]
    Show(Show),
    /// Import the record of another program.
    #[command(
        after_help = "Examples:\n  strace -f -ttt -T -e trace=openat,open,read,pread64,readv,preadv,lseek,close -o job.strace PROGRAM\n  hither trace import --format strace job.strace -o job.trace\n\n  XRD_PLUGIN=libXrdClRecorder-5.so XRD_RECORDERPATH=job.csv PROGRAM\n  hither trace import --format xrdrecord job.csv -o job.trace"
    )]
    Import(Import),
    /// Replay the reads of a trace.
    #[command(
        after_help = "Example: hither trace replay job.trace http://host/path/file.root --think 1"
    )]
    Replay(Replay),
}

impl Trace {
    /// The URL on the command line, or the empty string.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Show(_) | Self::Import(_) => String::new(),
            Self::Replay(replay) => replay.url.clone().unwrap_or_default(),
        }
    }
}

/// Arguments of `hither trace show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The trace.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Draw this histogram.
    #[arg(long, value_enum, default_value_t = Histogram::Displacements, value_name = "NAME")]
    pub(crate) histogram: Histogram,
    #[command(flatten)]
    pub(crate) images: ImageFiles,
}

/// A histogram of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Histogram {
    /// Distances from the end of a read to the start of the next, in logarithmic bins.
    Displacements,
    /// The same distances in linear bins of 10,000 bytes.
    Plain,
    /// Sizes of reads.
    Sizes,
    /// Numbers of consecutive reads without a gap.
    Runs,
}

/// Arguments of `hither trace import`.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Set the format: xrdrecord (plug-in XrdClRecorder of XRootD), strace (with -ttt -T) or
    /// darshan (output of darshan-dxt-parser).
    #[arg(long, value_name = "NAME")]
    pub(crate) format: ImportFormat,
    /// The record; - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Import only files with this text in their names.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Write this trace.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// Arguments of `hither trace replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The trace.
    #[arg(value_name = "TRACE")]
    pub(crate) file: PathBuf,
    /// The file to read instead [default: the names in the trace].
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Read URL instead of NAME; repeatable.
    #[arg(long, value_name = "NAME=URL", value_parser = pair)]
    pub(crate) map: Vec<(String, String)>,
    /// Multiply the program's pauses; 0 for none.
    #[arg(long, value_name = "FACTOR", default_value_t = 0.0, value_parser = factor)]
    pub(crate) think: f64,
}

fn pair(text: &str) -> Result<(String, String), String> {
    // A URL may contain the sign, and a name may be a URL: so the sign in front of a URL is
    // preferred.
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
