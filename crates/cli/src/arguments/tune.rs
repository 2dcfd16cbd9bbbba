//! Arguments of `hither tune`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Measurements of settings.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Tune {
    /// Run the transfers of an experiment file.
    #[command(
        after_help = "The same command goes on after an interruption; each run is recorded in FILE's journal. docs/guides/profiling.md describes the file.\n\nExample: hither tune sweep --html plots.html experiment.toml"
    )]
    Sweep(Sweep),
}

/// Arguments of `hither tune sweep`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Sweep {
    /// List the points, and run nothing.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Write the points as CSV.
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a page with plots.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// The experiment file.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
