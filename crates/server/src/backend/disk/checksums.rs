//! Checksums of files: stored with the file, computed once, never stale.
//!
//! A checksum is kept in an extended attribute of its file, together with the size and the time of
//! the version that it belongs to. A file that was changed has another time, so that the stored
//! checksum no longer matches. Nothing is stored while a file is young enough to change once more
//! without another time ([`DiskMetadata::is_settled`]). A file that a client puts gets its
//! checksums, and a time to the nanosecond, before it gets its name.
//!
//! Where attributes cannot be written, checksums are kept in memory.
//!
//! A checksum is computed once for all requests that wait for it. The computation continues while
//! any of them waits, and is cancelled with the last one.

use crate::backend::ChecksumMode;
use crate::backend::blocking::{self, Cancellation};
use crate::backend::disk::metadata::{DiskMetadata, Key, OWN_ATTRIBUTES};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::sync::lock;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::process::nice;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokio::sync::Semaphore;
use tracing::debug;

/// The maximum number of checksums kept in memory.
const MAX_REMEMBERED: usize = 16_384;
const BLOCK_BYTES: usize = 1 << 20;

/// A version of a file, and the algorithm of its checksum.
type PendingKey = (Key, Algorithm);
/// The work on a checksum; none if it failed.
type Computation = BoxFuture<'static, Option<Checksum>>;

/// A checksum that is being computed, or was.
#[derive(Debug)]
enum PendingChecksum {
    /// The requests that wait hold the computation.
    Computing(WeakShared<Computation>),
    Computed(Checksum),
}

/// Checksums that are being computed, and those that cannot be stored.
#[derive(Debug)]
pub(crate) struct ChecksumCache {
    pending: Mutex<HashMap<PendingKey, PendingChecksum>>,
    permits: Arc<Semaphore>,
}

impl ChecksumCache {
    /// A cache that computes with these permits.
    pub(crate) fn new(permits: &Arc<Semaphore>) -> Self {
        Self { pending: Mutex::default(), permits: Arc::clone(permits) }
    }

    /// The checksum of an open file; none if the file changes meanwhile or cannot be read, or if it
    /// would have to be computed and `mode` does not allow that.
    pub(crate) async fn checksum(
        &self,
        file: &Arc<File>,
        meta: &DiskMetadata,
        algorithm: Algorithm,
        mode: ChecksumMode,
    ) -> Option<Checksum> {
        if let Some(sum) = stored(file, meta, algorithm) {
            return Some(sum);
        }
        if mode == ChecksumMode::Cached {
            return None;
        }
        let key = (meta.key(), algorithm);
        let computation = match self.join(key, file, meta) {
            Ok(sum) => return Some(sum),
            Err(computation) => computation,
        };
        let sum = computation.await;
        let mut pending = lock(&self.pending);
        match &sum {
            Some(sum) if meta.is_settled(SystemTime::now()) => {
                pending.insert(key, PendingChecksum::Computed(sum.clone()));
            }
            // A checksum that failed, or that holds for a moment only, is computed again next time.
            _ => drop(pending.remove(&key)),
        }
        sum
    }

    /// Returns a checksum that was computed, or else the computation to wait for.
    fn join(
        &self,
        key: PendingKey,
        file: &Arc<File>,
        meta: &DiskMetadata,
    ) -> Result<Checksum, Shared<Computation>> {
        let mut pending = lock(&self.pending);
        match pending.get(&key) {
            Some(PendingChecksum::Computed(sum)) => return Ok(sum.clone()),
            Some(PendingChecksum::Computing(computation)) => {
                if let Some(computation) = computation.upgrade() {
                    return Err(computation);
                }
            }
            None => {}
        }
        if pending.len() >= MAX_REMEMBERED {
            let before = pending.len();
            pending.retain(|_, sum| match sum {
                PendingChecksum::Computing(computation) => computation.upgrade().is_some(),
                PendingChecksum::Computed(_) => false,
            });
            debug!(evicted = before - pending.len(), "checksums in memory evicted");
        }
        let computation = self.computation(Arc::clone(file), meta.clone(), key.1).shared();
        if let Some(weak) = computation.downgrade() {
            pending.insert(key, PendingChecksum::Computing(weak));
        }
        Err(computation)
    }

    fn computation(
        &self,
        file: Arc<File>,
        meta: DiskMetadata,
        algorithm: Algorithm,
    ) -> Computation {
        let permits = Arc::clone(&self.permits);
        Box::pin(async move {
            let permit = permits.acquire_owned().await.ok()?;
            debug!(algorithm = algorithm.name(), bytes = meta.size, "computing a checksum");
            let computed = blocking::spawn(move |cancellation| {
                let sum =
                    at_low_priority(|| compute(&file, &meta, algorithm, cancellation)).flatten();
                drop(permit);
                sum
            });
            computed.await.ok()?.ok().flatten()
        })
    }
}

/// Steps by which a thread that computes a checksum is nicer than the server: it has a tenth of a
/// processor for which another thread waits, too.
const CHECKSUM_NICE: i32 = 10;

/// Runs `work` on a thread of its own, which yields its processor to those that serve requests. A
/// thread that gave up priority does not get it back, so none of the runtime's is taken.
fn at_low_priority<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("checksum".into()).spawn_scoped(scope, || {
                // Without it the checksum is still right, and the server a little slower.
                nice(CHECKSUM_NICE).ok();
                work()
            })?;
        thread.join().map_err(|_| io::Error::other("computing a checksum panicked"))
    })
}

fn attribute(algorithm: Algorithm) -> String {
    format!("{OWN_ATTRIBUTES}sum.{}", algorithm.name())
}

/// The checksum that is stored for this version of a file.
pub(crate) fn stored(file: &File, meta: &DiskMetadata, algorithm: Algorithm) -> Option<Checksum> {
    let mut value = [0; 256];
    let length = fgetxattr(file, &*attribute(algorithm), &mut value).ok()?;
    let text = std::str::from_utf8(value.get(..length)?).ok()?;
    let (stamp, sum) = text.split_once(' ')?;
    (stamp == meta.stamp()).then(|| Checksum::from_hex(algorithm, sum).ok())?
}

/// Stores the checksum of this version of a file.
pub(crate) fn store(file: &File, meta: &DiskMetadata, sum: &Checksum) -> io::Result<()> {
    let text = format!("{} {}", meta.stamp(), sum.hex());
    let name = attribute(sum.algorithm());
    Ok(fsetxattr(file, &*name, text.as_bytes(), XattrFlags::empty())?)
}

/// Computes the checksum of a whole file.
pub(crate) fn checksum_of(
    file: &File,
    algorithm: Algorithm,
    cancellation: &Cancellation,
) -> io::Result<Checksum> {
    let mut hasher = Hasher::new(algorithm);
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    loop {
        cancellation.check()?;
        match file.read_at(&mut block, at) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(length) => {
                hasher.update(block.get(..length).unwrap_or_default());
                at += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn compute(
    file: &File,
    meta: &DiskMetadata,
    algorithm: Algorithm,
    cancellation: &Cancellation,
) -> io::Result<Option<Checksum>> {
    if DiskMetadata::of(file)?.key() != meta.key() {
        return Ok(None);
    }
    let sum = checksum_of(file, algorithm, cancellation)?;
    if DiskMetadata::of(file)?.key() != meta.key() {
        return Ok(None);
    }
    if meta.is_settled(SystemTime::now()) && stored(file, meta, algorithm).is_none() {
        // Not every file system and user can store it; the copy in memory remains.
        drop(store(file, meta, &sum));
    }
    Ok(Some(sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;
    use std::task::Poll;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_checksum_yields_its_processor_and_the_thread_that_waits_for_it_does_not() {
        let priority = || getpriority_process(None).unwrap();
        let before = priority();
        let low = at_low_priority(priority).unwrap();
        assert_eq!((low, priority()), ((before + CHECKSUM_NICE).min(19), before));
    }

    fn sparse(bytes: u64) -> (Arc<File>, DiskMetadata) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        let meta = DiskMetadata::of(&file).unwrap();
        (Arc::new(file), meta)
    }

    async fn is_free(permits: &Semaphore) -> bool {
        let free = tokio::time::timeout(Duration::from_secs(60), permits.acquire()).await;
        free.is_ok_and(|permit| permit.is_ok())
    }

    #[tokio::test]
    async fn a_checksum_goes_on_while_one_waits_and_ends_with_the_last() {
        let permits = Arc::new(Semaphore::new(1));
        let cache = ChecksumCache::new(&permits);
        let wait = |file, meta| {
            cache.checksum(file, meta, Algorithm::Adler32, ChecksumMode::Compute).boxed()
        };
        let (file, meta) = sparse(8 << 20);
        let (large, large_meta) = sparse(1 << 40);
        let mut first = wait(&file, &meta);
        let mut second = wait(&file, &meta);
        let mut abandoned = (wait(&large, &large_meta), wait(&large, &large_meta));
        let _ = futures_util::poll!(&mut first);
        let polled = futures_util::poll!(&mut second);
        drop(first);
        let sum = match polled {
            // The work has ended while this thread was not running.
            Poll::Ready(sum) => sum,
            Poll::Pending => second.await,
        };
        assert_eq!(sum.unwrap().hex(), "07800001");
        assert!(is_free(&permits).await);
        assert!(futures_util::poll!(&mut abandoned.0).is_pending());
        assert!(futures_util::poll!(&mut abandoned.1).is_pending());
        assert_eq!(permits.available_permits(), 0, "one computation for both");
        drop(abandoned);
        assert!(is_free(&permits).await, "the work ends within a block");
    }

    #[tokio::test]
    async fn the_permit_is_held_until_the_work_has_ended() {
        let permits = Arc::new(Semaphore::new(1));
        let cache = ChecksumCache::new(&permits);
        let (file, meta) = sparse(1 << 40);
        for _ in 0..20 {
            let mut wait =
                cache.checksum(&file, &meta, Algorithm::Sha256, ChecksumMode::Compute).boxed();
            assert!(futures_util::poll!(&mut wait).is_pending());
        }
        assert!(is_free(&permits).await);
    }
}
