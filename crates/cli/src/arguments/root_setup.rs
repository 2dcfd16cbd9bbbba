//! Arguments of `hither root-setup`.

use clap::Args;
use std::path::PathBuf;

/// Arguments of `hither root-setup`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RootSetup {
    /// Build for this ROOT [default: root-config in PATH, else the package ROOT of python3].
    #[arg(long, value_name = "FILE")]
    pub(crate) root_config: Option<PathBuf>,
    /// Link this libhither.a or libhither.so [default: beside this program, else pkg-config's].
    #[arg(long, value_name = "FILE")]
    pub(crate) libhither: Option<PathBuf>,
    /// Register in this file [default: ~/.rootrc].
    #[arg(long, value_name = "FILE")]
    pub(crate) rootrc: Option<PathBuf>,
    /// Remove all builds and the registration.
    #[arg(long, conflicts_with_all = ["root_config", "libhither"])]
    pub(crate) remove: bool,
}
