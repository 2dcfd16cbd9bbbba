//! Arguments of `hither profile`.

use super::seconds;
use clap::{ArgGroup, Args, Subcommand};
use hither::byte_size;
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `hither profile`.
#[derive(Debug, Clone, Args)]
#[command(
    group = ArgGroup::new("processes").args(["pid", "unit", "command"]),
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Profile {
    #[command(subcommand)]
    pub(crate) of: Option<ProfileOf>,
    /// Profile this process and its descendants [default: the machine].
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,
    /// Profile this unit of systemd.
    #[arg(long, value_name = "NAME")]
    pub(crate) unit: Option<String>,
    /// End after this time [default: 60; with a command when it ends].
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// Set the bytes moved meanwhile, as in 500M or 20G [default: from the network interfaces].
    #[arg(long, value_name = "N", value_parser = byte_size)]
    pub(crate) bytes: Option<u64>,
    /// Write the page as HTML.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write folded stacks for flame graphs.
    #[arg(long, value_name = "FILE")]
    pub(crate) folded: Option<PathBuf>,
    /// Run and profile this command.
    #[arg(value_name = "CMD", last = true)]
    pub(crate) command: Vec<OsString>,
}

/// Other things to profile than processes.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ProfileOf {
    /// Show how fast the storage of a directory is.
    #[command(
        after_help = "Writes only to a directory .hither-profile-... in PATH, which it removes. A block device is only read.\n\nExample: hither profile storage /data"
    )]
    Storage(Storage),
    /// Measure the path to a file on a server.
    #[command(after_help = "Example: hither profile network https://host/data/file.root")]
    Network(Network),
}

/// Arguments of `hither profile storage`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Storage {
    /// End after this time.
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Set the size of the file, as in 500M or 20G [default: an eighth of the free space or of the
    /// memory, 4 GiB at most].
    #[arg(long, value_name = "SIZE", value_parser = byte_size)]
    pub(crate) size: Option<u64>,
    /// The directory, or a block device.
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
}

/// Arguments of `hither profile network`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Network {
    /// End after this time.
    #[arg(long, value_name = "S", default_value_t = 15.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Receive at most this much of the file, as in 500M or 20G.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = byte_size)]
    pub(crate) bytes: u64,
    /// The file, of some megabytes at least. It is only read.
    pub(crate) url: String,
}
