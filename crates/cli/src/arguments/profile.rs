//! Arguments of `hither profile`.

use super::seconds;
use clap::{ArgGroup, Args};
use hither::byte_size;
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `hither profile`.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("processes").args(["pid", "unit", "command"]))]
pub(crate) struct Profile {
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
