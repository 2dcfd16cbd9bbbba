//! The file's header, and the trees in its directories.

use super::cursor::Cursor;
use super::directory::{RECORD, is_directory, is_ntuple, is_tree, keys_range, newest, read_keys};
use super::key::Key;
use super::tree::Tree;
use crate::error::{FormatError, Result};
use crate::root::object::streamer_info::StreamerInfos;
use crate::{DecodeResult, NeededRanges, SparseBytes};
use bytes::Bytes;
use hither_core::error::suggest::Suggestion;
use std::collections::HashSet;
use std::ops::Range;

/// Bytes read at the front: the header and the record of the top directory, whose offset depends on
/// the file's name.
const HEAD: u64 = 512;
/// Bytes read at the end. A new connection may send ten segments before the first acknowledgement
/// (its initial window), and the window counts segments: servers send the header of the response,
/// the head, and the framing between the parts as one small segment each (measured on nginx). That
/// leaves somewhat more than six full segments. A larger tail costs a second round trip, whatever
/// its size.
const TAIL: u64 = 8_000;
/// Minimum size of a header.
const SHORTEST_HEADER: u64 = 61;
/// Maximum depth of directories that are searched.
const MAX_DEPTH: usize = 32;
/// Maximum number of directories that are searched.
const MAX_DIRECTORIES: usize = 10_000;
/// Maximum number of trees that are listed.
const MAX_TREES: usize = 100_000;
/// Maximum length of the path of a directory that is searched, in bytes.
const MAX_PATH: usize = 1024;

/// An open ROOT file: its header and the keys of its top directory.
#[derive(Debug, Clone)]
pub struct RootFile {
    end: u64,
    uuid: [u8; 16],
    streamers: Range<u64>,
    keys: Vec<Key>,
}

/// A tree or RNTuple found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeKey {
    /// Path from the top directory, such as `dir/Events`; the argument of [`RootFile::tree`].
    pub path: String,
    /// Its key: title, class, cycle, sizes.
    pub key: Key,
}

/// A value, or the missing range that it needs.
enum Got<T> {
    Have(T),
    Missing(Range<u64>),
}

/// Returns the bytes of a range within the file, or the range to request.
fn get(bytes: &SparseBytes, range: Range<u64>) -> Got<Bytes> {
    bytes.get(range.clone()).map_or(Got::Missing(range), Got::Have)
}

struct Header {
    begin: u64,
    end: u64,
    name_bytes: u64,
    streamers: Range<u64>,
    uuid: [u8; 16],
}

impl Header {
    fn read(head: &[u8]) -> Result<Self> {
        if head.get(..4) != Some(b"root") {
            return Err(FormatError::NotRoot { seen: seen(head) });
        }
        let mut cursor = Cursor::new(head, "header");
        cursor.skip(4)?;
        let version = cursor.i32()?;
        // `/etc/passwd` begins with `root`, too; but no version consists of four printable
        // characters.
        if version.to_be_bytes().iter().all(|byte| (b' '..=b'~').contains(byte)) {
            return Err(FormatError::NotRoot { seen: seen(head) });
        }
        let begin = cursor.count()? as u64;
        let large = version >= 1_000_000;
        let end = cursor.offset(large)?;
        let _free = cursor.offset(large)?;
        let _free_bytes = cursor.i32()?;
        let _free_count = cursor.i32()?;
        let name_bytes = cursor.count()? as u64;
        let _units = cursor.u8()?;
        let _compression = cursor.i32()?;
        let seek = cursor.offset(large)?;
        let nbytes = cursor.count()? as u64;
        let _uuid_version = cursor.u16()?;
        let mut uuid = [0; 16];
        uuid.copy_from_slice(cursor.take(16)?);
        let stop = seek.saturating_add(nbytes);
        let streamers = if stop <= end { seek..stop } else { 0..0 };
        Ok(Self { begin, end, name_bytes, streamers, uuid })
    }
}

/// The first bytes of a file that is not ROOT, as text if they are text.
fn seen(head: &[u8]) -> String {
    let start = head.get(..head.len().min(24)).unwrap_or_default();
    if start.is_empty() {
        return "nothing, it is empty".to_owned();
    }
    let line = start.split(|&byte| byte == b'\n' || byte == b'\r').next().unwrap_or(start);
    format!("`{}`", line.escape_ascii())
}

impl RootFile {
    /// Reads the header and the keys of the top directory.
    ///
    /// The first request is for the head and the tail of the file; writers put the keys near the
    /// end, so that usually no further request is needed.
    ///
    /// # Errors
    /// The file is not a ROOT file, is truncated, was not closed properly, or is corrupt.
    pub fn open(bytes: &SparseBytes) -> Result<DecodeResult<Self>> {
        let size = bytes.size();
        let head_end = size.map_or(HEAD, |size| size.min(HEAD));
        let Some(head) = bytes.get(0..head_end) else {
            return Ok(DecodeResult::NeedsData(first_need(size)));
        };
        let header = Header::read(&head)?;
        if let Some(size) = size
            && size < header.end.max(SHORTEST_HEADER)
        {
            let what = "file".to_owned();
            let needed = header.end.max(SHORTEST_HEADER);
            return Err(FormatError::Truncated { what, needed, available: size });
        }
        let at = header.begin.saturating_add(header.name_bytes);
        if at >= header.end {
            return Err(FormatError::corrupt("header", format!("top directory at byte {at}")));
        }
        let record = match get(bytes, at..at.saturating_add(RECORD).min(header.end)) {
            Got::Have(record) => record,
            Got::Missing(range) => return Ok(need(range, &header.streamers)),
        };
        let range = keys_range(&record, header.end)?;
        if range.is_empty() {
            return Err(FormatError::corrupt(
                "file",
                "no list of keys: it was not closed properly and has to be recovered with ROOT first",
            ));
        }
        let keys = match get(bytes, range) {
            Got::Have(list) => read_keys(&list, header.end)?,
            Got::Missing(range) => return Ok(need(range, &header.streamers)),
        };
        let Header { end, uuid, streamers, .. } = header;
        Ok(DecodeResult::Data(Self { end, uuid, streamers, keys }))
    }

    /// The file's identity, generated when a file is created.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Size of the file in bytes, as its header states.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.end
    }

    /// The keys of the top directory, all cycles.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The range of the class descriptions in this file; empty if there are none.
    #[must_use]
    pub fn streamers(&self) -> Range<u64> {
        self.streamers.clone()
    }

    /// All trees that are reachable through directories, the highest cycle of each.
    ///
    /// # Errors
    /// A directory is corrupt. Directories nested more than 32 deep, or beyond the 10,000th, and
    /// trees beyond the 100,000th are omitted.
    pub fn trees(&self, bytes: &SparseBytes) -> Result<DecodeResult<Vec<TreeKey>>> {
        self.objects(bytes, is_tree)
    }

    /// All RNTuples, which this crate lists but does not read. Otherwise as [`RootFile::trees`].
    ///
    /// # Errors
    /// As [`RootFile::trees`].
    pub fn ntuples(&self, bytes: &SparseBytes) -> Result<DecodeResult<Vec<TreeKey>>> {
        self.objects(bytes, is_ntuple)
    }

    /// The objects whose class is `wanted`.
    fn objects(
        &self,
        bytes: &SparseBytes,
        wanted: fn(&str) -> bool,
    ) -> Result<DecodeResult<Vec<TreeKey>>> {
        let mut found = objects_in("", &self.keys, wanted);
        let mut level = directories_in("", &self.keys);
        let mut seen = HashSet::new();
        // The lists of keys of a valid file do not overlap.
        let mut budget = self.end;
        for _ in 0..MAX_DEPTH {
            let mut next = Vec::new();
            let mut missing = Vec::new();
            for (path, key) in level {
                let is_beyond_limits = seen.len() >= MAX_DIRECTORIES || path.len() > MAX_PATH;
                if is_beyond_limits || found.len() >= MAX_TREES || !seen.insert(key.seek) {
                    continue;
                }
                match self.directory(bytes, &key, &mut budget)? {
                    Got::Have(keys) => {
                        found.extend(objects_in(&path, &keys, wanted));
                        next.extend(directories_in(&path, &keys));
                    }
                    Got::Missing(range) => missing.push(range),
                }
            }
            if !missing.is_empty() {
                return Ok(DecodeResult::NeedsData(NeededRanges {
                    required: missing,
                    ..NeededRanges::default()
                }));
            }
            level = next;
        }
        Ok(DecodeResult::Data(found))
    }

    /// Opens a tree by its path: `T`, `dir/T`, or `T;2` for a certain cycle. `None` opens the only
    /// tree of the top directory or, if that has none, the only one in the file.
    ///
    /// Once the keys are known, this takes one round trip for the tree's object. A tree of a ROOT
    /// version that this crate does not know also needs the file's class descriptions; they are
    /// requested as `prefetch`.
    ///
    /// # Errors
    /// [`FormatError::NotFound`] with similar names, [`FormatError::Several`] if a name is needed,
    /// or a corrupt file.
    pub fn tree(&self, path: Option<&str>, bytes: &SparseBytes) -> Result<DecodeResult<Tree>> {
        let key = match path {
            Some(path) => match self.find(path, bytes)? {
                Got::Have(key) => key,
                Got::Missing(range) => return Ok(need(range, &(0..0))),
            },
            None => match self.only_tree(bytes)? {
                DecodeResult::Data(key) => key,
                DecodeResult::NeedsData(need) => return Ok(DecodeResult::NeedsData(need)),
            },
        };
        let stored = match get(bytes, key.range()) {
            Got::Have(stored) => stored,
            Got::Missing(range) => {
                let missing = bytes.get(self.streamers()).is_none();
                let soon = if missing { self.streamers() } else { 0..0 };
                return Ok(need(range, &soon));
            }
        };
        let streamers = StreamerInfos::new(self.streamers(), bytes);
        let tree = Tree::read(&stored, &key, self.end, &streamers);
        if streamers.missed() {
            return Ok(need(self.streamers(), &(0..0)));
        }
        Ok(DecodeResult::Data(tree?))
    }

    fn only_tree(&self, bytes: &SparseBytes) -> Result<DecodeResult<Key>> {
        let mut trees = objects_in("", &self.keys, is_tree);
        if trees.is_empty() {
            trees = match self.trees(bytes)? {
                DecodeResult::Data(trees) => trees,
                DecodeResult::NeedsData(need) => return Ok(DecodeResult::NeedsData(need)),
            };
        }
        let several = |kind, found: Vec<TreeKey>| FormatError::Several {
            kind,
            choices: found.into_iter().map(|found| found.path).collect(),
        };
        if trees.len() > 1 {
            return Err(several("tree", trees));
        }
        if let Some(tree) = trees.pop() {
            return Ok(DecodeResult::Data(tree.key));
        }
        let ntuples = match self.ntuples(bytes)? {
            DecodeResult::Data(ntuples) => ntuples,
            DecodeResult::NeedsData(need) => return Ok(DecodeResult::NeedsData(need)),
        };
        Err(match ntuples.as_slice() {
            [] => {
                let classes = self.keys.iter().map(|key| format!("{} ({})", key.name, key.class));
                FormatError::NoTree { suggestion: Suggestion::All(classes.take(10).collect()) }
            }
            [one] => not_a_tree(&one.path, &one.key),
            _ => several("RNTuple", ntuples),
        })
    }

    fn find(&self, wanted: &str, bytes: &SparseBytes) -> Result<Got<Key>> {
        let (path, cycle) = split_cycle(wanted);
        let mut name = path.trim_matches('/');
        let named = |key: &Key, name: &str| {
            key.name == name && cycle.is_none_or(|cycle| key.cycle == cycle)
        };
        let mut keys = self.keys.clone();
        let mut budget = u64::MAX;
        for _ in 0..=MAX_DEPTH {
            // The names of trees may have slashes, too.
            let trees = newest(&keys, |key| is_tree(&key.class) && named(key, name));
            if let Some(key) = trees.first() {
                return Ok(Got::Have((*key).clone()));
            }
            let Some((part, below)) = name.split_once('/') else { break };
            let directories = newest(&keys, |key| is_directory(&key.class));
            let Some(directory) = directories.iter().find(|key| key.name == part) else {
                if keys.iter().any(|key| named(key, name)) {
                    break;
                }
                let names = directories.iter().map(|key| key.name.as_str());
                let suggestion = Suggestion::similar_or_all(part, names);
                let name = part.to_owned();
                return Err(FormatError::NotFound { kind: "directory", name, suggestion });
            };
            keys = match self.directory(bytes, directory, &mut budget)? {
                Got::Have(keys) => keys,
                Got::Missing(range) => return Ok(Got::Missing(range)),
            };
            name = below.trim_start_matches('/');
        }
        if let Some(key) = keys.iter().find(|key| named(key, name)) {
            return Err(not_a_tree(path, key));
        }
        let trees = newest(&keys, |key| is_tree(&key.class));
        let cycles = keys.iter().filter(|key| is_tree(&key.class) && key.name == name);
        let cycles: Vec<String> = cycles.map(|key| format!("{};{}", key.name, key.cycle)).collect();
        let suggestion = if cycles.is_empty() {
            Suggestion::similar_or_all(name, trees.iter().map(|key| key.name.as_str()))
        } else {
            Suggestion::All(cycles)
        };
        Err(FormatError::NotFound { kind: "tree", name: wanted.to_owned(), suggestion })
    }

    /// The keys of a directory below the top one: reads its record, then its list of keys, whose
    /// bytes are deducted from `budget`.
    fn directory(&self, bytes: &SparseBytes, key: &Key, budget: &mut u64) -> Result<Got<Vec<Key>>> {
        let at = key.seek.saturating_add(u64::from(key.keylen));
        let stop = at.saturating_add(RECORD).min(key.range().end.max(at));
        let record = match get(bytes, at..stop.min(self.end)) {
            Got::Have(record) => record,
            Got::Missing(range) => return Ok(Got::Missing(range)),
        };
        let range = keys_range(&record, self.end)?;
        *budget = budget.checked_sub(range.end - range.start).ok_or_else(|| {
            FormatError::corrupt("directory", format!("the key list of `{}` overlaps", key.name))
        })?;
        match get(bytes, range) {
            Got::Have(list) => Ok(Got::Have(read_keys(&list, self.end)?)),
            Got::Missing(range) => Ok(Got::Missing(range)),
        }
    }
}

fn first_need(size: Option<u64>) -> NeededRanges {
    match size {
        None => NeededRanges { required: vec![0..HEAD], tail: TAIL, prefetch: Vec::new() },
        Some(size) if size <= HEAD + TAIL => {
            NeededRanges { required: vec![0..size], ..NeededRanges::default() }
        }
        Some(size) => {
            NeededRanges { required: vec![0..HEAD, size - TAIL..size], ..NeededRanges::default() }
        }
    }
}

fn need<T>(now: Range<u64>, soon: &Range<u64>) -> DecodeResult<T> {
    let soon = if soon.is_empty() { Vec::new() } else { vec![soon.clone()] };
    DecodeResult::NeedsData(NeededRanges { required: vec![now], tail: 0, prefetch: soon })
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// The error for the object at `path`, which is not a tree.
fn not_a_tree(path: &str, key: &Key) -> FormatError {
    let what = if is_ntuple(&key.class) {
        format!(
            "`{path}` is an RNTuple; read it from Python, with `hither.open_tree(url, '{path}')`"
        )
    } else {
        format!("`{path}` is a {}, not a TTree", key.class)
    };
    FormatError::UnsupportedFeature { what }
}

fn objects_in(directory: &str, keys: &[Key], wanted: fn(&str) -> bool) -> Vec<TreeKey> {
    let objects = newest(keys, |key| wanted(&key.class)).into_iter();
    objects.map(|key| TreeKey { path: join(directory, &key.name), key: key.clone() }).collect()
}

fn directories_in(directory: &str, keys: &[Key]) -> Vec<(String, Key)> {
    let directories = newest(keys, |key| is_directory(&key.class)).into_iter();
    directories.map(|key| (join(directory, &key.name), key.clone())).collect()
}

/// `T;2` is cycle 2 of `T`.
fn split_cycle(path: &str) -> (&str, Option<u16>) {
    match path.rsplit_once(';') {
        Some((name, cycle)) => match cycle.parse() {
            Ok(cycle) => (name, Some(cycle)),
            Err(_) => (path, None),
        },
        None => (path, None),
    }
}
