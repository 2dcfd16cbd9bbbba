//! An upload to an XRootD server.

use crate::xrootd::storage::write_sessions::WriteSessions;
use crate::xrootd::storage::{XrootdStorage, entry};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join;
use hither_checksum::{Algorithm, Checksum};
use hither_core::Source;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{
    CommittedFile, DirEntry, FileKind, PutOptions, Storage, Upload, file_name, hide_partial_name,
    partial_token, read_back, sibling, unique_partial_name,
};
use hither_core::sync::lock;
use hither_xrd::wire::open;
use std::sync::{Arc, Mutex};

/// The size of a block. Two are in flight in each session, so that it is never idle, and a session
/// has few left when the others are done.
const BLOCK_BYTES: u64 = 1 << 20;
/// The minimum number of parallel blocks: in one session they only have to fill the round trip.
const MIN_PARALLEL: usize = 16;

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct XrootdUpload {
    storage: XrootdStorage,
    path: String,
    options: PutOptions,
    /// The temporary path.
    at: String,
    sessions: WriteSessions,
    /// All bytes of a file of one block. They are sent together with the request to close it.
    whole: Mutex<Option<Bytes>>,
}

impl XrootdUpload {
    pub(crate) async fn start(
        storage: XrootdStorage,
        path: String,
        options: PutOptions,
    ) -> Result<Self> {
        let resumed = resumed(&storage, &path, &options).await?;
        let (at, mode) = match resumed {
            // The session of a client that was killed may not be closed yet.
            Some(at) => (at, open::FORCE),
            // An earlier attempt may have left a file there.
            None if options.size <= BLOCK_BYTES => (options.partial_path(&path), open::DELETE),
            // A file that is resumed by its name must not have the name of a lost one.
            None => (sibling(&path, &unique_partial_name(&path)), open::NEW),
        };
        let sessions = WriteSessions::open(storage.clone(), at.clone(), mode, options.size);
        let sessions = sessions.await.map_err(|error| hide_partial_name(error, &path))?;
        Ok(Self { storage, path, options, at, sessions, whole: Mutex::default() })
    }

    /// Completes the file. Returns its entry under the final path, as far as it is known.
    async fn complete(&self) -> Result<Option<DirEntry>> {
        let whole = lock(&self.whole).take();
        let Some(bytes) = whole else {
            self.sessions.close().await?;
            let status = self.storage.stat_of(&self.at).await?;
            return Ok(Some(DirEntry { path: self.path.clone(), ..status }));
        };
        let status = self.sessions.write_and_close(bytes).await?;
        let status = status.filter(|status| status.size == self.options.size);
        Ok(status.map(|status| entry(self.path.clone(), &status)))
    }

    /// Fails if the checksum of the file on the server is wrong. Returns false if it is unknown.
    async fn compare(&self, expected: &Checksum) -> Result<bool> {
        let algorithm = expected.algorithm();
        let reported = match self.storage.query_checksum(&self.at, algorithm).await? {
            None if self.options.read_back => {
                let source = self.storage.source(&self.at)?;
                let policy = self.storage.network.config().retry_policy();
                Some(read_back(&*source, 0..self.options.size, algorithm, &policy).await?)
            }
            reported => reported,
        };
        let is_known = reported.is_some();
        let Some(reported) = reported.filter(|reported| reported != expected) else {
            return Ok(is_known);
        };
        let what = format!(
            "{}: {} of the bytes on the server is {}, expected {}",
            self.storage.at(&self.path),
            reported.algorithm().name(),
            reported.hex(),
            expected.hex()
        );
        Err(Error::new(ErrorKind::Corrupt, what))
    }

    /// Removes what was written.
    pub(super) async fn discard(&self) -> Result<()> {
        let _closed = self.sessions.close().await;
        match self.storage.look(&self.at).await? {
            Some(entry) => self.storage.remove_file(&entry).await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Upload for XrootdUpload {
    fn parallel(&self) -> usize {
        (2 * self.sessions.count()).max(MIN_PARALLEL)
    }

    fn max_small_files(&self) -> usize {
        self.sessions.max_small_files()
    }

    fn block_bytes(&self) -> u64 {
        BLOCK_BYTES
    }

    fn token(&self) -> Option<String> {
        // Nothing was sent of a file that is sent at the end.
        lock(&self.whole).is_none().then(|| file_name(&self.at).to_owned())
    }

    async fn write(&self, offset: u64, bytes: Bytes) -> Result<()> {
        let is_whole = bytes.len() as u64 == self.options.size && self.options.size <= BLOCK_BYTES;
        if bytes.is_empty() {
            return Ok(());
        }
        if is_whole {
            *lock(&self.whole) = Some(bytes);
            return Ok(());
        }
        let written = self.sessions.write(offset, bytes).await;
        written.map_err(|error| hide_partial_name(error, &self.path))
    }

    fn interruptions(&self) -> u64 {
        self.sessions.interruptions()
    }

    async fn written_checksum(&self, algorithm: Algorithm) -> Result<Option<Checksum>> {
        self.sessions.close().await?;
        self.storage.query_checksum(&self.at, algorithm).await
    }

    fn written_source(&self) -> Option<Arc<dyn Source>> {
        self.storage.source(&self.at).ok()
    }

    async fn commit(self: Box<Self>, checksum: Option<Checksum>) -> Result<CommittedFile> {
        let interruptions = self.interruptions();
        let committed = async {
            let free = self.storage.check_put(&self.path, &self.options);
            let (known, free) = join(self.complete(), free).await;
            let known = match known? {
                Some(entry) => entry,
                None => self.storage.stat_of(&self.at).await?,
            };
            if known.size != Some(self.options.size) {
                let place = self.storage.at(&self.path);
                let seen = known.shown_size();
                let expected = self.options.size;
                let what = format!("{place} has {seen} on the server, expected {expected}");
                return Err(Error::new(ErrorKind::Corrupt, what));
            }
            let is_compared = match &checksum {
                Some(expected) => self.compare(expected).await?,
                None => false,
            };
            let mut before = free?;
            if self.options.expected.is_some() {
                // The server compares nothing: this is the last look before the name changes.
                before = self.storage.check_put(&self.path, &self.options).await?;
            }
            let from = DirEntry { path: self.at.clone(), ..known.clone() };
            self.storage.rename_to(&from, &self.path, before.as_ref()).await?;
            let entry = DirEntry { path: self.path.clone(), ..known };
            let may_have_lost_bytes = self.interruptions() != interruptions;
            Ok(CommittedFile { is_compared, may_have_lost_bytes, ..entry.into() })
        };
        let result = committed.await;
        if result.is_err() {
            // A file that cannot be renamed is useless.
            let _gone = self.discard().await;
        }
        result.map_err(|error| hide_partial_name(error, &self.path))
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        self.discard().await
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
    let same = |entry: &DirEntry| {
        entry.kind == FileKind::File && entry.size.is_some_and(|size| size <= options.size)
    };
    Ok(there.as_ref().is_some_and(same).then_some(at))
}
