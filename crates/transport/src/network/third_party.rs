//! Third-party copy: two servers move a file between them, over HTTP or over `root://`.

use crate::location::{Location, Protocol};
use crate::network::Network;
use hither_core::error::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;

/// Time without a new byte after which a copy is given up. As long as xrootd lets copies queue.
pub(crate) const MAX_STALL: Duration = Duration::from_secs(1800);

/// The active server of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThirdPartyMode {
    /// The target fetches.
    Pull,
    /// The source sends.
    Push,
}

/// A copy between two servers.
#[derive(Debug, Clone)]
pub struct ThirdPartyCopy {
    /// The file.
    pub source: Location,
    /// Where it goes.
    pub target: Location,
    /// The active server.
    pub mode: ThirdPartyMode,
    /// Replaces a file of that name.
    pub overwrite: bool,
}

impl Network {
    /// Starts a third-party copy of a file and waits for it. Calls `moved` with the bytes moved so
    /// far.
    ///
    /// Dropping the future stops the copy. [`Network::clean_up`] waits until its partial file is
    /// removed.
    ///
    /// # Errors
    ///
    /// The errors of servers and connections, among them the failure that the active server states;
    /// [`ErrorKind::Unsupported`] if one of the two does no such copies.
    pub async fn third_party_copy(
        self: &Arc<Self>,
        copy: &ThirdPartyCopy,
        moved: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<()> {
        if let Some(place) =
            [&copy.source, &copy.target].into_iter().find(|place| place.is_in_federation())
        {
            let what = format!(
                "{place}: the servers of a federation are chosen by this program, and cannot be named \
                 to another one: copy the file through here"
            );
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        match (copy.source.protocol(), copy.target.protocol(), copy.mode) {
            (Protocol::Http, Protocol::Http, _) => self.http_third_party_copy(copy, moved).await,
            (Protocol::Xrootd, Protocol::Xrootd, ThirdPartyMode::Pull) => {
                self.xrootd_third_party_copy(copy, moved).await
            }
            (Protocol::Xrootd, Protocol::Xrootd, ThirdPartyMode::Push) => {
                let what =
                    format!("{}: servers of root:// only pull: use pull or auto", copy.source);
                Err(Error::new(ErrorKind::Unsupported, what))
            }
            _ => {
                let what = format!(
                    "{} and {} speak different protocols: a third-party copy needs two servers of \
                     http(s)://, or two of root(s)://",
                    copy.source.origin(),
                    copy.target.origin()
                );
                Err(Error::new(ErrorKind::Unsupported, what))
            }
        }
    }
}
