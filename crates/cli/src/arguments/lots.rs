//! Arguments of `hither lots`.

use clap::Subcommand;
use hither::{byte_size, duration};
use std::time::Duration;

/// Arguments of `hither lots`.
#[derive(Debug, Subcommand)]
pub(crate) enum Lots {
    /// Reserve space for a directory.
    #[command(
        after_help = "Example: hither lots reserve https://host/data/run7 --bytes 2T --lease 7d"
    )]
    Reserve {
        /// Set the size, as in 500M or 2T.
        #[arg(long, value_name = "SIZE", value_parser = byte_size)]
        bytes: u64,
        /// Set the time, as in 12h or 7d.
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        lease: Duration,
        /// The directory; it need not exist.
        url: String,
    },
    /// Show your lots on a server.
    #[command(after_help = "Example: hither lots show https://host/")]
    Show {
        /// The server.
        url: String,
    },
    /// Renew the lease of a lot, or change its size.
    #[command(
        after_help = "Example: hither lots renew https://host/ 1f0e2d3c4b5a69788796a5b4c3d2e1f0 --lease 7d"
    )]
    Renew {
        /// Set the size.
        #[arg(long, value_name = "SIZE", value_parser = byte_size, required_unless_present = "lease")]
        bytes: Option<u64>,
        /// Set the time from now on.
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        lease: Option<Duration>,
        /// The server.
        url: String,
        /// The id of the lot.
        id: String,
    },
    /// Release a lot; its files stay.
    #[command(
        after_help = "Example: hither lots release https://host/ 1f0e2d3c4b5a69788796a5b4c3d2e1f0"
    )]
    Release {
        /// The server.
        url: String,
        /// The id of the lot.
        id: String,
    },
}

impl Lots {
    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Reserve { url, .. }
            | Self::Show { url }
            | Self::Renew { url, .. }
            | Self::Release { url, .. } => url,
        }
    }
}
