//! Files and directories by path, which requests can change.

use bytes::Bytes;
use hither_xrd::server::Response;
use hither_xrd::wire::{ErrorCode, OpenRequest, Request, StatInfo, open, stat_flags};
use std::collections::BTreeMap;

/// The time of modification of the first entry, in seconds.
const FIRST_TIME: i64 = 1_700_000_000;

/// A file, or a directory, which has no bytes.
#[derive(Debug, Clone)]
struct Entry {
    bytes: Option<Vec<u8>>,
    modified: i64,
}

/// All files and directories. Each new one has a time of modification of its own.
#[derive(Debug, Default)]
pub(super) struct Tree {
    entries: BTreeMap<String, Entry>,
    made: i64,
}

impl Tree {
    /// Makes a file, or a directory (`None`).
    pub(super) fn make(&mut self, path: &str, bytes: Option<&[u8]>) {
        self.made += 1;
        let entry = Entry { bytes: bytes.map(<[u8]>::to_vec), modified: FIRST_TIME + self.made };
        self.entries.insert(path.to_owned(), entry);
    }

    /// Removes a file or directory.
    pub(super) fn remove(&mut self, path: &str) {
        self.entries.remove(path);
    }

    /// All paths, those of directories with a slash at their end.
    pub(super) fn paths(&self) -> Vec<String> {
        let slash = |entry: &Entry| if entry.bytes.is_none() { "/" } else { "" };
        self.entries.iter().map(|(path, entry)| format!("{path}{}", slash(entry))).collect()
    }

    /// The bytes of a file.
    pub(super) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.entries.get(path)?.bytes.clone()
    }

    /// The content and the time of the file that a request opens.
    pub(super) fn opened(&self, request: &Request) -> Option<(Bytes, i64)> {
        let Request::Open(OpenRequest { path, .. }) = request else { return None };
        let entry = self.entries.get(bare(path))?;
        Some((entry.bytes.clone()?.into(), entry.modified - FIRST_TIME))
    }

    /// Writes into a file.
    pub(super) fn write(&mut self, path: &str, offset: u64, data: &[u8]) {
        let Some(bytes) = self.entries.get_mut(path).and_then(|entry| entry.bytes.as_mut()) else {
            return;
        };
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(data.len());
        bytes.resize(bytes.len().max(end), 0);
        if let Some(part) = bytes.get_mut(start..end) {
            part.copy_from_slice(data);
        }
    }

    /// Carries out a request on a path, as xrootd 5 does. Returns its response; `None` if the
    /// request concerns no path, or is an open that succeeds.
    pub(super) fn carry_out(&mut self, request: &Request) -> Option<Response> {
        let done = match request {
            Request::Open(OpenRequest { path, options, .. }) => match self.open(path, *options) {
                Ok(()) => return None,
                refused => refused,
            },
            Request::Stat(path) => match self.entries.get(bare(path)) {
                Some(entry) => return Some(Response::status(&entry.status())),
                None => Err(not_found()),
            },
            Request::MakeDirectory { path, .. } => {
                let path = bare(path);
                if self.entries.contains_key(path) {
                    Err((ErrorCode::IT_EXISTS, "file exists"))
                } else {
                    self.make(path, None);
                    Ok(())
                }
            }
            Request::Remove(path) => self.take(bare(path), false).map(drop),
            Request::RemoveDirectory(path) => self.take(bare(path), true).map(drop),
            Request::Rename { from, to } => self.rename(bare(from), bare(to)),
            _ => return None,
        };
        Some(match done {
            Ok(()) => Response::nothing(),
            Err((code, why)) => Response::error(code, format!("Unable to do that; {why}")),
        })
    }

    fn open(&mut self, path: &str, options: u16) -> Result<(), (ErrorCode, &'static str)> {
        let path = bare(path);
        match self.entries.get(path) {
            Some(Entry { bytes: None, .. }) => Err((ErrorCode::IS_DIRECTORY, "is a directory")),
            Some(_) if options & open::NEW != 0 => Err((ErrorCode::IT_EXISTS, "file exists")),
            Some(_) if options & open::DELETE == 0 => Ok(()),
            None if options & (open::NEW | open::DELETE) == 0 => Err(not_found()),
            _ => {
                self.make(path, Some(b""));
                Ok(())
            }
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), (ErrorCode, &'static str)> {
        let moved: Vec<_> =
            self.entries.keys().filter(|path| is_within(path, from)).cloned().collect();
        if moved.is_empty() {
            return Err(not_found());
        }
        for path in moved {
            if let Some(entry) = self.entries.remove(&path) {
                self.entries.insert(path.replacen(from, to, 1), entry);
            }
        }
        Ok(())
    }

    fn take(&mut self, path: &str, is_directory: bool) -> Result<Entry, (ErrorCode, &'static str)> {
        let is_filled = self.entries.keys().filter(|it| is_within(it, path)).count() > 1;
        let entry = self.entries.get(path).ok_or_else(not_found)?;
        match (is_directory, entry.bytes.is_none()) {
            (true, false) => Err((ErrorCode::FS_ERROR, "not a directory")),
            (false, true) => Err((ErrorCode::IS_DIRECTORY, "is a directory")),
            _ if is_filled => Err((ErrorCode::FS_ERROR, "directory not empty")),
            _ => self.entries.remove(path).ok_or_else(not_found),
        }
    }
}

impl Entry {
    fn status(&self) -> StatInfo {
        let size = self.bytes.as_ref().map_or(4096, Vec::len) as u64;
        let kind = if self.bytes.is_none() { stat_flags::DIRECTORY } else { 0 };
        let modified = self.modified;
        StatInfo { size, flags: 16 | kind, modified, ..StatInfo::default() }
    }
}

/// The path without parameters.
pub(super) fn bare(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// The path that a change is about.
pub(super) fn subject(request: &Request) -> Option<&str> {
    match request {
        Request::MakeDirectory { path, .. }
        | Request::Remove(path)
        | Request::RemoveDirectory(path)
        | Request::Rename { from: path, .. } => Some(bare(path)),
        _ => None,
    }
}

fn not_found() -> (ErrorCode, &'static str) {
    (ErrorCode::NOT_FOUND, "no such file or directory")
}

fn is_within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
