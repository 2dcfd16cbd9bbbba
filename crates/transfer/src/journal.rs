//! Journal of a job, from which an interrupted copy resumes: a file of records, appended to, one
//! line each.
//!
//! A job is known by its sources and its destination as they were given; the same command finds the
//! same journal. A record is `CRC JSON`: a line with a wrong checksum, such as the last one of a
//! process that was killed while writing, ends the reading, and writing continues from there.
//! Records:
//!
//! - `begin`: the job, and whether the destination was a directory that existed, because that
//!   decides the names of targets, and the first attempt may have made it;
//! - `file`: a file is being copied: its version, and the token of its partial file (a name in the
//!   target's directory) or upload (the server's id). It makes earlier blocks of that file void;
//! - `part`: that token has changed;
//! - `version`: more is known about the version: the tags of further replicas, a checksum;
//! - `block`: a block was written, with its crc32c;
//! - `done`: the file has its final name; the version of the target then;
//! - `forget`: no file of that directory is known to be done: one may have replaced another.
//!
//! The journal is not synced. Killing the process loses no written bytes, because the system has
//! them. A crash of the system may lose any part of journal or data, so every block is read and
//! compared before it is believed.
//!
//! Two processes must not do the same job at once: the journal is locked for as long as it is open.
//!
//! A job does not need a journal. Where the store cannot be written (a full disk, no permission),
//! the job continues without a journal, or without further records, and a notice says so. Only an
//! existing journal that cannot be used is an error, because it may decide the names of targets.

use crate::file::version::FileVersion;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::storage::parent;
use hither_core::sync::lock;
use hither_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tracing::{debug, warn};

/// A longer journal is not one of ours: a hundred bytes a block make ten thousand terabytes of
/// this.
const MAX_BYTES: u64 = 4 << 30;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Record {
    Begin {
        job: String,
        into: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    File {
        target: String,
        version: FileVersion,
        part: Option<String>,
    },
    Part {
        target: String,
        part: Option<String>,
    },
    Version {
        target: String,
        version: FileVersion,
    },
    Block {
        target: String,
        at: u64,
        bytes: u64,
        crc32c: String,
    },
    Done {
        target: String,
        version: FileVersion,
        seen: FileVersion,
    },
    Forget {
        directory: String,
    },
}

/// Records of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The version of the source to which the other records refer.
    pub(crate) version: FileVersion,
    /// The token of its partial file or upload.
    pub(crate) part: Option<String>,
    /// Blocks that were written, by their start: length and crc32c.
    pub(crate) blocks: BTreeMap<u64, (u64, Checksum)>,
    /// FileVersion of the target when the file was complete.
    pub(crate) done: Option<FileVersion>,
}

impl Known {
    /// Returns true if this version of the source was copied to the version that is `seen` at the
    /// target.
    pub(crate) fn is_done(&self, version: &FileVersion, seen: &FileVersion) -> bool {
        self.done
            .as_ref()
            .is_some_and(|done| self.version.is_surely(version) && done.is_surely(seen))
    }
}

/// The journal of one job.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    known: Mutex<HashMap<String, Known>>,
    /// The reason why recording has ended.
    write_error: Mutex<Option<Error>>,
    into: Option<bool>,
    /// The number of the job until it is done; none in journals of older versions.
    id: Option<u64>,
}

impl Journal {
    /// Opens the journal of `job` in `folder`, which is made if it is not there. Returns none
    /// if there is no journal and none can be made, which `notices` say.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Local`] if another process is at the same job, and others if there may be a
    /// journal that cannot be used.
    pub(crate) fn open(
        folder: &Path,
        job: &str,
        notices: &mut Vec<String>,
    ) -> Result<Option<Self>> {
        let path = folder.join(format!("{}.journal", short_name(job)));
        let made = std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error));
        match made.and_then(|()| Self::open_at(path.clone(), job)) {
            Err(error) if is_missing(&path) => {
                notices.push(without(&error));
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    fn open_at(path: PathBuf, job: &str) -> Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| failed(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::new(
                    ErrorKind::Local,
                    format!(
                        "another process is running the same copy ({} is locked)",
                        path.display()
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&path, &error)),
        }
        let mut text = Vec::new();
        let read = (&mut file).take(MAX_BYTES).read_to_end(&mut text);
        read.map_err(|error| failed(&path, &error))?;
        let Replayed { known, began, valid_bytes } = replay(&text, job);
        let (into, id) = began.unzip();
        let id = id.unwrap_or_else(|| Some(RandomState::new().hash_one(job)));
        debug!(
            journal = %path.display(),
            files = known.len(),
            valid_bytes,
            ignored_bytes = text.len() as u64 - valid_bytes,
            "journal replayed"
        );
        let cut = file.set_len(valid_bytes).and_then(|()| file.seek(SeekFrom::Start(valid_bytes)));
        cut.map_err(|error| failed(&path, &error))?;
        let file = Mutex::new(file);
        Ok(Self { path, file, known: Mutex::new(known), write_error: Mutex::default(), into, id })
    }

    /// Returns true if the destination was an existing directory when the job began; none if the
    /// job begins now.
    pub(crate) fn goes_into(&self) -> Option<bool> {
        self.into
    }

    /// The job as it is part of the names of partial files. It differs from that of the same
    /// command with another journal, or without one.
    pub(crate) fn name_of(journal: Option<&Self>, job: &str) -> String {
        let id = journal.map_or_else(|| Some(RandomState::new().hash_one(job)), |it| it.id);
        id.map_or_else(|| job.to_owned(), |id| format!("{job}\n{id:x}"))
    }

    /// Takes the records of a file, by its target's name.
    pub(crate) fn take(&self, target: &str) -> Option<Known> {
        lock(&self.known).remove(target)
    }

    /// Puts the records of a file back, for another attempt.
    pub(crate) fn put_back(&self, target: String, known: Known) {
        lock(&self.known).insert(target, known);
    }

    /// Drops the records of files that are done.
    pub(crate) fn forget_done(&self) {
        lock(&self.known).retain(|_, known| known.done.is_none());
    }

    /// Records that files of a directory of the target have to be copied again.
    pub(crate) fn forget(&self, directory: &str) {
        self.append(&Record::Forget { directory: directory.to_owned() });
    }

    /// As [`Journal::take`], but the records stay for later callers.
    pub(crate) fn known(&self, target: &str) -> Option<Known> {
        lock(&self.known).get(target).cloned()
    }

    /// Records that the job begins. Returns none if that cannot be recorded, which `notices` say.
    pub(crate) fn begin(self, job: &str, into: bool, notices: &mut Vec<String>) -> Option<Self> {
        self.append(&Record::Begin { job: job.to_owned(), into, id: self.id });
        let Some(error) = self.write_error() else { return Some(self) };
        notices.push(without(&error));
        self.remove();
        None
    }

    pub(crate) fn file(&self, target: &str, version: &FileVersion, part: Option<&str>) {
        let target = target.to_owned();
        let part = part.map(str::to_owned);
        self.append(&Record::File { target, version: version.clone(), part });
    }

    /// Records the new token of a partial file or upload.
    pub(crate) fn part(&self, target: &str, part: Option<&str>) {
        self.append(&Record::Part { target: target.to_owned(), part: part.map(str::to_owned) });
    }

    /// Records new properties of the version of the file.
    pub(crate) fn version(&self, target: &str, version: &FileVersion) {
        let version = version.clone();
        self.append(&Record::Version { target: target.to_owned(), version });
    }

    pub(crate) fn block(&self, target: &str, at: u64, bytes: u64, crc32c: &Checksum) {
        let target = target.to_owned();
        let crc32c = crc32c.hex();
        self.append(&Record::Block { target, at, bytes, crc32c });
    }

    pub(crate) fn done(&self, target: &str, version: &FileVersion, seen: &FileVersion) {
        let version = version.clone();
        let seen = seen.clone();
        self.append(&Record::Done { target: target.to_owned(), version, seen });
    }

    /// Records several files that have their final names: targets, versions of the sources, and
    /// versions of the targets.
    pub(crate) fn done_together(
        &self,
        files: impl Iterator<Item = (String, FileVersion, FileVersion)>,
    ) {
        let records = files.map(|(target, version, seen)| Record::Done { target, version, seen });
        self.write(records.map(|record| line(&record)).collect::<Result<Vec<_>>>());
    }

    /// The reason why recording has ended, if it has.
    pub(crate) fn write_error(&self) -> Option<Error> {
        lock(&self.write_error).clone()
    }

    /// Removes the journal, because the job is done.
    pub(crate) fn remove(self) {
        // A journal that stays records that everything is done, which is true.
        drop(std::fs::remove_file(&self.path));
    }

    fn append(&self, record: &Record) {
        self.write(line(record).map(|line| vec![line]));
    }

    /// Writes lines, unless an earlier write failed: lines behind a torn one are not read.
    fn write(&self, lines: Result<Vec<Vec<u8>>>) {
        let mut write_error = lock(&self.write_error);
        if write_error.is_some() {
            return;
        }
        let written = lines.and_then(|lines| {
            let written = lock(&self.file).write_all(&lines.concat());
            written.map_err(|error| failed(&self.path, &error))
        });
        if let Err(error) = written {
            warn!(%error, "no more records are kept of this copy");
            *write_error = Some(error);
        }
    }
}

/// Returns true if there is surely nothing at `path`.
fn is_missing(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn without(error: &Error) -> String {
    format!("{error}: this copy goes on without a journal and cannot be resumed")
}

fn line(record: &Record) -> Result<Vec<u8>> {
    let json = serde_json::to_string(record).map_err(|error| {
        Error::new(ErrorKind::Local, "cannot write a record of the journal").with_source(error)
    })?;
    let sum = Hasher::of(Algorithm::Crc32c, json.as_bytes()).hex();
    Ok(format!("{sum} {json}\n").into_bytes())
}

fn parse(line: &[u8]) -> Option<Record> {
    let (sum, json) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    if Hasher::of(Algorithm::Crc32c, json.as_bytes()).hex() != sum {
        return None;
    }
    serde_json::from_str(json).ok()
}

/// The content of a journal.
#[derive(Debug, Default)]
struct Replayed {
    known: HashMap<String, Known>,
    /// The destination was an existing directory when the job began; the number of the run.
    began: Option<(bool, Option<u64>)>,
    valid_bytes: u64,
}

/// Replays the records. A journal of another job is as good as empty.
fn replay(text: &[u8], job: &str) -> Replayed {
    let mut known: HashMap<String, Known> = HashMap::new();
    let mut began = None;
    let mut valid_bytes = 0;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let Some(record) = line.strip_suffix(b"\n").and_then(parse) else { break };
        match record {
            Record::Begin { job: of, into, id } if of == job => began = Some((into, id)),
            Record::Begin { .. } => break,
            Record::File { target, version, part } => {
                let fresh = Known { version, part, ..Known::default() };
                known.insert(target, fresh);
            }
            Record::Part { target, part } => {
                if let Some(file) = known.get_mut(&target) {
                    file.part = part;
                }
            }
            Record::Version { target, version } => {
                if let Some(file) = known.get_mut(&target) {
                    file.version = version;
                }
            }
            Record::Block { target, at, bytes, crc32c } => {
                let sum = Checksum::from_hex(Algorithm::Crc32c, &crc32c);
                if let (Some(file), Ok(sum)) = (known.get_mut(&target), sum) {
                    file.blocks.insert(at, (bytes, sum));
                }
            }
            Record::Done { target, version, seen } => {
                let done = Known { version, done: Some(seen), ..Known::default() };
                known.insert(target, done);
            }
            Record::Forget { directory } => {
                known.retain(|target, it| it.done.is_none() || parent(target) != directory);
            }
        }
        if began.is_none() {
            break;
        }
        valid_bytes += line.len() as u64;
    }
    match began {
        Some(_) => Replayed { known, began, valid_bytes },
        None => Replayed::default(),
    }
}

/// Sixteen digits that identify a job. A collision is noticed, because the journal contains the
/// job.
pub(crate) fn short_name(job: &str) -> String {
    let mut name = Hasher::of(Algorithm::Sha256, job.as_bytes()).hex();
    name.truncate(16);
    name
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    let kind = ErrorKind::of_local(error);
    Error::new(kind, format!("journal {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(size: u64) -> FileVersion {
        FileVersion { size: Some(size), ..FileVersion::default() }
    }

    fn open(folder: &Path) -> Journal {
        Journal::open(folder, "job", &mut Vec::new()).unwrap().unwrap()
    }

    fn sum() -> Checksum {
        Hasher::of(Algorithm::Crc32c, b"block")
    }

    fn written(folder: &Path) -> PathBuf {
        let journal = open(folder);
        assert_eq!(journal.goes_into(), None);
        let journal = journal.begin("job", true, &mut Vec::new()).unwrap();
        journal.file("a", &version(9), Some(".a.first"));
        journal.block("a", 0, 5, &sum());
        journal.part("a", Some(".a.part"));
        journal.file("b", &version(3), None);
        journal.done("b", &version(3), &version(3));
        journal.path
    }

    #[test]
    fn a_journal_is_read_by_the_next_attempt() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path());
        let journal = open(folder.path());
        assert_eq!(journal.goes_into(), Some(true));
        let a = journal.take("a").unwrap();
        assert_eq!((a.version, a.part.as_deref()), (version(9), Some(".a.part")));
        assert_eq!(a.blocks, BTreeMap::from([(0, (5, sum()))]));
        assert_eq!(journal.take("b").unwrap().done, Some(version(3)));
        assert_eq!(journal.take("a"), None);
    }

    #[test]
    fn files_of_a_directory_are_not_done_once_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let journal = open(folder.path()).begin("job", true, &mut Vec::new()).unwrap();
        for target in ["/d/a", "/d/b/c", "/d/e"] {
            journal.done(target, &version(3), &version(3));
        }
        journal.file("/d/f", &version(9), Some(".f.part"));
        journal.forget("/d");
        journal.done("/d/e", &version(3), &version(3));
        drop(journal);
        let journal = open(folder.path());
        let done = |target| journal.take(target).map(|known| known.done.is_some());
        let expected = [None, Some(true), Some(true), Some(false)];
        assert_eq!(["/d/a", "/d/b/c", "/d/e", "/d/f"].map(done), expected);
    }

    #[test]
    fn an_incomplete_last_record_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = open(folder.path());
            if journal.goes_into().is_none() {
                journal = journal.begin("job", true, &mut Vec::new()).unwrap();
            }
            journal.done("c", &version(1), &version(1));
            drop(journal);
            let journal = open(folder.path());
            assert_eq!(journal.goes_into(), Some(true), "cut at {cut}");
            assert!(journal.take("c").is_some(), "cut at {cut}");
        }
    }

    #[test]
    fn a_new_version_invalidates_old_blocks() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path());
        open(folder.path()).file("a", &version(8), None);
        let a = open(folder.path()).take("a").unwrap();
        assert_eq!((a.version, a.blocks.len()), (version(8), 0));
    }

    #[test]
    fn the_journal_of_another_copy_counts_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        let other = folder.path().join(format!("{}.journal", short_name("other")));
        std::fs::rename(path, other).unwrap();
        let journal = Journal::open(folder.path(), "other", &mut Vec::new()).unwrap().unwrap();
        assert!(journal.goes_into().is_none() && journal.take("a").is_none());
    }

    #[test]
    fn one_process_at_a_time_can_open_the_journal() {
        let folder = tempfile::tempdir().unwrap();
        let _first = open(folder.path());
        let second = Journal::open(folder.path(), "job", &mut Vec::new()).unwrap_err();
        assert!(second.to_string().contains("another process"), "{second}");
    }

    #[test]
    fn a_job_goes_on_without_a_journal_unless_there_may_be_one() {
        let folder = tempfile::tempdir().unwrap();
        // No directory can be made in one that is none.
        let none = Path::new("/dev/null/store");
        let refused = Journal::open(none, "job", &mut Vec::new()).unwrap_err();
        assert!(refused.to_string().contains("/dev/null/store"), "{refused}");
        let mut notices = Vec::new();
        assert!(Journal::open(Path::new("/proc/store"), "job", &mut notices).unwrap().is_none());
        assert!(notices[0].contains("journal /proc/store: "), "{notices:?}");
        let path = written(folder.path());
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let refused = Journal::open(folder.path(), "job", &mut notices).unwrap_err();
        assert!(refused.to_string().contains(&*path.to_string_lossy()), "{refused}");
    }

    #[test]
    fn a_journal_that_cannot_be_written_ends_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let full = || Mutex::new(OpenOptions::new().write(true).open("/dev/full").unwrap());
        let path = written(folder.path());
        let journal = Journal { file: full(), ..open(folder.path()) };
        journal.done("c", &version(1), &version(1));
        assert_eq!(journal.write_error().unwrap().kind(), ErrorKind::NoSpace);
        let journal = Journal { file: Mutex::new(File::open("/dev/null").unwrap()), ..journal };
        journal.done("d", &version(1), &version(1));
        let write_error = journal.write_error().unwrap().to_string();
        assert!(write_error.contains(&*path.to_string_lossy()) && write_error.contains("space"));
        let mut notices = Vec::new();
        let other = Journal::open(folder.path(), "other", &mut notices).unwrap().unwrap();
        assert!(Journal { file: full(), ..other }.begin("other", true, &mut notices).is_none());
        assert!(notices[0].contains("cannot be resumed"), "{notices:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
