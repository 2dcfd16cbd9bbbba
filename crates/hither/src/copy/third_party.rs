//! Third-party copies: two servers move the bytes, and this machine only controls them.

use crate::client::Client;
use futures_util::future::BoxFuture;
use hither_core::error::{Error, ErrorKind, Result, Retry};
use hither_core::storage::Storage;
use hither_transfer::{MovedBytes, ThirdPartyMove, ThirdPartyMover};
use hither_transport::{Location, Network, Protocol, ThirdPartyCopy, ThirdPartyMode};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of files of one copy that the servers could not move, after which no further moves
/// are requested.
const MAX_FALL_BACKS: usize = 3;

/// The server that moves a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThirdParty {
    /// The target fetches it.
    Pull,
    /// The source sends it.
    Push,
    /// The target, else the source, else it is copied through this machine.
    Auto,
}

impl FromStr for ThirdParty {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "pull" => Ok(Self::Pull),
            "push" => Ok(Self::Push),
            "auto" => Ok(Self::Auto),
            _ => {
                let what = format!("unknown mode {text:?}: expected pull, push or auto");
                Err(Error::new(ErrorKind::Invalid, what))
            }
        }
    }
}

impl Client {
    /// Moves the files of a copy from server to server, for
    /// [`CopyOptions::third_party`](hither_transfer::CopyOptions::third_party).
    #[must_use]
    pub fn third_party(&self, mode: ThirdParty) -> Arc<dyn ThirdPartyMover> {
        let network = Arc::clone(&self.context.network);
        Arc::new(ServerMover { network, mode, fall_backs: AtomicUsize::new(0) })
    }

    /// Waits until third-party copies that were dropped have ended at their servers and their
    /// partial files are removed, for up to some ten seconds.
    pub async fn clean_up(&self) {
        self.context.network.clean_up().await;
    }
}

#[derive(Debug)]
struct ServerMover {
    network: Arc<Network>,
    mode: ThirdParty,
    fall_backs: AtomicUsize,
}

impl ServerMover {
    async fn run(&self, file: ThirdPartyMove<'_>, moved: MovedBytes) -> Result<()> {
        if self.fall_backs.load(Ordering::Relaxed) >= MAX_FALL_BACKS {
            let what = "the servers could not copy earlier files";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let source = on_server(file.source, file.source_path)?;
        let target = on_server(file.target, file.target_path)?;
        let overwrite = file.overwrite;
        let copy = ThirdPartyCopy { source, target, mode: ThirdPartyMode::Pull, overwrite };
        let ask = async |mode| {
            let moved = Arc::clone(&moved);
            let copy = ThirdPartyCopy { mode, ..copy.clone() };
            self.network.third_party_copy(&copy, move |bytes| moved(bytes)).await
        };
        match self.mode {
            ThirdParty::Pull => ask(ThirdPartyMode::Pull).await,
            ThirdParty::Push => ask(ThirdPartyMode::Push).await,
            ThirdParty::Auto => match ask(ThirdPartyMode::Pull).await {
                Err(pull) if may_go_otherwise(&pull) && can_push(&copy) => {
                    let pushed = ask(ThirdPartyMode::Push).await;
                    pushed.map_err(|push| push.context(format!("no pull either ({pull})")))
                }
                result => result,
            },
        }
    }
}

impl ThirdPartyMover for ServerMover {
    fn move_file<'a>(
        &'a self,
        file: ThirdPartyMove<'a>,
        moved: MovedBytes,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.run(file, moved))
    }

    fn falls_back(&self, error: &Error) -> bool {
        let falls_back = self.mode == ThirdParty::Auto && may_go_otherwise(error);
        if falls_back {
            self.fall_backs.fetch_add(1, Ordering::Relaxed);
        }
        falls_back
    }
}

/// Servers of `root://` only pull.
fn can_push(copy: &ThirdPartyCopy) -> bool {
    copy.source.protocol() == Protocol::Http && copy.target.protocol() == Protocol::Http
}

/// Returns true for errors of one direction (pull, push) that the other may not have. A busy server
/// is not such an error: it is busy with other copies of the same job.
fn may_go_otherwise(error: &Error) -> bool {
    let is_busy = matches!(error.retry(), Retry::Later { .. });
    !is_busy
        && matches!(
            error.kind(),
            ErrorKind::Unsupported
                | ErrorKind::Unauthenticated
                | ErrorKind::PermissionDenied
                | ErrorKind::Unavailable
                | ErrorKind::Timeout
                | ErrorKind::Protocol
                | ErrorKind::Invalid
        )
}

fn on_server(storage: &dyn Storage, path: &str) -> Result<Location> {
    let location = storage.location(path).and_then(|it| it.downcast::<Location>().ok());
    location.map(|it| *it).ok_or_else(|| {
        let what = format!(
            "{}: only servers of http(s):// and root(s):// do third-party copies",
            storage.name()
        );
        Error::new(ErrorKind::Unsupported, what)
    })
}
