//! Endpoints in memory that answer after a while, in virtual time.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::error::{Effect, Error, ErrorKind, Failure, Result};
use hither_core::storage::{DirEntry, FileKind, Storage, parent};
use hither_core::sync::lock;
use hither_core::{Clock, Limits, LinkEstimate, Part, PartSink, Request, ResponseMeta, Source};
use hither_federate::{Endpoint, Federation, FederationConfig};
use hither_server::{Backend, Details, Intent, LocateRequest, Located};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

/// Time by Tokio's clock, which stands still while a test works.
#[derive(Debug)]
pub(crate) struct VirtualClock(tokio::time::Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn random(&self) -> u64 {
        0
    }
}

/// How an endpoint behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Answers,
    RenamesNothing,
    Refuses,
    Forbids,
    Silent,
    /// Lists as an index does that hides names.
    Hides,
    /// Fails to describe the last name of a listing.
    FailsOne(ErrorKind),
    /// Has no root.
    Unmounted,
    /// Carries out changes after a second.
    ChangesLate,
    /// Carries out changes, and does not say so.
    ChangesSilently,
    /// Fails changes like this.
    FailsChanges(Failure),
}

/// A storage in memory.
#[derive(Debug)]
pub(crate) struct MemoryStorage {
    pub(crate) delay: Duration,
    behaviour: Mutex<Behaviour>,
    /// Files with their sizes, and directories with none.
    entries: Mutex<BTreeMap<String, Option<u64>>>,
    /// The content of all files.
    content: Mutex<Content>,
    pub(crate) questions: AtomicU64,
    /// Number of changes that have begun.
    changes: AtomicU64,
}

/// The content of files that are read: one byte, over and over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Content {
    pub(crate) byte: u8,
    /// The validator of its responses, and the date beside it.
    pub(crate) validator: Option<&'static str>,
    pub(crate) date: Option<&'static str>,
    /// The time of the last change that listings have, in seconds since 1970.
    pub(crate) changed: Option<u64>,
    /// The number of bytes after which the server is gone; none if it stays.
    pub(crate) until: Option<u64>,
    /// The number of bytes that each response lacks.
    pub(crate) lacks: u64,
}

impl MemoryStorage {
    pub(crate) fn new(files: &[(&str, u64)], delay_ms: u64) -> Arc<Self> {
        let storage = Self {
            delay: Duration::from_millis(delay_ms),
            behaviour: Mutex::new(Behaviour::Answers),
            entries: Mutex::default(),
            content: Mutex::default(),
            questions: AtomicU64::new(0),
            changes: AtomicU64::new(0),
        };
        files.iter().for_each(|(path, size)| storage.add(path, Some(*size)));
        Arc::new(storage)
    }

    /// Adds a file or directory with the directories above it.
    pub(crate) fn add(&self, path: &str, size: Option<u64>) {
        let mut entries = lock(&self.entries);
        let mut directory = parent(path);
        while !directory.is_empty() {
            entries.insert(directory.to_owned(), None);
            directory = parent(directory);
        }
        entries.insert(path.to_owned(), size);
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        lock(&self.entries).keys().cloned().collect()
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        *lock(&self.behaviour) = behaviour;
    }

    pub(crate) fn set_content(&self, content: Content) {
        *lock(&self.content) = content;
    }

    pub(crate) fn questions(&self) -> u64 {
        self.questions.load(Ordering::Relaxed)
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    fn entry(&self, path: &str, size: Option<u64>) -> DirEntry {
        let kind = if size.is_some() { FileKind::File } else { FileKind::Directory };
        let seconds = lock(&self.content).changed;
        let modified = seconds.map(|it| UNIX_EPOCH + Duration::from_secs(it));
        DirEntry { modified, ..DirEntry::new(path, kind, size.unwrap_or_default()) }
    }

    async fn answer<T>(
        &self,
        answer: impl FnOnce(&mut BTreeMap<String, Option<u64>>) -> Result<T>,
    ) -> Result<T> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.delay).await;
        let behaviour = *lock(&self.behaviour);
        match behaviour {
            Behaviour::Refuses => Err(Error::new(ErrorKind::Unavailable, "connection refused")),
            Behaviour::Forbids => Err(Error::new(ErrorKind::PermissionDenied, "403")),
            Behaviour::Silent => std::future::pending().await,
            _ => answer(&mut lock(&self.entries)),
        }
    }

    async fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Option<u64>>) -> Result<()>,
    ) -> Result<()> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let behaviour = *lock(&self.behaviour);
        if behaviour == Behaviour::ChangesLate {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if let Behaviour::FailsChanges(failure) = behaviour {
            let error = Error::new(ErrorKind::Unavailable, "no answer").with_failure(failure);
            return Err(error.with_effect(Effect::Change));
        }
        let changed = self.answer(change).await;
        match behaviour {
            Behaviour::ChangesSilently => std::future::pending().await,
            _ => changed,
        }
    }
}

fn failed_one(kind: ErrorKind) -> Error {
    Error::new(kind, "it cannot be described")
}

fn missing(path: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{path} does not exist"))
}

#[async_trait]
impl Storage for MemoryStorage {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    async fn stat(&self, path: &str) -> Result<DirEntry> {
        let behaviour = *lock(&self.behaviour);
        self.answer(|entries| match (entries.get(path), behaviour) {
            (Some(_), Behaviour::FailsOne(kind))
                if entries.range(path.to_owned()..).count() == 1 =>
            {
                Err(failed_one(kind))
            }
            _ if path.is_empty() && behaviour == Behaviour::Unmounted => Err(missing(path)),
            _ if path.is_empty() => Ok(self.entry(path, None)),
            (Some(size), _) => Ok(self.entry(path, *size)),
            (None, _) => Err(missing(path)),
        })
        .await
    }

    async fn list(&self, path: &str) -> Result<hither_core::Listing> {
        self.answer(|entries| {
            let behaviour = *lock(&self.behaviour);
            match entries.get(path) {
                Some(Some(_)) => return Err(Error::new(ErrorKind::Invalid, "not a directory")),
                None if !path.is_empty() => return Err(missing(path)),
                _ if behaviour == Behaviour::Unmounted => return Err(missing(path)),
                _ => {}
            }
            let inside = entries.iter().filter(|(it, _)| parent(it) == path);
            let mut entries: Vec<_> = inside.map(|(it, size)| self.entry(it, *size)).collect();
            let hidden = (behaviour == Behaviour::Hides).then_some("it is an index");
            let failed = match behaviour {
                Behaviour::FailsOne(kind) => entries.pop().map(|it| (it.path, failed_one(kind))),
                _ => None,
            };
            let failed = failed.into_iter().collect();
            Ok(hither_core::Listing { entries, hidden, failed, ..hither_core::Listing::default() })
        })
        .await
    }

    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        let size = lock(&self.entries).get(path).copied().flatten();
        let size = size.ok_or_else(|| missing(path))?;
        Ok(Arc::new(MemorySource { size, content: *lock(&self.content) }))
    }

    /// That of the file's path and its byte, which stand for its content.
    async fn checksum(&self, path: &str, algorithm: Algorithm) -> Result<Option<Checksum>> {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(path.as_bytes());
        let byte = lock(&self.content).byte;
        hasher.update(if byte == 0 { &[] } else { std::slice::from_ref(&byte) });
        self.answer(|_| Ok(Some(hasher.finish()))).await
    }

    async fn make_directory(&self, path: &str) -> Result<()> {
        self.change(|entries| {
            entries.insert(path.to_owned(), None);
            Ok(())
        })
        .await
    }

    async fn rename(&self, from: &str, to: &str, _overwrite: bool) -> Result<()> {
        if *lock(&self.behaviour) == Behaviour::RenamesNothing {
            return Err(Error::new(ErrorKind::Unsupported, "405"));
        }
        self.change(|entries| {
            let size = entries.remove(from).ok_or_else(|| missing(from))?;
            entries.insert(to.to_owned(), size);
            Ok(())
        })
        .await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.change(|entries| {
            let below = format!("{path}/");
            if entries.keys().any(|it| it.starts_with(&below)) {
                return Err(Error::new(ErrorKind::Invalid, "it is not empty"));
            }
            entries.remove(path);
            Ok(())
        })
        .await
    }

    async fn remove_tree(&self, path: &str) -> Result<()> {
        self.change(|entries| {
            let below = format!("{path}/");
            entries.retain(|it, _| it != path && !it.starts_with(&below));
            Ok(())
        })
        .await
    }
}

/// A file of a storage in memory.
#[derive(Debug)]
struct MemorySource {
    size: u64,
    content: Content,
}

impl Source for MemorySource {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn limits(&self) -> Limits {
        Limits::unlimited()
    }

    fn link(&self) -> LinkEstimate {
        LinkEstimate::default()
    }

    fn clock(&self) -> &dyn Clock {
        unreachable!("the relay takes no time")
    }

    fn endpoint(&self) -> hither_core::Endpoint {
        hither_core::Endpoint::default()
    }

    fn max_connections(&self) -> usize {
        1
    }

    fn idle_connections(&self) -> usize {
        1
    }

    fn preconnect(&self, _: usize) {}

    fn fetch(&self, request: Request, mut sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        let Content { byte, validator, date, until, lacks, .. } = self.content;
        Box::pin(async move {
            let meta = ResponseMeta { size: Some(self.size), ..ResponseMeta::default() };
            request.version.bind("memory", meta.size, validator)?;
            date.into_iter().for_each(|date| request.version.note_modified(date));
            for range in request.ranges {
                if until.is_some_and(|until| range.end > until) {
                    return Err(Error::new(ErrorKind::Unavailable, "connection reset"));
                }
                let length = range.end - range.start - lacks;
                let bytes = vec![byte; usize::try_from(length).unwrap()].into();
                sink(Part { offset: range.start, bytes });
            }
            Ok(meta)
        })
    }
}

/// A federation of endpoints called `e0`, `e1` and so on, at `http://e0/` and so on.
pub(crate) struct Rig {
    pub(crate) federation: Arc<Federation>,
    pub(crate) storages: Vec<Arc<MemoryStorage>>,
    pub(crate) config: FederationConfig,
}

/// The endpoints of a configuration.
fn endpoints(config: &FederationConfig, storages: &[Arc<MemoryStorage>]) -> Vec<Endpoint> {
    let endpoints = config.endpoints.iter().zip(storages).map(|(settings, storage)| {
        let storage: Arc<dyn Storage> = Arc::<MemoryStorage>::clone(storage);
        Endpoint::new(settings, storage, String::new()).unwrap()
    });
    endpoints.collect()
}

impl Rig {
    pub(crate) fn new(storages: Vec<Arc<MemoryStorage>>) -> Self {
        Self::with("", |_| String::new(), storages)
    }

    /// A federation with these settings, and further keys for each endpoint.
    pub(crate) fn with(
        settings: &str,
        keys: impl Fn(usize) -> String,
        storages: Vec<Arc<MemoryStorage>>,
    ) -> Self {
        let mut text = settings.to_owned();
        for index in 0..storages.len() {
            let keys = keys(index);
            text +=
                &format!("\n[[endpoints]]\nname = 'e{index}'\nurl = 'http://e{index}/'\n{keys}\n");
        }
        let config = FederationConfig::from_toml(&text).unwrap();
        let clock = Arc::new(VirtualClock(tokio::time::Instant::now()));
        let federation = Federation::new(&config, endpoints(&config, &storages), clock).unwrap();
        Self { federation, storages, config }
    }

    /// Reloads the configuration.
    pub(crate) fn reload(&self) {
        let endpoints = endpoints(&self.config, &self.storages);
        self.federation.reload(&self.config, endpoints).unwrap();
    }

    /// The place of a file for a client at an address.
    pub(crate) async fn locate_from(
        &self,
        client: &str,
        path: &str,
        intent: Intent,
    ) -> Result<Located, hither_server::BackendError> {
        self.locate(client, path, intent, false).await
    }

    /// The URLs of all replicas of a file.
    pub(crate) async fn all_replicas(&self, path: &str) -> Vec<String> {
        self.described(path).await.replicas
    }

    /// All that is known about a file.
    pub(crate) async fn described(&self, path: &str) -> Located {
        self.locate("192.0.2.1", path, Intent::Read, true).await.unwrap()
    }

    async fn locate(
        &self,
        client: &str,
        path: &str,
        intent: Intent,
        wants_all: bool,
    ) -> Result<Located, hither_server::BackendError> {
        let client: IpAddr = client.parse().unwrap();
        let schemes = &["http", "https"][..];
        let request = LocateRequest {
            path,
            intent,
            client,
            agent: "test",
            wants_all,
            checksum: wants_all.then_some(Algorithm::Adler32),
            wants_namespace: true,
            schemes,
        };
        self.federation.locate(request).await
    }

    /// The URL to which a client is sent that reads a file.
    pub(crate) async fn sent_to(&self, path: &str) -> String {
        let located = self.locate_from("192.0.2.1", path, Intent::Read).await.unwrap();
        located.redirect.unwrap()
    }

    /// The properties of a file that show how its replicas differ, by their local names.
    pub(crate) async fn properties(&self, path: &str) -> Vec<(String, String)> {
        let details = Details { properties: true, ..Details::default() };
        let described =
            self.federation.describe(vec![path.to_owned()], details, Arc::new(|_| true));
        let described = described.await.unwrap().remove(0).unwrap().unwrap();
        described.properties.into_iter().map(|(name, value)| (name.local, value)).collect()
    }

    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        let entries = self.federation.list(path, 1_000_000).await.unwrap().entries;
        entries.into_iter().map(|entry| entry.name).collect()
    }
}
