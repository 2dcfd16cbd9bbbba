//! A backend without a disk: files in a map. It supplies ranges in small pieces, alternating
//! between bytes and regions of a temporary file, so that both code paths of a response are tested.

use crate::rig::{BackendFiles, Served};
use bytes::Bytes;
use futures_util::stream;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::storage::{FileKind, is_partial, join};
use hither_http::conditions::Version;
use hither_http::propfind::PropertyUpdate;
use hither_server::{
    Backend, BackendError, BackendErrorKind, BackendFuture, ChangeOptions, ChecksumMode,
    CommitOptions, Committed, CreateOptions, DeadProperties, Described, Details, DirectoryEntry,
    DirectoryListing, EntryDescription, EntryMetadata, FileRanges, FileReader, FileWriter,
    LinkFilter, Precondition, RangeData, Settings, SpaceUsage,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;

/// Smaller than a block, and not a divisor of its size.
const PIECE_BYTES: u64 = 70_001;
const SPACE: SpaceUsage = SpaceUsage { available: 1 << 40, used: 0 };

type Result<T> = std::result::Result<T, BackendError>;

/// Files in a map.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryBackend(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// By path, without the root.
    nodes: BTreeMap<String, Node>,
    versions: u64,
    /// The space that writers have taken.
    taken: Vec<SpaceTaken>,
    /// Copies of [`HELD`] that have begun.
    held: usize,
    release: Arc<Notify>,
}

/// Space that a writer has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpaceTaken {
    /// A new file of this size.
    Begun(Option<u64>),
    /// The bytes up to `end`.
    Reserved {
        end: u64,
        /// The file ends there.
        is_whole: bool,
    },
}

#[derive(Debug, Clone)]
struct Node {
    /// None for a directory.
    content: Option<Arc<Vec<u8>>>,
    version: Version,
    properties: DeadProperties,
}

impl Node {
    fn metadata(&self) -> EntryMetadata {
        EntryMetadata {
            kind: if self.content.is_some() { FileKind::File } else { FileKind::Directory },
            size: Some(self.content.as_ref().map_or(0, |content| content.len() as u64)),
            version: self.version.clone(),
            created: None,
            mode: None,
        }
    }
}

fn ready<'a, T: Send + 'a>(result: Result<T>) -> BackendFuture<'a, T> {
    Box::pin(std::future::ready(result))
}

fn exists() -> BackendError {
    BackendError::new(BackendErrorKind::AlreadyExists, "it exists")
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || directory.is_empty() || rest.starts_with('/'))
}

impl State {
    fn node(&mut self, content: Option<Vec<u8>>) -> Node {
        self.versions += 1;
        let etag = format!("\"{}\"", self.versions);
        let modified = SystemTime::now() - Duration::from_secs(100);
        let version = Version { etag, modified };
        Node { content: content.map(Arc::new), version, properties: DeadProperties::new() }
    }

    fn find(&mut self, path: &str) -> Result<Node> {
        match self.nodes.get(path) {
            Some(node) => Ok(node.clone()),
            None if path.is_empty() => Ok(self.node(None)),
            None => Err(BackendError::not_found()),
        }
    }

    fn check_parent(&mut self, path: &str) -> Result<()> {
        let (parent, _) = path.rsplit_once('/').unwrap_or_default();
        match self.find(parent)?.content {
            None => Ok(()),
            Some(_) => Err(BackendError::not_found()),
        }
    }

    fn take(&mut self, path: &str) -> Vec<(String, Node)> {
        let paths: Vec<_> = self.nodes.keys().filter(|it| is_below(it, path)).cloned().collect();
        paths.into_iter().filter_map(|path| self.nodes.remove_entry(&path)).collect()
    }

    /// Moves `nodes` from one path to another. Returns true if this replaced nothing.
    fn place(&mut self, nodes: Vec<(String, Node)>, from: &str, to: &str) -> bool {
        let replaced = self.take(to);
        for (path, node) in nodes {
            self.nodes.insert(format!("{to}{}", &path[from.len()..]), node);
        }
        replaced.is_empty()
    }

    fn check_change(&mut self, from: &str, to: &str, options: &ChangeOptions) -> Result<()> {
        let source = self.find(from)?.metadata();
        let there = self.nodes.get(to).map(Node::metadata);
        (options.precondition)(Some(&source), there.as_ref())?;
        self.check_parent(to)?;
        if self.nodes.contains_key(to) && !options.replace {
            return Err(exists());
        }
        Ok(())
    }
}

impl MemoryBackend {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The space that writers have taken.
    pub(crate) fn taken(&self) -> Vec<SpaceTaken> {
        self.state().taken.clone()
    }

    /// The number of copies of [`HELD`] that have begun.
    pub(crate) fn held_copies(&self) -> usize {
        self.state().held
    }

    /// Lets one copy of [`HELD`] go on.
    pub(crate) fn release_copy(&self) {
        self.state().release.notify_one();
    }
}

impl BackendFiles for MemoryBackend {
    fn write(&self, path: &str, content: &[u8]) {
        let mut state = self.state();
        let mut directory = String::new();
        for name in path.rsplit_once('/').unwrap_or_default().0.split('/') {
            directory = join(&directory, name);
            if !directory.is_empty() {
                let node = state.node(None);
                state.nodes.entry(directory.clone()).or_insert(node);
            }
        }
        let node = state.node(Some(content.to_vec()));
        state.nodes.insert(path.to_owned(), node);
    }

    fn names(&self) -> Vec<String> {
        self.state().nodes.keys().filter(|path| !path.contains('/')).cloned().collect()
    }
}

/// A server over a folder, and a server over files in memory.
pub(crate) fn on_each_backend(change: impl Fn(&mut Settings)) -> [Served; 2] {
    let memory = MemoryBackend::default();
    let files = Box::new(memory.clone());
    let in_memory = Served::over(Arc::new(memory), files, &change);
    [Served::new(change), in_memory]
}

impl Backend for MemoryBackend {
    fn stat<'a>(&'a self, path: &'a str) -> BackendFuture<'a, EntryMetadata> {
        ready(self.state().find(path).map(|node| node.metadata()))
    }

    fn list<'a>(&'a self, path: &'a str, max: usize) -> BackendFuture<'a, DirectoryListing> {
        let state = self.state();
        let entries = state.nodes.iter().filter_map(|(child, node)| {
            let (parent, name) = child.rsplit_once('/').unwrap_or(("", child));
            let is_shown = parent == path && !is_partial(name);
            let is_directory = node.content.is_none();
            is_shown.then(|| DirectoryEntry::new(name.as_bytes(), is_directory))
        });
        ready(Ok(entries.take(max + 1).collect::<Vec<_>>().into()))
    }

    fn describe(
        &self,
        paths: Vec<String>,
        details: Details,
        _: LinkFilter,
    ) -> BackendFuture<'_, Vec<Option<Described>>> {
        let mut state = self.state();
        let describe = |path: &String| {
            let node = state.find(path).ok()?;
            let space = details.space.then_some(SPACE);
            let (metadata, checksums) = (node.metadata(), Vec::new());
            Some(Ok(EntryDescription { metadata, checksums, properties: node.properties, space }))
        };
        ready(Ok(paths.iter().map(describe).collect()))
    }

    fn open<'a>(&'a self, path: &'a str) -> BackendFuture<'a, Arc<dyn FileReader>> {
        let reader = self.state().find(path).map(|node| {
            Arc::new(Reader {
                backend: self.clone(),
                path: path.to_owned(),
                metadata: node.metadata(),
                content: node.content.unwrap_or_default(),
            }) as Arc<dyn FileReader>
        });
        ready(reader)
    }

    fn create<'a>(
        &'a self,
        path: &'a str,
        options: CreateOptions,
    ) -> BackendFuture<'a, Arc<dyn FileWriter>> {
        let mut state = self.state();
        let mut create = || {
            state.check_parent(path)?;
            state.taken.push(SpaceTaken::Begun(options.size));
            let size = usize::try_from(options.size.unwrap_or_default()).unwrap();
            let in_place = options.part.is_some();
            if in_place && !state.nodes.contains_key(path) {
                let node = state.node(Some(vec![0; size]));
                state.nodes.insert(path.to_owned(), node);
            }
            let backend = self.clone();
            let (path, content) = (path.to_owned(), Arc::default());
            let writer = Writer { backend, path, in_place, content };
            Ok(Arc::new(writer) as Arc<dyn FileWriter>)
        };
        ready(create())
    }

    fn rename<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        options: ChangeOptions,
    ) -> BackendFuture<'a, bool> {
        let mut state = self.state();
        ready(state.check_change(from, to, &options).map(|()| {
            let nodes = state.take(from);
            state.place(nodes, from, to)
        }))
    }

    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        deep: bool,
        options: ChangeOptions,
        _: LinkFilter,
    ) -> BackendFuture<'a, bool> {
        Box::pin(async move {
            if from == HELD {
                let release = {
                    let mut state = self.state();
                    state.held += 1;
                    Arc::clone(&state.release)
                };
                release.notified().await;
            }
            let mut state = self.state();
            state.check_change(from, to, &options)?;
            let is_source = |path: &str| path == from || deep && is_below(path, from);
            let nodes = state.nodes.iter().filter(|(path, _)| is_source(path));
            let nodes: Vec<_> = nodes.map(|(path, node)| (path.clone(), node.clone())).collect();
            Ok(state.place(nodes, from, to))
        })
    }

    fn remove<'a>(
        &'a self,
        path: &'a str,
        whole: bool,
        precondition: Precondition,
    ) -> BackendFuture<'a, ()> {
        let mut state = self.state();
        let found = state.find(path);
        let is_kept = !whole && state.nodes.keys().any(|name| name != path && is_below(name, path));
        let checked = found.and_then(|node| precondition(Some(&node.metadata())));
        let not_empty = || BackendError::new(BackendErrorKind::Conflict, "it is not empty");
        let checked = checked.and_then(|()| if is_kept { Err(not_empty()) } else { Ok(()) });
        ready(checked.map(|()| drop(state.take(path))))
    }

    fn make_directory<'a>(
        &'a self,
        path: &'a str,
        precondition: Precondition,
    ) -> BackendFuture<'a, ()> {
        let mut state = self.state();
        let there = state.find(path).ok().map(|node| node.metadata());
        let checked = precondition(there.as_ref()).and_then(|()| state.check_parent(path));
        ready(checked.map(|()| {
            let node = state.node(None);
            state.nodes.insert(path.to_owned(), node);
        }))
    }

    fn set_properties<'a>(
        &'a self,
        path: &'a str,
        updates: Vec<PropertyUpdate>,
        precondition: Precondition,
    ) -> BackendFuture<'a, Option<EntryMetadata>> {
        let mut state = self.state();
        let found = state.find(path);
        let checked = found.and_then(|mut node| {
            precondition(Some(&node.metadata()))?;
            for update in updates {
                match update {
                    PropertyUpdate::Set { name, value } => node.properties.insert(name, value),
                    PropertyUpdate::Remove(name) => node.properties.remove(&name),
                };
            }
            let metadata = node.metadata();
            state.nodes.insert(path.to_owned(), node);
            Ok(Some(metadata))
        });
        ready(checked)
    }

    fn probe(&self) -> BackendFuture<'_, Option<SpaceUsage>> {
        ready(Ok(Some(SPACE)))
    }
}

/// A file of this name changes when its checksum is computed.
pub(crate) const CHANGING: &str = "changing";
/// A copy of a file of this name waits until it is released.
pub(crate) const HELD: &str = "held";

#[derive(Debug)]
struct Reader {
    backend: MemoryBackend,
    path: String,
    metadata: EntryMetadata,
    content: Arc<Vec<u8>>,
}

impl FileReader for Reader {
    fn metadata(&self) -> &EntryMetadata {
        &self.metadata
    }

    fn ranges(&self, ranges: &[Range<u64>]) -> FileRanges {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&self.content).unwrap();
        let file = Arc::new(file);
        let mut pieces = Vec::new();
        for range in ranges {
            let mut start = range.start;
            while start < range.end {
                let range = start..range.end.min(start + PIECE_BYTES);
                start = range.end;
                pieces.push(Ok(if pieces.len().is_multiple_of(2) {
                    let (from, to) =
                        (range.start.try_into().unwrap(), range.end.try_into().unwrap());
                    RangeData::Bytes(Bytes::copy_from_slice(&self.content[from..to]))
                } else {
                    RangeData::Region { file: Arc::clone(&file), range }
                }));
            }
        }
        FileRanges::Stream(Box::pin(stream::iter(pieces)))
    }

    fn checksum(
        &self,
        algorithm: Algorithm,
        mode: ChecksumMode,
    ) -> BackendFuture<'_, Option<Checksum>> {
        if self.path == CHANGING {
            let mut state = self.backend.state();
            let node = state.node(Some(b"changed".to_vec()));
            state.nodes.insert(self.path.clone(), node);
            return ready(Ok(None));
        }
        let computed =
            (mode == ChecksumMode::Compute).then(|| Hasher::of(algorithm, &self.content));
        ready(Ok(computed))
    }

    fn is_current(&self) -> BackendFuture<'_, bool> {
        let now = self.backend.state().find(&self.path);
        ready(Ok(now.is_ok_and(|now| now.version.etag == self.metadata.version.etag)))
    }
}

#[derive(Debug)]
struct Writer {
    backend: MemoryBackend,
    path: String,
    in_place: bool,
    content: Arc<Mutex<Vec<u8>>>,
}

fn write(content: &mut Vec<u8>, offset: u64, data: &[Bytes]) {
    let mut at = usize::try_from(offset).unwrap();
    for bytes in data {
        content.resize(content.len().max(at + bytes.len()), 0);
        content[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    }
}

impl FileWriter for Writer {
    fn write(&self, offset: u64, data: Vec<Bytes>) -> BackendFuture<'static, Duration> {
        if self.in_place {
            let mut state = self.backend.state();
            let node = state.nodes.get_mut(&self.path).unwrap();
            let mut content = node.content.take().unwrap_or_default().to_vec();
            write(&mut content, offset, &data);
            node.content = Some(Arc::new(content));
        } else {
            write(&mut self.content.lock().unwrap(), offset, &data);
        }
        ready(Ok(Duration::ZERO))
    }

    fn reserve(&self, end: u64, is_whole: bool) -> BackendFuture<'static, ()> {
        self.backend.state().taken.push(SpaceTaken::Reserved { end, is_whole });
        ready(Ok(()))
    }

    fn sync(&self) -> BackendFuture<'_, u64> {
        ready(Ok(self.content.lock().unwrap().len() as u64))
    }

    fn checksum(&self, algorithm: Algorithm) -> BackendFuture<'_, Checksum> {
        ready(Ok(Hasher::of(algorithm, &self.content.lock().unwrap())))
    }

    fn commit(&self, options: CommitOptions) -> BackendFuture<'_, Committed> {
        let mut state = self.backend.state();
        let mut commit = || {
            let there = state.find(&self.path).ok().map(|node| node.metadata());
            (options.precondition)(there.as_ref())?;
            if there.is_some() && !options.replace {
                return Err(exists());
            }
            let node = state.node(Some(std::mem::take(&mut *self.content.lock().unwrap())));
            let committed = Committed { metadata: node.metadata(), replaced: there.is_some() };
            state.nodes.insert(self.path.clone(), node);
            Ok(committed)
        };
        ready(commit())
    }
}
