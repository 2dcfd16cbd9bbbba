//! Parts of files, kept on disk: a cache that processes and runs share.
//!
//! Each version of a remote file has a log of its own, called by a digest of what makes it that version: URL, the identity
//! that was shown it, size and validator. Another version, or another identity, is another log; nothing is ever served from
//! the wrong one, because the log begins with that text itself.
//!
//! **Records.** A log is only ever appended to: a header (place in the file, length, checksum of the bytes, checksum of
//! the header) and the bytes. What is where is found by walking from header to header; there is no index on disk that
//! could contradict the log. Every read checks the CRC-32C of the records it takes bytes from; one that is wrong is as
//! good as absent, and is fetched and appended anew, where the newer one counts.
//!
//! **Crashes.** A process may die at any point. What it was appending ends in the middle of a record, which the walk sees:
//! it stops there, and the next to append cuts that off. Appending takes a lock on the log, which goes with the process;
//! reading takes none. Nothing is synced: after a crash of the machine checksums tell what did not reach the disk.
//!
//! **Bounds.** The logs together keep [`DiskCache::open`]'s bound as the store keeps its own: the least recently used go
//! first, whole (`folder.rs`). One log may take half of it. A log that was removed is still read by who has it open, and
//! not appended to any more.

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

/// What the names of logs begin with.
const PREFIX: &str = "blocks-";
/// What a log begins with; the last byte is the version of the format.
const MAGIC: &[u8; 8] = b"hither\xb1\x01";
/// Bytes of the header of a record.
const HEADER_BYTES: usize = 24;
/// What the header of a record begins with.
const RECORD: [u8; 4] = *b"part";
/// Most bytes of a record: what is checked, and so read, to get at one byte.
const MAX_RECORD_BYTES: usize = 64 << 10;
/// Longest text of what a log is of.
const MAX_KEY_BYTES: usize = 16 << 10;

/// A directory of parts of files, shared by processes. Reads and writes are blocking file I/O.
#[derive(Debug)]
pub struct DiskCache {
    folder: Arc<PrivateDir>,
    max_bytes: u64,
}

/// One version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskCacheKey {
    /// URL and identity.
    pub file: MetadataKey,
    /// Size in bytes.
    pub size: u64,
    /// What tells the version.
    pub validator: String,
}

/// What is kept of one version of a file.
#[derive(Debug)]
pub struct DiskCacheFile {
    folder: Arc<PrivateDir>,
    log: OwnedFd,
    size: u64,
    /// Most bytes of the log.
    max_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By the offset of their first byte.
    records: BTreeMap<u64, Slot>,
    /// Where the walk has come to.
    walked: u64,
}

/// Where a record is.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Of its bytes, in the log.
    at: u64,
    bytes: u32,
    sum: u32,
}

impl DiskCache {
    /// Opens the directory, which is made, readable by its owner only, if it isn't there, for `max_bytes` in all.
    ///
    /// # Errors
    /// As [`Store::open`](crate::Store::open).
    pub fn open(directory: &Path, max_bytes: u64) -> Result<Self> {
        let folder = PrivateDir::open(directory, &[PREFIX], max_bytes)?;
        Ok(Self { folder: Arc::new(folder), max_bytes })
    }

    /// What is kept of a version of a file, to be read and added to; `None` if nothing can be.
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

    /// Bytes on disk.
    #[must_use]
    pub fn usage(&self) -> u64 {
        self.folder.usage()
    }
}

impl DiskCacheKey {
    /// One text that no other key makes.
    fn text(&self) -> String {
        format!("{}\n{}\n{}", self.size, self.validator, self.file.text())
    }
}

/// Sees to it that a log begins with what it is of; returns where its records begin.
fn begin(log: &OwnedFd, text: &[u8]) -> Option<u64> {
    let mut head = MAGIC.to_vec();
    head.extend(u32::try_from(text.len()).ok()?.to_le_bytes());
    head.extend(text);
    head.extend(crc32c::crc32c(&head).to_le_bytes());
    let found = read(log, 0, head.len());
    if found.as_deref() != Some(&head) {
        // Empty, torn, of another version, or of another file with the same digest: whatever it is, it is not ours.
        let _locked = Lock::take(log)?;
        if read(log, 0, head.len()).as_deref() != Some(&head) {
            ftruncate(log, 0).ok()?;
            write(log, 0, &head)?;
        }
    }
    u64::try_from(head.len()).ok()
}

impl DiskCacheFile {
    /// What is kept of `ranges`, in pieces that lie in them, ascending within each; all of it checked.
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

    /// Keeps bytes of the file, unless they are kept already, cannot be, or somebody else is about to.
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

    /// Goes on from record to record as far as there are whole ones.
    fn walk(&self, state: &mut State) {
        let Some(length) = self.length() else { return };
        if length < state.walked {
            // Somebody found the log not to be what it should: nothing that was seen in it counts.
            state.records.clear();
            state.walked = u64::MAX;
            return;
        }
        while let Some((offset, slot)) = self.record_at(state.walked, length) {
            state.walked = slot.at + u64::from(slot.bytes);
            state.records.insert(offset, slot);
        }
    }

    /// The record that begins at a place of the log, if a whole one does.
    fn record_at(&self, at: u64, length: u64) -> Option<(u64, Slot)> {
        let data = at.checked_add(HEADER_BYTES as u64).filter(|data| *data <= length)?;
        let header = read(&self.log, at, HEADER_BYTES)?;
        let (fields, sum) = header.split_last_chunk::<4>()?;
        let number = |at: usize| fields.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let offset = u64::from_le_bytes(fields.get(4..12)?.try_into().ok()?);
        let (bytes, data_sum) = (number(12)?, number(16)?);
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
        let (length, sum) = (u32::try_from(bytes.len()).ok()?, crc32c::crc32c(bytes));
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
    /// What is there of `wanted`.
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
    /// `None` if somebody else has it: what is to be kept is kept another time, or by them.
    fn take(log: &'a OwnedFd) -> Option<Self> {
        flock(log, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self(log))
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // If that fails it goes with the file.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// So many bytes of a log, all of them or none.
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
