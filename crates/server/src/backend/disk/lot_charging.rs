//! What a change of the tree takes of lots, and gives back to them.
//!
//! A change begins with [`LotCharging::take`], which refuses it with 507 if it does not fit, and ends with [`WriteCharge::done`]; if it
//! fails, what it took is given back by itself.
//!
//! What is counted for a change is what it did: files are counted under private names that nobody else changes, or in the
//! turn in which the names change ([`ConfinedDir::lock_names`]). So lots hold what is in their folders, however requests race.

use crate::backend::disk::cleanup::CleanupAges;
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::namespace::ReplacedEntry;
use crate::backend::disk::temp_file::reserve;
use crate::backend::{BackendError, BackendErrorKind};
use crate::lots::{LotCharge, LotError, Lots, footprint, seconds};
use hither_core::storage::is_partial;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// The lots of a site, if it keeps any.
#[derive(Debug, Clone, Default)]
pub(crate) struct LotCharging(Option<Arc<Lots>>);

/// What a change has taken.
#[derive(Debug)]
pub(crate) struct WriteCharge(Option<LotCharge>);

impl LotCharging {
    pub(crate) fn new(lots: Option<Arc<Lots>>) -> Self {
        Self(lots)
    }

    /// Takes `bytes` for a file that will be at `path`.
    pub(crate) fn take(&self, path: &str, bytes: u64) -> Result<WriteCharge, BackendError> {
        let charge = self.0.as_ref().map(|lots| lots.charge(path, bytes, seconds())).transpose()?;
        Ok(WriteCharge(charge))
    }

    /// Bytes that are free and used in the lot that a path is in, if it is in one.
    pub(crate) fn quota(&self, path: &str) -> Option<(u64, u64)> {
        self.0.as_ref()?.quota(path, seconds())
    }

    /// What is at and below a path, if a lot around `place` wants to know.
    fn count(&self, place: &str, path: &str) -> io::Result<u64> {
        match &self.0 {
            Some(lots) if lots.touches(place, seconds()) => lots.count(path),
            _ => Ok(0),
        }
    }

    /// Bytes of what a change has put out of the way, if a lot at `path` wants to know.
    fn replaced(&self, path: &str, replaced: &ReplacedEntry) -> io::Result<u64> {
        match replaced {
            ReplacedEntry::Nothing => Ok(0),
            ReplacedEntry::File(bytes) => Ok(footprint(*bytes)),
            ReplacedEntry::Hidden(hidden) => self.count(path, hidden),
        }
    }

    /// Removes what is at a path if `check` agrees when its turn has come.
    pub(crate) fn remove(
        &self,
        tree: &ConfinedDir,
        path: &str,
        check: impl FnOnce() -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let alone = tree.lock_names();
        check()?;
        let replaced = tree.unlink_or_hide(path)?;
        let gone = self.replaced(path, &replaced)?;
        if let ReplacedEntry::Hidden(hidden) = &replaced {
            drop(alone);
            if let Err(error) = tree.remove(hidden) {
                // What could not be removed stays where it was, for its owner to see.
                let left = self.replaced(path, &replaced)?;
                tree.rename(hidden, path, false)?;
                self.changed(path, gone, left)?;
                return Err(error.into());
            }
        }
        Ok(self.changed(path, gone, 0)?)
    }

    /// So many bytes have gone from a path, and so many are there now.
    fn changed(&self, path: &str, gone: u64, came: u64) -> io::Result<()> {
        let Some(lots) = &self.0 else { return Ok(()) };
        lots.shift(path, gone, came);
        lots.recount(path)
    }

    /// Gives what is at `from` the name `to` if `check` agrees when its turn has come. Tells whether nothing was replaced.
    pub(crate) fn rename(
        &self,
        tree: &ConfinedDir,
        (from, to): (&str, &str),
        replace: bool,
        check: impl FnOnce() -> Result<(), BackendError>,
    ) -> Result<bool, BackendError> {
        // Whoever writes a file in parts is told so with its name that it is whole.
        tree.sync_file(from)?;
        let alone = tree.lock_names();
        check()?;
        let comes = match &self.0 {
            Some(lots) if !lots.is_same(from, to) => {
                self.count(from, from)?.max(self.count(to, from)?)
            }
            _ => 0,
        };
        let taken = self.take(to, comes)?;
        let replaced = tree.rename(from, to, replace)?;
        taken.done(comes, self.replaced(to, &replaced)?);
        self.changed(from, comes, 0)?;
        self.changed(to, 0, 0)?;
        drop(alone);
        clear(tree, &replaced);
        tree.sync_name(to)?;
        tree.sync_name(from)?;
        Ok(replaced == ReplacedEntry::Nothing)
    }

    /// Copies what is at `from` to `to`, a directory with what is in it if `deep`, if `check` agrees when the copy is whole.
    /// Tells whether nothing was replaced.
    pub(crate) fn copy(
        &self,
        tree: &ConfinedDir,
        (from, to): (&str, &str),
        (deep, replace): (bool, bool),
        check: impl FnOnce() -> Result<(), BackendError>,
    ) -> Result<bool, BackendError> {
        let taken = self.take(to, self.count(to, from)?)?;
        if let Some(lots) = &self.0 {
            lots.cut();
        }
        let hidden = tree.copy(from, to, deep)?;
        let named = || {
            let came = self.count(to, &hidden)?;
            let alone = tree.lock_names();
            check()?;
            let replaced = tree.rename(&hidden, to, replace)?;
            taken.done(came, self.replaced(to, &replaced)?);
            self.changed(to, 0, 0)?;
            drop(alone);
            Ok(replaced)
        };
        let replaced = named().inspect_err(|_: &BackendError| drop(tree.remove(&hidden)))?;
        clear(tree, &replaced);
        tree.sync_name(to)?;
        Ok(replaced == ReplacedEntry::Nothing)
    }
}

impl LotCharging {
    /// Removes what uploads have left behind.
    pub(crate) fn sweep(&self, tree: &ConfinedDir, ages: CleanupAges) {
        tree.remove_stale(ages, |path| {
            if is_partial(path) {
                // It counts in its lot.
                drop(self.remove(tree, path, || Ok(())));
            } else {
                drop(tree.remove(path));
            }
        });
    }
}

/// Removes what was replaced. What cannot be is hidden, and swept away at last.
fn clear(tree: &ConfinedDir, replaced: &ReplacedEntry) {
    if let ReplacedEntry::Hidden(hidden) = replaced {
        drop(tree.remove(hidden));
    }
}

impl WriteCharge {
    /// Charges for a file that has `bytes` by now, and reserves what that takes more of the disk.
    pub(crate) fn cover(&mut self, bytes: u64, file: &File) -> Result<(), BackendError> {
        let Some(charge) = &mut self.0 else { return Ok(()) };
        if charge.cover(bytes)? {
            let charged = charge.bytes();
            charge.lots().with_room(|| reserve(file, charged))?;
        }
        Ok(())
    }

    /// Does something that takes blocks of the disk for what was taken here.
    pub(crate) fn with_room<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match &self.0 {
            Some(charge) => charge.with_room(work),
            None => work(),
        }
    }

    /// The file has its name: it has `size` bytes, and one of `replaced` bytes is gone.
    pub(crate) fn done(self, size: u64, replaced: u64) {
        if let Some(charge) = self.0 {
            charge.settle(size, replaced);
        }
    }
}

impl From<LotError> for BackendError {
    fn from(error: LotError) -> Self {
        let kind = match &error {
            LotError::Full { .. } | LotError::NoSpace | LotError::Terms(_) => {
                BackendErrorKind::NoSpace
            }
            LotError::Overlap => BackendErrorKind::Conflict,
            LotError::Invalid(_) => BackendErrorKind::Invalid,
            LotError::NotFound => BackendErrorKind::NotFound,
            LotError::Forbidden => BackendErrorKind::PermissionDenied,
            LotError::Failed(_) => BackendErrorKind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}
