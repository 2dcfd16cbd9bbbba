//! An upload to an XRootD server.

use crate::xrootd::job::{JobError, Operation};
use crate::xrootd::request::{Asked, ask, ask_in};
use crate::xrootd::session_pool::SessionHandle;
use crate::xrootd::shared_file::SharedFile;
use crate::xrootd::storage::XrootdStorage;
use crate::xrootd::target::XrootdTarget;
use async_trait::async_trait;
use bytes::Bytes;
use hither_auth::Action;
use hither_core::checksum::Checksum;
use hither_core::error::{Error, ErrorKind, Result, Retry};
use hither_core::storage::unique_partial_name;
use hither_core::storage::{
    DirEntry, FileKind, PutOptions, Upload, file_name, partial_token, sibling,
};
use hither_xrd::wire::{OpenRequest, open};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Parallel blocks. They share one connection, so they only have to fill the round trip.
const PARALLEL: usize = 16;
/// The permissions of a new file, before the server's umask.
const FILE_MODE: u16 = 0o644;

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct XrootdUpload {
    storage: XrootdStorage,
    path: String,
    overwrite: bool,
    /// The temporary path.
    at: String,
    /// The session in which it is open.
    open: Mutex<Option<Open>>,
}

/// A file that is open for writing.
#[derive(Debug, Clone)]
struct Open {
    place: XrootdTarget,
    lease: Arc<SessionHandle>,
    name: Arc<SharedFile>,
}

impl XrootdUpload {
    pub(crate) async fn start(
        storage: XrootdStorage,
        path: String,
        options: &PutOptions,
    ) -> Result<Self> {
        let resumed = resumed(&storage, &path, options).await?;
        let is_new = resumed.is_none();
        let at = resumed.unwrap_or_else(|| sibling(&path, &unique_partial_name(&path)));
        let upload =
            Self { storage, path, overwrite: options.overwrite, at, open: Mutex::new(None) };
        let opened = upload.opened(is_new).await?;
        *upload.open.lock().await = Some(opened);
        Ok(upload)
    }

    /// Opens the file for writing.
    async fn opened(&self, is_new: bool) -> Result<Open> {
        let location = self.storage.at(&self.at);
        let options = open::UPDATE | open::STAT | if is_new { open::NEW } else { 0 };
        let how = |path| {
            let request = OpenRequest { path, options, more_options: 0, mode: FILE_MODE };
            Operation::Open(Arc::new(SharedFile::new(request)))
        };
        let network = &self.storage.network;
        let Asked { place, lease, what, .. } = ask(network, &location, Action::Create, how).await?;
        let name = what.name().cloned();
        let name = name.ok_or_else(|| self.storage.unexpected(&self.at, "open"))?;
        Ok(Open { place, lease, name })
    }

    /// Performs an operation on the open file, which is opened again if its connection was lost.
    async fn with_open(&self, what: impl Fn(Arc<SharedFile>) -> Operation) -> Result<()> {
        let Open { place, lease, name } = {
            let mut open = self.open.lock().await;
            match &*open {
                Some(open) => open.clone(),
                None => open.insert(self.opened(false).await?).clone(),
            }
        };
        let what = what(Arc::clone(&name));
        lease.takes(what.bytes());
        match ask_in(&place.sessions, &lease, what).await {
            Ok(_) => Ok(()),
            Err(trouble) => {
                let mut open = self.open.lock().await;
                if open.as_ref().is_some_and(|open| Arc::ptr_eq(&open.name, &name)) {
                    *open = None;
                }
                Err(match trouble {
                    JobError::Failed(error) => {
                        place.explained(&self.storage.network, Action::Create, error)
                    }
                    JobError::TooLate => {
                        let what = format!("{}: the connection was closed", place.location);
                        let again = Retry::SameServer { after: Duration::ZERO };
                        Error::new(ErrorKind::Unavailable, what).with_retry(again)
                    }
                    JobError::Elsewhere(_) | JobError::WantsTls => {
                        self.storage.unexpected(&self.at, "write")
                    }
                })
            }
        }
    }
}

#[async_trait]
impl Upload for XrootdUpload {
    fn parallel(&self) -> usize {
        PARALLEL
    }

    fn token(&self) -> Option<String> {
        Some(file_name(&self.at).to_owned())
    }

    async fn write(&self, offset: u64, bytes: Bytes) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.with_open(|name| Operation::Write(name, offset, bytes.clone())).await
    }

    async fn commit(self: Box<Self>, checksum: Option<Checksum>) -> Result<DirEntry> {
        let committed = async {
            self.with_open(Operation::Close).await?;
            self.open.lock().await.take();
            if let Some(expected) = checksum
                && let Some(told) =
                    self.storage.told_checksum(&self.at, expected.algorithm()).await?
                && told != expected
            {
                let what = format!(
                    "{}: {} of the bytes on the server is {}, expected {}",
                    self.storage.at(&self.path),
                    told.algorithm().name(),
                    told.hex(),
                    expected.hex()
                );
                return Err(Error::new(ErrorKind::Corrupt, what));
            }
            self.storage.check_target(&self.path, self.overwrite).await?;
            self.storage.rename_to(&self.at, &self.path).await?;
            self.storage.stat_of(&self.path).await
        };
        let result = committed.await;
        if result.is_err() {
            // A file that cannot be renamed is useless.
            let _gone = self.discard().await;
        }
        result
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        self.discard().await
    }
}

impl XrootdUpload {
    async fn discard(&self) -> Result<()> {
        if self.open.lock().await.is_some() {
            let _closed = self.with_open(Operation::Close).await;
            self.open.lock().await.take();
        }
        match self.storage.look(&self.at).await? {
            Some(entry) => self.storage.remove_one(&entry).await,
            None => Ok(()),
        }
    }
}

/// The temporary path of an earlier attempt, if it can be resumed: a longer file would keep its
/// end.
async fn resumed(
    storage: &XrootdStorage,
    path: &str,
    options: &PutOptions,
) -> Result<Option<String>> {
    let Some(token) = options.resume.as_deref().and_then(partial_token) else {
        return Ok(None);
    };
    let at = sibling(path, token);
    let there = storage.look(&at).await?;
    let same = |entry: &DirEntry| entry.kind == FileKind::File && entry.size <= options.size;
    Ok(there.as_ref().is_some_and(same).then_some(at))
}
