//! A file on the disk that is being written.
//!
//! The space of a file in a lot is taken before the first byte; a file whose size is not known
//! takes more as it grows. Other files take the space of the disk as their data arrive
//! ([`Allocation`]). Each write is one job on a blocking thread: it takes the space, writes, and
//! updates the checksums while the bytes are in the processor's cache.

use crate::backend::blocking::Cancellation;
use crate::backend::disk::DiskBackend;
use crate::backend::disk::allocation::{Allocation, allocate, on_disk, trim};
use crate::backend::disk::checksums;
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::lot_charging::WriteCharge;
use crate::backend::disk::metadata::DiskMetadata;
use crate::backend::disk::open_parts::{PartFence, renamed};
use crate::backend::disk::temp_file::TempFile;
use crate::backend::{
    BackendError, BackendErrorKind, BackendFuture, BatchEntry, CommitOptions, Committed,
    CreateOptions, FileWriter, Precondition,
};
use crate::lots::Space;
use bytes::Bytes;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::storage::FileKind;
use std::fs::{File, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::time::Instant;

/// A file on the disk that is being written.
#[derive(Debug)]
pub(crate) struct DiskWriter {
    disk: DiskBackend,
    path: String,
    state: Arc<State>,
}

/// The part that the writing threads share.
#[derive(Debug)]
struct State {
    tree: Arc<ConfinedDir>,
    file: File,
    allocation: Mutex<Allocation>,
    /// The temporary file until it is committed; none afterwards, and for a file written in place.
    temp: Mutex<Option<Temp>>,
    /// The name of a file written in place, as this writer opened it.
    part: Option<OpenPart>,
    hashing: Mutex<Hashing>,
    /// The number of bytes that were written.
    written: AtomicU64,
    /// The number of those bytes that are durable.
    synced: AtomicU64,
}

#[derive(Debug)]
struct Temp {
    file: TempFile,
    charge: WriteCharge,
}

/// A partial file that one part of is written.
#[derive(Debug)]
struct OpenPart {
    path: String,
    meta: DiskMetadata,
    fence: Arc<PartFence>,
}

/// A complete file that has no name yet.
#[derive(Debug)]
pub(crate) struct CompleteFile {
    pub(crate) file: TempFile,
    charge: WriteCharge,
    meta: DiskMetadata,
}

/// Checksums of a file that is written in order.
#[derive(Debug)]
struct Hashing {
    at: u64,
    hashers: Vec<Hasher>,
}

impl Hashing {
    fn update(&mut self, offset: u64, data: &[Bytes]) {
        if offset != self.at {
            // Out of order: checksums are computed from the file.
            self.hashers.clear();
            return;
        }
        for bytes in data {
            self.at += bytes.len() as u64;
            for hasher in &mut self.hashers {
                hasher.update(bytes);
            }
        }
    }
}

impl State {
    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, offset: u64, data: &[Bytes]) -> Result<(), BackendError> {
        let check_name = || self.part.as_ref().map_or(Ok(()), |part| part.check_name(&self.tree));
        let _open = self.part.as_ref().map(|part| part.fence.begin()).transpose()?;
        check_name()?;
        let bytes: u64 = data.iter().map(|bytes| bytes.len() as u64).sum();
        self.cover(offset.saturating_add(bytes))?;
        let mut at = offset;
        for bytes in data {
            self.file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
        }
        let mut hashing = Self::lock(&self.hashing);
        if !hashing.hashers.is_empty() {
            hashing.update(offset, data);
        }
        drop(hashing);
        self.written.fetch_add(bytes, Ordering::AcqRel);
        // It may have been moved with its directory, or removed.
        check_name()
    }

    /// Takes the space for the bytes up to `end`. Returns true if a lot has it.
    fn cover(&self, end: u64) -> Result<bool, BackendError> {
        let mut is_in_lot = false;
        if let Some(temp) = &mut *Self::lock(&self.temp) {
            temp.charge.cover(end, &self.file)?;
            is_in_lot = temp.charge.is_in_lot();
        }
        Self::lock(&self.allocation).cover(end, &self.file, &self.tree)?;
        Ok(is_in_lot)
    }

    fn take_temp(&self) -> Result<Temp, BackendError> {
        Self::lock(&self.temp).take().ok_or_else(|| {
            let what = "the file was already committed, or is written in place";
            BackendError::new(BackendErrorKind::Conflict, what)
        })
    }

    /// The checksum that was computed while bytes were written in order.
    fn computed(&self, algorithm: Algorithm) -> Option<Checksum> {
        let hashing = Self::lock(&self.hashing);
        let hasher = hashing.hashers.iter().find(|hasher| hasher.algorithm() == algorithm);
        hasher.map(|hasher| hasher.clone().finish())
    }
}

impl OpenPart {
    /// Fails if the file no longer has the name by which it was opened: the written bytes are lost,
    /// or in another file than the client expects.
    fn check_name(&self, tree: &ConfinedDir) -> Result<(), BackendError> {
        let there = tree.own(&self.path)?;
        let is_same = there.is_some_and(|there| there.file_id() == self.meta.file_id());
        if is_same { Ok(()) } else { Err(renamed()) }
    }
}

impl DiskWriter {
    /// Creates the file.
    pub(crate) fn create(
        disk: &DiskBackend,
        tree: &ConfinedDir,
        path: String,
        options: CreateOptions,
    ) -> Result<Self, BackendError> {
        let hashers = options.checksums.into_iter().map(Hasher::new).collect();
        let size = options.size.unwrap_or_default();
        let (file, temp, allocation, part) = if let Some(part) = options.part {
            let (file, allocation, part) = open_in_place(disk, tree, &path, size, part)?;
            (file, None, allocation, Some(part))
        } else {
            let charge = disk.lots().take(&path, Space::of_file(size))?;
            let (directory, _) = path.rsplit_once('/').unwrap_or_default();
            let temp = tree.begin(directory)?;
            let allocation = if charge.is_in_lot() {
                charge.with_room(|| temp.reserve(size))?;
                Allocation::in_lot()
            } else {
                tree.floor.check(temp.file(), size)?;
                Allocation::of(0..options.size.unwrap_or(u64::MAX))
            };
            (temp.file().try_clone()?, Some(Temp { file: temp, charge }), allocation, None)
        };
        let state = Arc::new(State {
            tree: Arc::clone(&disk.tree),
            file,
            allocation: Mutex::new(allocation),
            temp: Mutex::new(temp),
            part,
            hashing: Mutex::new(Hashing { at: 0, hashers }),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
        });
        Ok(Self { disk: disk.clone(), path, state })
    }

    /// Writes a small file of a batch, up to its name.
    pub(crate) fn complete(
        disk: &DiskBackend,
        tree: &ConfinedDir,
        entry: &BatchEntry,
        content: &[Bytes],
    ) -> Result<CompleteFile, BackendError> {
        let size = content.iter().map(|bytes| bytes.len() as u64).sum();
        let checksums = entry.checksums.to_vec();
        let options = CreateOptions { size: Some(size), checksums, part: None };
        let Self { state, .. } = Self::create(disk, tree, entry.path.clone(), options)?;
        state.write(0, content)?;
        let sums = entry.checksums.iter().filter_map(|algorithm| state.computed(*algorithm));
        let file = state.take_temp()?;
        if entry.is_executable {
            let mode = state.file.metadata()?.permissions().mode();
            state.file.set_permissions(Permissions::from_mode(mode | (mode & 0o444) >> 2))?;
        }
        CompleteFile::new(file, entry.modified, &sums.collect::<Vec<_>>())
    }
}

/// Opens a partial file of `size` bytes to write one part of it; the first of its writers creates
/// it. If there is no space, none is left behind.
fn open_in_place(
    disk: &DiskBackend,
    tree: &ConfinedDir,
    path: &str,
    size: u64,
    part: Range<u64>,
) -> Result<(File, Allocation, OpenPart), BackendError> {
    // Of several writers that open it at the same time, one takes the space for all.
    let _names = tree.lock_names();
    let before = tree.own(path)?;
    let length = before.as_ref().map_or(0, |meta| meta.size);
    let is_in_lot = disk.lots().quota(path).is_some();
    let file = tree.write_to(path)?;
    let meta = DiskMetadata::of(&file)?;
    let fence = tree.parts.open(meta.file_id());
    let prepare = || -> Result<Allocation, BackendError> {
        let is_new = before.is_none();
        let space = Space { files: is_new.into(), ..Space::of_file(size) };
        let is_charged = is_new || length < size;
        let charge = is_charged.then(|| disk.lots().take(path, space)).transpose()?;
        let mut allocation = Allocation::of(part.clone());
        if is_in_lot {
            allocation = Allocation::in_lot();
            if let Some(charge) = &charge {
                charge.with_room(|| allocate(&file, 0..size))?;
            }
        } else {
            tree.floor.check(&file, size.saturating_sub(on_disk(&file)?))?;
            // One block, so that a full disk or quota shows before the file stays.
            allocation.cover(part.start.saturating_add(1), &file, tree)?;
        }
        if length < size {
            file.set_len(size)?;
        }
        if let Some(charge) = charge {
            charge.done(space, Space { files: 0, ..Space::of_file(length) });
        }
        Ok(allocation)
    };
    let prepared = prepare();
    if prepared.is_err() && before.is_none() {
        // If this fails, the cleanup removes the file.
        drop(tree.unlink_or_hide(path, true));
    }
    let part = OpenPart { path: path.to_owned(), meta, fence };
    prepared.map(|allocation| (file, allocation, part))
}

impl FileWriter for DiskWriter {
    fn write(&self, offset: u64, data: Vec<Bytes>) -> BackendFuture<'static, std::time::Duration> {
        let state = Arc::clone(&self.state);
        let writing = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            state.write(offset, &data)?;
            Ok(began.elapsed())
        });
        Box::pin(async move { writing.await.map_err(|_| BackendError::shutting_down())? })
    }

    fn reserve(&self, end: u64, is_whole: bool) -> BackendFuture<'static, ()> {
        let state = Arc::clone(&self.state);
        let reserving = tokio::task::spawn_blocking(move || {
            if is_whole {
                State::lock(&state.allocation).end_at(end);
            }
            // The blocks are allocated steps ahead; meanwhile the same bytes fill the disk.
            if state.cover(end)? { Ok(()) } else { state.tree.floor.check(&state.file, 1) }
        });
        Box::pin(async move { reserving.await.map_err(|_| BackendError::shutting_down())? })
    }

    fn sync(&self) -> BackendFuture<'_, u64> {
        let state = Arc::clone(&self.state);
        Box::pin(async move {
            let syncing = self.disk.run_durably(move |_| -> io::Result<u64> {
                let written = state.written.load(Ordering::Acquire);
                state.file.sync_data()?;
                state.synced.store(written, Ordering::Release);
                Ok(written)
            });
            // An error shows when the file is committed.
            Ok(syncing.await.unwrap_or_else(|_| self.state.synced.load(Ordering::Acquire)))
        })
    }

    fn checksum(&self, algorithm: Algorithm) -> BackendFuture<'_, Checksum> {
        let state = Arc::clone(&self.state);
        Box::pin(async move {
            if let Some(sum) = state.computed(algorithm) {
                return Ok(sum);
            }
            let compute = move |cancellation: &Cancellation| {
                checksums::checksum_of(&state.file, algorithm, cancellation)
            };
            self.disk.run_checksum(compute).await
        })
    }

    fn commit(&self, options: CommitOptions) -> BackendFuture<'_, Committed> {
        let state = Arc::clone(&self.state);
        let path = self.path.clone();
        Box::pin(self.disk.run_durably(move |tree| {
            let CommitOptions { replace, checksums, modified, precondition } = options;
            let file = CompleteFile::new(state.take_temp()?, modified, &checksums)?;
            file.file.sync()?;
            let (file, committed) = file.give_name(tree, &path, replace, &precondition)?;
            file.sync_name()?;
            Ok::<_, BackendError>(committed)
        }))
    }
}

impl CompleteFile {
    /// The file with its time, which is now if none is given, and its checksums.
    fn new(
        Temp { file, charge }: Temp,
        modified: Option<SystemTime>,
        checksums: &[Checksum],
    ) -> Result<Self, BackendError> {
        trim(file.file())?;
        // A time to the nanosecond that no change will have again: stored checksums are bound to
        // it. A time that a client gives recurs only with the same client, and another inode.
        file.file().set_modified(modified.unwrap_or_else(SystemTime::now))?;
        let meta = DiskMetadata::of(file.file())?;
        let is_final = meta.is_fine() || meta.is_settled(SystemTime::now());
        for sum in checksums.iter().filter(|_| is_final) {
            // Where attributes cannot be written, checksums are computed when a client requests
            // them.
            drop(checksums::store(file.file(), &meta, sum));
        }
        Ok(Self { file, charge, meta })
    }

    /// Gives the file its path. The bytes have to be durable before; the name is not durable yet.
    pub(crate) fn give_name(
        self,
        tree: &ConfinedDir,
        path: &str,
        replace: bool,
        precondition: &Precondition,
    ) -> Result<(TempFile, Committed), BackendError> {
        let Self { mut file, charge, meta } = self;
        let names = tree.lock_names();
        let own = tree.own(path)?;
        let there = own.as_ref().and_then(|own| own.target(SystemTime::now()));
        precondition(there.as_ref())?;
        if own.as_ref().is_some_and(|own| own.kind == FileKind::Other) {
            return Err(BackendError::not_a_file());
        }
        file.link_as(tree, path, replace)?;
        let replaced = own.as_ref().map(|own| Space::of_file(own.size)).unwrap_or_default();
        charge.done(Space::of_file(meta.size), replaced);
        drop(names);
        Ok((file, Committed { metadata: meta.committed_entry(), replaced: own.is_some() }))
    }
}
