//! Metadata of files and directories, and lists of them.

use crate::border::{free, guarded};
use crate::client::{Client, with_client};
use crate::error::ErrorObject;
use crate::foreign::{c_string, handle, text};
use hither::{DirEntry, FileKind, StoragePath};
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

/// Kind of a directory entry.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// Something else, or unknown.
    Other = 0,
    /// A file.
    File = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link.
    Link = 3,
}

/// The size of a file whose server does not tell it.
pub const HITHER_SIZE_UNKNOWN: u64 = 0xFFFF_FFFF_FFFF_FFFF;

/// Name, kind, size and version of a file or directory.
#[derive(Debug)]
pub struct Entry {
    url: CString,
    name: CString,
    kind: EntryKind,
    size: u64,
    modified: f64,
    validator: Option<CString>,
    /// The entry in the library's own type.
    pub(crate) known: DirEntry,
}

/// The entries of a directory.
#[derive(Debug)]
pub struct List {
    entries: Vec<Entry>,
    next: AtomicUsize,
}

impl Entry {
    fn new(at: &StoragePath, entry: &DirEntry) -> Self {
        let kind = match entry.kind {
            FileKind::File => EntryKind::File,
            FileKind::Directory => EntryKind::Directory,
            FileKind::Link => EntryKind::Link,
            FileKind::Other | FileKind::Unnamed => EntryKind::Other,
        };
        let modified = entry.modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Self {
            url: c_string(&at.display_url(&entry.path)),
            name: c_string(entry.path.rsplit('/').next().unwrap_or_default()),
            kind,
            size: entry.size.unwrap_or(HITHER_SIZE_UNKNOWN),
            modified: modified.map_or(-1.0, |since| since.as_secs_f64()),
            validator: entry.validator.as_deref().map(c_string),
            known: entry.clone(),
        }
    }
}

/// Asks for kind, size and version of a file or directory. Free the entry with hither_entry_free.
/// Returns NULL after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_stat(
    client: Option<&Client>,
    url: *const c_char,
    error: Option<&mut *mut ErrorObject>,
) -> Option<Box<Entry>> {
    with_client(client, error, None, |client| {
        let stat = client.block_on(client.stat(text("the URL", url)?))?;
        Ok(Some(Box::new(Entry::new(&stat.named, &stat.entry))))
    })
}

/// Frees an entry of hither_stat. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn hither_entry_free(entry: Option<Box<Entry>>) {
    free(entry);
}

/// Lists a directory. Free the list with hither_list_free. Returns NULL after an error.
#[unsafe(no_mangle)]
pub extern "C" fn hither_list_new(
    client: Option<&Client>,
    url: *const c_char,
    error: Option<&mut *mut ErrorObject>,
) -> Option<Box<List>> {
    with_client(client, error, None, |client| {
        let at = client.storage_path(text("the URL", url)?)?;
        let entries = client.block_on(at.storage.list(&at.path))?.into_entries()?;
        let entries = entries.iter().map(|entry| Entry::new(&at, entry)).collect();
        Ok(Some(Box::new(List { entries, next: AtomicUsize::new(0) })))
    })
}

/// Returns the next entry, which belongs to the list; NULL after the last one. Threads that share a
/// list get different entries.
#[unsafe(no_mangle)]
pub extern "C" fn hither_list_next(list: Option<&List>) -> Option<&Entry> {
    guarded(None, None, || {
        let list = handle("the list", list)?;
        Ok(list.entries.get(list.next.fetch_add(1, Ordering::Relaxed)))
    })
}

/// Frees a list with its entries. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn hither_list_free(list: Option<Box<List>>) {
    free(list);
}

/// Returns the URL or local path of an entry, without secrets, valid as long as the entry. NULL for
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hither_entry_url(entry: Option<&Entry>) -> *const c_char {
    entry.map_or(std::ptr::null(), |entry| entry.url.as_ptr())
}

/// Returns the last part of the path of an entry, valid as long as the entry. NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hither_entry_name(entry: Option<&Entry>) -> *const c_char {
    entry.map_or(std::ptr::null(), |entry| entry.name.as_ptr())
}

/// Returns the kind of an entry.
#[unsafe(no_mangle)]
pub extern "C" fn hither_entry_kind(entry: Option<&Entry>) -> EntryKind {
    entry.map_or(EntryKind::Other, |entry| entry.kind)
}

/// Returns the size of an entry in bytes; 0 for anything but a file, HITHER_SIZE_UNKNOWN if the
/// server does not tell it.
#[unsafe(no_mangle)]
pub extern "C" fn hither_entry_size(entry: Option<&Entry>) -> u64 {
    entry.map_or(0, |entry| entry.size)
}

/// Returns the time of the last change in seconds since 1970 UTC, -1 if the server does not say.
#[unsafe(no_mangle)]
pub extern "C" fn hither_entry_modified(entry: Option<&Entry>) -> f64 {
    entry.map_or(-1.0, |entry| entry.modified)
}

/// Returns the version of a file, an entity tag or another such text, valid as long as the entry;
/// NULL if the server does not say.
#[unsafe(no_mangle)]
pub extern "C" fn hither_entry_validator(entry: Option<&Entry>) -> *const c_char {
    let validator = entry.and_then(|entry| entry.validator.as_ref());
    validator.map_or(std::ptr::null(), |validator| validator.as_ptr())
}
