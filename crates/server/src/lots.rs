//! Lots: space that somebody has reserved for a time, so that what is written there will fit.
//!
//! A lot is a number of bytes for a folder and all below it, until its lease ends. Whatever is written there counts
//! towards it, by whomever; who has no permission to write gets none by a lot. A write that would not fit is refused before
//! any of it is sent. Lots do not overlap. Bytes are counted in blocks of 4 KiB, as disks do, so a thousand tiny files cannot
//! take more of the disk than was reserved.
//!
//! **Three things are kept, in three places.** What has been *agreed* (who, where, how much, until when) is kept in an
//! embedded database ([`book`]), and changes only when a lot is made, extended or released. What is *used* is kept in memory
//! alone ([`accounts`]): the files themselves say it, and are counted again when the server starts. What is still *free* in
//! all lots together is kept on the disk as one file without content ([`reserve`]) whose blocks are really taken from the
//! file system, so nobody else can take them.
//!
//! **A write costs nothing durable.** It takes a lock for a few look-ups, twice: when it begins (what it will need is
//! *pending* then) and when its file gets its name (what was pending is used) or it is given up (it is free again). No byte
//! of the database changes. Its blocks come out of the reserve, but not one write at a time: the reserve may be larger than
//! what is free by [`SLACK`], and is cut only when it is more than that. Where the disk is so full that a write finds no
//! blocks, the reserve is cut at once and the write tries again ([`LotCharge::with_room`]). So whoever has a lot finds its space,
//! and others find the disk full a little early.
//!
//! **A crash leaks nothing, at whatever moment.** A record is in the database or not: redb commits all or nothing. Pending
//! bytes are forgotten with the process, as are the files without a name that they stood for. Used bytes are counted anew, also
//! those that were written or removed behind the server's back. The reserve is one file with a fixed name, and is fitted
//! to what is free: if the crash came between a record and its blocks, they are taken now; if between blocks and the
//! removal of a record, they are given back now. A lot whose maker never heard of it ends with its lease.
//!
//! What is removed from a lot by others than its reserve is free to everybody for an instant: the blocks of a removed file
//! are taken back for the lot as soon as the lot is told of it. If somebody outside of this server is quicker, the lot is
//! short of blocks until there are some; it tries again at every [`Lots::tend`].
//!
//! Locks: the keeper's (database and reserve, may wait for the disk) before that of the accounts (never waits).

mod accounts;
mod database;
mod reserve;
pub(crate) mod settings;
mod usage;

pub(crate) use accounts::{Lot, LotError, LotLimits, footprint};
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

/// How many bytes the reserve may have beyond what is free in all lots.
pub(crate) const SLACK: u64 = 64 << 20;
/// What a body of unknown length is charged at a time.
const STEP: u64 = 8 << 20;

/// See the module above.
#[derive(Debug)]
pub(crate) struct Lots {
    keeper: Mutex<Keeper>,
    accounts: Mutex<Accounts>,
    usage: Box<dyn UsageCounter>,
}

#[derive(Debug)]
struct Keeper {
    book: LotDatabase,
    reserve: Box<dyn Reserve>,
}

/// What a write takes of a lot; if it is dropped before the file has its name, all of it is given back.
#[derive(Debug)]
pub(crate) struct LotCharge {
    lots: Arc<Lots>,
    path: String,
    /// The lot; none if the file is in none.
    id: Option<String>,
    /// Bytes that are pending.
    bytes: u64,
}

impl Lots {
    /// The lots that are kept in a database, with what is used of each of them.
    ///
    /// # Errors
    /// The database cannot be opened, or files cannot be counted.
    pub(crate) fn open(
        database: &Path,
        terms: LotLimits,
        reserve: Box<dyn Reserve>,
        usage: Box<dyn UsageCounter>,
        now: u64,
    ) -> Result<Self, LotError> {
        let mut book = LotDatabase::open(database)?;
        let mut accounts = Accounts::new(terms);
        for lot in book.all()? {
            if lot.expires <= now {
                book.remove(&lot.id)?;
                continue;
            }
            let used = usage.below(&lot.path).map_err(LotError::from)?;
            accounts.restore(lot, used);
        }
        let lots = Self {
            keeper: Mutex::new(Keeper { book, reserve }),
            accounts: Mutex::new(accounts),
            usage,
        };
        // Blocks that are missing are asked for again from time to time.
        let _short = lots.keeper().fit(&lots.accounts);
        Ok(lots)
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        lock(&self.keeper)
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        lock(&self.accounts)
    }

    /// Makes a lot for `lease` seconds. What is in the folder already counts.
    ///
    /// # Errors
    /// It overlaps another, is against the terms, or the space is not there.
    pub(crate) fn create(
        &self,
        owner: &str,
        path: &str,
        bytes: u64,
        lease: u64,
        now: u64,
    ) -> Result<Lot, LotError> {
        let mut keeper = self.keeper();
        self.expire(&mut keeper, now)?;
        let used = self.usage.below(path).map_err(LotError::from)?;
        let lot = self.accounts().create(owner, path, bytes, used, lease, now)?;
        let kept = keeper.book.put(&lot).and_then(|()| keeper.fit(&self.accounts));
        if let Err(error) = kept {
            self.accounts().remove(&lot.id);
            keeper.book.remove(&lot.id)?;
            let _smaller = keeper.fit(&self.accounts);
            return Err(error);
        }
        Ok(lot)
    }

    /// Changes the size of a lot, or lets its lease of so many seconds begin now.
    ///
    /// # Errors
    /// There is no such lot of this owner, it holds more already, it is against the terms, or the space is not there.
    pub(crate) fn extend(
        &self,
        owner: &str,
        id: &str,
        bytes: Option<u64>,
        lease: Option<u64>,
        now: u64,
    ) -> Result<Lot, LotError> {
        let mut keeper = self.keeper();
        self.expire(&mut keeper, now)?;
        let (before, lot) = self.accounts().extend(owner, id, bytes, lease, now)?;
        // Blocks first: what is promised is there. To stay as large takes none, also if others miss some.
        let fitted = match lot.bytes > before.bytes {
            true => keeper.fit(&self.accounts),
            false => Ok(()),
        };
        let kept = fitted.and_then(|()| keeper.book.put(&lot));
        if let Err(error) = kept {
            self.accounts().put_back(before);
            let _smaller = keeper.fit(&self.accounts);
            return Err(error);
        }
        Ok(lot)
    }

    /// Gives a lot up. Its files stay.
    ///
    /// # Errors
    /// There is no such lot of this owner.
    pub(crate) fn release(&self, owner: &str, id: &str, now: u64) -> Result<(), LotError> {
        let mut keeper = self.keeper();
        self.expire(&mut keeper, now)?;
        self.accounts().find(owner, id)?;
        keeper.book.remove(id)?;
        self.accounts().remove(id);
        // It is gone, also if blocks for another lot are missing.
        let _short = keeper.fit(&self.accounts);
        Ok(())
    }

    /// The lots of an owner, in the order of their paths.
    pub(crate) fn of(&self, owner: &str, now: u64) -> Vec<Lot> {
        self.accounts().of(owner, now)
    }

    /// How many lots there are, and of all of them together how many bytes are reserved and used.
    pub(crate) fn totals(&self) -> (u64, u64, u64) {
        self.accounts().totals()
    }

    /// One lot of an owner.
    ///
    /// # Errors
    /// There is no such lot of this owner.
    pub(crate) fn find(&self, owner: &str, id: &str, now: u64) -> Result<Lot, LotError> {
        self.accounts().find(owner, id).and_then(|lot| lot.at(now))
    }

    /// Bytes that are free and used in the lot that a path is in; none if it is in none.
    pub(crate) fn quota(&self, path: &str, now: u64) -> Option<(u64, u64)> {
        self.accounts().quota(path, now)
    }

    /// Takes `bytes` for a file that will be at `path`, from its lot if it is in one. If its length is not known, begin
    /// with 0 and go on with [`LotCharge::cover`].
    ///
    /// # Errors
    /// [`LotError::Full`].
    pub(crate) fn charge(
        self: &Arc<Self>,
        path: &str,
        bytes: u64,
        now: u64,
    ) -> Result<LotCharge, LotError> {
        let bytes = footprint(bytes);
        let id = self.accounts().charge(path, bytes, now)?;
        let bytes = if id.is_some() { bytes } else { 0 };
        Ok(LotCharge { lots: Arc::clone(self), path: path.to_owned(), id, bytes })
    }

    /// Files of so many bytes in all, counted by [`UsageCounter`], have come to `path` or gone from there in another way than by
    /// a charge.
    pub(crate) fn shift(&self, path: &str, gone: u64, came: u64) {
        self.accounts().shift(path, gone, came);
        self.settle_reserve();
    }

    /// A folder has come, gone or been replaced that may have whole lots in it: those are counted again.
    ///
    /// # Errors
    /// They cannot be counted.
    pub(crate) fn recount(&self, path: &str) -> io::Result<()> {
        let inside = self.accounts().inside(path);
        for lot in inside {
            let used = self.usage.below(&lot)?;
            self.accounts().set_used(&lot, used);
        }
        self.settle_reserve();
        Ok(())
    }

    /// Whether two paths belong to the same lot, or both to none.
    pub(crate) fn is_same(&self, one: &str, other: &str) -> bool {
        let mut accounts = self.accounts();
        accounts.path_of(one) == accounts.path_of(other)
    }

    /// Whether anything at or below a path, or above it, belongs to a lot: then it pays to count before it is moved.
    pub(crate) fn touches(&self, path: &str, now: u64) -> bool {
        self.accounts().overlaps(path, now)
    }

    /// What there is at or below a path.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn count(&self, path: &str) -> io::Result<u64> {
        self.usage.below(path)
    }

    /// Gives back the blocks of the reserve that stand for what has been charged: before a write that takes its blocks bit
    /// by bit.
    pub(crate) fn cut(&self) {
        // If it should grow and cannot, that is another matter.
        let _short = self.keeper().fit(&self.accounts);
    }

    /// Does something that takes blocks of the disk for what has been charged; if there are none, blocks of the reserve
    /// that stand for it are given back first.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn with_room<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match work() {
            Err(error) if is_full(&error) => {
                // No other write gets what is given back here.
                let mut keeper = self.keeper();
                let _cut = keeper.fit(&self.accounts);
                let _lent = keeper.reserve.lend();
                let done = work();
                // What was lent is taken back, if there is as much.
                let _short = keeper.fit(&self.accounts);
                done
            }
            done => done,
        }
    }

    /// Ends leases, and takes blocks that are missing: to be called every few seconds.
    ///
    /// # Errors
    /// The database or the reserve cannot be written.
    pub(crate) fn tend(&self, now: u64) -> Result<(), LotError> {
        let mut keeper = self.keeper();
        self.expire(&mut keeper, now)?;
        keeper.fit(&self.accounts)
    }

    fn expire(&self, keeper: &mut Keeper, now: u64) -> Result<(), LotError> {
        let over = self.accounts().expired(now);
        if over.is_empty() {
            return Ok(());
        }
        for id in over {
            keeper.book.remove(&id)?;
            self.accounts().remove(&id);
        }
        let _smaller = keeper.fit(&self.accounts);
        Ok(())
    }

    /// After what is free has changed: fits the reserve if it is too small, or much too large. Who is at it already will
    /// see the change, or the next one will.
    fn settle_reserve(&self) {
        let Ok(mut keeper) = self.keeper.try_lock() else { return };
        let (free, held) = (self.accounts().free(), keeper.reserve.bytes());
        if held < free || held - free > SLACK {
            let _short = keeper.fit(&self.accounts);
        }
    }
}

impl Keeper {
    /// Makes the reserve as large as what is free in all lots.
    fn fit(&mut self, accounts: &Mutex<Accounts>) -> Result<(), LotError> {
        let free = lock(accounts).free();
        self.reserve.resize(free).map_err(LotError::from)
    }
}

impl LotCharge {
    /// Sees to it that a body that has `bytes` by now is charged for. Tells whether that took more of the lot.
    ///
    /// # Errors
    /// [`LotError::Full`].
    pub(crate) fn cover(&mut self, bytes: u64) -> Result<bool, LotError> {
        let wanted = footprint(bytes);
        let Some(id) = self.id.as_deref().filter(|_| wanted > self.bytes) else {
            return Ok(false);
        };
        let mut accounts = self.lots.accounts();
        let (least, step) = (wanted - self.bytes, wanted.saturating_add(STEP) - self.bytes);
        // The last bytes of a lot can be had, if not a whole step.
        let taken = match accounts.add(id, step) {
            Err(LotError::Full { .. }) => accounts.add(id, least).map(|()| least)?,
            // The lot has ended meanwhile: what is written now is in none.
            Err(LotError::NotFound) => 0,
            other => other.map(|()| step)?,
        };
        self.bytes = self.bytes.saturating_add(taken);
        Ok(taken > 0)
    }

    /// Bytes that are pending.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The lots that it is of.
    pub(crate) fn lots(&self) -> &Arc<Lots> {
        &self.lots
    }

    /// As [`Lots::with_room`], for what has been charged here.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn with_room<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        if self.id.is_some() { self.lots.with_room(work) } else { work() }
    }

    /// The file has its name: it has `size` bytes, and one of `replaced` bytes is gone.
    pub(crate) fn settle(mut self, size: u64, replaced: u64) {
        let mut accounts = self.lots.accounts();
        self.give_back(&mut accounts);
        // By its path: the lot may be another one than when the write began.
        accounts.shift(&self.path, footprint(replaced), footprint(size));
        drop(accounts);
        self.bytes = 0;
    }

    fn give_back(&self, accounts: &mut Accounts) {
        if let Some(id) = self.id.as_deref().filter(|_| self.bytes > 0) {
            accounts.give_back(id, self.bytes);
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

/// The disk, or somebody's share of it, is full.
fn is_full(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOSPC | Errno::DQUOT))
}

#[cfg(test)]
mod tests;
