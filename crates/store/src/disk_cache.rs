//! Ranges of files on disk: a cache shared by processes and runs.
//!
//! Each version of a remote file has a log of its own, named by a digest of URL, identity, size and
//! validator. Another version or identity has another log. The log begins with that text itself, so
//! nothing is served from the wrong one.
//!
//! **Records.** A log is append-only. A record is a header (offset in the file, length, checksum of
//! the bytes, checksum of the header) and the bytes. A walk from header to header finds the
//! records; no index on disk can contradict the log. Each read checks the CRC-32C of the records
//! that it uses. A damaged record counts as absent: its range is fetched and appended again, and
//! the newer record counts.
//!
//! **Crashes.** A process may die at any point. Its last record is then torn; the walk stops there,
//! and the next writer truncates the log. Writers hold a lock on the log, which ends with the
//! process; readers need none. Nothing is synced: after a crash of the machine, checksums show what
//! did not reach the disk.
//!
//! **Bounds.** The logs together keep within the limit of [`DiskCache::open`], as the store keeps
//! within its own: the least recently used log is evicted as a whole (`private_dir.rs`). One log
//! may use half of the limit. A process that has an evicted log open still reads it, and no longer
//! appends to it.

use crate::metadata::MetadataKey;
use crate::private_dir::PrivateDir;
use bytes::Bytes;
use hither_core::sync::lock;
use hither_core::{Result, range};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, flock, fstat, ftruncate};
use rustix::io::{pread, pwrite};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;
use xxhash_rust::xxh64::xxh64;

/// The prefix of logs' names.
const PREFIX: &str = "blocks-";
/// The first bytes of a log; the last one is the format version.
const MAGIC: &[u8; 8] = b"hither\xb1\x01";
/// The length of a record's header, in bytes.
const HEADER_BYTES: usize = 24;
/// The first bytes of a record's header.
const RECORD: [u8; 4] = *b"part";
/// The largest record, in bytes: the unit that is checked, and so read, to get one byte.
const MAX_RECORD_BYTES: usize = 64 << 10;
/// The longest key text, in bytes.
const MAX_KEY_BYTES: usize = 16 << 10;

/// A directory of cached ranges, shared by processes. Reads and writes are blocking file I/O.
#[derive(Debug)]
pub struct DiskCache {
    folder: Arc<PrivateDir>,
    max_bytes: u64,
}

/// The key of one version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskCacheKey {
    /// URL and identity.
    pub file: MetadataKey,
    /// Size in bytes.
    pub size: u64,
    /// The validator of the version.
    pub validator: String,
}

/// The cached ranges of one version of a file.
#[derive(Debug)]
pub struct DiskCacheFile {
    folder: Arc<PrivateDir>,
    log: OwnedFd,
    size: u64,
    /// The largest size of the log, in bytes.
    max_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Records by the offset of their first byte in the file.
    records: BTreeMap<u64, Slot>,
    /// The offset in the log at which the walk continues.
    walked: u64,
}

/// The location of a record.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// The offset of its bytes in the log.
    at: u64,
    bytes: u32,
    sum: u32,
}

impl DiskCache {
    /// Opens the directory for at most `max_bytes`; creates it, readable by its owner only, if it
    /// does not exist.
    ///
    /// # Errors
    /// As [`Store::open`](crate::Store::open).
    pub fn open(directory: &Path, max_bytes: u64) -> Result<Self> {
        let folder = PrivateDir::open(directory, &[PREFIX], max_bytes)?;
        Ok(Self { folder: Arc::new(folder), max_bytes })
    }

    /// Opens the cached ranges of a version for reading and appending; `None` if nothing can be
    /// cached.
    #[must_use]
    pub fn file(&self, key: &DiskCacheKey, now: SystemTime) -> Option<DiskCacheFile> {
        let text = key.text();
        if text.len() > MAX_KEY_BYTES {
            return None;
        }
        let name =
            format!("{PREFIX}{:016x}{:016x}", xxh64(text.as_bytes(), 0), xxh64(text.as_bytes(), 1));
        let log = self.folder.lockable(&name)?;
        self.folder.note_use(&log, now);
        let start = begin(&log, text.as_bytes())?;
        let state = Mutex::new(State { records: BTreeMap::new(), walked: start });
        let folder = Arc::clone(&self.folder);
        Some(DiskCacheFile { folder, log, size: key.size, max_bytes: self.max_bytes / 2, state })
    }

    /// Returns the bytes on disk.
    #[must_use]
    pub fn usage(&self) -> u64 {
        self.folder.usage()
    }
}

impl DiskCacheKey {
    /// Returns a text that no other key has.
    fn text(&self) -> String {
        format!("{}\n{}\n{}", self.size, self.validator, self.file.text())
    }
}

/// Writes the key text at the start of the log unless it is there; returns the offset of the first
/// record.
fn begin(log: &OwnedFd, text: &[u8]) -> Option<u64> {
    let mut head = MAGIC.to_vec();
    head.extend(u32::try_from(text.len()).ok()?.to_le_bytes());
    head.extend(text);
    head.extend(crc32c::crc32c(&head).to_le_bytes());
    let found = read(log, 0, head.len());
    if found.as_deref() != Some(&head) {
        // Empty, torn, of another format version, or of another file with the same digest: start a
        // new log.
        let _locked = Lock::take(log)?;
        if read(log, 0, head.len()).as_deref() != Some(&head) {
            ftruncate(log, 0).ok()?;
            write(log, 0, &head)?;
        }
    }
    u64::try_from(head.len()).ok()
}

impl DiskCacheFile {
    /// Returns the cached parts of `ranges`, in pieces within them, ascending in each, all of them
    /// verified.
    #[must_use]
    pub fn read(&self, ranges: &[Range<u64>]) -> Vec<(u64, Bytes)> {
        let mut state = self.state();
        self.walk(&mut state);
        let mut found = Vec::new();
        for wanted in ranges {
            self.read_range(&mut state, wanted, &mut found);
        }
        found
    }

    /// Appends bytes of the file, unless they are cached already, do not fit, or another process is
    /// writing.
    pub fn write(&self, offset: u64, bytes: &[u8], now: SystemTime) {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > self.size || bytes.is_empty() {
            return;
        }
        let Some(_locked) = Lock::take(&self.log) else { return };
        let mut state = self.state();
        self.walk(&mut state);
        let Some(length) = self.length() else { return };
        if length > state.walked && ftruncate(&self.log, state.walked).is_err() {
            return;
        }
        let before = state.walked;
        for gap in
            range::difference(std::slice::from_ref(&(offset..end)), &state.known(offset..end))
        {
            let part = usize::try_from(gap.start - offset)
                .ok()
                .zip(usize::try_from(gap.end - offset).ok());
            let Some(part) = part.and_then(|(from, to)| bytes.get(from..to)) else { return };
            for (nth, record) in part.chunks(MAX_RECORD_BYTES).enumerate() {
                let at = gap.start + (nth * MAX_RECORD_BYTES) as u64;
                if self.append(&mut state, at, record).is_none() {
                    return;
                }
            }
        }
        let grown = state.walked - before;
        drop(state);
        self.folder.grew(grown, now);
    }

    fn read_range(&self, state: &mut State, wanted: &Range<u64>, found: &mut Vec<(u64, Bytes)>) {
        let mut at = wanted.start;
        let first = at.saturating_sub(MAX_RECORD_BYTES as u64);
        let near: Vec<_> =
            state.records.range(first..wanted.end).map(|(o, slot)| (*o, *slot)).collect();
        for (offset, slot) in near {
            let end = offset + u64::from(slot.bytes);
            if end <= at {
                continue;
            }
            let bytes = read(&self.log, slot.at, slot.bytes as usize);
            let Some(bytes) = bytes.filter(|bytes| crc32c::crc32c(bytes) == slot.sum) else {
                state.records.remove(&offset);
                continue;
            };
            let from = at.max(offset);
            let to = end.min(wanted.end);
            let part = usize::try_from(from - offset).ok().zip(usize::try_from(to - offset).ok());
            if let Some((a, b)) = part.filter(|(a, b)| a < b && *b <= bytes.len()) {
                found.push((from, Bytes::from(bytes).slice(a..b)));
                at = to;
            }
        }
    }

    /// Walks on over the whole records.
    fn walk(&self, state: &mut State) {
        let Some(length) = self.length() else { return };
        if length < state.walked {
            // Another process found the log damaged and restarted it: forget the known records.
            state.records.clear();
            state.walked = u64::MAX;
            return;
        }
        while let Some((offset, slot)) = self.record_at(state.walked, length) {
            state.walked = slot.at + u64::from(slot.bytes);
            state.records.insert(offset, slot);
        }
    }

    /// Returns the record that begins at an offset of the log, if it is whole.
    fn record_at(&self, at: u64, length: u64) -> Option<(u64, Slot)> {
        let data = at.checked_add(HEADER_BYTES as u64).filter(|data| *data <= length)?;
        let header = read(&self.log, at, HEADER_BYTES)?;
        let (fields, sum) = header.split_last_chunk::<4>()?;
        let number = |at: usize| fields.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let offset = u64::from_le_bytes(fields.get(4..12)?.try_into().ok()?);
        let bytes = number(12)?;
        let data_sum = number(16)?;
        let sound = fields.starts_with(&RECORD)
            && crc32c::crc32c(fields) == u32::from_le_bytes(*sum)
            && bytes as usize <= MAX_RECORD_BYTES
            && offset.checked_add(u64::from(bytes)).is_some_and(|end| end <= self.size)
            && data.checked_add(u64::from(bytes)).is_some_and(|end| end <= length);
        sound.then_some((offset, Slot { at: data, bytes, sum: data_sum }))
    }

    fn append(&self, state: &mut State, offset: u64, bytes: &[u8]) -> Option<()> {
        let status = fstat(&self.log).ok()?;
        let end = state.walked.checked_add((HEADER_BYTES + bytes.len()) as u64)?;
        if status.st_nlink == 0 || end > self.max_bytes {
            return None;
        }
        let length = u32::try_from(bytes.len()).ok()?;
        let sum = crc32c::crc32c(bytes);
        let mut record = RECORD.to_vec();
        record.extend(offset.to_le_bytes());
        record.extend(length.to_le_bytes());
        record.extend(sum.to_le_bytes());
        record.extend(crc32c::crc32c(&record).to_le_bytes());
        record.extend(bytes);
        write(&self.log, state.walked, &record)?;
        let at = state.walked + HEADER_BYTES as u64;
        state.records.insert(offset, Slot { at, bytes: length, sum });
        state.walked = end;
        Some(())
    }

    fn length(&self) -> Option<u64> {
        u64::try_from(fstat(&self.log).ok()?.st_size).ok()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Returns the parts of `wanted` that are cached.
    fn known(&self, wanted: Range<u64>) -> Vec<Range<u64>> {
        let first = wanted.start.saturating_sub(MAX_RECORD_BYTES as u64);
        let near = self.records.range(first..wanted.end);
        let known: Vec<_> = near.map(|(at, slot)| *at..at + u64::from(slot.bytes)).collect();
        range::merged(&known, 0)
    }
}

/// The right to append to a log, until dropped.
struct Lock<'a>(&'a OwnedFd);

impl<'a> Lock<'a> {
    /// Takes the lock; `None` if another process holds it. The bytes are then cached later, or by
    /// that process.
    fn take(log: &'a OwnedFd) -> Option<Self> {
        flock(log, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self(log))
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // If unlocking fails, closing the file releases the lock.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// Reads exactly `bytes` bytes of a log; `None` if there are fewer.
fn read(log: &OwnedFd, at: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut target = vec![0; bytes];
    let mut got = 0;
    while got < bytes {
        match pread(log, target.get_mut(got..)?, at.checked_add(got as u64)?) {
            Ok(0) => return None,
            Ok(more) => got += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(target)
}

fn write(log: &OwnedFd, at: u64, bytes: &[u8]) -> Option<()> {
    let mut done = 0;
    while done < bytes.len() {
        match pwrite(log, bytes.get(done..)?, at.checked_add(done as u64)?) {
            Ok(0) => return None,
            Ok(more) => done += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(())
}
