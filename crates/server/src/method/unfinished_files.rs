//! The partial files that clients have begun and not moved to their names, counted by client: those
//! written in parts, those written at once, alone or in batches, and those copied or moved there.
//! The size of a file counts as far as it is known: that which the client announced, or as much as
//! has arrived ([`UnfinishedFile::count`]).
//!
//! A client is the name that the authorizer gives it, or else an address. The count is in memory: a
//! partial file of an earlier run of the server is bounded in time only. A partial file leaves the
//! count when its client moves or removes it, or when the client reaches its maximum and the file
//! is found to be gone: one that is being written, which may have no name yet, stays.

use crate::backend::Details;
use crate::backend::path::NamespacePath;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::request::ServerRequest;
use hither_core::storage::is_partial;
use hither_core::sync::lock;
use http::StatusCode;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The maximum number of partial files that are counted, of all clients together. Beyond it the
/// count begins anew.
const MAX_COUNTED: usize = 1 << 20;

/// The unfinished partial files of all clients.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedFiles(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// The client and the size of each file, by path.
    files: HashMap<String, (Arc<str>, u64)>,
    clients: HashMap<Arc<str>, ClientCount>,
    /// The number of requests that write to each path at present.
    writers: HashMap<String, usize>,
}

/// The number of files of a client, and their size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ClientCount {
    files: usize,
    bytes: u64,
}

impl Counts {
    /// Counts a file, unless its client would then exceed `max`. A file that is counted counts for
    /// the client that makes it larger; it does not become smaller before it ends, as the request
    /// that replaces it may fail.
    fn count(&mut self, client: &str, path: &str, bytes: u64, max: ClientCount) -> bool {
        let before = self.files.get(path).cloned();
        if before.as_ref().is_some_and(|(_, counted)| bytes <= *counted) {
            return true;
        }
        self.end(path);
        let is_counted = self.add(client, path, bytes, max);
        if let Some((owner, counted)) = before.filter(|_| !is_counted) {
            self.add(&owner, path, counted, ClientCount { files: usize::MAX, bytes: u64::MAX });
        }
        is_counted
    }

    fn add(&mut self, client: &str, path: &str, bytes: u64, max: ClientCount) -> bool {
        if self.files.len() >= MAX_COUNTED {
            self.files.clear();
            self.clients.clear();
        }
        let client = Arc::from(client);
        let count = self.clients.get(&client).copied().unwrap_or_default();
        let total = count.bytes.checked_add(bytes).filter(|total| *total <= max.bytes);
        let Some(total) = total.filter(|_| count.files < max.files) else { return false };
        let count = ClientCount { files: count.files + 1, bytes: total };
        self.clients.insert(Arc::clone(&client), count);
        self.files.insert(path.to_owned(), (client, bytes));
        true
    }

    /// Removes files that were found to be gone.
    fn end_all<'a>(&mut self, gone: impl Iterator<Item = &'a String>) {
        for path in gone {
            if !self.writers.contains_key(path) {
                self.end(path);
            }
        }
    }

    /// Notes that a request no longer writes to a path.
    fn end_writer(&mut self, path: &str) {
        if let Some(writers) = self.writers.get_mut(path) {
            *writers -= 1;
            if *writers == 0 {
                self.writers.remove(path);
            }
        }
    }

    fn end(&mut self, path: &str) {
        let Some((client, bytes)) = self.files.remove(path) else { return };
        if let Some(count) = self.clients.get_mut(&client) {
            *count = ClientCount { files: count.files - 1, bytes: count.bytes - bytes };
            if count.files == 0 {
                self.clients.remove(&client);
            }
        }
    }

    /// Counts a file at another path.
    fn rename(&mut self, from: &str, to: &str) {
        if let Some(file) = self.files.remove(from) {
            self.end(to);
            self.files.insert(to.to_owned(), file);
        }
    }

    fn of(&self, client: &str) -> Vec<String> {
        let own = self.files.iter().filter(|(_, (owner, _))| **owner == *client);
        own.map(|(path, _)| path.clone()).collect()
    }
}

impl UnfinishedFiles {
    /// Counts the file that a request writes at a path, which has `bytes` as far as is known, if it
    /// is a partial file. Fails if its client has too many.
    pub(crate) async fn begin(
        &self,
        context: &ServerContext,
        request: &ServerRequest,
        path: &NamespacePath,
        bytes: u64,
    ) -> Result<UnfinishedFile, HttpError> {
        let path = path.path();
        if !is_partial(path) {
            return Ok(UnfinishedFile(None));
        }
        let named = context.client_name(request).ok().filter(|name| !name.is_empty());
        let client = named.unwrap_or_else(|| request.peer.address.ip().to_string());
        *lock(&self.0).writers.entry(path.to_owned()).or_default() += 1;
        let writer = Writer { client, path: path.to_owned(), counts: Arc::clone(&self.0) };
        let file = UnfinishedFile(Some(writer));
        file.count(context, bytes).await?;
        Ok(file)
    }

    /// Forgets a path, which was removed.
    pub(crate) fn end(&self, path: &str) {
        lock(&self.0).end(path);
    }

    /// Counts a file at the path to which it was moved, if it is still a partial file.
    pub(crate) fn rename(&self, from: &str, to: &str) {
        let mut counts = lock(&self.0);
        if is_partial(to) { counts.rename(from, to) } else { counts.end(from) }
    }
}

/// A file that a request writes, if it is a partial file.
#[derive(Debug)]
pub(crate) struct UnfinishedFile(Option<Writer>);

#[derive(Debug)]
struct Writer {
    client: String,
    path: String,
    counts: Arc<Mutex<Counts>>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.counts).end_writer(&self.path);
    }
}

impl UnfinishedFile {
    /// Counts the file with `bytes`, if that is more than before. Fails if its client has too many.
    pub(crate) async fn count(&self, context: &ServerContext, bytes: u64) -> Result<(), HttpError> {
        let Some(Writer { client, path, counts }) = &self.0 else { return Ok(()) };
        let limits = context.limits();
        let max = ClientCount {
            files: limits.unfinished_files,
            bytes: limits.unfinished_bytes.unwrap_or(u64::MAX),
        };
        if lock(counts).count(client, path, bytes, max) {
            return Ok(());
        }
        let counted = lock(counts).of(client);
        let backend = &context.backend;
        let there =
            backend.describe(counted.clone(), Details::default(), Arc::new(|_| false)).await?;
        let mut counts = lock(counts);
        let gone = counted.iter().zip(there).filter(|(_, there)| there.is_none());
        counts.end_all(gone.map(|(path, _)| path));
        if counts.count(client, path, bytes, max) {
            return Ok(());
        }
        let what = format!(
            "this client has too many unfinished uploads: at most {} files and {} bytes are \
             allowed; move them to their names with MOVE, or remove them with DELETE",
            max.files, max.bytes
        );
        Err(HttpError::new(StatusCode::INSUFFICIENT_STORAGE, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_bytes_are_counted_by_client() {
        let max = ClientCount { files: 2, bytes: 100 };
        let mut counts = Counts::default();
        assert!(counts.count("a", "1", 60, max) && counts.count("a", "1", 60, max));
        assert!(!counts.count("a", "2", 41, max) && counts.count("a", "2", 40, max));
        assert!(!counts.count("a", "3", 0, max) && counts.count("b", "3", 100, max));
        assert!(!counts.count("b", "4", u64::MAX, max));
        // A file becomes larger, for the client that makes it so.
        assert!(counts.count("b", "4", 0, max) && !counts.count("b", "4", 1, max));
        assert!(!counts.count("a", "2", 41, max) && counts.count("a", "2", 10, max));
        assert_eq!(counts.clients["a"], ClientCount { files: 2, bytes: 100 });
        counts.end("4");
        counts.rename("2", "5");
        assert!(!counts.count("a", "2", 0, max));
        counts.end("5");
        counts.end("5");
        assert!(counts.count("a", "4", 40, max));
        for path in ["1", "3", "4"] {
            counts.end(path);
        }
        assert!(counts.clients.is_empty() && counts.files.is_empty());
    }

    #[test]
    fn a_file_that_is_being_written_is_not_gone() {
        let max = ClientCount { files: 1, bytes: 100 };
        let mut counts = Counts::default();
        let gone = [String::from("1")];
        counts.writers.insert("1".to_owned(), 2);
        assert!(counts.count("a", "1", 60, max));
        counts.end_all(gone.iter());
        counts.end_writer("1");
        counts.end_all(gone.iter());
        assert!(!counts.count("a", "2", 1, max));
        counts.end_writer("1");
        counts.end_all(gone.iter());
        assert!(counts.count("a", "2", 1, max));
        // A client whose only file is refused is not kept.
        assert!(!counts.count("b", "3", 101, max) && !counts.clients.contains_key("b"));
    }
}
