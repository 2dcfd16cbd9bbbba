//! Arguments of `hither explain`.

use super::{Cat, Copy, Draw};
use clap::{Args, Subcommand};
use hither::TreeUrl;
use std::path::PathBuf;

/// Arguments of `hither explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(subcommand)]
    pub(crate) job: ExplainedJob,
}

/// A job that is run, and the options of its explanation.
#[derive(Debug, Args)]
pub(crate) struct Explained<T: Args> {
    #[command(flatten)]
    pub(crate) request: T,
    #[command(flatten)]
    pub(crate) options: ExplanationArgs,
}

/// Options of an explanation.
#[derive(Debug, Args)]
pub(crate) struct ExplanationArgs {
    /// Write the timeline as an SVG image.
    #[arg(long, value_name = "FILE")]
    pub(crate) timeline: Option<PathBuf>,
    /// Do not measure the path afterwards [default: 5 s or 128 MiB, if bytes arrived for 30 % of
    /// the time].
    #[arg(long)]
    pub(crate) no_probe: bool,
}

/// The job to run and explain.
#[derive(Debug, Subcommand)]
pub(crate) enum ExplainedJob {
    /// Draw a histogram, as hither draw does.
    #[command(
        after_help = "Example: hither explain draw http://host/path/file.root:T rawtr --where 'E33>5'"
    )]
    Draw(Explained<Draw>),
    /// Copy files, as hither cp does.
    #[command(
        override_usage = "hither explain cp [OPTIONS] <SRC>... <DST>",
        after_help = "Example: hither explain cp https://host/data/file.root /data/"
    )]
    Cp(Explained<Copy>),
    /// Read files, and print none of their bytes.
    #[command(after_help = "Example: hither explain cat https://host/data/file.root")]
    Cat(Explained<Cat>),
    /// Read the access log of hither serve.
    #[command(after_help = "Example: hither explain serve /var/log/hither/access.json")]
    Serve {
        /// The access log; - for the standard input.
        #[arg(value_name = "LOG")]
        log: PathBuf,
    },
}

impl Explain {
    /// The first URL of the job, or the empty string.
    pub(crate) fn url(&self) -> String {
        match &self.job {
            ExplainedJob::Draw(draw) => TreeUrl::parse(&draw.request.target).url,
            ExplainedJob::Cp(copy) => copy.request.names.first().cloned().unwrap_or_default(),
            ExplainedJob::Cat(cat) => cat.request.urls.first().cloned().unwrap_or_default(),
            ExplainedJob::Serve { .. } => String::new(),
        }
    }
}
