//! Lots: reservations of space for a time, so that later writes will fit.
//!
//! A lot is a number of bytes for a directory and everything below it, until its lease ends. Every
//! write there counts towards it, by any client; a lot gives no permission to write. A write that
//! does not fit fails before its body is sent. Lots do not overlap. Bytes are counted in blocks of
//! 4 KiB, as disks do, so a thousand tiny files cannot take more of the disk than was reserved.
//! Files, links and directories are counted, too: a file system has a limited number of inodes,
//! which empty files could use up. A lot may hold one for each [`LotLimits::bytes_per_file`];
//! inodes cannot be reserved.
//!
//! **Three facts, kept in three places.** The *agreement* (who, where, how much, until when) is a
//! record in an embedded database ([`database`]), and changes only when a lot is created, extended
//! or released. The *used* bytes are in memory alone ([`accounts`]): they follow from the files,
//! and are counted again when the server starts. The *free* bytes of all lots together are on disk,
//! as one file without content ([`reserve`]): its blocks are allocated, so no other program can
//! take them.
//!
//! **A write costs nothing durable.** It takes a lock for a few look-ups, twice: when it begins
//! (its bytes are *pending* then), and when its file gets its path (they are used) or it fails
//! (they are free again). The database does not change. The blocks of the write come out of the
//! reserve, but not write by write: the reserve may exceed the free bytes by [`SLACK`], and is cut
//! only beyond that. Where the disk is so full that a write finds no blocks, the reserve is cut
//! immediately and the write is retried ([`LotCharge::with_room`]). So owners of lots find their
//! space, and others find the disk full a little early.
//!
//! **A crash at any moment leaks nothing.** A record is in the database or not: redb commits all or
//! nothing. Pending bytes vanish with the process, as do the unnamed files that they stood for.
//! Used bytes are counted again, including files written or removed without the server. The
//! reserve is one file with a fixed name, and is fitted to the free bytes: if the crash came
//! between a record and its blocks, they are allocated now; if it came between the release of
//! blocks and the removal of a record, they are released now. A lot whose creator never got the
//! response ends with its lease.
//!
//! The blocks of a removed file are free to everybody for an instant, until the server adds them to
//! the reserve. If a process outside of this server takes them first, the lot lacks blocks until
//! there are some; every [`Lots::tend`] tries again.
//!
//! Lock order: [`OnDisk`] (may wait for the disk) before [`Accounts`] (never waits).

mod accounts;
mod database;
mod reserve;
pub(crate) mod settings;
mod usage;

pub(crate) use accounts::{Lot, LotError, LotLimits, Space, footprint};
pub(crate) use reserve::{FileReserve, NoReserve, Reserve};
pub(crate) use usage::{DirectoryUsage, UsageCounter};

use accounts::Accounts;
use database::LotDatabase;
use hither_core::sync::lock;
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::{debug, warn};

/// The number of bytes by which the reserve may exceed the free bytes of all lots.
pub(crate) const SLACK: u64 = 64 << 20;
/// The number of bytes charged at a time for a body of unknown length.
const STEP: u64 = 8 << 20;

/// The lots of a server.
#[derive(Debug)]
pub(crate) struct Lots {
    on_disk: Mutex<OnDisk>,
    accounts: Mutex<Accounts>,
    usage: Box<dyn UsageCounter>,
}

#[derive(Debug)]
struct OnDisk {
    database: LotDatabase,
    reserve: Box<dyn Reserve>,
}

/// The space of a lot that a write is charged; dropping it before the file has its path returns it.
#[derive(Debug)]
pub(crate) struct LotCharge {
    lots: Arc<Lots>,
    path: String,
    /// The lot; none if the file is in none.
    id: Option<String>,
    /// Pending space.
    space: Space,
}

impl Lots {
    /// Opens the lots of a database, and counts the used bytes of each.
    ///
    /// # Errors
    /// The database cannot be opened, or files cannot be counted.
    pub(crate) fn open(
        database: &Path,
        limits: LotLimits,
        reserve: Box<dyn Reserve>,
        usage: Box<dyn UsageCounter>,
        now: u64,
    ) -> Result<Self, LotError> {
        let mut database = LotDatabase::open(database)?;
        let mut accounts = Accounts::new(limits);
        for lot in database.all()? {
            if lot.expires <= now {
                database.remove(&lot.id)?;
                continue;
            }
            let used = usage.below(&lot.path).map_err(LotError::from)?;
            accounts.restore(lot, used);
        }
        let lots = Self {
            on_disk: Mutex::new(OnDisk { database, reserve }),
            accounts: Mutex::new(accounts),
            usage,
        };
        // `tend` tries again to allocate missing blocks.
        let _short = lots.on_disk().fit(&lots.accounts);
        Ok(lots)
    }

    fn on_disk(&self) -> MutexGuard<'_, OnDisk> {
        lock(&self.on_disk)
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        lock(&self.accounts)
    }

    /// Creates a lot for `lease` seconds. Files that are in the directory count.
    ///
    /// # Errors
    /// It overlaps another lot, exceeds a limit, or the disk lacks the space.
    pub(crate) fn create(
        &self,
        owner: &str,
        path: &str,
        bytes: u64,
        lease: u64,
        now: u64,
    ) -> Result<Lot, LotError> {
        let mut on_disk = self.on_disk();
        self.expire(&mut on_disk, now)?;
        let used = self.usage.below(path).map_err(LotError::from)?;
        let lot = self.accounts().create(owner, path, bytes, used, lease, now)?;
        let kept = on_disk.database.put(&lot).and_then(|()| on_disk.fit(&self.accounts));
        if let Err(error) = kept {
            self.accounts().remove(&lot.id);
            on_disk.database.remove(&lot.id)?;
            let _smaller = on_disk.fit(&self.accounts);
            return Err(error);
        }
        debug!(id = lot.id, path, bytes, lease, "lot created");
        Ok(lot)
    }

    /// Changes the size of a lot, or begins a new lease of `lease` seconds now.
    ///
    /// # Errors
    /// The owner has no such lot, it already holds more, it exceeds a limit, or the disk lacks the
    /// space.
    pub(crate) fn extend(
        &self,
        owner: &str,
        id: &str,
        bytes: Option<u64>,
        lease: Option<u64>,
        now: u64,
    ) -> Result<Lot, LotError> {
        let mut on_disk = self.on_disk();
        self.expire(&mut on_disk, now)?;
        let (before, lot) = self.accounts().extend(owner, id, bytes, lease, now)?;
        // Blocks first: promised space exists. A lot that does not grow needs none, even if others
        // lack some.
        let fitted = if lot.bytes > before.bytes { on_disk.fit(&self.accounts) } else { Ok(()) };
        let kept = fitted.and_then(|()| on_disk.database.put(&lot));
        if let Err(error) = kept {
            self.accounts().undo_extend(before);
            let _smaller = on_disk.fit(&self.accounts);
            return Err(error);
        }
        debug!(id, ?bytes, ?lease, "lot changed");
        Ok(lot)
    }

    /// Releases a lot. Its files stay.
    ///
    /// # Errors
    /// The owner has no such lot.
    pub(crate) fn release(&self, owner: &str, id: &str, now: u64) -> Result<(), LotError> {
        let mut on_disk = self.on_disk();
        self.expire(&mut on_disk, now)?;
        self.accounts().find(owner, id)?;
        on_disk.database.remove(id)?;
        self.accounts().remove(id);
        debug!(id, "lot released");
        // It is released even if another lot lacks blocks.
        let _short = on_disk.fit(&self.accounts);
        Ok(())
    }

    /// The lots of an owner, ordered by path.
    pub(crate) fn of(&self, owner: &str, now: u64) -> Vec<Lot> {
        self.accounts().of(owner, now)
    }

    /// The number of lots, and the bytes reserved and the space used in all of them.
    pub(crate) fn totals(&self) -> (u64, u64, Space) {
        self.accounts().totals()
    }

    /// One lot of an owner.
    ///
    /// # Errors
    /// The owner has no such lot.
    pub(crate) fn find(&self, owner: &str, id: &str, now: u64) -> Result<Lot, LotError> {
        self.accounts().find(owner, id).and_then(|lot| lot.at(now))
    }

    /// Free and used bytes of the lot that contains a path; none if no lot does.
    pub(crate) fn quota(&self, path: &str, now: u64) -> Option<(u64, u64)> {
        self.accounts().quota(path, now)
    }

    /// Charges `space` for an entry at `path` to its lot, if it is in one. For an unknown length,
    /// pass no bytes and continue with [`LotCharge::cover`].
    ///
    /// # Errors
    /// [`LotError::Full`], [`LotError::TooManyFiles`].
    pub(crate) fn charge(
        self: &Arc<Self>,
        path: &str,
        space: Space,
        now: u64,
    ) -> Result<LotCharge, LotError> {
        let id = self.accounts().charge(path, space, now)?;
        let space = if id.is_some() { space } else { Space::default() };
        Ok(LotCharge { lots: Arc::clone(self), path: path.to_owned(), id, space })
    }

    /// Records that files came to or left `path` without a charge, counted as [`UsageCounter`]
    /// does.
    pub(crate) fn shift(&self, path: &str, gone: Space, came: Space) {
        self.accounts().shift(path, gone, came);
        self.settle_reserve();
    }

    /// Counts the lots below a directory again, after it was created, removed or replaced.
    ///
    /// # Errors
    /// Their files cannot be counted.
    pub(crate) fn recount(&self, path: &str) -> io::Result<()> {
        let inside = self.accounts().inside(path);
        for lot in inside {
            let used = self.usage.below(&lot)?;
            self.accounts().set_used(&lot, used);
        }
        self.settle_reserve();
        Ok(())
    }

    /// Returns true if two paths belong to the same lot, or both to none.
    pub(crate) fn is_same(&self, one: &str, other: &str) -> bool {
        let mut accounts = self.accounts();
        accounts.path_of(one) == accounts.path_of(other)
    }

    /// Returns true if a lot contains a path or lies below it, so that files must be counted before
    /// they are moved.
    pub(crate) fn touches(&self, path: &str, now: u64) -> bool {
        self.accounts().overlaps(path, now)
    }

    /// Counts the space at and below a path.
    ///
    /// # Errors
    /// The files cannot be read.
    pub(crate) fn count(&self, path: &str) -> io::Result<Space> {
        self.usage.below(path)
    }

    /// Releases the blocks of the reserve that stand for charged bytes: before a write that
    /// allocates bit by bit.
    pub(crate) fn cut(&self) {
        // Failing to grow does not matter here.
        let _short = self.on_disk().fit(&self.accounts);
    }

    /// Runs `work`, which allocates blocks for charged bytes. If the disk is full, releases the
    /// blocks of the reserve that stand for them, and runs it again.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn with_room<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match work() {
            Err(error) if is_full(&error) => {
                debug!("disk full: lending blocks of the reserve to a write");
                // Holding the lock, so that no other write gets the blocks released here.
                let mut on_disk = self.on_disk();
                let _cut = on_disk.fit(&self.accounts);
                let _lent = on_disk.reserve.lend();
                let done = work();
                // Takes back the lent blocks, if there are enough.
                let _short = on_disk.fit(&self.accounts);
                done
            }
            done => done,
        }
    }

    /// Ends expired leases and allocates missing blocks; called every few seconds.
    ///
    /// # Errors
    /// The database or the reserve cannot be written.
    pub(crate) fn tend(&self, now: u64) -> Result<(), LotError> {
        let mut on_disk = self.on_disk();
        self.expire(&mut on_disk, now)?;
        on_disk.fit(&self.accounts)
    }

    fn expire(&self, on_disk: &mut OnDisk, now: u64) -> Result<(), LotError> {
        let expired = self.accounts().expired(now);
        if expired.is_empty() {
            return Ok(());
        }
        for id in expired {
            on_disk.database.remove(&id)?;
            self.accounts().remove(&id);
            debug!(id, "lot expired");
        }
        let _smaller = on_disk.fit(&self.accounts);
        Ok(())
    }

    /// Fits the reserve after the free bytes changed, if it is too small or much too large. If
    /// another thread is fitting it, that thread or the next change does this.
    fn settle_reserve(&self) {
        let Ok(mut on_disk) = self.on_disk.try_lock() else { return };
        let free = self.accounts().free();
        let held = on_disk.reserve.bytes();
        if held < free || held - free > SLACK {
            let _short = on_disk.fit(&self.accounts);
        }
    }
}

impl OnDisk {
    /// Makes the reserve as large as the free bytes of all lots.
    fn fit(&mut self, accounts: &Mutex<Accounts>) -> Result<(), LotError> {
        let free = lock(accounts).free();
        let resized = self.reserve.resize(free);
        if let Err(error) = &resized {
            warn!(bytes = free, %error, "the reserve of the lots is too small");
        }
        resized.map_err(LotError::from)
    }
}

impl LotCharge {
    /// Charges for a body of `bytes` so far. Returns true if that took more of the lot.
    ///
    /// # Errors
    /// [`LotError::Full`].
    pub(crate) fn cover(&mut self, bytes: u64) -> Result<bool, LotError> {
        let wanted = footprint(bytes);
        let charged = self.space.bytes;
        let Some(id) = self.id.as_deref().filter(|_| wanted > charged) else {
            return Ok(false);
        };
        let mut accounts = self.lots.accounts();
        let minimum = wanted - charged;
        let step = wanted.saturating_add(STEP) - charged;
        // Near the end of a lot, a whole step may not fit although the bytes do.
        let taken = match accounts.add(id, step) {
            Err(LotError::Full { .. }) => accounts.add(id, minimum).map(|()| minimum)?,
            // The lot has ended: further bytes belong to none.
            Err(LotError::NotFound) => 0,
            other => other.map(|()| step)?,
        };
        self.space.bytes = charged.saturating_add(taken);
        Ok(taken > 0)
    }

    /// Returns true if the file is in a lot.
    pub(crate) fn is_in_lot(&self) -> bool {
        self.id.is_some()
    }

    /// Pending bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.space.bytes
    }

    /// The lots to which this is charged.
    pub(crate) fn lots(&self) -> &Arc<Lots> {
        &self.lots
    }

    /// Runs `work` like [`Lots::with_room`], if the file is in a lot.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn with_room<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        if self.id.is_some() { self.lots.with_room(work) } else { work() }
    }

    /// Ends the charge when the entry has its path: it takes `space`, and replaced `replaced`.
    pub(crate) fn settle(mut self, space: Space, replaced: Space) {
        let mut accounts = self.lots.accounts();
        self.give_back(&mut accounts);
        // By path: the lot may be another than when the write began.
        accounts.shift(&self.path, replaced, space);
        drop(accounts);
        self.space = Space::default();
    }

    fn give_back(&self, accounts: &mut Accounts) {
        if let Some(id) = &self.id {
            accounts.give_back(id, self.space);
        }
    }
}

impl Drop for LotCharge {
    fn drop(&mut self) {
        self.give_back(&mut self.lots.accounts());
        self.lots.settle_reserve();
    }
}

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns true if the disk or a quota is full.
fn is_full(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOSPC | Errno::DQUOT))
}

#[cfg(test)]
mod tests;
