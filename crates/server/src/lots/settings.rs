//! The table `[lots]` of the settings: whether space may be reserved, and how much.

use crate::backend::path::PRIVATE;
use crate::lots::{DirectoryUsage, FileReserve, LotLimits, Lots, NoReserve, Reserve, seconds};
use hither_core::error::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often leases are looked at.
pub(crate) const TEND_EVERY: Duration = Duration::from_secs(5);
/// A week.
const MAX_LEASE: u64 = 7 * 24 * 3_600;

/// How much space may be reserved. With this table, whoever may make files may reserve space for them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LotSettings {
    /// Bytes in all lots together.
    pub bytes: u64,
    /// Most lots.
    #[serde(default = "thousand")]
    pub count: usize,
    /// Most seconds of a lease, a week if not said; it may be extended any number of times.
    #[serde(default = "week")]
    pub lease_seconds: u64,
    /// Whether what is reserved is taken from the file system at once, so that nobody else can use it. Yes if not said.
    #[serde(default = "yes")]
    pub allocate: bool,
}

fn thousand() -> usize {
    1_000
}

fn week() -> u64 {
    MAX_LEASE
}

fn yes() -> bool {
    true
}

impl LotSettings {
    /// The lots of a tree, kept in a private folder of it: on the same file system, where nobody sees it.
    pub(crate) fn open(&self, root: &Path) -> Result<Arc<Lots>> {
        let folder = root.join(format!("{PRIVATE}lots"));
        let cannot = |error: &dyn std::fmt::Display| {
            let what = format!("cannot keep lots in {}: {error}", folder.display());
            Error::new(ErrorKind::Local, what)
        };
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| cannot(&error))?;
        let reserve: Box<dyn Reserve> = match self.allocate {
            true => {
                let opened = FileReserve::open(&folder.join("reserve"));
                Box::new(opened.map_err(|error| cannot(&error))?)
            }
            false => Box::new(NoReserve::default()),
        };
        let Self { bytes, count: lots, lease_seconds: lease, .. } = *self;
        let terms = LotLimits { lots, bytes, lease };
        let files = Box::new(DirectoryUsage(root.to_owned()));
        Lots::open(&folder.join("lots.redb"), terms, reserve, files, seconds())
            .map(Arc::new)
            .map_err(|error| cannot(&error))
    }
}
