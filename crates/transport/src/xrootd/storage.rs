//! An XRootD server as a storage.
//!
//! **Names** are literal, but `?` begins the opaque information, so no name can contain it. Servers
//! replace anything when they rename, and give few reasons for a failed removal. So where a
//! response can have two reasons, the metadata of the name are requested before or after it;
//! another client may act in between.
//!
//! **Writing.** A file is written under a temporary name in the same directory, and renamed when it
//! is complete and closed (`storage/write_sessions.rs`). Servers create missing directories with a
//! file, so its directory is looked up before; once, as long as this storage does not remove it. In
//! a known directory a small file takes three round trips: it is created, written and closed, and
//! renamed; the target is looked up concurrently with the first two.

mod removal;
mod third_party;
pub(crate) mod upload;
mod write_sessions;

use crate::http::call::change::{ChangeOutcome, Seen, TargetBefore, carry_out};
use crate::location::Location;
use crate::network::Network;
use crate::replica_discovery::ReplicaFinder;
use crate::xrootd::checksum::checksum;
use crate::xrootd::entry_sender::{self, EntrySender, ListingError};
use crate::xrootd::job::{Operation, OperationResponse, validator};
use crate::xrootd::request::ask;
use crate::xrootd::source::XrootdSource;
use crate::xrootd::storage::upload::XrootdUpload;
use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt, stream};
use hither_auth::Action;
use hither_checksum::{Algorithm, Checksum};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{
    DirEntry, DirectoryRemoval, FileKind, Listing, PutOptions, Storage, Upload, check_name,
    check_new_name, check_path, check_version, join, parent,
};
use hither_core::sync::lock;
use hither_core::{ReplicaSet, Source};
use hither_xrd::client::Completion;
use hither_xrd::wire::{self, Request, StatInfo};
use std::any::Any;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// The permissions of a new directory, before the server's umask.
const DIRECTORY_MODE: u16 = 0o755;
/// The maximum number of remembered directories. Beyond it, all are forgotten.
const MAX_DIRECTORIES: usize = 4096;

/// A tree of files behind an XRootD server.
#[derive(Debug, Clone)]
pub struct XrootdStorage {
    network: Arc<Network>,
    root: Location,
    /// Directories that exist, as far as this storage has seen.
    directories: Arc<Mutex<HashSet<String>>>,
    replicas: Option<ReplicaFinder>,
}

impl XrootdStorage {
    /// The directory at `root`. Nothing is requested yet.
    #[must_use]
    pub fn new(root: Location, network: Arc<Network>) -> Self {
        Self { network, root, directories: Arc::default(), replicas: None }
    }

    /// Remembers a directory that exists.
    fn saw_directory(&self, path: &str) {
        let mut directories = lock(&self.directories);
        if directories.len() >= MAX_DIRECTORIES {
            directories.clear();
        }
        directories.insert(path.to_owned());
    }

    fn knows_directory(&self, path: &str) -> bool {
        lock(&self.directories).contains(path)
    }

    /// Finds replicas of its files with `finder`.
    #[must_use]
    pub fn with_replicas(self, finder: ReplicaFinder) -> Self {
        Self { replicas: Some(finder), ..self }
    }

    fn at(&self, path: &str) -> Location {
        self.root.below(path, false)
    }

    async fn ask(
        &self,
        path: &str,
        action: Action,
        make: impl Fn(String) -> Request + Send + Sync,
    ) -> Result<OperationResponse> {
        let make = move |path| Operation::Request(make(path));
        Ok(ask(&self.network, &self.at(path), action, make).await?.answered)
    }

    async fn stat_of(&self, path: &str) -> Result<DirEntry> {
        match self.ask(path, Action::Read, Request::Stat).await?.reply {
            Completion::Status(status) => Ok(entry(path.to_owned(), &status)),
            _ => Err(self.unexpected(path, "stat")),
        }
    }

    /// The entry of a name; `None` if there is none.
    async fn look(&self, path: &str) -> Result<Option<DirEntry>> {
        match self.stat_of(path).await {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn query_checksum(&self, path: &str, algorithm: Algorithm) -> Result<Option<Checksum>> {
        checksum(&self.network, &self.at(path), algorithm).await
    }

    async fn list_of(&self, path: &str) -> Result<Listing> {
        let mut listing = Listing::default();
        let mut parts = self.listing(path);
        while let Some(part) = parts.try_next().await? {
            listing.append(part);
        }
        listing.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    /// The entries of a directory as they arrive.
    fn listing<'a>(&'a self, path: &'a str) -> BoxStream<'a, Result<Listing>> {
        let (sender, names) = EntrySender::channel(entry_sender::MAX_BYTES);
        let answered = async move {
            let list = move |path| Operation::List(path, sender.clone());
            ask(&self.network, &self.at(path), Action::List, list).await.map(|_| Listing::default())
        };
        let arrived = stream::unfold(names, |mut names| async move {
            let batch = names.recv().await?;
            Some((batch, names))
        });
        let arrived = arrived.then(move |names| async move {
            let failed = |error| {
                let (kind, what) = match error {
                    ListingError::TooLarge => {
                        (ErrorKind::TooLarge, "the directory has too many names")
                    }
                    ListingError::Repeated => {
                        (ErrorKind::Unavailable, "the server began the listing again")
                    }
                };
                Error::new(kind, format!("{}: {what}", self.at(path)))
            };
            self.entries(path, names.map_err(failed)?).await
        });
        // The last batch is empty, or the error.
        Box::pin(stream::select(arrived, stream::once(answered)))
    }

    /// The entries of names in the directory at `path`.
    async fn entries(&self, path: &str, names: Vec<wire::DirlistEntry>) -> Result<Listing> {
        let mut listing = Listing::default();
        for name in names {
            let path = join(path, &name.name);
            if !name.is_utf8 {
                let unknown = DirEntry { size: None, ..DirEntry::new("", FileKind::Unnamed, 0) };
                let known = name.status.map(|status| entry(String::new(), &status).into_unnamed());
                listing.entries.push(DirEntry { path, ..known.unwrap_or(unknown) });
                continue;
            }
            // If a server lists only names, the metadata of each are requested.
            let known = match name.status {
                Some(status) => Ok(entry(path.clone(), &status)),
                None => self.stat_of(&path).await,
            };
            match known {
                Ok(entry) => listing.entries.push(entry),
                Err(error) if error.concerns_name() => listing.failed.push((path, error)),
                Err(error) => return Err(error),
            }
        }
        Ok(listing)
    }

    /// The error for the listing of a file, which servers list as an empty directory, or refuse for
    /// any reason.
    async fn check_listed(&self, path: &str) -> Result<()> {
        if let Some(there) = self.look(path).await?
            && there.kind != FileKind::Directory
        {
            let what = format!("{} is a file, not a directory", self.at(path));
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        Ok(())
    }

    /// Carries out a change; `look` shows its result if the response leaves it open
    /// ([`carry_out`]).
    async fn change<S, L>(
        &self,
        send: impl Fn() -> S + Send + Sync,
        look: impl Fn() -> L + Send + Sync,
    ) -> Result<()>
    where
        S: Future<Output = Result<OperationResponse>> + Send,
        L: Future<Output = Result<Seen>> + Send,
    {
        let sent = || async {
            match send().await {
                Err(error)
                    if error.may_have_been_carried_out() && removal::refusal(&error).is_none() =>
                {
                    Ok(ChangeOutcome::Unseen(error))
                }
                sent => sent.map(|_| ChangeOutcome::Done(())),
            }
        };
        let policy = self.network.config().retry_policy();
        carry_out(&policy, sent, look).await.map(drop)
    }

    /// Renames a file or directory; `before` is the entry of the new name, which is replaced.
    async fn rename_to(&self, from: &DirEntry, to: &str, before: Option<&DirEntry>) -> Result<()> {
        // Both are below the same root, so the second path needs no opaque information.
        let target = self.at(to).plain_path();
        let rename = |from| Request::Rename { from, to: target.clone() };
        let look = || async {
            let (left, there) = futures_util::try_join!(self.look(&from.path), self.look(to))?;
            let before = TargetBefore::seen(before);
            Ok(Seen::moved(from, before, left.as_ref(), there.as_ref()))
        };
        self.change(|| self.ask(&from.path, Action::Modify, rename), look).await
    }

    /// Fails if a file with these options may not be written under this name. Returns its entry.
    async fn check_put(&self, path: &str, options: &PutOptions) -> Result<Option<DirEntry>> {
        let Some(expected) = &options.expected else {
            return self.check_target(path, options.overwrite).await;
        };
        let there = self.look(path).await?;
        check_version(expected, there.as_ref(), self.at(path))?;
        Ok(there)
    }

    /// Fails if no file may be written under this name. Returns its entry.
    async fn check_target(&self, path: &str, overwrite: bool) -> Result<Option<DirEntry>> {
        match self.look(path).await? {
            Some(there) if there.kind == FileKind::Directory => {
                let what = format!("{} is a directory", self.at(path));
                Err(Error::new(ErrorKind::Invalid, what))
            }
            Some(_) if !overwrite => Err(self.exists(path)),
            None => self.check_parent(path).await.map(|()| None),
            there => Ok(there),
        }
    }

    /// Fails if the parent directory is missing, because servers would create it.
    async fn check_parent(&self, path: &str) -> Result<()> {
        let parent = parent(path);
        if self.knows_directory(parent) {
            return Ok(());
        }
        match self.stat_of(parent).await?.kind {
            FileKind::Directory => {
                self.saw_directory(parent);
                Ok(())
            }
            _ => {
                let what = format!("{} is not a directory", self.at(parent));
                Err(Error::new(ErrorKind::NotFound, what))
            }
        }
    }

    /// Fails for a name that cannot be written, removed or renamed.
    fn check_name(&self, path: &str) -> Result<()> {
        check(path)?;
        check_name(path, &self.root)
    }

    fn exists(&self, path: &str) -> Error {
        Error::new(ErrorKind::AlreadyExists, format!("{} exists already", self.at(path)))
    }

    fn unexpected(&self, path: &str, request: &str) -> Error {
        let what =
            format!("{}: the server sent an unexpected response to {request}", self.at(path));
        Error::new(ErrorKind::Protocol, what)
    }
}

/// Fails for a name that the protocol cannot express.
fn check(path: &str) -> Result<()> {
    check_path(path)?;
    if let Some(wrong) = path.chars().find(|letter| matches!(letter, '?' | '\n')) {
        let what =
            format!("the path {path:?} contains {wrong:?}, which root:// does not allow in names");
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    Ok(())
}

fn entry(path: String, status: &StatInfo) -> DirEntry {
    let kind = match (status.is_directory(), status.flags & wire::stat_flags::OTHER != 0) {
        (true, _) => FileKind::Directory,
        (_, true) => FileKind::Other,
        _ => FileKind::File,
    };
    let seconds = u64::try_from(status.modified).ok();
    DirEntry {
        path,
        kind,
        size: Some(if kind == FileKind::File { status.size } else { 0 }),
        modified: seconds
            .and_then(|after| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(after))),
        validator: (kind == FileKind::File).then(|| validator(status.modified, status.size)),
    }
}

#[async_trait]
impl Storage for XrootdStorage {
    fn name(&self) -> String {
        self.root.to_string()
    }

    async fn stat(&self, path: &str) -> Result<DirEntry> {
        check(path)?;
        self.stat_of(path).await
    }

    async fn list(&self, path: &str) -> Result<Listing> {
        check(path)?;
        let listed = self.list_of(path).await;
        if listed.as_ref().map_or(true, |listed| listed.entries.is_empty()) {
            self.check_listed(path).await?;
        }
        listed
    }

    fn list_batches<'a>(&'a self, path: &'a str) -> BoxStream<'a, Result<Listing>> {
        if let Err(error) = check(path) {
            return Box::pin(stream::once(async move { Err(error) }));
        }
        let is_empty = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&is_empty);
        let arrived = self.listing(path).inspect_ok(move |batch| {
            seen.fetch_and(batch.entries.is_empty(), Ordering::Relaxed);
        });
        let end = async move {
            if is_empty.load(Ordering::Relaxed) {
                self.check_listed(path).await?;
            }
            Ok(Listing::default())
        };
        Box::pin(arrived.chain(stream::once(end)))
    }

    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        check(path)?;
        Ok(Arc::new(XrootdSource::new(self.at(path), Arc::clone(&self.network))))
    }

    fn location(&self, path: &str) -> Option<Box<dyn Any + Send + Sync>> {
        Some(Box::new(self.at(path)))
    }

    fn replicas(&self, path: &str) -> Result<Option<Arc<dyn ReplicaSet>>> {
        let Some(finder) = &self.replicas else { return Ok(None) };
        check(path)?;
        Ok(finder.find(&self.at(path))?.map(|found| found as _))
    }

    async fn put(&self, path: &str, options: PutOptions) -> Result<Box<dyn Upload>> {
        self.check_name(path)?;
        let check = self.check_put(path, &options);
        let is_beside = self.knows_directory(parent(path)) && options.resume.is_none();
        let upload = if is_beside {
            let start = XrootdUpload::start(self.clone(), path.to_owned(), options.clone());
            let (checked, started) = futures_util::future::join(check, start).await;
            if let (Err(_), Ok(upload)) = (&checked, &started) {
                // The reason why it may not be written is the error to report.
                let _gone = upload.discard().await;
            }
            checked.and(started)?
        } else {
            check.await?;
            XrootdUpload::start(self.clone(), path.to_owned(), options).await?
        };
        Ok(Box::new(upload) as Box<dyn Upload>)
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.check_name(path)?;
        let entry = self.stat_of(path).await?;
        match entry.kind {
            FileKind::Directory => self.remove_if_empty(&entry).await,
            _ => self.remove_entry(&entry).await,
        }
    }

    async fn remove_directory(&self, path: &str, _: bool) -> Result<DirectoryRemoval> {
        self.check_name(path)?;
        self.remove_as_directory(&DirEntry::new(path, FileKind::Directory, 0)).await
    }

    async fn remove_tree(&self, path: &str) -> Result<()> {
        self.check_name(path)?;
        let entry = self.stat_of(path).await?;
        self.remove_entry(&entry).await
    }

    async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<()> {
        check(from)?;
        check(to)?;
        check_new_name(from, to, &self.root)?;
        let from = self.stat_of(from).await?;
        let directory = from.kind == FileKind::Directory;
        if directory {
            lock(&self.directories).clear();
        }
        let before = self.look(to).await?;
        match &before {
            Some(_) if directory || !overwrite => return Err(self.exists(to)),
            Some(there) if there.kind == FileKind::Directory => {
                let what = format!("{} is a directory", self.at(to));
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            Some(_) => {}
            None => self.check_parent(to).await?,
        }
        self.rename_to(&from, to, before.as_ref()).await
    }

    async fn make_directory(&self, path: &str) -> Result<()> {
        check(path)?;
        if self.look(path).await?.is_some() {
            return Err(self.exists(path));
        }
        self.check_parent(path).await?;
        let make = |path| Request::MakeDirectory { path, parents: false, mode: DIRECTORY_MODE };
        let look = || async { Ok(Seen::made(self.look(path).await?.as_ref())) };
        self.change(|| self.ask(path, Action::Create, make), look).await?;
        self.saw_directory(path);
        Ok(())
    }

    async fn checksum(&self, path: &str, algorithm: Algorithm) -> Result<Option<Checksum>> {
        check(path)?;
        self.query_checksum(path, algorithm).await
    }
}
