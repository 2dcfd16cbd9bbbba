//! The mover of a node: a process that carries out the leases that it finds in a folder.
//!
//! A cluster that copies a tree deals it out in *leases*, a few seconds of work each ([`lease`]).
//! On every node one process moves the bytes. It is separate from the Dask worker that receives the
//! leases: Dask ends a worker as soon as it loses its scheduler, and the leases in progress would
//! be lost with it. So leases and results are files:
//!
//! - `inbox/NAME.json`: leases to be carried out, written under another name first and renamed;
//! - `running/NAME.json`: leases that have begun; if a mover finds some when it starts, the mover
//!   before it was killed, and their results report that;
//! - `results/NAME.json`: the journal: the result of each lease, with the checksums of ranges. It
//!   stays until the job is over, so that the coordinator can be replaced;
//! - `share.json`: the node's share of the job's connections and bandwidth ([`share`]); no lease
//!   begins without it;
//! - `last`: exists once no lease waits on any node (drain mode). Until then a lease leaves
//!   connections that it does not need at its end to other leases;
//! - `status.json`: written twice a second, and when a lease ends: the progress of each, and the
//!   bytes of each source address;
//! - `lock`: held as long as the mover lives. A second mover finds it held, and ends.
//!
//! A mover without work ends after a while. It answers no requests and trusts no network: anybody
//! who can write to the folder can copy files with the user's credentials. So the folder is
//! private, and one that belongs to another user, or that others can write to, is refused.

pub(crate) mod lease;
mod share;
mod take_over;
#[cfg(test)]
mod tests;
mod work;

use crate::client::Client;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hither_core::error::{Error, ErrorKind, Result};
use hither_store::open_private_directory;
use hither_transfer::CopyProgress;
use hither_transport::SourceTraffic;
use lease::{Lease, LeaseResult};
use serde_json::json;
use share::{LeaseLimits, Share, SharedLimits};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{debug, warn};
use work::MadeDirectories;

/// The file of the node's share.
const SHARE: &str = "share.json";
/// The file that says that no lease waits.
const LAST: &str = "last";
/// The interval of polls of the inbox: small compared with the seconds that a lease takes.
const POLL: Duration = Duration::from_millis(50);
/// The interval at which the status is written.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);
/// The largest lease that is read, in bytes: 10,000 names of the longest kind.
const MAX_LEASE_BYTES: u64 = 64 << 20;
/// The largest number of leases in progress: each has workers of its own.
const MAX_RUNNING: usize = 64;

impl Client {
    /// Carries out the leases that arrive in `folder`, until none has arrived for `idle`. Returns
    /// at once if another mover does so.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Local`] if the folder cannot be used. Errors of a lease are in its result.
    pub async fn run_mover(&self, folder: &Path, idle: Duration) -> Result<()> {
        let Some(folder) = MoverFolder::open(folder)? else { return Ok(()) };
        let made = MadeDirectories::default();
        let mut running = FuturesUnordered::new();
        let mut under_way = BTreeMap::new();
        let mut limits = SharedLimits::default();
        let mut worked = Instant::now();
        let mut status_at = worked;
        loop {
            limits.set(folder.share()?, self);
            let room = if limits.share().is_some() { MAX_RUNNING - running.len() } else { 0 };
            let begun = folder.waiting(room)?;
            let leases = under_way.len() + begun.len();
            for name in begun {
                let lease = Arc::new(LeaseUnderWay::new(limits.for_lease(leases)));
                under_way.insert(name.clone(), Arc::clone(&lease));
                running.push(self.run_lease(&folder, name, lease, &made));
            }
            limits.divide(under_way.values().map(|lease| &lease.limits));
            let has_last = folder.path.join(LAST).exists();
            under_way.values().for_each(|lease| lease.limits.control.set_part(!has_last));
            if !running.is_empty() {
                worked = Instant::now();
            } else if worked.elapsed() >= idle {
                return Ok(());
            } else if worked.elapsed() >= share::IDLE && limits.share().is_some() {
                folder.end_share();
            }
            tokio::select! {
                Some((name, result)) = running.next(), if !running.is_empty() => {
                    under_way.remove(&name);
                    if result.is_taken_back() {
                        folder.end_share();
                    }
                    // The status contains the lease's bytes before its result appears.
                    folder.write_status(&under_way, &self.source_traffic())?;
                    folder.end(&name, &result)?;
                }
                () = tokio::time::sleep(POLL) => {}
            }
            if Instant::now() >= status_at {
                status_at = Instant::now() + STATUS_INTERVAL;
                folder.write_status(&under_way, &self.source_traffic())?;
            }
        }
    }

    /// Carries out a lease that has begun.
    async fn run_lease(
        &self,
        folder: &MoverFolder,
        name: String,
        lease: Arc<LeaseUnderWay>,
        made: &MadeDirectories,
    ) -> (String, LeaseResult) {
        let LeaseUnderWay { limits, progress } = &*lease;
        let result = match folder.begin(&name) {
            Ok(lease) => self.carry_out(&lease, limits, made, progress).await,
            Err(error) => LeaseResult::failed(&error),
        };
        let bytes_arrived = progress.figures().bytes_arrived;
        (name, LeaseResult { bytes_arrived, ..result })
    }
}

/// A lease that is being carried out.
struct LeaseUnderWay {
    limits: LeaseLimits,
    progress: Arc<CopyProgress>,
}

impl LeaseUnderWay {
    fn new(limits: LeaseLimits) -> Self {
        Self { limits, progress: Arc::default() }
    }
}

/// The folder of a mover.
struct MoverFolder {
    path: PathBuf,
    _lock: File,
}

impl MoverFolder {
    /// Opens the folder, which is made if it is not there; none if another mover has it.
    fn open(path: &Path) -> Result<Option<Self>> {
        for part in ["", "inbox", "running", "results"] {
            open_private_directory("the folder of a mover", &path.join(part))?;
        }
        let lock = path.join("lock");
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&lock);
        let file = opened.map_err(|error| failed(&lock, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(&lock, error)),
        }
        let folder = Self { path: path.to_owned(), _lock: file };
        if !folder.has_new_share() {
            folder.end_share();
        }
        let what = "the mover was killed while it carried out this lease";
        let killed = LeaseResult::failed(&Error::new(ErrorKind::Cancelled, what));
        for name in folder.names("running")? {
            warn!(lease = name, "the mover before this one was killed");
            folder.end(&name, &killed)?;
        }
        Ok(Some(folder))
    }

    /// The leases in the inbox, `max` at the most, in the order of their names.
    fn waiting(&self, max: usize) -> Result<Vec<String>> {
        let mut begun = Vec::new();
        for name in self.names("inbox")?.into_iter().take(max) {
            let from = self.file("inbox", &name);
            let renamed = std::fs::rename(&from, self.file("running", &name));
            if was_there(renamed).map_err(|error| failed(&from, error))? {
                begun.push(name);
            }
        }
        Ok(begun)
    }

    fn begin(&self, name: &str) -> Result<Lease> {
        use std::io::Read;
        let path = self.file("running", name);
        let mut text = String::new();
        let file = File::open(&path).map_err(|error| failed(&path, error))?;
        let read = file.take(MAX_LEASE_BYTES).read_to_string(&mut text);
        read.map_err(|error| failed(&path, error))?;
        serde_json::from_str(&text).map_err(|error| {
            let what = format!("{} is not a lease of this version", path.display());
            Error::new(ErrorKind::Invalid, what).with_source(error)
        })
    }

    fn end(&self, name: &str, result: &LeaseResult) -> Result<()> {
        debug!(lease = name, ?result, "lease ended");
        let text = serde_json::to_vec(result).unwrap_or_default();
        self.write(&self.file("results", name), &text)?;
        let path = self.file("running", name);
        was_there(std::fs::remove_file(&path)).map_err(|error| failed(&path, error))?;
        Ok(())
    }

    /// The share of this node; none if there is no readable file.
    fn share(&self) -> Result<Option<Share>> {
        let path = self.path.join(SHARE);
        match std::fs::read(&path) {
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, error)),
        }
    }

    /// Returns true if there is a share that is not left over from an earlier mover.
    fn has_new_share(&self) -> bool {
        let written = std::fs::metadata(self.path.join(SHARE)).and_then(|it| it.modified());
        let age = written.ok().and_then(|written| written.elapsed().ok());
        age.is_some_and(|age| age < share::IDLE)
    }

    /// Ends the share, if there is one.
    fn end_share(&self) {
        drop(std::fs::remove_file(self.path.join(SHARE)));
    }

    fn write_status(
        &self,
        under_way: &BTreeMap<String, Arc<LeaseUnderWay>>,
        traffic: &[SourceTraffic],
    ) -> Result<()> {
        let done =
            |(name, it): (&String, &Arc<LeaseUnderWay>)| (name.clone(), it.progress.figures());
        let leases: BTreeMap<_, _> =
            under_way.iter().map(done).map(|(name, it)| (name, it.bytes_arrived)).collect();
        let moved = |it: &SourceTraffic| (it.source.clone(), it.bytes_received + it.bytes_sent);
        let sources: BTreeMap<_, _> = traffic.iter().map(moved).collect();
        let status = json!({ "process": std::process::id(), "leases": leases, "sources": sources });
        self.write(&self.path.join("status.json"), status.to_string().as_bytes())
    }

    /// Writes a file in one step.
    fn write(&self, path: &Path, text: &[u8]) -> Result<()> {
        let aside = self.path.join("writing");
        let written = std::fs::write(&aside, text).and_then(|()| std::fs::rename(&aside, path));
        written.map_err(|error| failed(path, error))
    }

    /// The leases with a file in this part of the folder.
    fn names(&self, part: &str) -> Result<Vec<String>> {
        let path = self.path.join(part);
        let entries = std::fs::read_dir(&path).map_err(|error| failed(&path, error))?;
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.ok()?.file_name().to_str()?.strip_suffix(".json").map(str::to_owned)
        };
        let mut names: Vec<_> = entries.filter_map(name).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn file(&self, part: &str, name: &str) -> PathBuf {
        self.path.join(part).join(format!("{name}.json"))
    }
}

/// Returns false for a file that did not exist: the files of a job that is over are removed while
/// its mover still runs.
fn was_there(done: std::io::Result<()>) -> std::io::Result<bool> {
    match done {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        done => done.map(|()| true),
    }
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    let what = format!("the mover cannot use {}", path.display());
    Error::new(ErrorKind::Local, what).with_source(error)
}
