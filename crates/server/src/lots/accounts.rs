//! Agreed and used space of all lots in memory: rules and sums, no disk.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::{Add, Sub};
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
    /// Maximum number of files and directories, by the bytes; not stored.
    #[serde(skip)]
    pub(crate) files: u64,
    /// Used and pending files and directories; not stored.
    #[serde(skip)]
    pub(crate) used_files: u64,
}

impl Lot {
    /// Returns the lot if it has not ended.
    pub(crate) fn at(self, now: u64) -> Result<Self, LotError> {
        if self.expires > now { Ok(self) } else { Err(LotError::NotFound) }
    }
}

/// The space that files and directories take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// Bytes in whole blocks.
    pub(crate) bytes: u64,
    /// Files, links and directories: inodes of the file system.
    pub(crate) files: u64,
}

impl Space {
    /// The space of a file of `bytes`.
    pub(crate) fn of_file(bytes: u64) -> Self {
        Self { bytes: footprint(bytes), files: 1 }
    }

    /// The space of an empty directory or a link: blocks are counted for files only.
    pub(crate) fn of_name() -> Self {
        Self { bytes: 0, files: 1 }
    }
}

/// Sums and differences end at the limits of integers.
impl Add for Space {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
        }
    }
}

impl Sub for Space {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            files: self.files.saturating_sub(other.files),
        }
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
    /// The number of reserved bytes for each file or directory that a lot may hold.
    pub(crate) bytes_per_file: u64,
}

impl LotLimits {
    /// The maximum number of files and directories in a lot of `bytes`.
    pub(crate) fn files(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.bytes_per_file.max(1))
    }
}

/// The reason why a request for space fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LotError {
    /// A write does not fit.
    Full { path: String, left: u64 },
    /// One more file or directory does not fit.
    TooManyFiles { path: String, files: u64 },
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
            Self::TooManyFiles { path, files } => {
                write!(
                    f,
                    "the lot of /{path} may hold {files} files and directories: remove some, or extend it"
                )
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
    used: Space,
    /// Space of active writes.
    pending: Space,
}

impl Account {
    fn taken(&self) -> Space {
        self.used + self.pending
    }

    /// Bytes that are neither used nor pending.
    fn free(&self) -> u64 {
        self.lot.bytes.saturating_sub(self.taken().bytes)
    }

    fn take(&mut self, space: Space) -> Result<(), LotError> {
        let left = self.free();
        let path = || self.lot.path.clone();
        if space.bytes > left {
            return Err(LotError::Full { path: path(), left });
        }
        if space.files > self.lot.files.saturating_sub(self.taken().files) {
            return Err(LotError::TooManyFiles { path: path(), files: self.lot.files });
        }
        self.pending = self.pending + space;
        Ok(())
    }

    fn lot(&self) -> Lot {
        let Space { bytes: used, files: used_files } = self.taken();
        Lot { used, used_files, ..self.lot.clone() }
    }
}

impl Accounts {
    pub(crate) fn new(limits: LotLimits) -> Self {
        Self { limits, accounts: BTreeMap::new(), paths: BTreeMap::new() }
    }

    /// Adds a lot from the database, even if it exceeds the current limits.
    pub(crate) fn restore(&mut self, mut lot: Lot, used: Space) {
        lot.files = self.limits.files(lot.bytes);
        self.paths.insert(lot.id.clone(), lot.path.clone());
        self.accounts.insert(lot.path.clone(), Account { lot, used, pending: Space::default() });
    }

    pub(crate) fn create(
        &mut self,
        owner: &str,
        path: &str,
        bytes: u64,
        used: Space,
        lease: u64,
        now: u64,
    ) -> Result<Lot, LotError> {
        if owner.len() > MAX_TEXT || path.len() > MAX_TEXT {
            return Err(LotError::Invalid("the path or the owner's name is too long"));
        }
        self.check_size(bytes, used)?;
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
        let lot =
            Lot { id: id.clone(), owner, path, bytes, expires, used: 0, files: 0, used_files: 0 };
        self.restore(lot, used);
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
        let taken = self.by_id(id)?.taken();
        self.check_size(size, taken)?;
        let files = self.limits.files(size);
        let account = self.by_id(id)?;
        (account.lot.bytes, account.lot.files) = (size, files);
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

    /// Fails unless a lot of `bytes` can hold its present files.
    fn check_size(&self, bytes: u64, taken: Space) -> Result<(), LotError> {
        if bytes == 0 || bytes < taken.bytes {
            return Err(LotError::Invalid("the lot would be smaller than what is in the folder"));
        }
        if self.limits.files(bytes) < taken.files {
            let what = "the lot would be too small for the number of files in the folder";
            return Err(LotError::Invalid(what));
        }
        Ok(())
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

    /// The number of lots, and the bytes reserved and the space used in all of them.
    pub(crate) fn totals(&self) -> (u64, u64, Space) {
        let lots = self.accounts.values();
        lots.fold((0, 0, Space::default()), |(count, bytes, used): (u64, u64, Space), account| {
            (count + 1, bytes.saturating_add(account.lot.bytes), used + account.taken())
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
        self.at(path, now).map(|account| (account.free(), account.taken().bytes))
    }

    /// Charges space for a write, and returns the id of its lot.
    pub(crate) fn charge(
        &mut self,
        path: &str,
        space: Space,
        now: u64,
    ) -> Result<Option<String>, LotError> {
        let Some(account) = self.at(path, now) else { return Ok(None) };
        account.take(space)?;
        Ok(Some(account.lot.id.clone()))
    }

    /// Charges more bytes for a write.
    pub(crate) fn add(&mut self, id: &str, bytes: u64) -> Result<(), LotError> {
        self.by_id(id)?.take(Space { bytes, files: 0 })
    }

    /// Returns space that was charged for a write and not used.
    pub(crate) fn give_back(&mut self, id: &str, space: Space) {
        // The lot may have ended meanwhile.
        if let Ok(account) = self.by_id(id) {
            account.pending = account.pending - space;
        }
    }

    /// Counts `gone` as removed from a path, and `came` as added.
    pub(crate) fn shift(&mut self, path: &str, gone: Space, came: Space) {
        if let Some(account) = self.at(path, 0) {
            account.used = account.used + came - gone;
        }
    }

    /// The paths of lots inside a directory.
    pub(crate) fn inside(&self, folder: &str) -> Vec<String> {
        let paths =
            self.accounts.keys().filter(|path| path.as_str() != folder && is_in(path, folder));
        paths.cloned().collect()
    }

    /// Sets the counted space of a lot.
    pub(crate) fn set_used(&mut self, path: &str, used: Space) {
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
