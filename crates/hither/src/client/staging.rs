//! Files on tape: staging, its progress, and release.

use crate::client::Client;
use futures_util::future::BoxFuture;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{StagingState, Storage};
use hither_transfer::{Stager, Staging, StagingWait};
use hither_transport::{
    FileLocality, Location, Network, PrepareAction, Protocol, TapeApi, XrootdPath,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Files of one server whose staging was requested together.
#[derive(Debug, Clone)]
pub struct StagingRequest {
    /// The indices of its files in the list of the caller.
    pub urls: Vec<usize>,
    /// The id of the request at the server; empty if it sends none.
    pub request: String,
    files: ServerFiles,
}

/// Files of one server.
#[derive(Debug, Clone)]
enum ServerFiles {
    Http(TapeApi, Vec<String>),
    /// The first one, and the paths of the others.
    Xrootd(XrootdPath, Vec<String>),
}

impl StagingRequest {
    /// The states of the files, in the order of `urls`.
    ///
    /// # Errors
    ///
    /// The errors of the server and of connections.
    pub async fn progress(&self) -> Result<Vec<StagingState>> {
        match &self.files {
            ServerFiles::Http(api, paths) => api.progress(&self.request, paths).await,
            ServerFiles::Xrootd(first, further) => {
                first.staging_progress(&self.request, further).await
            }
        }
    }

    /// Requests the states of the files of `requests`, except of requests that have ended. `states`
    /// has an element for each file of the caller's list, [`StagingState::Waiting`] at first. A
    /// file that a server does not mention is [`StagingState::Unlisted`].
    ///
    /// # Errors
    ///
    /// As [`StagingRequest::progress`].
    pub async fn poll(requests: &[Self], states: &mut [StagingState]) -> Result<()> {
        for request in requests {
            let is_waiting = |nth: &usize| states.get(*nth).is_some_and(|it| !it.is_final());
            if !request.urls.iter().any(is_waiting) {
                continue;
            }
            for (nth, state) in request.urls.iter().zip(request.progress().await?) {
                if let Some(slot) = states.get_mut(*nth) {
                    *slot = state;
                }
            }
        }
        Ok(())
    }

    /// Polls until all files of `requests` are on disk or have failed, with `states` as in
    /// [`StagingRequest::poll`]; after `limit` some may still be waiting. Calls `came` with the
    /// index of each file that is on disk. Servers may be unreachable for some polls, as during a
    /// copy.
    ///
    /// # Errors
    ///
    /// As [`StagingRequest::progress`].
    pub async fn follow(
        requests: &[Self],
        states: &mut [StagingState],
        limit: Option<Duration>,
        mut came: impl FnMut(usize),
    ) -> Result<()> {
        let staged = StagedFiles { states: states.to_vec(), requests: requests.to_vec() };
        let wait = StagingWait::new(Box::new(staged), states.len());
        let mut wait = wait.within(limit.unwrap_or(Duration::MAX));
        loop {
            let settled = wait.next().await?;
            if settled.is_empty() {
                return Ok(());
            }
            for (nth, state) in settled {
                if state == StagingState::Online {
                    came(nth);
                }
                if let Some(slot) = states.get_mut(nth) {
                    *slot = state;
                }
            }
        }
    }
}

impl Client {
    /// Requests staging of files from tape to disk, once from each server, and does not wait for
    /// it. Servers of `root://` take a priority, from 0 to 3, the highest.
    ///
    /// # Errors
    ///
    /// The first error, as [`Client::storage`]; [`ErrorKind::Unsupported`] for servers that cannot.
    /// Earlier requests to other servers stay in effect.
    pub async fn stage(&self, urls: &[String], priority: u8) -> Result<Vec<StagingRequest>> {
        let locations = urls.iter().map(|url| self.tape_location(url)).collect::<Result<_>>()?;
        stage(&self.context.network, locations, priority).await
    }

    /// Releases files that were staged by the request with this id, so that they may leave the
    /// disk. Servers of `root://` need no id.
    ///
    /// # Errors
    ///
    /// As [`Client::stage`]; [`ErrorKind::Invalid`] if the server needs the id.
    pub async fn release(&self, urls: &[String], request: Option<&str>) -> Result<()> {
        let locations = urls.iter().map(|url| self.tape_location(url)).collect::<Result<_>>()?;
        for (_, files) in by_server(&self.context.network, locations).await? {
            match files {
                ServerFiles::Http(api, paths) => {
                    let request = request.ok_or_else(|| {
                        let what = "the tape API releases files of a request: give its id";
                        Error::new(ErrorKind::Invalid, what)
                    })?;
                    api.release(request, &paths).await?;
                }
                ServerFiles::Xrootd(first, further) => {
                    first.prepare(&further, PrepareAction::Evict).await?;
                }
            }
        }
        Ok(())
    }

    /// Asks servers to stop staging files of the request with this id.
    ///
    /// # Errors
    ///
    /// As [`Client::release`].
    pub async fn cancel_staging(&self, urls: &[String], request: Option<&str>) -> Result<()> {
        let locations = urls.iter().map(|url| self.tape_location(url)).collect::<Result<_>>()?;
        let request = request.ok_or_else(|| {
            let what = "servers cancel files of a request: give its id";
            Error::new(ErrorKind::Invalid, what)
        })?;
        for (_, files) in by_server(&self.context.network, locations).await? {
            match files {
                ServerFiles::Http(api, paths) => api.cancel(request, &paths).await?,
                ServerFiles::Xrootd(first, _) => first.cancel_staging(request).await?,
            }
        }
        Ok(())
    }

    /// The locality of files, in the order of `urls`. Stages nothing.
    ///
    /// # Errors
    ///
    /// As [`Client::stage`].
    pub async fn localities(&self, urls: &[String]) -> Result<Vec<FileLocality>> {
        let locations = urls.iter().map(|url| self.tape_location(url)).collect::<Result<_>>()?;
        let mut found = vec![FileLocality::Unavailable; urls.len()];
        for (numbers, files) in by_server(&self.context.network, locations).await? {
            let of_server = match files {
                ServerFiles::Http(api, paths) => api.archive_info(&paths).await?,
                ServerFiles::Xrootd(first, further) => first.localities(&further).await,
            };
            for (nth, locality) in numbers.into_iter().zip(of_server) {
                if let Some(slot) = found.get_mut(nth) {
                    *slot = locality;
                }
            }
        }
        Ok(found)
    }

    /// Stages the files of a copy to disk first, for
    /// [`CopyOptions::stager`](hither_transfer::CopyOptions::stager).
    #[must_use]
    pub fn stager(&self) -> Arc<dyn Stager> {
        Arc::new(ClientStager { network: Arc::clone(&self.context.network) })
    }

    fn tape_location(&self, url: &str) -> Result<Location> {
        let named = self.storage_path(url)?;
        location(&*named.storage, &named.path)
    }
}

fn location(storage: &dyn Storage, path: &str) -> Result<Location> {
    let location = storage.location(path).and_then(|it| it.downcast::<Location>().ok());
    location.map(|it| *it).ok_or_else(|| {
        let what = format!("{}: only servers of https:// and root:// stage files", storage.name());
        Error::new(ErrorKind::Unsupported, what)
    })
}

/// Groups files by server, in the order of each server's first file.
async fn by_server(
    network: &Arc<Network>,
    locations: Vec<Location>,
) -> Result<Vec<(Vec<usize>, ServerFiles)>> {
    let mut servers: Vec<(Vec<usize>, ServerFiles)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (nth, location) in locations.into_iter().enumerate() {
        let path = location.plain_path();
        let server = location.origin();
        match known.get(&server).and_then(|at| servers.get_mut(*at)) {
            Some((urls, files)) => {
                urls.push(nth);
                match files {
                    ServerFiles::Http(_, paths) => paths.push(path),
                    ServerFiles::Xrootd(_, further) => {
                        further.push(path.trim_start_matches('/').to_owned());
                    }
                }
            }
            None => {
                let network = Arc::clone(network);
                let files = match location.protocol() {
                    Protocol::Http => {
                        ServerFiles::Http(TapeApi::discover(&location, network).await?, vec![path])
                    }
                    Protocol::Xrootd => {
                        ServerFiles::Xrootd(XrootdPath::new(location, network), Vec::new())
                    }
                };
                known.insert(server, servers.len());
                servers.push((vec![nth], files));
            }
        }
    }
    Ok(servers)
}

async fn stage(
    network: &Arc<Network>,
    locations: Vec<Location>,
    priority: u8,
) -> Result<Vec<StagingRequest>> {
    let mut requests = Vec::new();
    for (urls, files) in by_server(network, locations).await? {
        let request = match &files {
            ServerFiles::Http(api, paths) => api.stage(paths).await?,
            ServerFiles::Xrootd(first, further) => {
                first.prepare(further, PrepareAction::Stage { priority }).await?
            }
        };
        requests.push(StagingRequest { urls, request, files });
    }
    Ok(requests)
}

#[derive(Debug)]
struct ClientStager {
    network: Arc<Network>,
}

impl Stager for ClientStager {
    fn stage(
        &self,
        files: Vec<(Arc<dyn Storage>, String)>,
    ) -> BoxFuture<'_, Result<Box<dyn Staging>>> {
        Box::pin(async move {
            let locations: Vec<Location> = files
                .iter()
                .map(|(storage, path)| location(&**storage, path))
                .collect::<Result<_>>()?;
            let states = vec![StagingState::Waiting; locations.len()];
            let requests = stage(&self.network, locations, 0).await?;
            Ok(Box::new(StagedFiles { states, requests }) as Box<dyn Staging>)
        })
    }
}

#[derive(Debug)]
struct StagedFiles {
    states: Vec<StagingState>,
    requests: Vec<StagingRequest>,
}

impl Staging for StagedFiles {
    fn progress(&mut self) -> BoxFuture<'_, Result<Vec<StagingState>>> {
        Box::pin(async move {
            StagingRequest::poll(&self.requests, &mut self.states).await?;
            Ok(self.states.clone())
        })
    }

    fn notices(&self) -> Vec<String> {
        let staged = |request: &StagingRequest| {
            let files = match request.urls.len() {
                1 => "1 file is".to_owned(),
                n => format!("{n} files are"),
            };
            match &*request.request {
                "" => format!("{files} being staged"),
                id => format!("{files} being staged by request {id}"),
            }
        };
        self.requests.iter().map(staged).collect()
    }
}
