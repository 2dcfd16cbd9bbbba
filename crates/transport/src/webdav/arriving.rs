//! The entries of a listing while it arrives.
//!
//! A listing of thousands of names takes many round trips on a long path, in which its first files
//! could be copied. So complete entries are returned as soon as they have arrived. The whole
//! listing still decides about errors, and entries that its parts did not show are returned at its
//! end.

use super::autoindex::{self, AutoindexEntry, PageUrl};
use bytes::{Bytes, BytesMut};
use hither_core::is_entity_tag;
use hither_core::storage::{DirEntry, FileKind, join};
use hither_http::propfind::{self, PropfindLimits, Resource};
use http::Uri;
use std::collections::HashSet;

/// The number of bytes after which entries are searched for: thirty or more. The head of a
/// multistatus document has to lie within it.
const MIN_BYTES: usize = 16 * 1024;

/// The part of a listing that has arrived.
#[derive(Debug)]
pub(super) struct ArrivingListing {
    /// The directory.
    path: String,
    requested: Option<Uri>,
    page: PageUrl,
    /// The lines of a directory index can be read one by one.
    is_plain: bool,
    body: BytesMut,
    /// Bytes whose entries were returned.
    done: usize,
    /// The length of the body from which on entries are searched for again. The bytes since `done`
    /// double in between, so that a body without entries is not searched once per chunk.
    due: usize,
    /// Paths that were returned.
    known: HashSet<String>,
}

impl ArrivingListing {
    /// The state before any byte of the listing of `path`, at this request target, has arrived.
    pub(super) fn new(path: &str, target: &str, page: PageUrl) -> Self {
        let path = path.to_owned();
        let requested = target.parse().ok();
        Self {
            path,
            requested,
            page,
            is_plain: true,
            body: BytesMut::new(),
            done: 0,
            due: MIN_BYTES,
            known: HashSet::new(),
        }
    }

    /// The entries that are complete with these further bytes.
    pub(super) fn add(&mut self, bytes: &Bytes) -> Vec<DirEntry> {
        self.body.extend_from_slice(bytes);
        if self.body.len() < self.due {
            return Vec::new();
        }
        let found = self.resources().or_else(|| self.links());
        let (entries, end) = found.unwrap_or_else(|| (Vec::new(), self.done));
        self.done = end;
        self.due = end + (2 * (self.body.len() - end)).max(MIN_BYTES);
        self.new_ones(entries)
    }

    /// The entries of the whole listing that were not returned before.
    pub(super) fn rest(&mut self, entries: Vec<DirEntry>) -> Vec<DirEntry> {
        self.new_ones(entries)
    }

    fn new_ones(&mut self, mut entries: Vec<DirEntry>) -> Vec<DirEntry> {
        entries.retain(|entry| self.known.insert(entry.path.clone()));
        entries
    }

    /// The responses of a multistatus document that are complete, and where they end.
    fn resources(&self) -> Option<(Vec<DirEntry>, usize)> {
        let text = &self.body[..];
        let name = find(text.get(..MIN_BYTES)?, b"multistatus")?;
        let prefix =
            text.get(text.get(..name)?.iter().rposition(|byte| *byte == b'<')? + 1..name)?;
        let head = name + find(text.get(name..MIN_BYTES)?, b">")? + 1;
        let from = self.done.max(head);
        let closing = [b"</", prefix, b"response>"].concat();
        let rest = text.get(from..)?;
        let end = from + rest.windows(closing.len()).rposition(|window| window == closing)?;
        let end = end + closing.len();
        let close = [b"</", prefix, b"multistatus>"].concat();
        let document = [text.get(..head)?, text.get(from..end)?, &close].concat();
        let limits = PropfindLimits::default();
        let found = propfind::parse(&document, self.requested.as_ref()?, &limits).ok()?;
        let is_entry = |path: &str| !path.is_empty() && !path.contains('/');
        let found = found.into_iter().filter(|it| is_entry(&it.path));
        let found = found.filter(|it| it.status.is_success() && it.is_utf8);
        let entries = found.map(|it| entry(join(&self.path, &it.path), it)).collect();
        Some((entries, end))
    }

    /// The links of the complete lines of a directory index, and where they end. Files of unknown
    /// size are looked up at the end. A page with comments or scripts is read as a whole.
    fn links(&mut self) -> Option<(Vec<DirEntry>, usize)> {
        if !self.is_plain || !autoindex::is_index(&self.body, &self.page) {
            return None;
        }
        let end = self.body.iter().rposition(|byte| *byte == b'\n')? + 1;
        let lines = self.body.get(self.done..end)?;
        self.is_plain = autoindex::is_plain(lines);
        if !self.is_plain {
            return None;
        }
        let found = autoindex::links(&String::from_utf8_lossy(lines), &self.page).entries;
        let named = found.into_iter().filter(|it| it.is_utf8);
        let entries = named.filter_map(|AutoindexEntry { name, directory, size, .. }| {
            let kind = if directory { FileKind::Directory } else { FileKind::File };
            let size = if directory { 0 } else { size? };
            Some(DirEntry::new(join(&self.path, &name), kind, size))
        });
        Some((entries.collect(), end))
    }
}

/// The entry of a path that a PROPFIND reports.
pub(super) fn entry(path: String, resource: Resource) -> DirEntry {
    let file = !resource.is_collection;
    let kind = if file { FileKind::File } else { FileKind::Directory };
    let entry = DirEntry {
        path,
        kind,
        size: if file { resource.size } else { Some(0) },
        modified: resource.modified,
        validator: resource.etag.filter(|tag| file && is_entity_tag(tag)),
    };
    if resource.is_utf8 { entry } else { entry.into_unnamed() }
}

/// The first place of `wanted`.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(text: &str, whole: Vec<DirEntry>) -> (Vec<Vec<DirEntry>>, Vec<DirEntry>) {
        let mut listing = ArrivingListing::new("d", "/x/d/", PageUrl::new("h", "/x/d/"));
        let pieces = text.as_bytes().chunks(5_000);
        let batches = pieces.map(|piece| listing.add(&Bytes::copy_from_slice(piece)));
        let batches: Vec<_> = batches.filter(|batch| !batch.is_empty()).collect();
        let rest = listing.rest(whole);
        (batches, rest)
    }

    fn whole(count: usize) -> Vec<DirEntry> {
        (0..count).map(|n| DirEntry::new(format!("d/file-{n}"), FileKind::File, n as u64)).collect()
    }

    #[test]
    fn resources_come_while_the_document_arrives_and_each_once() {
        let response = |n: usize| {
            format!(
                "<D:response><D:href>/x/d/file-{n}</D:href><D:propstat><D:prop><D:getcontentlength>{n}\
                </D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>\n"
            )
        };
        let own = "<D:response><D:href>/x/d/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/>\
            </D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>";
        let all: String = (0..1000).map(response).collect();
        let text = format!(
            "<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\">{own}{all}</D:multistatus>"
        );
        let (batches, rest) = arrived(&text, whole(1000));
        assert!(batches.len() > 5, "{}", batches.len());
        let early = batches.concat();
        assert!(early.len() > 800, "{}", early.len());
        assert_eq!([early, rest].concat(), whole(1000));
    }

    #[test]
    fn links_come_while_the_page_arrives_and_each_once() {
        let line =
            |n| format!("<a href=\"file-{n}\">file-{n}</a>      21-Nov-2026 15:20         {n}\r\n");
        let lines: String = (0..1000).map(line).collect();
        let text =
            format!("<html><head><title>Index of /x/d/</title></head><pre>{lines}</pre></html>");
        let (batches, rest) = arrived(&text, whole(1000));
        assert!(batches.len() > 2, "{}", batches.len());
        let mut entries = [batches.concat(), rest].concat();
        entries.sort_unstable_by_key(|entry| entry.size);
        assert_eq!(entries, whole(1000));
        let (batches, rest) = arrived(&text.replace("Index of", "Welcome to"), whole(3));
        assert_eq!((batches.len(), rest.len()), (0, 3), "no index");
    }

    /// In small chunks: an hour if each were searched from the beginning.
    #[test]
    fn the_work_grows_with_the_length_of_the_body_only() {
        let fill = |text: &str| {
            let mut listing = ArrivingListing::new("d", "/x/d/", PageUrl::new("h", "/x/d/"));
            let chunk = Bytes::copy_from_slice(text.repeat(100).as_bytes());
            listing.add(&Bytes::from_static(b"<multistatus xmlns=\"DAV:\">"));
            let found: usize =
                (0..(8 << 20) / chunk.len()).map(|_| listing.add(&chunk).len()).sum();
            (found, listing.done)
        };
        assert_eq!(fill("<x/>"), (0, 0), "no entry ends");
        assert_eq!(fill("<x></response>"), (0, 0), "none can be read");
        let mut listing = ArrivingListing::new("d", "/x/d/", PageUrl::new("h", "/x/d/"));
        let long = format!("<multistatus xmlns=\"DAV:\" x=\"{}\">", "x".repeat(MIN_BYTES));
        let response = "<response><href>/x/d/a</href><status>HTTP/1.1 200 OK</status></response>";
        let text = format!("{long}{}", response.repeat(1_000));
        assert_eq!(listing.add(&Bytes::from(text)), [], "the head is copied for each batch");
    }

    #[test]
    fn entries_elsewhere_are_left_to_the_whole_listing() {
        let response =
            "<response><href>/other/file</href><status>HTTP/1.1 200 OK</status></response>\n";
        let text = format!("<multistatus xmlns=\"DAV:\">{}", response.repeat(500));
        assert_eq!(arrived(&text, Vec::new()), (Vec::new(), Vec::new()));
    }
}
