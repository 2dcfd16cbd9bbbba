//! What `hither serve` takes.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What to serve, and to whom. `--config` names the server's own configuration file here.
#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    /// Address and port to listen at; may be given several times. Port 0 takes one that is free [default: 127.0.0.1:8080,
    /// or what the configuration says].
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Let everybody who can reach the server write, move and remove files.
    #[arg(long)]
    pub(crate) write: bool,
    /// The certificate to show, in PEM, with those between it and its authority: https instead of http.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Write a line of JSON for every request to this file; `-` for the standard error.
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// Tell metrics, health and a status page at this address and port, to everybody who can reach it.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// The directory to serve; links that lead out of it are not followed.
    #[arg(value_name = "DIR", required_unless_present = "config")]
    pub(crate) root: Option<PathBuf>,
}
