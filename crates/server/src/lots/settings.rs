//! The table `[lots]` of the settings: reservations of space and their limits.

use crate::backend::path::PRIVATE;
use crate::lots::{DirectoryUsage, FileReserve, LotLimits, Lots, NoReserve, Reserve, seconds};
use hither_core::error::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The time between two checks of the leases.
pub(crate) const TEND_EVERY: Duration = Duration::from_secs(5);
/// One week in seconds.
const MAX_LEASE: u64 = 7 * 24 * 3_600;

/// Limits of reservations. With this table, everybody who may create files may reserve space.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LotSettings {
    /// The maximum of bytes in all lots together.
    pub bytes: u64,
    /// The maximum number of lots; 1000 by default.
    #[serde(default = "thousand")]
    pub count: usize,
    /// The maximum length of a lease in seconds, by default a week. Leases may be extended any
    /// number of times.
    #[serde(default = "week")]
    pub lease_seconds: u64,
    /// Allocates reserved space on the file system at once, so that nobody else can use it; on by
    /// default.
    #[serde(default = "yes")]
    pub allocate: bool,
    /// The number of reserved bytes for each file or directory that a lot may hold: empty ones take
    /// no bytes, but inodes of the file system. 16384 by default, as `mke2fs` creates inodes.
    #[serde(default = "ext4_ratio")]
    pub bytes_per_file: u64,
}

fn thousand() -> usize {
    1_000
}

fn week() -> u64 {
    MAX_LEASE
}

fn ext4_ratio() -> u64 {
    16_384
}

fn yes() -> bool {
    true
}

impl LotSettings {
    /// Opens the lots of a tree, kept in a hidden directory of it, on the same file system.
    pub(crate) fn open(&self, root: &Path) -> Result<Arc<Lots>> {
        let folder = root.join(format!("{PRIVATE}lots"));
        let cannot = |error: &dyn std::fmt::Display| {
            let what = format!("cannot keep lots in {}: {error}", folder.display());
            Error::new(ErrorKind::Local, what)
        };
        let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        created.map_err(|error| cannot(&error))?;
        let reserve: Box<dyn Reserve> = if self.allocate {
            let opened = FileReserve::open(&folder.join("reserve"));
            Box::new(opened.map_err(|error| cannot(&error))?)
        } else {
            Box::new(NoReserve::default())
        };
        let Self { bytes, count: lots, lease_seconds: lease, bytes_per_file, .. } = *self;
        let limits = LotLimits { lots, bytes, lease, bytes_per_file };
        let files = Box::new(DirectoryUsage(root.to_owned()));
        Lots::open(&folder.join("lots.redb"), limits, reserve, files, seconds())
            .map(Arc::new)
            .map_err(|error| cannot(&error))
    }
}
