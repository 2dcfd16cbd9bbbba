//! What a change of the tree takes of lots, and gives back to them.
//!
//! A change begins with [`Space::take`], which refuses it with 507 if it does not fit, and ends with one of the methods of
//! [`Taken`]; if it fails, what it took is given back by itself.

use crate::lot_api::seconds;
use crate::lots::{Charge, Lots};
use crate::refusal::Refusal;
use std::io;
use std::sync::Arc;

/// The lots of a site, if it keeps any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Space(Option<Arc<Lots>>);

/// What a change has taken.
#[derive(Debug)]
pub(crate) struct Taken(Option<Charge>);

impl Space {
    pub(crate) fn new(lots: Option<Arc<Lots>>) -> Self {
        Self(lots)
    }

    pub(crate) fn lots(&self) -> Option<&Arc<Lots>> {
        self.0.as_ref()
    }

    /// Takes `bytes` for a file that will be at `path`.
    pub(crate) fn take(&self, path: &str, bytes: u64) -> Result<Taken, Refusal> {
        let charge = self.0.as_ref().map(|lots| lots.charge(path, bytes, seconds())).transpose()?;
        Ok(Taken(charge))
    }

    /// Bytes that are free and used in the lot that a path is in, if it is in one.
    pub(crate) fn quota(&self, path: &str) -> Option<(u64, u64)> {
        self.0.as_ref()?.quota(path, seconds())
    }

    /// What is at and below a path, if a lot wants to know.
    fn count(&self, path: &str) -> io::Result<u64> {
        match &self.0 {
            Some(lots) if lots.touches(path, seconds()) => lots.count(path),
            _ => Ok(0),
        }
    }

    /// Removes what is at a path with `work`.
    pub(crate) fn remove(
        &self,
        path: &str,
        work: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(lots) = &self.0 else { return work() };
        let gone = self.count(path)?;
        let done = work();
        // If it failed on its way, some of it may have gone.
        let left = if done.is_ok() { 0 } else { self.count(path)? };
        lots.shift(path, gone, left);
        lots.recount(path)?;
        done
    }

    /// Copies or moves what is at `from` to `to` with `work`.
    pub(crate) fn relocate<E: From<io::Error> + From<Refusal>>(
        &self,
        from: &str,
        to: &str,
        moves: bool,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(lots) = &self.0 else { return work() };
        let comes = match lots.touches(from, seconds()) || lots.touches(to, seconds()) {
            true => lots.count(from)?,
            false => return work(),
        };
        let replaced = lots.count(to)?;
        let stays = moves && lots.is_same(from, to);
        let taken = self.take(to, if stays { 0 } else { comes })?;
        if !moves {
            lots.cut();
        }
        let done = work();
        if done.is_ok() {
            taken.done(comes, replaced);
            if moves {
                lots.shift(from, comes, 0);
            }
        } else {
            // A copy that broke off leaves what it had done.
            drop(taken);
            lots.shift(to, replaced, lots.count(to)?);
        }
        lots.recount(from)?;
        lots.recount(to)?;
        done
    }
}

impl Taken {
    /// For what has been taken already.
    pub(crate) fn nothing() -> Self {
        Self(None)
    }

    /// Sees to it that a body that has `bytes` by now fits.
    pub(crate) fn cover(&mut self, bytes: u64) -> Result<(), Refusal> {
        match &mut self.0 {
            Some(charge) => Ok(charge.cover(bytes)?),
            None => Ok(()),
        }
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
