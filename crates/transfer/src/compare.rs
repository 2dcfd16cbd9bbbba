//! Comparison of two trees: what a check reports, and what a sync has to copy and to delete.
//!
//! [`tree_pair`] lists both trees concurrently; [`equality`] compares files that both have. Each
//! difference is reported when it is found, in no order, so that memory does not grow with the
//! trees.

pub(crate) mod equality;
pub(crate) mod tree_pair;

use crate::compare::equality::{CompareBy, Difference, FileComparison};
use crate::compare::tree_pair::{Found, FoundName, Side, TreePair};
use crate::copy::target_directory::TargetDirectory;
use crate::destination::CopyPath;
use crate::filter::Filter;
use crate::options::CopyOptions;
use crate::progress::CopyProgress;
use crate::summary::CopyFailure;
use futures_core::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hither_core::error::counted;
use hither_core::sync::lock;
use hither_core::{DirEntry, Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Files compared at the same time: each may cost a round trip to a server.
const AT_ONCE: usize = 32;
/// Names that were found and not compared yet.
const MAX_WAITING: usize = 1024;

/// How two trees differ in one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DifferenceKind {
    /// Only the source has the file.
    OnlyInSource,
    /// Only the target has the file or link.
    OnlyInTarget,
    /// The sizes differ.
    Size,
    /// A server does not state the size of one of them.
    UnknownSize,
    /// The times of last change differ, or the target is older.
    Time,
    /// The checksums differ.
    Checksum,
}

impl DifferenceKind {
    /// The name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OnlyInSource => "only_in_source",
            Self::OnlyInTarget => "only_in_destination",
            Self::Size => "size",
            Self::UnknownSize => "unknown_size",
            Self::Time => "time",
            Self::Checksum => "checksum",
        }
    }
}

/// A name in which two trees differ.
#[derive(Debug, Clone)]
pub struct TreeDifference {
    /// The path from the roots.
    pub path: String,
    /// The kind of the difference.
    pub kind: DifferenceKind,
    /// The file in the source.
    pub source: Option<DirEntry>,
    /// The file in the target.
    pub target: Option<DirEntry>,
}

/// Options of a check.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// The property by which files of the same size are compared.
    pub by: CompareBy,
    /// Leaves out files that only the target has.
    pub one_way: bool,
    /// Filter and connections, as of a copy.
    pub copy: CopyOptions,
}

/// Summary of a check.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CheckSummary {
    /// Files that are equal.
    pub equal: u64,
    /// Files that only the source has.
    pub only_in_source: u64,
    /// Files that only the target has.
    pub only_in_target: u64,
    /// Files that differ.
    pub different: u64,
    /// Equal files that were compared by size only, because a time was missing.
    pub without_times: u64,
    /// Names that were not compared, and why.
    pub notices: Vec<String>,
    /// Names that could not be compared.
    pub failures: Vec<CopyFailure>,
}

impl CheckSummary {
    /// Returns true if nothing differs and nothing failed.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        let differences = self.only_in_source + self.only_in_target + self.different;
        differences == 0 && self.failures.is_empty()
    }

    /// Counts a finding, and returns it if it is a difference to report.
    fn take(&mut self, finding: Finding, one_way: bool) -> Option<TreeDifference> {
        match finding {
            Finding::Equal => self.equal += 1,
            Finding::LeftOut(notice) => self.notices.push(notice),
            Finding::Hidden(why) if self.notices.contains(&why) => {}
            Finding::Hidden(why) => self.notices.push(why),
            Finding::Failed(source, error) => self.failures.push(CopyFailure { source, error }),
            Finding::Directory(..) | Finding::Kept(_) => {}
            Finding::Differs(difference, _) => {
                match difference.kind {
                    DifferenceKind::OnlyInSource => self.only_in_source += 1,
                    DifferenceKind::OnlyInTarget if one_way => return None,
                    DifferenceKind::OnlyInTarget => self.only_in_target += 1,
                    _ => self.different += 1,
                }
                return Some(difference);
            }
        }
        None
    }
}

/// A result of a comparison.
#[derive(Debug)]
pub(crate) enum Finding {
    /// The files are equal.
    Equal,
    /// The files differ, or only one tree has the file.
    Differs(TreeDifference, Arc<TargetDirectory>),
    /// A directory in one tree only.
    Directory(Side, String, Arc<TargetDirectory>),
    /// A name that is not to be removed, in a directory that only the target has.
    Kept(String),
    LeftOut(String),
    /// The source may have names that it does not show, for this reason.
    Hidden(String),
    Failed(String, Error),
}

/// Compares two trees, and passes each difference to `found` as soon as it is known, in no order.
///
/// # Errors
///
/// [`hither_core::ErrorKind::Invalid`] for names that are not directories or within each other, and
/// the errors of looking at them. Errors of single names are in the summary.
pub async fn check(
    source: CopyPath,
    target: CopyPath,
    options: CheckOptions,
    progress: Arc<CopyProgress>,
    found: impl Fn(TreeDifference) + Send + Sync,
) -> Result<CheckSummary> {
    let pair = TreePair::open(source, target).await?;
    let filter = Arc::clone(&options.copy.filter);
    let comparison = FileComparison::new(options.by, &options.copy, Arc::clone(&progress));
    let tally = Mutex::new(CheckSummary::default());
    let lone_directories = AtomicU64::new(0);
    let take = |finding| -> BoxFuture<'_, ()> {
        if let Finding::Directory(side, ..) = &finding
            && !(options.one_way && *side == Side::Target)
        {
            lone_directories.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(difference) = lock(&tally).take(finding, options.one_way) {
            found(difference);
        }
        Box::pin(std::future::ready(()))
    };
    compare(&pair, &filter, &comparison, &progress, &take).await;
    let mut summary = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.without_times = comparison.without_times.load(Ordering::Relaxed);
    summary.failures.extend(filter.missing());
    let lone_directories = lone_directories.into_inner();
    // One with files shows in its files.
    if lone_directories > 0 && summary.is_equal() {
        summary.notices.push(format!(
            "{} without files to compare, in one of the two only: directories are not compared",
            counted(lone_directories, "directory")
        ));
    }
    Ok(summary)
}

/// Walks through both trees and reports findings; several files are compared concurrently.
pub(crate) async fn compare<'a>(
    pair: &TreePair,
    filter: &Filter,
    comparison: &FileComparison,
    progress: &CopyProgress,
    take: &(dyn Fn(Finding) -> BoxFuture<'a, ()> + Send + Sync + 'a),
) {
    let (sender, mut names) = mpsc::channel(MAX_WAITING);
    let walk = pair.walk(filter, sender);
    let look = |name| async move {
        take(finding(pair, comparison, filter, progress, name).await).await;
    };
    let compared = async {
        let mut looking = FuturesUnordered::new();
        let mut is_open = true;
        while is_open || !looking.is_empty() {
            tokio::select! {
                name = names.recv(), if is_open && looking.len() < AT_ONCE => match name {
                    Some(name) => looking.push(look(name)),
                    None => is_open = false,
                },
                Some(()) = looking.next() => {}
            }
        }
    };
    futures_util::join!(walk, compared);
}

async fn finding(
    pair: &TreePair,
    comparison: &FileComparison,
    filter: &Filter,
    progress: &CopyProgress,
    name: FoundName,
) -> Finding {
    let FoundName { path, what, directory } = name;
    let (mut source, mut target) = match what {
        Found::Both(source, target) => (source, target),
        Found::File(Side::Source, entry) => {
            filter.met(&path);
            return Finding::Differs(
                TreeDifference {
                    path,
                    kind: DifferenceKind::OnlyInSource,
                    source: Some(entry),
                    target: None,
                },
                directory,
            );
        }
        Found::File(Side::Target, entry) => {
            return Finding::Differs(
                TreeDifference {
                    path,
                    kind: DifferenceKind::OnlyInTarget,
                    source: None,
                    target: Some(entry),
                },
                directory,
            );
        }
        Found::Directory(side) => return Finding::Directory(side, path, directory),
        Found::Kept => return Finding::Kept(path),
        Found::LeftOut(why) => return Finding::LeftOut(format!("{path}: {why}, left out")),
        Found::Hidden(why) => return Finding::Hidden(format!("{}: {why}", pair.source.name())),
        Found::Conflict(error) | Found::Unknown(error) => {
            let name = if path.is_empty() { pair.source.name() } else { path };
            return Finding::Failed(name, error);
        }
    };
    filter.met(&path);
    progress.found_file();
    let compared = comparison.difference(pair, &path, &mut source, &mut target).await;
    progress.done_file();
    let kind = match compared {
        Ok(None) => return Finding::Equal,
        Ok(Some(Difference::Size)) => DifferenceKind::Size,
        Ok(Some(Difference::UnknownSize)) => DifferenceKind::UnknownSize,
        Ok(Some(Difference::Time)) => DifferenceKind::Time,
        Ok(Some(Difference::Checksum)) => DifferenceKind::Checksum,
        Err(error) => return Finding::Failed(path, error),
    };
    let difference = TreeDifference { path, kind, source: Some(source), target: Some(target) };
    Finding::Differs(difference, directory)
}
