//! Charges to lots for changes of the tree.
//!
//! A change begins with [`LotCharging::take`], which fails if the space does not fit into the lot,
//! and ends with [`WriteCharge::done`]. If the change fails, dropping the charge returns the space.
//!
//! The charge is for the result of the change: files are counted under private names that no other
//! request changes, or while the names are locked ([`ConfinedDir::lock_names`]). So the used bytes
//! of a lot are those of the files in its folder, in spite of races between requests.

use crate::backend::blocking::Cancellation;
use crate::backend::disk::allocation::allocate;
use crate::backend::disk::cleanup::CleanupAges;
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::copy::TreeCopy;
use crate::backend::disk::namespace::ReplacedEntry;
use crate::backend::{BackendError, BackendErrorKind, LinkFilter};
use crate::lots::{LotCharge, LotError, Lots, Space, seconds};
use hither_core::storage::is_partial;
use std::fs::File;
use std::io;
use std::sync::Arc;
use tracing::debug;

/// The lots of a server, if it has any.
#[derive(Debug, Clone, Default)]
pub(crate) struct LotCharging(Option<Arc<Lots>>);

/// The space that a change has taken from a lot.
#[derive(Debug)]
pub(crate) struct WriteCharge(Option<LotCharge>);

impl LotCharging {
    pub(crate) fn new(lots: Option<Arc<Lots>>) -> Self {
        Self(lots)
    }

    /// Takes `space` from the lot of an entry that will be at `path`.
    pub(crate) fn take(&self, path: &str, space: Space) -> Result<WriteCharge, BackendError> {
        let charge = self.0.as_ref().map(|lots| lots.charge(path, space, seconds())).transpose()?;
        Ok(WriteCharge(charge))
    }

    /// The free and the used bytes of the lot that a path is in, if it is in one.
    pub(crate) fn quota(&self, path: &str) -> Option<(u64, u64)> {
        self.0.as_ref()?.quota(path, seconds())
    }

    /// The space at and below a path, if a lot covers `place`; otherwise none, without counting.
    fn count(&self, place: &str, path: &str) -> io::Result<Space> {
        match &self.0 {
            Some(lots) if lots.touches(place, seconds()) => lots.count(path),
            _ => Ok(Space::default()),
        }
    }

    /// The space of an entry that was replaced at `path`, if a lot covers it.
    fn replaced(&self, path: &str, replaced: &ReplacedEntry) -> io::Result<Space> {
        match replaced {
            ReplacedEntry::Nothing => Ok(Space::default()),
            ReplacedEntry::File(bytes) => Ok(Space::of_file(*bytes)),
            ReplacedEntry::Hidden(hidden) => self.count(path, hidden),
        }
    }

    /// Removes the entry at a path if `check` succeeds while names are locked; a directory with
    /// contents only if `whole`.
    pub(crate) fn remove(
        &self,
        tree: &ConfinedDir,
        path: &str,
        whole: bool,
        check: impl FnOnce() -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let alone = tree.lock_names();
        check()?;
        let replaced = tree.unlink_or_hide(path, whole)?;
        let gone = self.replaced(path, &replaced)?;
        if let ReplacedEntry::Hidden(hidden) = &replaced {
            drop(alone);
            if let Err(error) = tree.remove(hidden) {
                // The rest goes back to its path, so that its owner sees it.
                let left = self.replaced(path, &replaced)?;
                tree.rename(hidden, path, false)?;
                self.changed(path, gone, left)?;
                return Err(error.into());
            }
        }
        Ok(self.changed(path, gone, Space::default())?)
    }

    /// Creates a directory if `check` succeeds while names are locked. Its name is not durable yet.
    pub(crate) fn make_directory(
        &self,
        tree: &ConfinedDir,
        path: &str,
        check: impl FnOnce() -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let alone = tree.lock_names();
        check()?;
        let taken = self.take(path, Space::of_name())?;
        tree.make_directory(path)?;
        taken.done(Space::of_name(), Space::default());
        drop(alone);
        Ok(())
    }

    /// Records that `gone` was removed at a path and `came` was added.
    fn changed(&self, path: &str, gone: Space, came: Space) -> io::Result<()> {
        let Some(lots) = &self.0 else { return Ok(()) };
        lots.shift(path, gone, came);
        lots.recount(path)
    }

    /// Renames `from` to `to` if `check` succeeds while names are locked. Returns true if nothing
    /// was replaced.
    pub(crate) fn rename(
        &self,
        tree: &ConfinedDir,
        (from, to): (&str, &str),
        replace: bool,
        check: impl FnOnce() -> Result<(), BackendError>,
    ) -> Result<bool, BackendError> {
        tree.sync_file(from)?;
        let alone = tree.lock_names();
        check()?;
        let comes = match &self.0 {
            Some(lots) if !lots.is_same(from, to) => {
                let counted = self.count(from, from)?;
                if counted == Space::default() { self.count(to, from)? } else { counted }
            }
            _ => Space::default(),
        };
        let taken = self.take(to, comes)?;
        let replaced = tree.rename(from, to, replace)?;
        taken.done(comes, self.replaced(to, &replaced)?);
        self.changed(from, comes, Space::default())?;
        self.changed(to, Space::default(), Space::default())?;
        drop(alone);
        clear(tree, &replaced);
        tree.sync_name(to)?;
        tree.sync_name(from)?;
        Ok(replaced == ReplacedEntry::Nothing)
    }

    /// Copies `from` to `to`, as [`ConfinedDir::copy`] does, if `check` succeeds when the copy is
    /// complete. Returns true if nothing was replaced.
    pub(crate) fn copy(
        &self,
        tree: &ConfinedDir,
        (from, to): (&str, &str),
        (links, replace): (Option<&LinkFilter>, bool),
        check: impl FnOnce() -> Result<(), BackendError>,
        cancellation: &Cancellation,
    ) -> Result<bool, BackendError> {
        let taken = self.take(to, self.count(to, from)?)?;
        if let Some(lots) = &self.0 {
            lots.cut();
        }
        let is_in_lot = taken.is_in_lot();
        let hidden = tree.copy(from, to, TreeCopy { links, is_in_lot, cancellation })?;
        let named = || {
            let came = self.count(to, &hidden)?;
            let alone = tree.lock_names();
            check()?;
            let replaced = tree.rename(&hidden, to, replace)?;
            taken.done(came, self.replaced(to, &replaced)?);
            self.changed(to, Space::default(), Space::default())?;
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
    /// Removes stale temporary and partial files.
    pub(crate) fn sweep(&self, tree: &ConfinedDir, ages: CleanupAges) {
        tree.remove_stale(ages, |path| {
            debug!(path, "removing a stale file");
            if is_partial(path) {
                // A partial file is charged to its lot.
                drop(self.remove(tree, path, true, || Ok(())));
            } else {
                drop(tree.remove(path));
            }
        });
    }
}

/// Removes a replaced directory. If that fails it stays hidden, until the cleanup removes it.
fn clear(tree: &ConfinedDir, replaced: &ReplacedEntry) {
    if let ReplacedEntry::Hidden(hidden) = replaced {
        drop(tree.remove(hidden));
    }
}

impl WriteCharge {
    /// Charges for a file of `bytes` so far, and reserves the disk space for a larger charge.
    pub(crate) fn cover(&mut self, bytes: u64, file: &File) -> Result<(), BackendError> {
        let Some(charge) = &mut self.0 else { return Ok(()) };
        if charge.cover(bytes)? {
            let charged = charge.bytes();
            charge.lots().with_room(|| allocate(file, 0..charged))?;
        }
        Ok(())
    }

    /// Returns true if a lot has the space of this change.
    pub(crate) fn is_in_lot(&self) -> bool {
        self.0.as_ref().is_some_and(LotCharge::is_in_lot)
    }

    /// Runs `work`, which allocates the blocks on the disk for this charge.
    pub(crate) fn with_room<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match &self.0 {
            Some(charge) => charge.with_room(work),
            None => work(),
        }
    }

    /// Settles the charge: the entry has its name and takes `space`, and replaced one of
    /// `replaced`.
    pub(crate) fn done(self, space: Space, replaced: Space) {
        if let Some(charge) = self.0 {
            charge.settle(space, replaced);
        }
    }
}

impl From<LotError> for BackendError {
    fn from(error: LotError) -> Self {
        let kind = match &error {
            LotError::Full { .. }
            | LotError::TooManyFiles { .. }
            | LotError::NoSpace
            | LotError::Terms(_) => BackendErrorKind::NoSpace,
            LotError::Overlap => BackendErrorKind::Conflict,
            LotError::Invalid(_) => BackendErrorKind::Invalid,
            LotError::NotFound => BackendErrorKind::NotFound,
            LotError::Forbidden => BackendErrorKind::PermissionDenied,
            LotError::Failed(_) => BackendErrorKind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}
