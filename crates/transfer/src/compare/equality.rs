//! Equality of two files: by size, time or checksum.
//!
//! Times: a local target has the time of its source, since copying sets it, so another time means
//! another file. A server keeps the time at which a file was written to it, so there a file is
//! equal that is newer than its source, and older ones differ. Two times that differ by less than a
//! second, or by less than the clocks of both sides differ (where servers state their time), have
//! no known order: then checksums decide. On a server that is known to keep the times that clients
//! set, a copy has the time of its source: there checksums decide about a newer file. Seconds are
//! compared where one of the two knows no fractions, as HTTP's dates. Metadata of a file whose
//! listing entry has no time or no size (an HTML index) are requested separately. Without any time,
//! sizes decide, and the summary counts such files. Without a size, files are equal only if their
//! checksums are.
//!
//! Checksums: those that the servers state, if both state the same algorithm; else they are
//! computed from the bytes.

use crate::compare::tree_pair::TreePair;
use crate::copy::copy;
use crate::destination::{CopyPath, Destination};
use crate::file::identify::size_by_response;
use crate::options::{CopyOptions, Verify};
use crate::progress::CopyProgress;
use hither_checksum::{Algorithm, Checksum};
use hither_core::storage::since_1970;
use hither_core::sync::lock;
use hither_core::{DirEntry, Error, ErrorKind, FileKind, Result};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokio::sync::Semaphore;

/// Files whose bytes are read at the same time for their checksums: each takes many connections.
const MAX_READ: usize = 2;

/// The property by which two files of the same size are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CompareBy {
    /// The time of the last change.
    #[default]
    Time,
    /// The size alone.
    Size,
    /// The checksum of their bytes.
    Checksum,
}

/// The property in which two files differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Difference {
    Size,
    /// The size of one of them is not known.
    UnknownSize,
    Time,
    Checksum,
}

/// Compares the files of two trees.
#[derive(Debug)]
pub(crate) struct FileComparison {
    by: CompareBy,
    /// For files that have to be read.
    options: CopyOptions,
    progress: Arc<CopyProgress>,
    reading: Semaphore,
    /// Algorithms that the servers of source and target do not know.
    unknown_algorithms: [Mutex<BTreeSet<Algorithm>>; 2],
    /// Files compared by size only, because a time was missing.
    pub(crate) without_times: AtomicU64,
}

impl FileComparison {
    pub(crate) fn new(by: CompareBy, options: &CopyOptions, progress: Arc<CopyProgress>) -> Self {
        let reading = CopyOptions {
            max_workers: options.max_workers,
            bandwidth: options.bandwidth.clone(),
            ..CopyOptions::default()
        };
        Self {
            by,
            options: reading,
            progress,
            reading: Semaphore::new(MAX_READ),
            unknown_algorithms: Default::default(),
            without_times: AtomicU64::new(0),
        }
    }

    /// Returns the difference of two files, none if they are equal. Completes entries that lack a
    /// time.
    pub(crate) async fn difference(
        &self,
        pair: &TreePair,
        path: &str,
        source: &mut DirEntry,
        target: &mut DirEntry,
    ) -> Result<Option<Difference>> {
        if source.size.is_none() {
            ask(&pair.source, source).await?;
        }
        if target.size.is_none() {
            ask(&pair.target, target).await?;
        }
        match source.size.zip(target.size) {
            Some((from, to)) if from != to => return Ok(Some(Difference::Size)),
            None if self.by != CompareBy::Checksum => return Ok(Some(Difference::UnknownSize)),
            Some((0, 0)) if self.by != CompareBy::Checksum => {
                for (tree, entry) in [(&pair.source, &*source), (&pair.target, &*target)] {
                    if !self.is_empty(tree, entry).await? {
                        return Ok(Some(Difference::Size));
                    }
                }
            }
            _ => {}
        }
        match self.by {
            CompareBy::Size => Ok(None),
            CompareBy::Checksum => self.by_checksum(pair, path, source, target).await,
            CompareBy::Time => {
                complete(&pair.source, source).await?;
                complete(&pair.target, target).await?;
                let Some((from, to)) = source.modified.zip(target.modified) else {
                    self.without_times.fetch_add(1, Ordering::Relaxed);
                    return Ok((source.size != target.size).then_some(Difference::Size));
                };
                if source.size != target.size {
                    return Ok(Some(Difference::Size));
                }
                if pair.target.local.is_some() {
                    return Ok((!is_same(from, to)).then_some(Difference::Time));
                }
                let [from, to] = [from, to].map(|time| since_1970(time).0);
                let [at_source, at_target] =
                    [&pair.source, &pair.target].map(|tree| tree.storage.file_times());
                match at_target.is_newer(to, from, &at_source) {
                    Some(true) if from == to || !at_target.are_kept => Ok(None),
                    Some(false) => Ok(Some(Difference::Time)),
                    // A copy has the time of its source, so this is another file, or the same one
                    // without its time.
                    Some(true) | None => self.by_checksum(pair, path, source, target).await,
                }
            }
        }
    }

    /// Returns true if a file that is listed as empty is empty. Its first byte is requested,
    /// because servers with generated listings state 0 where they do not know the size.
    async fn is_empty(&self, tree: &CopyPath, entry: &DirEntry) -> Result<bool> {
        if tree.local.is_some() {
            return Ok(true);
        }
        let size = size_by_response(&self.options.retry, &*tree.storage, &entry.path).await?;
        Ok(size == Some(0))
    }

    async fn by_checksum(
        &self,
        pair: &TreePair,
        path: &str,
        source: &DirEntry,
        target: &DirEntry,
    ) -> Result<Option<Difference>> {
        let places = [(&pair.source, source), (&pair.target, target)];
        let [from, to] = &places;
        // A stated checksum costs a round trip; the other tree is read only if its server states
        // none.
        for algorithm in Algorithm::ALL {
            let reported = futures_util::try_join!(
                self.reported(0, from.0, from.1, algorithm),
                self.reported(1, to.0, to.1, algorithm)
            )?;
            let (a, b) = match reported {
                (None, None) if from.0.local.is_some() && to.0.local.is_some() => {
                    futures_util::try_join!(
                        self.read(from.0, path, algorithm),
                        self.read(to.0, path, algorithm)
                    )?
                }
                (None, None) => continue,
                (Some(a), Some(b)) => (a, b),
                (Some(a), None) => (a, self.read(to.0, path, algorithm).await?),
                (None, Some(b)) => (self.read(from.0, path, algorithm).await?, b),
            };
            return Ok((a != b).then_some(Difference::Checksum));
        }
        let algorithm = Algorithm::Crc32c;
        let (a, b) = futures_util::try_join!(
            self.read(from.0, path, algorithm),
            self.read(to.0, path, algorithm)
        )?;
        Ok((a != b).then_some(Difference::Checksum))
    }

    /// The checksum that the server states; none for a local file.
    async fn reported(
        &self,
        side: usize,
        tree: &CopyPath,
        entry: &DirEntry,
        algorithm: Algorithm,
    ) -> Result<Option<Checksum>> {
        let Some(unknown) = self.unknown_algorithms.get(side).filter(|_| tree.local.is_none())
        else {
            return Ok(None);
        };
        if lock(unknown).contains(&algorithm) {
            return Ok(None);
        }
        let reported = tree.storage.checksum(&entry.path, algorithm).await?;
        let reported = reported.filter(|checksum| checksum.algorithm() == algorithm);
        if reported.is_none() {
            lock(unknown).insert(algorithm);
        }
        Ok(reported)
    }

    /// The checksum of the bytes of a file. All workers of a copy fetch them and discard them.
    async fn read(&self, tree: &CopyPath, path: &str, algorithm: Algorithm) -> Result<Checksum> {
        let (path, local) = tree.below(path);
        if local.is_some() {
            let summed = tree.storage.checksum(&path, algorithm).await?;
            return summed.ok_or_else(|| unread(&path));
        }
        let _permit = self.reading.acquire().await;
        let file = CopyPath { path: path.clone(), local, is_directory: false, ..tree.clone() };
        let options = CopyOptions { verify: Verify::Algorithm(algorithm), ..self.options.clone() };
        let progress = Arc::new(CopyProgress::default());
        let copied =
            Box::pin(copy(vec![file], Destination::Discard, options, Arc::clone(&progress)));
        let summary = copied.await?;
        self.progress.arrived(progress.figures().bytes_arrived, 0);
        if let Some(failure) = summary.failures.into_iter().next() {
            return Err(failure.error);
        }
        let read = summary.checksums.into_iter().next();
        read.map(|it| it.checksum).ok_or_else(|| unread(&path))
    }
}

fn unread(path: &str) -> Error {
    Error::new(ErrorKind::Local, format!("{path}: no checksum was computed"))
}

/// Requests the entry of a name whose listing states no time.
pub(crate) async fn complete(tree: &CopyPath, entry: &mut DirEntry) -> Result<()> {
    if entry.modified.is_some() { Ok(()) } else { ask(tree, entry).await }
}

async fn ask(tree: &CopyPath, entry: &mut DirEntry) -> Result<()> {
    match tree.storage.stat(&entry.path).await {
        Ok(asked) if asked.kind == FileKind::File => *entry = asked,
        // A file whose metadata the server refuses may be readable all the same.
        Err(error) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
        Ok(_) | Err(_) => {}
    }
    Ok(())
}

/// Returns true for the same moment: to the second if one of the two has no fraction.
fn is_same(a: SystemTime, b: SystemTime) -> bool {
    let a = since_1970(a);
    let b = since_1970(b);
    let fractions = a.1 != 0 && b.1 != 0;
    if fractions { a == b } else { a.0 == b.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::storage::from_1970;

    fn at(seconds: i64, nanos: u32) -> SystemTime {
        from_1970(seconds, nanos).unwrap()
    }

    #[test]
    fn times_are_equal_to_the_precision_that_both_have() {
        assert!(is_same(at(7, 5), at(7, 5)) && !is_same(at(7, 5), at(7, 6)));
        assert!(is_same(at(7, 5), at(7, 0)) && is_same(at(7, 0), at(7, 9)));
        assert!(!is_same(at(7, 0), at(8, 0)));
        assert!(!is_same(at(-7, 0), at(-8, 0)) && !is_same(at(-7, 0), at(0, 0)));
    }
}
