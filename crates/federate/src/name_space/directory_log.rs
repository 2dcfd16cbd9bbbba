//! The directories that endpoints have listed, on disk.
//!
//! A federation that was started again, as after a reboot, cannot tell a disk that is not mounted
//! from a directory that was never there. So a directory that an endpoint lists for the first time
//! is appended to a file, and is on disk, before a client gets the listing: if a power loss took
//! the record, and the disk of that endpoint is not mounted afterwards, a listing without the
//! directory would look complete, and a sync could delete what is in it.
//!
//! Federations with the same state folder share the file, behind a lock; a record holds for the
//! endpoint of the same name, URL and paths. No request waits longer than [`WRITE_TIMEOUT`] for the
//! file. After [`LOCK_WAIT`] lines are appended without the lock, which the one that replaces the
//! file at that moment may lose. A federation has one thread that writes; the lines that arrive
//! meanwhile are written, and synced, together.
//!
//! A file that has grown to [`MAX_BYTES`] is replaced by one with the latest record of each
//! directory. If those are too many, the deepest ones are left out: where a disk is not mounted,
//! the directories above them are missing as well.

use hither_core::sync::lock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

const FILE: &str = "federated-directories.jsonl";
const LOCK: &str = "federated-directories.lock";
/// The size from which on the file is replaced: some 30,000 directories.
const MAX_BYTES: u64 = 4 << 20;
/// Lines that wait for a disk that does not respond, as many as a full file has; further ones are
/// dropped.
const MAX_PENDING: usize = 30_000;
/// Time after which lines are appended although another federation has the lock. It has it for as
/// long as it takes to read and to replace the file.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// Time between two attempts to get the lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);
/// Time for which a request waits until its lines are on disk.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);

/// A directory of an endpoint. The order is that of paths, each before those below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct ListedDirectory {
    /// The name of the endpoint.
    pub(super) endpoint: String,
    /// The name of its storage, which is its URL.
    pub(super) storage: String,
    /// The path in the federation.
    pub(super) path: String,
    /// The path in the storage.
    pub(super) target: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    directory: ListedDirectory,
    /// Seconds since 1970 at which it was listed; none if a client has removed it since.
    seen: Option<u64>,
}

/// Directories with the seconds since 1970 at which they were last listed.
type Seen = BTreeMap<ListedDirectory, u64>;

/// The file of a federation.
#[derive(Debug)]
pub(super) struct DirectoryLog {
    folder: PathBuf,
    /// The time since 1970 at which the federation's clock was at 0.
    began: Duration,
    /// Time for which records are kept.
    kept: Duration,
    has_failed: AtomicBool,
    /// Lines were appended without the lock.
    has_gone_on: AtomicBool,
    /// Lines that are not in the file yet.
    pending: Mutex<Vec<Line>>,
    /// Held by the thread that writes.
    writer: Arc<tokio::sync::Mutex<()>>,
}

impl DirectoryLog {
    /// The file in `folder`, by a clock that was at `now` at the time `wall`.
    pub(super) fn new(folder: PathBuf, kept: Duration, now: Duration, wall: SystemTime) -> Self {
        let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            folder,
            began: wall.saturating_sub(now),
            kept,
            has_failed: AtomicBool::default(),
            has_gone_on: AtomicBool::default(),
            pending: Mutex::default(),
            writer: Arc::default(),
        }
    }

    /// The directories in the file, each with the time until which it counts.
    pub(super) fn load(&self, now: Duration) -> Vec<(ListedDirectory, Duration)> {
        let seen = self.attempt(|| {
            let lock = self.lock()?;
            let seen = self.read(now)?;
            // Another federation that has the lock replaces the file when it is too large.
            lock.map_or(Ok(()), |_lock| self.replace(&seen))?;
            Ok(seen)
        });
        let until = |seen: u64| {
            (Duration::from_secs(seen) + self.kept).saturating_sub(self.began).min(now + self.kept)
        };
        seen.unwrap_or_default().into_iter().map(|(it, seen)| (it, until(seen))).collect()
    }

    /// Appends directories that were listed now.
    pub(super) async fn listed(self: &Arc<Self>, listed: Vec<ListedDirectory>, now: Duration) {
        self.append(listed, Some((self.began + now).as_secs()), now).await;
    }

    /// Appends that a client has removed these directories, with everything below them.
    pub(super) async fn removed(self: &Arc<Self>, removed: Vec<ListedDirectory>, now: Duration) {
        self.append(removed, None, now).await;
    }

    async fn append(
        self: &Arc<Self>,
        directories: Vec<ListedDirectory>,
        seen: Option<u64>,
        now: Duration,
    ) {
        {
            let mut pending = lock(&self.pending);
            if pending.len() < MAX_PENDING {
                pending.extend(directories.into_iter().map(|directory| Line { directory, seen }));
            }
        }
        if timeout(WRITE_TIMEOUT, self.write_pending(now)).await.is_err() {
            self.report(&io::Error::new(
                io::ErrorKind::TimedOut,
                format!("nothing was written within {} s", WRITE_TIMEOUT.as_secs()),
            ));
        }
    }

    /// Writes the lines that are pending, once no other thread of this federation does.
    async fn write_pending(self: &Arc<Self>, now: Duration) {
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        let late = Instant::now() + LOCK_WAIT;
        loop {
            let log = Arc::clone(self);
            let needs_lock = Instant::now() < late;
            // The thread has the writer's turn until it is done, also if nobody waits for it.
            let work = move || (log.write(needs_lock, now), writer);
            let Ok((is_done, back)) = tokio::task::spawn_blocking(work).await else { return };
            if is_done {
                return;
            }
            writer = back;
            sleep(LOCK_INTERVAL).await;
        }
    }

    /// Appends the lines that are pending. Returns false if that `needs_lock` and another
    /// federation has it.
    fn write(&self, needs_lock: bool, now: Duration) -> bool {
        if lock(&self.pending).is_empty() {
            return true;
        }
        let done = self.attempt(|| {
            let file_lock = self.lock()?;
            if needs_lock && file_lock.is_none() {
                return Ok(false);
            }
            // An empty line first: a crash or a full disk may have cut the last one.
            let mut lines = b"\n".to_vec();
            lines.extend(text(std::mem::take(&mut *lock(&self.pending)).into_iter())?);
            let path = self.folder.join(FILE);
            let is_large = || fs::metadata(&path).is_ok_and(|it| it.len() > MAX_BYTES);
            if file_lock.is_none() && !self.has_gone_on.swap(true, Ordering::Relaxed) {
                let folder = self.folder.display();
                warn!("another process keeps {folder}/{LOCK}: lines are appended without it");
            }
            if file_lock.is_some() && is_large() {
                self.replace(&self.read(now)?)?;
            }
            let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
            file.write_all(&lines)?;
            file.sync_data()?;
            Ok(true)
        });
        done.unwrap_or(true)
    }

    /// The result of work on the file. What is in memory still counts after a failure.
    fn attempt<T>(&self, work: impl FnOnce() -> io::Result<T>) -> Option<T> {
        work().map_err(|error| self.report(&error)).ok()
    }

    /// Logs a failure, once.
    fn report(&self, error: &io::Error) {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            let folder = self.folder.display();
            warn!(
                %error,
                "cannot write to {folder}: a directory that an endpoint loses while the federation is \
                 stopped will not be missed"
            );
        }
    }

    /// Excludes other federations until dropped; none if one of them has the lock.
    fn lock(&self) -> io::Result<Option<File>> {
        fs::create_dir_all(&self.folder)?;
        let open = OpenOptions::new().create(true).append(true).open(self.folder.join(LOCK))?;
        match open.try_lock() {
            Ok(()) => Ok(Some(open)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The directories in the file that still count.
    fn read(&self, now: Duration) -> io::Result<Seen> {
        let text = match fs::read(self.folder.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        let since = (self.began + now).saturating_sub(self.kept).as_secs();
        let mut all = Seen::new();
        // A line that a crash has cut is none.
        let lines = text.split(|byte| *byte == b'\n');
        for line in lines.filter_map(|line| serde_json::from_slice::<Line>(line).ok()) {
            let Line { directory, seen } = line;
            if let Some(seen) = seen {
                all.insert(directory, seen);
            } else {
                remove(&mut all, &directory);
            }
        }
        all.retain(|_, seen| *seen > since);
        Ok(all)
    }

    /// Writes a file of these directories in place of the old one, at most half as large as it may
    /// become.
    fn replace(&self, all: &Seen) -> io::Result<()> {
        let mut all: Vec<_> = all.iter().collect();
        all.sort_by_key(|(it, _)| it.path.matches('/').count());
        let mut kept = Vec::new();
        for (directory, seen) in all {
            let line = Line { directory: directory.clone(), seen: Some(*seen) };
            let line = text(std::iter::once(line))?;
            if (kept.len() + line.len()) as u64 > MAX_BYTES / 2 {
                break;
            }
            kept.extend(line);
        }
        let new = self.folder.join(format!("{FILE}.new"));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&kept)?;
        file.sync_all()?;
        fs::rename(new, self.folder.join(FILE))?;
        File::open(&self.folder)?.sync_all()
    }
}

fn text(lines: impl Iterator<Item = Line>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, &line)?;
        text.push(b'\n');
    }
    Ok(text)
}

/// Removes a directory of an endpoint and those below it.
fn remove(all: &mut Seen, gone: &ListedDirectory) {
    let is_below = |path: &str| {
        path.strip_prefix(&gone.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let first = ListedDirectory { target: String::new(), ..gone.clone() };
    let from = all.range(first..).map(|(it, _)| it);
    let same = from.take_while(|it| {
        it.endpoint == gone.endpoint
            && it.storage == gone.storage
            && it.path.starts_with(&gone.path)
    });
    let below: Vec<_> = same.filter(|it| is_below(&it.path)).cloned().collect();
    for it in below {
        all.remove(&it);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEEK: Duration = Duration::from_hours(7 * 24);

    fn at(endpoint: &str, path: &str) -> ListedDirectory {
        ListedDirectory {
            endpoint: endpoint.to_owned(),
            storage: "http://host/".to_owned(),
            path: path.to_owned(),
            target: path.to_owned(),
        }
    }

    fn log(folder: &std::path::Path, wall: Duration) -> Arc<DirectoryLog> {
        Arc::new(DirectoryLog::new(folder.to_owned(), WEEK, Duration::ZERO, UNIX_EPOCH + wall))
    }

    #[tokio::test(start_paused = true)]
    async fn directories_outlive_the_federation_for_a_week_unless_they_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("state");
        let day = Duration::from_hours(24);
        let first = log(&folder, day * 100);
        assert_eq!(first.load(Duration::ZERO), []);
        let directories = ["a", "x", "x/a", "x/a/deep", "x/ab"].map(|path| at("e", path));
        first.listed([&directories[..], &[at("f", "x/a")]].concat(), Duration::ZERO).await;
        first.listed(vec![at("e", "a")], day).await;
        first.removed(vec![at("e", "x/a")], day).await;
        let paths = |wall| {
            let log = log(&folder, day * wall);
            let found = log.load(Duration::ZERO);
            found
                .into_iter()
                .map(|(it, until)| (it.endpoint + " " + &it.path, until))
                .collect::<Vec<_>>()
        };
        let of = |name: &str, days| (name.to_owned(), day * days);
        // A line that was cut.
        fs::write(
            folder.join(FILE),
            [fs::read(folder.join(FILE)).unwrap(), b"{\"end".into()].concat(),
        )
        .unwrap();
        assert_eq!(paths(105), [of("e a", 3), of("e x", 2), of("e x/ab", 2), of("f x/a", 2)]);
        assert_eq!(paths(107), [of("e a", 1)]);
        // A clock that was set back.
        assert_eq!(paths(90), [of("e a", 7)]);
    }

    #[tokio::test(start_paused = true)]
    async fn lines_are_appended_without_a_lock_that_another_process_keeps() {
        let folder = tempfile::tempdir().unwrap();
        let other = File::create(folder.path().join(LOCK)).unwrap();
        other.try_lock().unwrap();
        let held = log(folder.path(), WEEK * 2);
        assert_eq!(held.load(Duration::ZERO), []);
        // A line that another one has cut.
        fs::write(folder.path().join(FILE), b"{\"end").unwrap();
        let began = Instant::now();
        held.listed(vec![at("e", "x"), at("e", "y")], Duration::ZERO).await;
        assert_eq!(began.elapsed().as_secs(), LOCK_WAIT.as_secs());
        held.removed(vec![at("e", "x")], Duration::ZERO).await;
        assert_eq!(held.load(Duration::ZERO), [(at("e", "y"), WEEK)]);
    }

    #[tokio::test(start_paused = true)]
    async fn lines_that_wait_for_the_writer_are_dropped_when_there_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path(), WEEK * 2);
        // A disk that does not respond.
        let stuck = Arc::clone(&log.writer).lock_owned().await;
        let many = (0..MAX_PENDING).map(|number| at("e", &number.to_string()));
        log.listed(many.collect(), Duration::ZERO).await;
        log.listed(vec![at("e", "last")], Duration::ZERO).await;
        assert!(log.has_failed.load(Ordering::Relaxed));
        drop(stuck);
        log.listed(vec![], Duration::ZERO).await;
        let kept = log.load(Duration::ZERO);
        assert!(kept.contains(&(at("e", "0"), WEEK)) && !kept.contains(&(at("e", "last"), WEEK)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_file_keeps_what_is_near_the_root_when_it_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path(), WEEK * 2);
        let deep = (0..20_000).map(|number| at("e", &format!("x/y/{number}/{}", "n".repeat(90))));
        log.listed(deep.collect(), Duration::ZERO).await;
        log.listed(vec![at("e", "x"), at("e", "x/y")], Duration::ZERO).await;
        log.listed(vec![at("e", "z")], Duration::ZERO).await;
        let size = fs::metadata(folder.path().join(FILE)).unwrap().len();
        assert!((MAX_BYTES / 4..MAX_BYTES).contains(&size), "{size} bytes");
        let kept = log.load(Duration::ZERO);
        assert!(["x", "x/y", "z"].iter().all(|path| kept.iter().any(|(it, _)| it.path == *path)));
    }
}
