//! The two ends of a history, and a replica of its source: a folder, a server, or a federation.

use crate::federation::Federated;
use crate::history::{Counterpart, End, FilePlan, History};
use hither_core::storage::is_partial;
use hither_testkit::mock_http::webdav::{
    ChangeFault, MockWebDavServer, OF_ANOTHER_CLIENT, Protocol, ReadFault, WebDavFault,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Files by their paths in the tree.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// The end of the name of a file of which another endpoint of the federation has other bytes.
pub(crate) const OF_OTHER_ENDPOINT: &str = " of the other endpoint";

/// Seconds since 1970 of the files of a job.
const NOW: u64 = 1_700_000_000;
/// The age of the files of a source, in seconds.
const AGE: u64 = 10_000;
/// The age of files that a source has replaced since.
const OLD_AGE: u64 = 20_000;
/// The age of files that were copied from a source.
const COPY_AGE: u64 = 5_000;

/// Bytes that hardly agree with those of another `kind` anywhere.
pub(crate) fn content(kind: u64, size: usize) -> Vec<u8> {
    let mut state = (kind + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// An end that is there, with the directory `tree` that may be.
pub(crate) enum Place {
    Folder(PathBuf),
    Server(Box<MockWebDavServer>),
    Federation(Box<Federated>),
}

impl Place {
    /// An end with nothing in it; a folder is at `path`.
    fn new(end: &End, path: &Path, history: &History) -> Self {
        match end {
            End::Local => {
                fs::create_dir_all(path).unwrap();
                Self::Folder(path.to_owned())
            }
            End::Server(behaviour, faults) => {
                let server = MockWebDavServer::behaving(*behaviour, faults.clone());
                Self::Server(Box::new(server.unwrap()))
            }
            End::Federation(behaviour, faults) => {
                Self::Federation(Box::new(Federated::new(*behaviour, faults.clone(), history)))
            }
        }
    }

    /// The servers that have the files.
    pub(crate) fn servers(&self) -> Vec<&MockWebDavServer> {
        match self {
            Self::Folder(_) => Vec::new(),
            Self::Server(server) => vec![server],
            Self::Federation(federated) => federated.endpoints.iter().collect(),
        }
    }

    /// The endpoint of the object store that it is.
    pub(crate) fn store_endpoint(&self) -> Option<String> {
        let Self::Server(server) = self else { return None };
        (server.protocol() == Protocol::S3).then(|| server.origin())
    }

    /// The URL of a path in the tree.
    pub(crate) fn url(&self, path: &str) -> String {
        match self {
            Self::Folder(folder) => folder.join("tree").join(path).to_str().unwrap().to_owned(),
            Self::Server(server) => server.url_of(&format!("/d/tree/{path}")),
            Self::Federation(federated) => federated.url_of(&format!("/tree/{path}")),
        }
    }

    /// The URL of the tree itself.
    pub(crate) fn tree_url(&self) -> String {
        self.url("").trim_end_matches('/').to_owned()
    }

    fn store(&self, path: &str, bytes: &[u8], age: u64) {
        match self {
            Self::Folder(folder) => {
                let path = folder.join("tree").join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, bytes).unwrap();
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW - age);
                fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
            }
            Self::Server(server) => server.store_before(&format!("/d/tree/{path}"), bytes, age),
            Self::Federation(federated) => {
                let path = format!("/d/tree/{path}");
                federated.endpoint_of(&path).store_before(&path, bytes, age);
            }
        }
    }

    /// The files of the tree.
    pub(crate) fn files(&self) -> Files {
        let mut files = Files::new();
        if let Self::Folder(folder) = self {
            collect(&folder.join("tree"), "", &mut files);
        }
        for (path, bytes) in self.servers().into_iter().flat_map(MockWebDavServer::files) {
            let Some(path) = path.strip_prefix("/d/tree/") else { continue };
            let is_other = files.get(path).is_some_and(|it| *it != bytes);
            let other = if is_other { OF_OTHER_ENDPOINT } else { "" };
            files.insert(format!("{path}{other}"), bytes);
        }
        files
    }

    /// The faults that have happened, with the paths in the tree that they are about.
    pub(crate) fn happened(&self) -> Vec<(WebDavFault, String)> {
        let inside = |path: String| match path.strip_prefix("/d/tree") {
            Some(rest) => rest.trim_start_matches('/').to_owned(),
            None => path,
        };
        let happened = self.servers().into_iter().flat_map(MockWebDavServer::happened);
        happened.map(|(fault, path)| (fault, inside(path))).collect()
    }

    /// Versions that the files got amid the job by a fault, with their paths.
    pub(crate) fn replaced(&self) -> Vec<(String, Vec<u8>)> {
        let happened = self.happened().into_iter();
        happened
            .filter_map(|(fault, path)| match fault {
                WebDavFault::Read(ReadFault::Replaced(bytes)) => Some((path, bytes)),
                _ => None,
            })
            .collect()
    }

    /// Paths at which another client has made a file of [`OF_ANOTHER_CLIENT`].
    pub(crate) fn made_again(&self) -> Vec<String> {
        let again = WebDavFault::Change(ChangeFault::LostAndMadeAgain);
        let happened = self.happened().into_iter().filter(|(fault, _)| *fault == again);
        happened.map(|(_, path)| path.trim_end_matches('/').to_owned()).collect()
    }

    /// Paths of names that a listing has left out: none of them can be copied or removed.
    pub(crate) fn omitted(&self) -> Vec<String> {
        let happened = self.happened().into_iter();
        let omits = WebDavFault::Read(ReadFault::Omits);
        happened.filter(|(fault, _)| *fault == omits).map(|(_, path)| path).collect()
    }

    fn damage_partial_files(&self) {
        for (path, mut bytes) in self.files() {
            let middle = bytes.len() / 2;
            let rest = bytes.get_mut(middle..).unwrap_or_default();
            if is_partial(&path) && !rest.is_empty() {
                rest.fill(0);
                self.store(&path, &bytes, COPY_AGE);
            }
        }
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut Files) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{path}/"), files);
        } else {
            files.insert(path, fs::read(entry.path()).unwrap());
        }
    }
}

/// The ends of a history.
pub(crate) struct Ends {
    pub(crate) from: Place,
    pub(crate) to: Place,
    pub(crate) replica: Option<Place>,
}

impl Ends {
    pub(crate) fn new(history: &History, folder: &Path) -> Self {
        let place = |end: &End, name: &str| Place::new(end, &folder.join(name), history);
        let from = place(&history.from, "from");
        let to = place(&history.to, "to");
        let replica = history.replica.as_ref().map(|end| place(end, "replica"));
        for (number, file) in (0..).zip(&history.files) {
            from.store(&file.path, &content(number, file.size), AGE);
            // Where the verb has one end, it acts on the files of the source.
            let at_target =
                if history.verb.has_source() { file.at_target } else { Counterpart::Same };
            counterpart(&to, file, at_target, number, history);
            if let Some(replica) = &replica {
                counterpart(replica, file, file.at_replica, number, history);
            }
        }
        for (number, path) in (200..).zip(&history.extra) {
            to.store(path, &content(number, 10), OLD_AGE);
        }
        Self { from, to, replica }
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        [&self.from, &self.to].into_iter().chain(&self.replica)
    }

    /// Changes the ends between two runs.
    pub(crate) fn before_second(&self, history: &History) {
        let Some(second) = &history.second else { return };
        let servers = self.places().flat_map(Place::servers);
        servers.filter(|_| second.heals).for_each(MockWebDavServer::clear_faults);
        if second.damages_partial {
            self.to.damage_partial_files();
        }
        if let Some(file) = history.files.first().filter(|_| second.changes_source) {
            self.from.store(&file.path, &content(600, file.size + 13), AGE - 1_000);
        }
    }
}

/// Stores the counterpart of a file of the source.
fn counterpart(
    place: &Place,
    file: &FilePlan,
    counterpart: Counterpart,
    number: u64,
    history: &History,
) {
    match counterpart {
        Counterpart::Absent => {}
        Counterpart::Same => place.store(&file.path, &content(number, file.size), COPY_AGE),
        Counterpart::Other(size) => {
            // Without times, sizes alone tell files apart.
            let has_dates = [&history.from, &history.to].into_iter().all(End::has_dates);
            let is_same = size == file.size && (!has_dates || history.replica.is_some());
            let bytes = content(100 + number, size + usize::from(is_same));
            place.store(&file.path, &bytes, OLD_AGE);
        }
    }
}

/// Returns true if another client made this file.
pub(crate) fn is_of_another_client(bytes: &[u8]) -> bool {
    bytes == OF_ANOTHER_CLIENT
}
