//! Files on tape behind this server: the WLCG Tape REST API over a command of the site.
//!
//! ```text
//!  method::tape      the API: stage, progress, cancel, release, archiveinfo
//!     │
//!  TapeDoor          requests and the states of their files; a task for each request
//!     │   ╰────────  method::get, query, copy, push: is this file on disk?
//!     │
//!  TapeHelper        one JSON object a line, over a socket
//!     ┆ confinement (server::sandbox)
//!  command_runner   a process of its own: runs `COMMAND… stage|state|release PATH`
//! ```
//!
//! The server's process may run no program. So the helper is started before the server is confined,
//! knows the command and the folder, and takes an action and a path below the folder: an attacker
//! who takes the server over can request no more than its clients can.
//!
//! **A request.** A task queries each file (`state`), then requests all that are not on disk
//! (`stage`), so that the tape system gets them together, and then polls them with growing
//! intervals, until the last one is on disk or the time is up.
//!
//! **Bounds.** [`TapeSettings`] limits requests per client, files per request, commands at a time
//! and their time; [`MAX_FILES`] limits the files of all requests.

mod command_client;
pub(crate) mod command_runner;
pub(crate) mod settings;
mod stage_request;
#[cfg(test)]
mod tests;

pub(crate) use command_client::CommandError;
pub use command_client::TapeHelper;
pub(crate) use stage_request::{FileState, StageRequest, StagedFile};

use crate::backend::Backend;
use crate::backend::tape::command_client::HelperClient;
use crate::backend::tape::command_runner::TapeAction;
use crate::backend::tape::settings::TapeSettings;
use crate::http_error::HttpError;
use futures_util::stream::{self, StreamExt};
use hither_core::error::Result;
use hither_core::storage::FileKind;
use hither_core::sync::lock;
use http::{StatusCode, header};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep};

/// The maximum number of files in all requests together.
const MAX_FILES: usize = 500_000;
/// The maximum number of remembered states of files. At more, all are forgotten.
const MAX_STATES: usize = 10_000;
/// The time for which the state of a file holds.
const STATE_AGE: Duration = Duration::from_secs(5);
/// The interval at which the files of a request are polled: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The locality of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locality {
    Disk,
    Tape,
    DiskAndTape,
    Lost,
    Unavailable,
}

impl Locality {
    /// Parses the output of the command for `state`.
    fn parse(text: &str) -> Self {
        match text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "online" | "disk" => Self::Disk,
            "nearline" | "tape" => Self::Tape,
            "online_and_nearline" | "disk_and_tape" => Self::DiskAndTape,
            "lost" => Self::Lost,
            _ => Self::Unavailable,
        }
    }

    pub(crate) fn is_on_disk(self) -> bool {
        matches!(self, Self::Disk | Self::DiskAndTape)
    }

    /// The name in the API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Disk => "DISK",
            Self::Tape => "TAPE",
            Self::DiskAndTape => "DISK_AND_TAPE",
            Self::Lost => "LOST",
            Self::Unavailable => "UNAVAILABLE",
        }
    }
}

/// Requests to stage files, and the states of files.
#[derive(Debug)]
pub(crate) struct TapeDoor {
    settings: TapeSettings,
    helper: HelperClient,
    requests: Mutex<HashMap<String, StageRequest>>,
    states: Mutex<HashMap<String, (Locality, Instant)>>,
}

impl TapeDoor {
    /// # Errors
    /// The socket of the helper cannot be used.
    pub(crate) fn new(settings: TapeSettings, helper: TapeHelper) -> Result<Arc<Self>> {
        let limit = Duration::from_secs(settings.command_seconds);
        let helper = HelperClient::new(helper, settings.commands, limit)?;
        let requests = Mutex::default();
        Ok(Arc::new(Self { settings, helper, requests, states: Mutex::default() }))
    }

    /// The maximum number of files in a request.
    pub(crate) fn max_files(&self) -> usize {
        self.settings.files
    }

    /// Accepts a request of `owner`, and returns its id. Finished ones are removed to make room.
    pub(crate) fn stage(
        self: &Arc<Self>,
        backend: &Arc<dyn Backend>,
        owner: String,
        files: Vec<StagedFile>,
    ) -> std::result::Result<String, HttpError> {
        let id = format!("{:016x}", RandomState::new().hash_one((&owner, files.len())));
        let mut requests = lock(&self.requests);
        requests.retain(|_, request| request.began.elapsed() < self.lifetime());
        let own = |request: &&StageRequest| request.owner == owner;
        while requests.values().filter(own).count() >= self.settings.requests {
            let over = requests.iter().filter(|(_, it)| it.owner == owner && it.is_over());
            let oldest = over.min_by_key(|(_, it)| it.began).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else {
                let what = format!(
                    "this client has {} requests to stage files already: wait, or delete one",
                    self.settings.requests
                );
                return Err(HttpError::new(StatusCode::TOO_MANY_REQUESTS, what)
                    .with(header::RETRY_AFTER, "60"));
            };
            requests.remove(&oldest);
        }
        let all: usize = requests.values().map(|request| request.files.len()).sum();
        if all + files.len() > MAX_FILES {
            let what = "the server has too many files to stage: try again later";
            return Err(HttpError::new(StatusCode::SERVICE_UNAVAILABLE, what)
                .with(header::RETRY_AFTER, "600"));
        }
        requests.insert(id.clone(), StageRequest::new(owner, files));
        drop(requests);
        let door = Arc::clone(self);
        let backend = Arc::clone(backend);
        let name = id.clone();
        tokio::spawn(async move { door.drive(&*backend, &name).await });
        Ok(id)
    }

    /// Runs `work` on a request of this client; none if it has none of this id.
    pub(crate) fn with_request<T>(
        &self,
        owner: &str,
        id: &str,
        work: impl FnOnce(&mut StageRequest) -> T,
    ) -> Option<T> {
        let mut requests = lock(&self.requests);
        requests.get_mut(id).filter(|request| request.owner == owner).map(work)
    }

    /// Removes a request. Files that were requested from the tape system may still be staged.
    pub(crate) fn forget(&self, owner: &str, id: &str) -> bool {
        let known = self.with_request(owner, id, |_| ()).is_some();
        known && lock(&self.requests).remove(id).is_some()
    }

    /// Releases a file, so that it may leave the disk.
    pub(crate) async fn release(&self, path: &str) -> std::result::Result<(), CommandError> {
        lock(&self.states).remove(path);
        self.helper.run(TapeAction::Release, path).await.map(drop)
    }

    /// The locality of a file, as the command reports it.
    pub(crate) async fn locality(&self, path: &str) -> std::result::Result<Locality, CommandError> {
        if let Some((locality, since)) = lock(&self.states).get(path)
            && since.elapsed() < STATE_AGE
        {
            return Ok(*locality);
        }
        let locality = Locality::parse(&self.helper.run(TapeAction::State, path).await?);
        let mut states = lock(&self.states);
        if states.len() >= MAX_STATES {
            states.clear();
        }
        states.insert(path.to_owned(), (locality, Instant::now()));
        Ok(locality)
    }

    /// Fails for a file whose bytes are not on disk: a read would stage it.
    pub(crate) async fn check_on_disk(&self, path: &str) -> std::result::Result<(), HttpError> {
        match self.locality(path).await {
            Ok(locality) if locality.is_on_disk() => Ok(()),
            Ok(Locality::Tape) if self.is_being_staged(path) => {
                let what = "the file is being brought from tape to disk";
                Err(HttpError::new(StatusCode::ACCEPTED, what).with(header::RETRY_AFTER, "5"))
            }
            Ok(Locality::Tape) => {
                let what = "the file is on tape, not on disk: stage it first, by the API that \
                            /.well-known/wlcg-tape-rest-api names";
                Err(HttpError::new(StatusCode::CONFLICT, what))
            }
            Ok(Locality::Lost) => {
                Err(HttpError::new(StatusCode::GONE, "the tape system has lost the file"))
            }
            Ok(_) => Err(unavailable("the tape system does not say where the file is")),
            Err(error) => Err(unavailable(&error.to_string())),
        }
    }

    fn is_being_staged(&self, path: &str) -> bool {
        let requests = lock(&self.requests);
        requests.values().any(|request| request.is_waiting_for(path))
    }

    fn lifetime(&self) -> Duration {
        Duration::from_secs(self.settings.request_seconds)
    }

    /// Stages the files of a request.
    async fn drive(&self, backend: &dyn Backend, id: &str) {
        let began = Instant::now();
        self.for_waiting(id, |path| self.begin(backend, path, began)).await;
        let mut pause = FIRST_PAUSE;
        while self.waiting(id).next().is_some() {
            sleep(pause.min(self.lifetime().saturating_sub(began.elapsed()))).await;
            pause = pause.mul_f64(1.5).min(MAX_PAUSE);
            self.for_waiting(id, |path| self.look_until_late(path, began)).await;
        }
    }

    /// As [`Self::look`], for a request that `began` then. Each look may wait for a slot.
    async fn look_until_late(
        &self,
        path: String,
        began: Instant,
    ) -> Option<(FileState, Option<String>)> {
        match self.late(began) {
            None => self.look(path).await,
            late => late,
        }
    }

    /// The failure of a file of a request that `began` too long ago.
    fn late(&self, began: Instant) -> Option<(FileState, Option<String>)> {
        let seconds = self.settings.request_seconds;
        let why = || format!("it was not on disk within {seconds} s");
        (began.elapsed() >= self.lifetime()).then(|| (FileState::Failed, Some(why())))
    }

    /// The files of a request that are not finished.
    fn waiting(&self, id: &str) -> impl Iterator<Item = String> + use<> {
        let requests = lock(&self.requests);
        let waiting = requests.get(id).map(StageRequest::waiting).unwrap_or_default();
        waiting.into_iter()
    }

    /// Runs `work` on each unfinished file, some at a time, and records the result.
    async fn for_waiting<F: Future<Output = Option<(FileState, Option<String>)>> + Send>(
        &self,
        id: &str,
        work: impl Fn(String) -> F + Send + Sync,
    ) {
        let mut results = stream::iter(self.waiting(id))
            .map(|path| {
                let result = work(path.clone());
                async move { (path, result.await) }
            })
            .buffer_unordered(self.settings.commands);
        while let Some((path, result)) = results.next().await {
            if let (Some((state, error)), Some(request)) =
                (result, lock(&self.requests).get_mut(id))
            {
                request.settle(&path, state, error);
            }
        }
    }

    /// Requests the staging of a file, unless it is on disk, for a request that `began` then.
    async fn begin(
        &self,
        backend: &dyn Backend,
        path: String,
        began: Instant,
    ) -> Option<(FileState, Option<String>)> {
        if let Some(late) = self.late(began) {
            return Some(late);
        }
        match backend.stat(&path).await {
            Ok(metadata) if metadata.kind == FileKind::File => {}
            Ok(_) => return Some((FileState::Failed, Some("this is not a file".to_owned()))),
            Err(error) => return Some((FileState::Failed, Some(error.to_string()))),
        }
        match self.look(path.clone()).await {
            None => {}
            over => return over,
        }
        // Commands for other files may have the slots meanwhile.
        let wait = self.lifetime().saturating_sub(began.elapsed());
        Some(match self.helper.run_within(wait, TapeAction::Stage, &path).await {
            Ok(_) => (FileState::Started, None),
            Err(error) => (FileState::Failed, Some(error.to_string())),
        })
    }

    /// The final result of a file; none while it is still awaited.
    async fn look(&self, path: String) -> Option<(FileState, Option<String>)> {
        lock(&self.states).remove(&path);
        match self.locality(&path).await {
            Ok(locality) if locality.is_on_disk() => Some((FileState::Completed, None)),
            Ok(Locality::Lost) => {
                Some((FileState::Failed, Some("the tape system has lost the file".to_owned())))
            }
            Err(error) if error.is_final() => Some((FileState::Failed, Some(error.to_string()))),
            _ => None,
        }
    }
}

impl From<CommandError> for HttpError {
    fn from(error: CommandError) -> Self {
        let what = error.to_string();
        match error {
            CommandError::Failed(..) => Self::new(StatusCode::BAD_GATEWAY, what),
            CommandError::Broken(_) | CommandError::NoSlot(_) => unavailable(&what),
        }
    }
}

fn unavailable(what: &str) -> HttpError {
    HttpError::new(StatusCode::SERVICE_UNAVAILABLE, what).with(header::RETRY_AFTER, "10")
}

/// Milliseconds since 1970, the API's form of times.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
