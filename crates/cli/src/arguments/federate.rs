//! Arguments of `hither federate`.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `hither federate`. `--config` is the configuration file of the federation here.
#[derive(Debug, Clone, Args)]
pub(crate) struct Federate {
    /// Listen here; port 0 for a free one; repeatable [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Log requests as JSON lines; - for standard error.
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// Serve metrics, health and status here, without authentication.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Check the configuration and exit.
    #[arg(long)]
    pub(crate) check_config: bool,
}
