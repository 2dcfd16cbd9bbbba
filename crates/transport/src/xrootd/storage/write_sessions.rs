//! The sessions in which one file is open for writing.
//!
//! A connection carries at most one window per round trip, 4 MiB with the usual settings of a Linux
//! sender, so a large file is written over as many sessions as help a bulk job. A server lets one
//! session open a file for writing; xrootd also lets further sessions, whose open carries
//! `kXR_force`. They are opened only where the first open was answered without a redirect with
//! parameters: such parameters are the authorization for one open, and a server that sends them
//! (EOS, dCache) keeps track of each open. A server that refuses a further open gets all bytes in
//! the sessions that it allows.
//!
//! A session that is lost is replaced, and the writes that it had not answered are repeated.

use crate::context::MonotonicClock;
use crate::xrootd::job::{JobError, Operation, OperationResponse};
use crate::xrootd::request::{ServerReply, ask, request_in};
use crate::xrootd::session_pool::{OccupiedSession, SessionHandle};
use crate::xrootd::shared_file::SharedFile;
use crate::xrootd::storage::XrootdStorage;
use crate::xrootd::target::{XrootdTarget, with_words};
use bytes::Bytes;
use futures_util::future::{join_all, join3};
use hither_auth::Action;
use hither_core::error::{Delivery, Error, ErrorKind, Failure, Result};
use hither_core::retry::{self, Retryable};
use hither_load::connections;
use hither_xrd::client::Completion;
use hither_xrd::wire::{OpenRequest, Request, StatInfo, open};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Mutex;
use tracing::debug;

/// The minimum number of bytes of a file for each session: for fewer, a login costs too much.
const MIN_SESSION_BYTES: u64 = 4 << 20;
/// The permissions of a new file, before the server's umask.
const FILE_MODE: u16 = 0o644;

/// A file that is open for writing.
#[derive(Debug)]
pub(super) struct WriteSessions {
    storage: XrootdStorage,
    /// The path of the file.
    at: String,
    /// The server of the file.
    place: XrootdTarget,
    /// Each may be open. The first one is, at the beginning.
    sessions: Vec<WriteSession>,
    /// Requests that failed.
    interruptions: AtomicU64,
}

/// A session in which the file may be open.
#[derive(Debug, Default)]
struct WriteSession {
    is_first: bool,
    /// Bytes being written.
    bytes: AtomicU64,
    /// The server does not allow it.
    refused: AtomicBool,
    open: Mutex<Option<OpenedFile>>,
}

/// The file, open in a session.
#[derive(Debug, Clone)]
pub(super) struct OpenedFile {
    pub(super) place: XrootdTarget,
    lease: Arc<SessionHandle>,
    pub(super) name: Arc<SharedFile>,
    /// Large requests for other files go to other sessions.
    _occupied: Option<Arc<OccupiedSession>>,
}

/// Bytes being written in a session, until this is dropped.
struct Writing<'a>(&'a WriteSession, u64);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.bytes.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl WriteSessions {
    /// Opens the file at `at` with this mode ([`open`]). It will have `size` bytes.
    pub(super) async fn open(
        storage: XrootdStorage,
        at: String,
        mode: u16,
        size: u64,
    ) -> Result<Self> {
        let mut first = open_first(&storage, &at, mode, "").await?;
        let place = first.place.clone();
        let sessions = &place.sessions;
        let shares = place.location.opaque() == storage.at(&at).opaque() && sessions.serves_files();
        let useful = connections::for_bulk(&sessions.link(), sessions.most());
        let by_size = usize::try_from(size / MIN_SESSION_BYTES).unwrap_or(usize::MAX);
        let count = if shares { useful.min(by_size).max(1) } else { 1 };
        if count > 1 {
            first._occupied = Some(Arc::new(OccupiedSession::new(Arc::clone(&first.lease))));
        }
        let first =
            WriteSession { is_first: true, open: Mutex::new(Some(first)), ..Default::default() };
        let others = (1..count).map(|_| WriteSession::default());
        let sessions = std::iter::once(first).chain(others).collect();
        Ok(Self { storage, at, place, sessions, interruptions: AtomicU64::new(0) })
    }

    /// The number of sessions.
    pub(super) fn count(&self) -> usize {
        self.sessions.len()
    }

    /// The number of requests that failed so far.
    pub(super) fn interruptions(&self) -> u64 {
        self.interruptions.load(Ordering::Acquire)
    }

    /// Small files that may be written to the server at the same time.
    pub(super) fn max_small_files(&self) -> usize {
        let sessions = &self.place.sessions;
        connections::for_small_files(&sessions.link(), sessions.max_small_requests())
    }

    /// Writes bytes, in the session in which the fewest are being written.
    pub(super) async fn write(&self, offset: u64, bytes: Bytes) -> Result<()> {
        self.repeated(|| async {
            let (writing, opened) = self.chosen(bytes.len() as u64).await?;
            let what = Operation::Write(Arc::clone(&opened.name), offset, bytes.clone());
            self.ask(writing.0, &opened, what).await?;
            Ok(())
        })
        .await
    }

    /// Writes the whole file and closes it, in one round trip. Returns its metadata, if the server
    /// sent them at the same time.
    pub(super) async fn write_and_close(&self, bytes: Bytes) -> Result<Option<StatInfo>> {
        self.repeated(|| async {
            let (writing, opened) = self.chosen(0).await?;
            let session = writing.0;
            let name = &opened.name;
            let write = Operation::Write(Arc::clone(name), 0, bytes.clone());
            let path = opened.place.path(&self.storage.network, &[]).await?;
            // A server answers the requests of a session in their order.
            let (written, closed, status) = join3(
                self.ask(session, &opened, write),
                self.ask(session, &opened, Operation::Close(Arc::clone(name))),
                self.ask(session, &opened, Operation::Request(Request::Stat(path))),
            )
            .await;
            written.and(closed)?;
            session.open.lock().await.take();
            Ok(match status.map(|answered| answered.reply) {
                Ok(Completion::Status(status)) => Some(status),
                _ => None,
            })
        })
        .await
    }

    /// Repeats an operation on the open file, each time in the session that it chooses.
    async fn repeated<O: Retryable>(&self, operation: O) -> Result<O::Done> {
        let policy = self.storage.network.config().retry_policy();
        retry::run(&policy, &MonotonicClock::start(), operation).await
    }

    /// The session with the fewest bytes in flight, to which `bytes` are added, and the file in it.
    async fn chosen(&self, bytes: u64) -> Result<(Writing<'_>, OpenedFile)> {
        loop {
            let writing = self.least_busy(bytes)?;
            if let Some(opened) = self.opened(writing.0).await? {
                return Ok((writing, opened));
            }
        }
    }

    /// Closes the file in all sessions.
    pub(super) async fn close(&self) -> Result<()> {
        let closed = join_all(self.sessions.iter().map(|session| self.close_in(session))).await;
        closed.into_iter().collect()
    }

    async fn close_in(&self, session: &WriteSession) -> Result<()> {
        if session.open.lock().await.is_none() {
            return Ok(());
        }
        self.repeated(|| async {
            if let Some(opened) = self.opened(session).await? {
                let close = Operation::Close(Arc::clone(&opened.name));
                // A server confirms all writes when it closes the file.
                self.ask(session, &opened, close).await?;
                session.open.lock().await.take();
            }
            Ok(())
        })
        .await
    }

    /// The session with the fewest bytes in flight, to which `bytes` are added.
    fn least_busy(&self, bytes: u64) -> Result<Writing<'_>> {
        let usable = self.sessions.iter().filter(|it| !it.refused.load(Ordering::Relaxed));
        let least = usable.min_by_key(|session| session.bytes.load(Ordering::Relaxed));
        let session = least.ok_or_else(|| self.storage.unexpected(&self.at, "open"))?;
        session.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(Writing(session, bytes))
    }

    /// The file in this session, where it is opened if need be; `None` if the server refuses.
    async fn opened(&self, session: &WriteSession) -> Result<Option<OpenedFile>> {
        let mut open = session.open.lock().await;
        if open.is_none() && !session.refused.load(Ordering::Relaxed) {
            *open = if session.is_first {
                let options = if self.sessions.len() > 1 { open::FORCE } else { 0 };
                Some(open_first(&self.storage, &self.at, options, "").await?)
            } else {
                let opened = self.open_further().await;
                session.refused.store(opened.is_none(), Ordering::Relaxed);
                opened
            };
        }
        Ok(open.clone())
    }

    /// Opens the file in a session where it is not open; `None` if that is not possible.
    async fn open_further(&self) -> Option<OpenedFile> {
        let place = &self.place;
        let occupied = place.sessions.occupy()?;
        let path = place.path(&self.storage.network, &[]).await.ok()?;
        let name = Arc::new(SharedFile::new(request(path, open::FORCE)));
        let lease = Arc::clone(occupied.lease());
        lease.takes(0);
        lease.opens(&name);
        match request_in(&place.sessions, &lease, Operation::Open(Arc::clone(&name))).await {
            Ok(_) => {
                let _occupied = Some(Arc::new(occupied));
                Some(OpenedFile { place: place.clone(), lease, name, _occupied })
            }
            Err(error) => {
                debug!(path = self.at, ?error, "file is not opened in one more session");
                None
            }
        }
    }

    /// Performs an operation on the open file. After a failure the file is opened again.
    async fn ask(
        &self,
        session: &WriteSession,
        opened: &OpenedFile,
        what: Operation,
    ) -> Result<OperationResponse> {
        let reply = opened.ask(&self.storage, what).await;
        if reply.is_err() {
            self.interruptions.fetch_add(1, Ordering::AcqRel);
            let mut open = session.open.lock().await;
            open.take_if(|open| Arc::ptr_eq(&open.name, &opened.name));
        }
        reply
    }
}

impl OpenedFile {
    /// Performs an operation in the session of the file.
    pub(super) async fn ask(
        &self,
        storage: &XrootdStorage,
        what: Operation,
    ) -> Result<OperationResponse> {
        let Self { place, lease, name, .. } = self;
        lease.takes(what.bytes());
        request_in(&place.sessions, lease, what).await.map_err(|error| match error {
            JobError::Failed(error) => place.explained(&storage.network, Action::Create, error),
            JobError::TooLate => {
                let what = format!("{}: the connection was closed", place.location);
                Error::new(ErrorKind::Unavailable, what)
                    .with_failure(Failure::Interrupted(Delivery::Unsent))
            }
            JobError::Elsewhere(_) | JobError::WantsTls => {
                storage.unexpected(name.bare_path(), "a request on an open file")
            }
        })
    }
}

/// Opens the file at `at`, wherever the server redirects to. `words` are further parameters.
pub(super) async fn open_first(
    storage: &XrootdStorage,
    at: &str,
    options: u16,
    words: &str,
) -> Result<OpenedFile> {
    let how = |path| {
        let request = request(with_words(path, words), options);
        Operation::Open(Arc::new(SharedFile::new(request)))
    };
    let reply = ask(&storage.network, &storage.at(at), Action::Create, how).await?;
    let ServerReply { place, lease, what, .. } = reply;
    let name = what.name().cloned().ok_or_else(|| storage.unexpected(at, "open"))?;
    Ok(OpenedFile { place, lease, name, _occupied: None })
}

fn request(path: String, options: u16) -> OpenRequest {
    let options = options | open::UPDATE | open::STAT;
    OpenRequest { path, options, more_options: 0, mode: FILE_MODE }
}
