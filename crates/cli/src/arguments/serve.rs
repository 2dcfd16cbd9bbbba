//! Arguments of `hither serve`.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `hither serve`. `--config` is the server's configuration file here.
#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    /// Listen here; port 0 for a free one; repeatable [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Allow writing without authentication.
    #[arg(long)]
    pub(crate) write: bool,
    /// Serve HTTPS with this certificate chain, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Use this private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Log requests as JSON lines; - for standard error.
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// Serve metrics, health and status here, without authentication.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Check the configuration and exit.
    #[arg(long)]
    pub(crate) check_config: bool,
    /// The directory to serve; links out of it are not followed.
    #[arg(value_name = "DIR", required_unless_present = "config")]
    pub(crate) root: Option<PathBuf>,
}
