//! A file that is replaced between any two requests of a job is read in one version, or the job
//! fails and says that it has changed.

use hither::{Client, ClientConfig, CopyProgress, Error, ErrorKind, RemoteFile};
use hither_testkit::mock_http::{
    Fault, FaultTrigger, Limit, MockHttpServer, OverLimit, ResponsePosition,
};
use hither_testkit::mock_xrootd::{self, BreakPoint, FaultStage, MockXrootdServer};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const SIZE: usize = 400_000;
/// More than a quarter of the cache.
const LARGE: u64 = 300_000;
const DATES: [&str; 2] = ["Sun, 22 Nov 2026 10:00:00 GMT", "Sun, 22 Nov 2026 11:00:00 GMT"];
const TAGS: [&str; 2] = ["\"first\"", "\"second\""];

/// The file, or the one that replaces it, which differs in every byte.
fn content(version: u8) -> Vec<u8> {
    static VERSIONS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
        let byte = |at: usize| (at * 7 + at / 251 * 3).to_le_bytes()[0];
        [0, 0xff].map(|flipped| (0..SIZE).map(|at| byte(at) ^ flipped).collect())
    });
    VERSIONS[usize::from(version)].clone()
}

enum Server {
    Http(MockHttpServer, [&'static str; 2]),
    S3(MockHttpServer),
    Xrootd(MockXrootdServer),
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http(_, TAGS) => "HTTP with entity tags",
            Self::Http(..) => "HTTP with dates",
            Self::S3(_) => "S3",
            Self::Xrootd(_) => "XRootD",
        })
    }
}

impl Server {
    fn all() -> [Self; 4] {
        let http = || MockHttpServer::start(content(0)).unwrap();
        let dated = http().with_fault(FaultTrigger::Always, Fault::Dated);
        dated.replace(content(0), DATES[0]);
        let single = Fault::Most { limit: Limit::Ranges(1), over: OverLimit::Whole };
        [
            Self::Http(http(), TAGS),
            Self::Http(dated, DATES),
            Self::S3(http().with_fault(FaultTrigger::Always, single)),
            Self::Xrootd(MockXrootdServer::start(content(0)).unwrap()),
        ]
    }

    fn url(&self) -> String {
        match self {
            Self::Http(server, _) => server.url(),
            Self::S3(_) => "s3://bucket/file".to_owned(),
            Self::Xrootd(server) => server.url(),
        }
    }

    fn requests(&self) -> usize {
        match self {
            Self::Http(server, _) | Self::S3(server) => server.log().len(),
            Self::Xrootd(server) => server.log().len(),
        }
    }

    /// Replaces the file before the next request but `requests`, and breaks off the response before
    /// that.
    fn replace_after(&self, requests: usize, breaks: bool) {
        let at = self.requests() + requests;
        match self {
            Self::Http(server, _) | Self::S3(server) => {
                let tag = match self {
                    Self::Http(_, tags) => tags[1],
                    _ => TAGS[1],
                };
                server.replace_at(at, content(1), tag);
                if breaks {
                    let half = Fault::Close(ResponsePosition::PartData(0));
                    server.add_fault(FaultTrigger::Nth(at - 1), half);
                }
            }
            Self::Xrootd(server) => {
                server.replace_at(at, content(1));
                if breaks {
                    let half = mock_xrootd::Fault::Close(BreakPoint::Answered(requests));
                    server.add_fault(FaultStage::Connection, FaultTrigger::Nth(0), half);
                }
            }
        }
    }

    fn client(&self, connections: usize, store: Option<&Path>) -> Client {
        let mut config = ClientConfig::default();
        config.transport.max_connections = connections;
        config.store = store.map(Path::to_owned);
        config.staleness = Duration::from_secs(3600);
        config.cache.budget_bytes = SIZE as u64;
        config.tree_cache.enabled = false;
        config.decode_threads = 1;
        config.read_ahead.block_bytes = 0;
        if let Self::S3(server) = self {
            let url = server.url();
            config.s3.access_key_id = Some("id".to_owned());
            config.s3.secret_access_key = Some(hither_auth::Secret::new("key"));
            config.s3.endpoint = Some(url.trim_end_matches("/data/file.root").to_owned());
        }
        Client::new(config).unwrap()
    }
}

/// The bytes of a job, with their offsets.
type Pieces = Vec<(usize, Vec<u8>)>;
type Result<T> = std::result::Result<T, Error>;
type Job = fn(&Client, &RemoteFile) -> Result<Pieces>;

fn small(client: &Client, file: &RemoteFile) -> Result<Pieces> {
    let mut pieces = Vec::new();
    for offset in [0, 150_000, 390_000] {
        let mut target = vec![0; 5_000];
        file.read_at(client, offset as u64, &mut target)?;
        pieces.push((offset, target));
    }
    Ok(pieces)
}

fn vectored(client: &Client, file: &RemoteFile) -> Result<Pieces> {
    let mut pieces = Vec::new();
    for first in [0, 100_000] {
        let ranges: Vec<_> = (0..40).map(|i| first + i * 2_000..first + i * 2_000 + 500).collect();
        let found = file.read_ranges(client, &ranges)?;
        let at = |offset: u64| usize::try_from(offset).unwrap();
        pieces.extend(ranges.iter().zip(found).map(|(range, it)| (at(range.start), it.to_vec())));
    }
    Ok(pieces)
}

fn large(client: &Client, file: &RemoteFile) -> Result<Pieces> {
    let mut pieces = Vec::new();
    for offset in [0, SIZE as u64 - LARGE] {
        let range = offset..offset + LARGE;
        let found = file.read_ranges(client, std::slice::from_ref(&range))?;
        pieces.push((usize::try_from(offset).unwrap(), found[0].to_vec()));
    }
    Ok(pieces)
}

fn streamed(client: &Client, file: &RemoteFile) -> Result<Pieces> {
    let mut all = Vec::new();
    file.stream(client, 0..SIZE as u64, |bytes| {
        all.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(vec![(0, all)])
}

fn mixed(client: &Client, file: &RemoteFile) -> Result<Pieces> {
    let parts = [large(client, file)?, small(client, file)?, streamed(client, file)?];
    Ok(parts.concat())
}

fn small_first(client: &Client, file: &RemoteFile) -> Result<Pieces> {
    let parts = [small(client, file)?, streamed(client, file)?, vectored(client, file)?];
    Ok(parts.concat())
}

fn copied(client: &Client, file: &RemoteFile) -> Result<Pieces> {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let mut options = client.copy_options();
    options.block_bytes = 64 << 10;
    let sources = [file.name()];
    let copy = client.copy(
        &sources,
        &[],
        target.to_str().unwrap(),
        options,
        Arc::new(CopyProgress::default()),
    );
    let summary = client.block_on(copy)?;
    match summary.failures.into_iter().next() {
        Some(failure) => Err(failure.error),
        None => Ok(vec![(0, std::fs::read(target).unwrap())]),
    }
}

const JOBS: [(&str, Job); 4] =
    [("vectored", vectored), ("mixed", mixed), ("small first", small_first), ("copied", copied)];

/// Checks that bytes are of one version, or the error says that the file has changed.
fn check(done: Result<Pieces>, what: &dyn fmt::Debug) {
    match done {
        Ok(pieces) => {
            let is = |version: u8| {
                let all = content(version);
                pieces.iter().all(|(at, bytes)| bytes[..] == all[*at..at + bytes.len()])
            };
            assert!(is(0) || is(1), "{what:?}: bytes of two versions");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Changed, "{what:?}: {error}"),
    }
}

/// Runs jobs with every server, the file being replaced before each of their requests.
fn replaced_everywhere(jobs: &[(&str, Job)], breaks: bool, with_store: bool) {
    for &(name, job) in jobs {
        for at in 0..4 {
            let requests = {
                let server = &Server::all()[at];
                run(server, job, with_store, None)
            };
            for before in usize::from(breaks)..=requests {
                let server = &Server::all()[at];
                run(server, job, with_store, Some((before, breaks, name)));
            }
        }
    }
}

/// Runs a job, and returns the number of its requests.
fn run(
    server: &Server,
    job: Job,
    with_store: bool,
    replaced: Option<(usize, bool, &str)>,
) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let store = with_store.then(|| folder.path().to_owned());
    if with_store {
        // Opened ahead, so that metadata are stored.
        let client = server.client(1, store.as_deref());
        let file = client.open(&server.url()).unwrap();
        file.prefetch_ends(20_000);
        file.read_at(&client, 0, &mut [0; 10]).unwrap();
    }
    let client = server.client(3, store.as_deref());
    let before = server.requests();
    if let Some((requests, breaks, _)) = replaced {
        server.replace_after(requests, breaks);
    }
    let file = client.open(&server.url()).unwrap();
    let done = job(&client, &file);
    match replaced {
        None => assert!(done.is_ok(), "{server:?}: {:?}", done.err()),
        Some(what) => check(done, &(server, what)),
    }
    server.requests() - before
}

#[test]
fn a_file_that_is_replaced_between_two_requests_is_read_in_one_version() {
    replaced_everywhere(&JOBS, false, false);
}

#[test]
fn a_response_that_breaks_off_is_completed_in_the_same_version() {
    replaced_everywhere(&JOBS[2..3], true, false);
}

#[test]
fn fresh_stored_metadata_are_not_mixed_with_another_version() {
    replaced_everywhere(&JOBS[1..2], false, true);
}

#[test]
fn a_local_file_is_read_in_one_version() {
    for (name, job) in JOBS.into_iter().filter(|(name, _)| *name != "copied") {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, content(0)).unwrap();
        let other = folder.path().join("other");
        std::fs::write(&other, content(1)).unwrap();
        let mut config = ClientConfig::default();
        config.store = None;
        let client = Client::new(config).unwrap();
        let file = client.open(path.to_str().unwrap()).unwrap();
        let mut first = vec![(0, vec![0; 1_000])];
        file.read_at(&client, 0, &mut first[0].1).unwrap();
        std::fs::rename(&other, &path).unwrap();
        check(job(&client, &file).map(|rest| [first.clone(), rest].concat()), &name);
        // Written in place, under the same inode.
        let file = client.open(path.to_str().unwrap()).unwrap();
        file.read_at(&client, 0, &mut first[0].1).unwrap();
        std::fs::write(&path, content(0)).unwrap();
        let touched = std::fs::File::options().write(true).open(&path).unwrap();
        touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let done = job(&client, &file).map(|rest| [first, rest].concat());
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Changed, "{name}");
    }
}
