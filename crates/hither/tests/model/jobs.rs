//! Jobs: the commands of a history, run as programs run them.

use crate::ends::{Ends, Files, Place};
use crate::federation::hurried;
use crate::history::{History, Verb};
use crate::invariants;
use bytes::Bytes;
use hither::{Algorithm, Client, CopySummary, OverwritePolicy, SyncOptions, Verify};
use hither_core::Result;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A job that has not ended after this time hangs: every timeout is much shorter.
const DEADLINE: Duration = Duration::from_secs(100);
/// The reason of a job that hangs.
pub(crate) const HANGS: &str = "the job does not end";
/// Large files have some twenty of these blocks.
const BLOCK_BYTES: u64 = 64 << 10;

/// The end of a job.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Good,
    /// With the messages of what failed.
    Failed(String),
}

impl Outcome {
    pub(crate) fn is_good(&self) -> bool {
        matches!(self, Self::Good)
    }
}

/// A job that has ended, and what was at its ends before it.
pub(crate) struct Job<'a> {
    pub(crate) history: &'a History,
    pub(crate) ends: &'a Ends,
    pub(crate) source: Files,
    pub(crate) target: Files,
    pub(crate) replica: Files,
    pub(crate) outcome: Outcome,
    /// The files that the source has damaged on their way, and of which this job or one before it
    /// has said that they were not compared.
    pub(crate) not_compared: Files,
}

/// Runs a history. Fails with the reason if it breaks the model.
pub(crate) fn run(
    history: &History,
    note: &mut dyn FnMut(Verb, Outcome),
) -> std::result::Result<(), String> {
    // In memory: a disk would take most of the time.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.unwrap();
    let ends = Ends::new(history, folder.path());
    let runs = if history.second.is_some() { 2 } else { 1 };
    let mut not_compared = Files::new();
    for number in 0..runs {
        if number > 0 {
            ends.before_second(history);
        }
        let source = ends.from.files();
        let target = ends.to.files();
        let replica = ends.replica.as_ref().map(Place::files).unwrap_or_default();
        let client = client(history, &ends, folder.path());
        let mut told = Vec::new();
        let ended = client.block_on(async {
            tokio::time::timeout(DEADLINE, carry_out(&client, history, &ends, &mut told)).await
        });
        drop(client);
        let Ok(ended) = ended else { return Err(format!("{HANGS}{}", requests(&ends))) };
        let outcome = match ended {
            Ok(()) => Outcome::Good,
            Err(error) => Outcome::Failed(error),
        };
        note(history.verb, outcome.clone());
        not_compared.extend(invariants::damaged(&ends, &told));
        let not_compared = not_compared.clone();
        let job = Job { history, ends: &ends, source, target, replica, outcome, not_compared };
        invariants::check(&job).map_err(|why| {
            format!("{why}; run {number} ended with {:?}{}", job.outcome, requests(&ends))
        })?;
    }
    Ok(())
}

/// The requests that the servers of a history have received.
fn requests(ends: &Ends) -> String {
    let of = |name: &str, place: &Place| {
        let servers = place.servers().into_iter().map(|server| {
            let log = server.log().into_iter();
            let log: Vec<_> = log.map(|(method, path)| format!("{method} {path}")).collect();
            format!("\n{name}: {}\nfaults there: {:?}", log.join(", "), shown(server.happened()))
        });
        servers.collect::<String>()
    };
    let replica = ends.replica.as_ref().map(|it| of("replica", it)).unwrap_or_default();
    of("source", &ends.from) + &of("target", &ends.to) + &replica
}

fn shown<F: std::fmt::Debug>(happened: Vec<(F, String)>) -> Vec<String> {
    let short = |fault: &F| format!("{fault:?}").chars().take(50).collect::<String>();
    happened.iter().map(|(fault, path)| format!("{} {path}", short(fault))).collect()
}

fn client(history: &History, ends: &Ends, folder: &Path) -> Client {
    let mut config = hurried(history);
    config.s3.endpoint = ends.places().find_map(Place::store_endpoint);
    config.store = history.has_store.then(|| folder.join("store"));
    Client::new(config).unwrap()
}

/// Runs the verb. Fails with the message of the command.
async fn carry_out(
    client: &Client,
    history: &History,
    ends: &Ends,
    not_compared: &mut Vec<String>,
) -> std::result::Result<(), String> {
    let Ends { from, to, replica } = ends;
    let first = &*history.files[0].path;
    let other = history.files.get(1).map_or("moved", |file| &file.path);
    let mut options = client.copy_options();
    options.existing = history.existing;
    options.block_bytes = BLOCK_BYTES;
    if history.has_checksum {
        options.verify = Verify::Algorithm(Algorithm::Adler32);
    }
    let overwrites = history.existing == OverwritePolicy::Replace;
    match history.verb {
        Verb::Copy | Verb::CopyTree => {
            let is_tree = history.verb == Verb::CopyTree;
            options.recursive = is_tree;
            let url = |place: &Place| {
                if is_tree { format!("{}/.", place.tree_url()) } else { place.url(first) }
            };
            let target = if is_tree { to.tree_url() } else { to.url(first) };
            let replicas: Vec<_> = replica.iter().map(url).collect();
            let sources = [url(from)];
            summed(
                client.copy(&sources, &replicas, &target, options, Arc::default()).await,
                not_compared,
            )
        }
        Verb::Sync | Verb::SyncDelete => {
            let mut sync = SyncOptions::default();
            sync.copy = options;
            sync.delete = history.verb == Verb::SyncDelete;
            let (from, to) = (from.tree_url(), to.tree_url());
            summed(client.sync(&from, &to, sync, Arc::default(), |_| {}).await, not_compared)
        }
        Verb::Put => {
            let bytes = Bytes::from(from.files()[first].clone());
            told(client.put(&to.url(first), bytes, overwrites).await)
        }
        Verb::Remove | Verb::RemoveTree => {
            let path = removed(history);
            let (storage, path) = client.storage(&to.url(&path)).unwrap();
            let removed = match history.verb {
                Verb::RemoveTree => storage.remove_tree(&path).await,
                _ => storage.remove(&path).await,
            };
            told(removed)
        }
        Verb::Move | Verb::MoveTree => {
            let (storage, from) = client.storage(&to.url(&removed(history))).unwrap();
            let name = if history.verb == Verb::Move { other } else { "moved" };
            let (_, target) = client.storage(&to.url(name)).unwrap();
            told(storage.rename(&from, &target, overwrites).await)
        }
    }
}

/// The path that `rm` and `mv` are about: the first file, or the directory that it is in.
pub(crate) fn removed(history: &History) -> String {
    let first = &*history.files[0].path;
    let is_tree = matches!(history.verb, Verb::RemoveTree | Verb::MoveTree);
    let directory = first.split_once('/').map(|(directory, _)| directory);
    directory.filter(|_| is_tree).unwrap_or(first).to_owned()
}

fn told<T>(result: Result<T>) -> std::result::Result<(), String> {
    result.map(drop).map_err(|error| format!("{:?}: {error}", error.kind()))
}

fn summed(
    result: Result<CopySummary>,
    not_compared: &mut Vec<String>,
) -> std::result::Result<(), String> {
    let summary = result.map_err(|error| format!("{:?}: {error}", error.kind()))?;
    let checksums = summary.checksums.into_iter().filter(|it| !it.compared);
    not_compared.extend(checksums.map(|it| it.target));
    if summary.failures.is_empty() {
        return Ok(());
    }
    let messages: Vec<_> = summary.failures.iter().map(|it| it.error.to_string()).collect();
    Err(messages.join("; "))
}
