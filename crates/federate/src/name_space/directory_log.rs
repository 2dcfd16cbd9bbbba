//! The directories that endpoints have listed, on disk.
//!
//! A federation that was started again, as after a reboot, cannot tell a disk that is not mounted
//! from a directory that was never there. So a directory that an endpoint lists for the first time
//! is appended to a file before a client gets the listing. Federations with the same state folder
//! share the file, behind a lock; a record holds for the endpoint of the same name, URL and paths.
//! A file that has grown to [`MAX_BYTES`] is replaced by one with the latest record of each
//! directory. If those are too many, the deepest ones are left out: where a disk is not mounted,
//! the directories above them are missing as well.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::warn;

const FILE: &str = "federated-directories.jsonl";
const LOCK: &str = "federated-directories.lock";
/// The size from which on the file is replaced: some 30,000 directories.
const MAX_BYTES: u64 = 4 << 20;

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
}

impl DirectoryLog {
    /// The file in `folder`, by a clock that was at `now` at the time `wall`.
    pub(super) fn new(folder: PathBuf, kept: Duration, now: Duration, wall: SystemTime) -> Self {
        let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { folder, began: wall.saturating_sub(now), kept, has_failed: AtomicBool::new(false) }
    }

    /// The directories in the file, each with the time until which it counts.
    pub(super) fn load(&self, now: Duration) -> Vec<(ListedDirectory, Duration)> {
        let seen = self.attempt(|| {
            let _lock = self.lock()?;
            let seen = self.read(now)?;
            self.replace(&seen)?;
            Ok(seen)
        });
        let until = |seen: u64| {
            (Duration::from_secs(seen) + self.kept).saturating_sub(self.began).min(now + self.kept)
        };
        seen.unwrap_or_default().into_iter().map(|(it, seen)| (it, until(seen))).collect()
    }

    /// Appends directories that were listed now.
    pub(super) fn listed(&self, directories: Vec<ListedDirectory>, now: Duration) {
        self.append(directories, Some((self.began + now).as_secs()), now);
    }

    /// Appends that a client has removed these directories, with everything below them.
    pub(super) fn removed(&self, directories: Vec<ListedDirectory>, now: Duration) {
        self.append(directories, None, now);
    }

    fn append(&self, directories: Vec<ListedDirectory>, seen: Option<u64>, now: Duration) {
        let lines = directories.into_iter().map(|directory| Line { directory, seen });
        self.attempt(|| {
            let text = text(lines)?;
            let _lock = self.lock()?;
            let path = self.folder.join(FILE);
            if fs::metadata(&path).is_ok_and(|it| it.len() > MAX_BYTES) {
                self.replace(&self.read(now)?)?;
            }
            let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
            file.write_all(&text)
        });
    }

    /// The result of work on the file. A failure is logged once: what is in memory still counts.
    fn attempt<T>(&self, work: impl FnOnce() -> io::Result<T>) -> Option<T> {
        let error = match work() {
            Ok(done) => return Some(done),
            Err(error) => error,
        };
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            let folder = self.folder.display();
            warn!(
                %error,
                "cannot write to {folder}: a directory that an endpoint loses while the federation is \
                 stopped will not be missed"
            );
        }
        None
    }

    /// Excludes other federations until dropped.
    fn lock(&self) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        let open = OpenOptions::new().create(true).append(true).open(self.folder.join(LOCK))?;
        open.lock()?;
        Ok(open)
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
        fs::rename(new, self.folder.join(FILE))
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

    fn log(folder: &std::path::Path, wall: Duration) -> DirectoryLog {
        DirectoryLog::new(folder.to_owned(), WEEK, Duration::ZERO, UNIX_EPOCH + wall)
    }

    #[test]
    fn directories_outlive_the_federation_for_a_week_unless_they_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("state");
        let day = Duration::from_hours(24);
        let first = log(&folder, day * 100);
        assert_eq!(first.load(Duration::ZERO), []);
        let directories = ["a", "x", "x/a", "x/a/deep", "x/ab"].map(|path| at("e", path));
        first.listed([&directories[..], &[at("f", "x/a")]].concat(), Duration::ZERO);
        first.listed(vec![at("e", "a")], day);
        first.removed(vec![at("e", "x/a")], day);
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

    #[test]
    fn the_file_keeps_what_is_near_the_root_when_it_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path(), WEEK * 2);
        let deep = (0..20_000).map(|number| at("e", &format!("x/y/{number}/{}", "n".repeat(90))));
        log.listed(deep.collect(), Duration::ZERO);
        log.listed(vec![at("e", "x"), at("e", "x/y")], Duration::ZERO);
        log.listed(vec![at("e", "z")], Duration::ZERO);
        let size = fs::metadata(folder.path().join(FILE)).unwrap().len();
        assert!((MAX_BYTES / 4..MAX_BYTES).contains(&size), "{size} bytes");
        let kept = log.load(Duration::ZERO);
        assert!(["x", "x/y", "z"].iter().all(|path| kept.iter().any(|(it, _)| it.path == *path)));
    }
}
