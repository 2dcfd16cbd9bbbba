//! Third-party copy over `root://` (XRootD's TPC): the server of the target fetches the file.
//!
//! ```text
//!  source           this machine            target
//!    │ <── open, placement ─ │                │    1. which server has it, and its size
//!    │                       │ ─ open, key ─> │    2. an empty file under a temporary name
//!    │                       │ ──── sync ───> │    3. starts the copy, once a slot is free
//!    │ <───── open, key ──── │                │    4. allows the target to read
//!    │ <════════ open, key; reads ═══════════ │
//!    │                       │ ──── sync ───> │    5. answered at the end; stat tells the progress
//!    │                       │ ─ close, mv ─> │    6. the file gets its name
//! ```
//!
//! The key is a secret of the three. The source lets the target read as this machine's user, so no
//! token is passed on. Closing the target's file, or losing its connection, stops the copy.
//!
//! A copy runs in a task of its own: if its caller drops it, the copy at the target is stopped, and
//! the partial file is removed. [`Network::clean_up`] waits for that.

use crate::network::Network;
use crate::network::third_party::{MAX_STALL, ThirdPartyCopy};
use crate::xrootd::job::Operation;
use crate::xrootd::request::{ServerReply, ask};
use crate::xrootd::shared_file::SharedFile;
use crate::xrootd::storage::XrootdStorage;
use crate::xrootd::storage::write_sessions::{OpenedFile, open_first};
use crate::xrootd::target::{XrootdTarget, with_words};
use hither_auth::Action;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{sibling, unique_partial_name};
use hither_xrd::client::Completion;
use hither_xrd::wire::{OpenRequest, Request, open, query_kind};
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

/// The interval at which the size of the target is requested.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Time for removing what a failed copy has left.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(10);
/// Seconds in which the target has to open the source. Servers have a lower limit of their own.
const KEY_SECONDS: u32 = 60;

impl Network {
    /// Has the server of the target fetch a file.
    pub(crate) async fn xrootd_third_party_copy(
        self: &Arc<Self>,
        copy: &ThirdPartyCopy,
        moved: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<()> {
        let (caller, gone) = oneshot::channel::<()>();
        let copy = copy.clone();
        let pull = Pull::new(self, &copy);
        let running = self.clean_up_guard();
        let task = self.runtime().spawn(async move {
            let result = tokio::select! {
                result = pull.run(&copy, moved) => result,
                _ = gone => Err(Error::new(ErrorKind::Unavailable, "cancelled")),
            };
            if result.is_err() && timeout(CLEAN_UP_TIMEOUT, pull.discard()).await.is_err() {
                debug!(target = %copy.target, "a partial file could not be removed in time");
            }
            drop(running);
            result
        });
        let result = task.await;
        drop(caller);
        result.unwrap_or_else(|error| {
            Err(Error::new(ErrorKind::Unavailable, format!("the copy ended early: {error}")))
        })
    }
}

/// One copy, seen from its target.
struct Pull {
    storage: XrootdStorage,
    /// The path of the target.
    path: String,
    /// The temporary path.
    at: String,
    /// The file at the temporary path.
    opened: OnceLock<OpenedFile>,
}

impl Pull {
    fn new(network: &Arc<Network>, copy: &ThirdPartyCopy) -> Self {
        let storage = XrootdStorage::new(copy.target.root(), Arc::clone(network));
        let path = copy.target.plain_path().trim_start_matches('/').to_owned();
        let at = sibling(&path, &unique_partial_name(&path));
        Self { storage, path, at, opened: OnceLock::new() }
    }

    async fn run(&self, copy: &ThirdPartyCopy, moved: impl Fn(u64)) -> Result<()> {
        let network = &*self.storage.network;
        self.storage.check_name(&self.path)?;
        self.storage.check_target(&self.path, copy.overwrite).await?;
        let ServerReply { answered, place: source, .. } =
            open_source(network, copy, "tpc.stage=placement").await?;
        let Completion::Opened { status: Some(status), .. } = answered.reply else {
            return Err(self.storage.unexpected(&copy.source.plain_path(), "open"));
        };
        check_support(network, &source).await?;
        let key = new_key(&self.at);
        let opened = self.open_target(&source, &key, status.size).await?;
        check_support(network, &opened.place).await?;
        let sync = || opened.ask(&self.storage, Operation::Sync(Arc::clone(&opened.name)));
        sync().await?;
        let words = format!(
            "tpc.key={key}&tpc.dst={}&tpc.ttl={KEY_SECONDS}&tpc.stage=copy",
            bracketed(opened.place.location.host())
        );
        // Open until the copy has ended.
        let allowed = ThirdPartyCopy { source: source.named.clone(), ..copy.clone() };
        let _source = open_source(network, &allowed, &words).await?;
        {
            let mut end = pin!(sync());
            let mut progress = pin!(self.watch(opened, moved));
            tokio::select! {
                result = &mut end => result.map(drop),
                error = &mut progress => Err(error),
            }
            .map_err(|error| error.context("the third-party copy failed"))?;
        }
        opened.ask(&self.storage, Operation::Close(Arc::clone(&opened.name))).await?;
        let seen = self.storage.stat_of(&self.at).await?;
        if seen.size != Some(status.size) {
            let arrived = seen.shown_size();
            let what = format!("{}: {arrived} arrived, expected {}", copy.target, status.size);
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        let before = self.storage.check_target(&self.path, copy.overwrite).await?;
        self.storage.rename_to(&seen, &self.path, before.as_ref()).await
    }

    /// Creates the file that the copy fills.
    async fn open_target(
        &self,
        source: &XrootdTarget,
        key: &str,
        size: u64,
    ) -> Result<&OpenedFile> {
        let path = source.location.plain_path();
        if path.contains('&') {
            let what =
                format!("{}: a third-party copy cannot name a path with \"&\"", source.named);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let scheme = |place: &XrootdTarget| if place.location.is_tls() { "xroots" } else { "root" };
        let target = XrootdTarget::new(self.storage.at(&self.at), &self.storage.network);
        let words = format!(
            "tpc.key={key}&tpc.src={}&tpc.lfn={path}&tpc.spr={}&tpc.tpr={}&tpc.dlgon=0\
             &tpc.stage=copy&oss.asize={size}",
            source.location.host_and_port(),
            scheme(source),
            scheme(&target),
        );
        let opened = open_first(&self.storage, &self.at, open::NEW, &words).await;
        let opened = opened.map_err(|error| {
            // xrootd reports it as an error of its file system.
            let lacks = error.to_string().contains("tpc not supported");
            if lacks { unsupported(&target) } else { error }
        })?;
        Ok(self.opened.get_or_init(|| opened))
    }

    /// Calls `moved` as the file grows. Returns if it stops growing.
    async fn watch(&self, opened: &OpenedFile, moved: impl Fn(u64)) -> Error {
        let mut size = 0;
        let mut grown = Instant::now();
        while grown.elapsed() < MAX_STALL {
            sleep(PROGRESS_INTERVAL).await;
            let Ok(path) = opened.place.path(&self.storage.network, &[]).await else { continue };
            let stat = Operation::Request(Request::Stat(path));
            if let Ok(answered) = opened.ask(&self.storage, stat).await
                && let Completion::Status(status) = answered.reply
                && status.size > size
            {
                size = status.size;
                grown = Instant::now();
                moved(size);
            }
        }
        let what = format!(
            "{}: the server has written nothing for {} s",
            self.storage.at(&self.path),
            MAX_STALL.as_secs()
        );
        Error::new(ErrorKind::Timeout, what)
    }

    /// Stops the copy and removes the file.
    async fn discard(&self) {
        if let Some(opened) = self.opened.get() {
            let close = Operation::Close(Arc::clone(&opened.name));
            let _closed = opened.ask(&self.storage, close).await;
        }
        if let Ok(Some(entry)) = self.storage.look(&self.at).await
            && let Err(error) = self.storage.remove_file(&entry).await
        {
            debug!(%error, path = self.at, "a partial file is left");
        }
    }
}

/// Opens the source with these parameters, wherever its server redirects to.
async fn open_source(network: &Network, copy: &ThirdPartyCopy, words: &str) -> Result<ServerReply> {
    let open = |path: String| {
        let request = OpenRequest::for_reading(with_words(path, words));
        Operation::Open(Arc::new(SharedFile::new(request)))
    };
    ask(network, &copy.source, Action::Read, open).await
}

/// Fails if a server does no third-party copies.
async fn check_support(network: &Network, place: &XrootdTarget) -> Result<()> {
    let request =
        |_| Operation::Request(Request::Query { kind: query_kind::CONFIG, text: "tpc".to_owned() });
    let text = match ask(network, &place.named, Action::Read, request).await {
        Ok(ServerReply { answered, .. }) => match answered.reply {
            Completion::Text(text) => String::from_utf8_lossy(&text).into_owned(),
            _ => String::new(),
        },
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Invalid) => {
            String::new()
        }
        Err(error) => return Err(error),
    };
    // The version, with a `+` where TLS is required; without support the name of the request.
    let version = text.trim_matches(['\0', '\n', '+', ' ']).parse::<u32>();
    if version.is_ok_and(|version| version > 0) { Ok(()) } else { Err(unsupported(place)) }
}

fn unsupported(place: &XrootdTarget) -> Error {
    let what = format!(
        "{}: the server does no third-party copies (xrootd needs ofs.tpc)",
        place.location.origin()
    );
    Error::new(ErrorKind::Unsupported, what)
}

/// A key that cannot be guessed: its hashers have random keys.
fn new_key(path: &str) -> String {
    let number = |salt: u8| RandomState::new().hash_one((salt, path));
    format!("{:016x}{:016x}", number(0), number(1))
}

/// An IPv6 address has brackets.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}
