//! Agreed and used bytes of all lots in memory: rules and sums, no disk.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::{fmt, io};

/// The block size of disks.
const BLOCK: u64 = 4096;
/// The maximum length of a path and of an owner's name, in bytes.
const MAX_TEXT: usize = 4096;

/// A lot as clients see it, and as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lot {
    pub(crate) id: String,
    /// The creator, who may change and release it.
    pub(crate) owner: String,
    /// The directory below the root; components separated by single slashes, none at the ends.
    pub(crate) path: String,
    /// Reserved bytes.
    pub(crate) bytes: u64,
    /// The second since 1970 at which it ends.
    pub(crate) expires: u64,
    /// Used and pending bytes; not stored.
    #[serde(default)]
    pub(crate) used: u64,
}

impl Lot {
    /// Returns the lot if it has not ended.
    pub(crate) fn at(self, now: u64) -> Result<Self, LotError> {
        if self.expires > now { Ok(self) } else { Err(LotError::NotFound) }
    }
}

/// The limits of all lots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LotLimits {
    /// The maximum number of lots.
    pub(crate) lots: usize,
    /// The maximum of bytes in all lots together.
    pub(crate) bytes: u64,
    /// The maximum length of a lease in seconds.
    pub(crate) lease: u64,
}

/// The reason why a request for space fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LotError {
    /// A write does not fit.
    Full { path: String, left: u64 },
    /// The path is in another lot, or has one below it.
    Overlap,
    /// A limit of the server is exceeded.
    Terms(&'static str),
    /// The request is invalid.
    Invalid(&'static str),
    /// There is no such lot, or it has another owner.
    NotFound,
    /// The file system lacks the space.
    NoSpace,
    /// The file system is not writable.
    Forbidden,
    /// The disk or the database failed.
    Failed(String),
}

impl fmt::Display for LotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { path, left } => {
                write!(f, "not enough space in the lot of /{path}: {left} bytes are left")
            }
            Self::Overlap => f.write_str("another lot covers that path or a folder below it"),
            Self::Terms(what) | Self::Invalid(what) => f.write_str(what),
            Self::NotFound => f.write_str("there is no such lot"),
            Self::NoSpace => f.write_str("the file system does not have enough space"),
            Self::Forbidden => f.write_str("the file system is not writable"),
            Self::Failed(what) => write!(f, "the lot database failed: {what}"),
        }
    }
}

impl From<io::Error> for LotError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Self::NoSpace,
            Some(Errno::ROFS | Errno::ACCESS | Errno::PERM) => Self::Forbidden,
            Some(Errno::NAMETOOLONG) => Self::Invalid("a name in the path is too long"),
            None if error.kind() == io::ErrorKind::InvalidInput => {
                Self::Invalid("the path contains a symbolic link")
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// The space that a file of `bytes` takes.
pub(crate) fn footprint(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

/// All lots.
#[derive(Debug)]
pub(crate) struct Accounts {
    limits: LotLimits,
    /// By path.
    accounts: BTreeMap<String, Account>,
    paths: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Account {
    lot: Lot,
    used: u64,
    /// Bytes of active writes.
    pending: u64,
}

impl Account {
    fn taken(&self) -> u64 {
        self.used.saturating_add(self.pending)
    }

    fn free(&self) -> u64 {
        self.lot.bytes.saturating_sub(self.taken())
    }

    fn take(&mut self, bytes: u64) -> Result<(), LotError> {
        let left = self.free();
        if bytes > left {
            return Err(LotError::Full { path: self.lot.path.clone(), left });
        }
        self.pending += bytes;
        Ok(())
    }

    fn lot(&self) -> Lot {
        Lot { used: self.taken(), ..self.lot.clone() }
    }
}

impl Accounts {
    pub(crate) fn new(limits: LotLimits) -> Self {
        Self { limits, accounts: BTreeMap::new(), paths: BTreeMap::new() }
    }

    /// Adds a lot from the database, even if it exceeds the current limits.
    pub(crate) fn restore(&mut self, lot: Lot, used: u64) {
        self.paths.insert(lot.id.clone(), lot.path.clone());
        self.accounts.insert(lot.path.clone(), Account { lot, used, pending: 0 });
    }

    pub(crate) fn create(
        &mut self,
        owner: &str,
        path: &str,
        bytes: u64,
        used: u64,
        lease: u64,
        now: u64,
    ) -> Result<Lot, LotError> {
        if owner.len() > MAX_TEXT || path.len() > MAX_TEXT {
            return Err(LotError::Invalid("the path or the owner's name is too long"));
        }
        if bytes == 0 || bytes < used {
            return Err(LotError::Invalid("the lot would be smaller than what is in the folder"));
        }
        if self.accounts.len() >= self.limits.lots {
            return Err(LotError::Terms("the maximum number of lots is reached"));
        }
        let expires = self.end(lease, now)?;
        self.check_bytes(0, bytes)?;
        if self.overlaps(path, 0) {
            return Err(LotError::Overlap);
        }
        let id = new_id();
        let owner = owner.to_owned();
        let path = path.to_owned();
        self.restore(Lot { id: id.clone(), owner, path, bytes, expires, used: 0 }, used);
        self.by_id(&id).map(|account| account.lot())
    }

    /// Changes a lot, and returns it as it was and as it is.
    pub(crate) fn extend(
        &mut self,
        owner: &str,
        id: &str,
        bytes: Option<u64>,
        lease: Option<u64>,
        now: u64,
    ) -> Result<(Lot, Lot), LotError> {
        let before = self.find(owner, id)?;
        let expires = lease.map_or(Ok(before.expires), |lease| self.end(lease, now))?;
        let size = bytes.unwrap_or(before.bytes);
        self.check_bytes(before.bytes, size)?;
        let account = self.by_id(id)?;
        if size == 0 || size < account.taken() {
            return Err(LotError::Invalid("the lot would be smaller than what is in the folder"));
        }
        account.lot.bytes = size;
        account.lot.expires = expires;
        Ok((before, account.lot()))
    }

    /// Undoes an extension.
    pub(crate) fn undo_extend(&mut self, lot: Lot) {
        if let Ok(account) = self.by_id(&lot.id) {
            account.lot = lot;
        }
    }

    fn end(&self, lease: u64, now: u64) -> Result<u64, LotError> {
        match lease {
            0 => Err(LotError::Invalid("lease_seconds is 0, expected at least 1")),
            lease if lease > self.limits.lease => {
                Err(LotError::Terms("lease_seconds is more than this server's maximum"))
            }
            lease => Ok(now.saturating_add(lease)),
        }
    }

    fn check_bytes(&self, before: u64, after: u64) -> Result<(), LotError> {
        if after <= before {
            // Allowed even if the server's limit has been lowered below its lots.
            return Ok(());
        }
        let all = self.accounts.values().map(|account| u128::from(account.lot.bytes)).sum::<u128>();
        let all = all.saturating_sub(u128::from(before)) + u128::from(after);
        if all > u128::from(self.limits.bytes) {
            let what = "the lots together would be larger than this server's maximum";
            return Err(LotError::Terms(what));
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, id: &str) {
        if let Some(path) = self.paths.remove(id) {
            self.accounts.remove(&path);
        }
    }

    pub(crate) fn find(&self, owner: &str, id: &str) -> Result<Lot, LotError> {
        let account = self.paths.get(id).and_then(|path| self.accounts.get(path));
        let account = account.filter(|account| account.lot.owner == owner);
        account.map(Account::lot).ok_or(LotError::NotFound)
    }

    pub(crate) fn of(&self, owner: &str, now: u64) -> Vec<Lot> {
        let accounts = self.accounts.values();
        let own =
            accounts.filter(|account| account.lot.owner == owner && account.lot.expires > now);
        own.map(Account::lot).collect()
    }

    /// The number of lots, and the bytes reserved and used in all of them.
    pub(crate) fn totals(&self) -> (u64, u64, u64) {
        let lots = self.accounts.values();
        lots.fold((0, 0, 0), |(count, bytes, used): (u64, u64, u64), account| {
            let bytes = bytes.saturating_add(account.lot.bytes);
            (count + 1, bytes, used.saturating_add(account.taken()))
        })
    }

    pub(crate) fn expired(&self, now: u64) -> Vec<String> {
        let expired = self.accounts.values().filter(|account| account.lot.expires <= now);
        expired.map(|account| account.lot.id.clone()).collect()
    }

    /// Bytes that are reserved and neither used nor pending.
    pub(crate) fn free(&self) -> u64 {
        self.accounts.values().fold(0, |sum: u64, account| sum.saturating_add(account.free()))
    }

    pub(crate) fn quota(&mut self, path: &str, now: u64) -> Option<(u64, u64)> {
        self.at(path, now).map(|account| (account.free(), account.taken()))
    }

    /// Takes bytes for a write, and returns the id of their lot.
    pub(crate) fn charge(
        &mut self,
        path: &str,
        bytes: u64,
        now: u64,
    ) -> Result<Option<String>, LotError> {
        let Some(account) = self.at(path, now) else { return Ok(None) };
        account.take(bytes)?;
        Ok(Some(account.lot.id.clone()))
    }

    /// Takes more bytes for a write.
    pub(crate) fn add(&mut self, id: &str, bytes: u64) -> Result<(), LotError> {
        self.by_id(id)?.take(bytes)
    }

    /// Returns bytes that a write took and did not use.
    pub(crate) fn give_back(&mut self, id: &str, bytes: u64) {
        // The lot may have ended meanwhile.
        if let Ok(account) = self.by_id(id) {
            account.pending = account.pending.saturating_sub(bytes);
        }
    }

    /// Counts `gone` bytes as removed from a path, and `came` as added.
    pub(crate) fn shift(&mut self, path: &str, gone: u64, came: u64) {
        if let Some(account) = self.at(path, 0) {
            account.used = account.used.saturating_add(came).saturating_sub(gone);
        }
    }

    /// The paths of lots inside a directory.
    pub(crate) fn inside(&self, folder: &str) -> Vec<String> {
        let paths =
            self.accounts.keys().filter(|path| path.as_str() != folder && is_in(path, folder));
        paths.cloned().collect()
    }

    /// Sets the counted bytes of a lot.
    pub(crate) fn set_used(&mut self, path: &str, used: u64) {
        if let Some(account) = self.accounts.get_mut(path) {
            account.used = used;
        }
    }

    /// The path of the lot that contains another path.
    pub(crate) fn path_of(&mut self, path: &str) -> Option<String> {
        self.at(path, 0).map(|account| account.lot.path.clone())
    }

    /// Returns true if a lot contains `path` or lies below it.
    pub(crate) fn overlaps(&self, path: &str, now: u64) -> bool {
        let mut accounts = self.accounts.values().filter(|account| account.lot.expires > now);
        accounts.any(|account| is_in(&account.lot.path, path) || is_in(path, &account.lot.path))
    }

    fn by_id(&mut self, id: &str) -> Result<&mut Account, LotError> {
        let path = self.paths.get(id).ok_or(LotError::NotFound)?;
        self.accounts.get_mut(path).ok_or(LotError::NotFound)
    }

    /// The lot that contains a path.
    fn at(&mut self, path: &str, now: u64) -> Option<&mut Account> {
        let mut folder = path;
        let found = loop {
            if let Some(account) = self.accounts.get(folder) {
                break account.lot.path.clone();
            }
            match folder.rsplit_once('/') {
                Some((parent, _)) => folder = parent,
                None if folder.is_empty() => return None,
                None => folder = "",
            }
        };
        self.accounts.get_mut(&found).filter(|account| account.lot.expires > now)
    }
}

/// Returns true if `path` is `folder` or lies in it.
fn is_in(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| folder.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

/// Creates a unique id.
fn new_id() -> String {
    // From the random keys of hashers; ids need not be secret.
    format!("{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1))
}
