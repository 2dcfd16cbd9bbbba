//! Files on tape behind XRootD servers: requests to stage them, their progress, and their end.
//!
//! A server with a plug-in for it reports the progress of a request as JSON (`kXR_QPrep`). All
//! others report for each file whether it is offline, in its status.

use crate::http::tape::FileLocality;
use crate::xrootd::path_ops::XrootdPath;
use futures_util::stream::{self, StreamExt};
use hither_auth::Action;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::StagingState;
use hither_xrd::client::Completion;
use hither_xrd::wire::{self, PrepareRequest, Request, prepare, query_kind};
use serde::Deserialize;
use std::collections::HashMap;

/// Files whose status is requested concurrently.
const AT_ONCE: usize = 32;

#[derive(Deserialize)]
struct Progress {
    responses: Vec<FileProgress>,
}

#[derive(Deserialize)]
struct FileProgress {
    path: String,
    #[serde(default)]
    online: bool,
    #[serde(default)]
    error_text: String,
}

impl XrootdPath {
    /// The states of the files of a request, this one first.
    ///
    /// # Errors
    ///
    /// The errors of connections. A file whose status cannot be read has failed.
    pub async fn staging_progress(
        &self,
        request: &str,
        further: &[String],
    ) -> Result<Vec<StagingState>> {
        if !request.is_empty()
            && let Some(states) = self.request_progress(request, further).await?
        {
            return Ok(states);
        }
        let states = stream::iter(self.with(further))
            .map(|path| async move { path.state_of_status().await });
        Ok(states.buffered(AT_ONCE).collect().await)
    }

    /// The locality of this file and others of the server. Servers report by the backup flag that a
    /// file on disk is on tape as well.
    pub async fn localities(&self, further: &[String]) -> Vec<FileLocality> {
        let found =
            stream::iter(self.with(further)).map(|path| async move { path.locality().await });
        found.buffered(AT_ONCE).collect().await
    }

    /// This path and others of the server.
    fn with(&self, further: &[String]) -> Vec<Self> {
        let others = further.iter().map(|path| self.beside(path));
        std::iter::once(self.clone()).chain(others).collect()
    }

    async fn locality(&self) -> FileLocality {
        let Ok(Completion::Status(status)) = self.request_here(Action::Read, Request::Stat).await
        else {
            return FileLocality::Unavailable;
        };
        match (
            status.flags & wire::stat_flags::OFFLINE != 0,
            status.flags & wire::stat_flags::BACKUP != 0,
        ) {
            (true, _) => FileLocality::Tape,
            (_, true) => FileLocality::DiskAndTape,
            _ => FileLocality::Disk,
        }
    }

    /// Cancels a request.
    ///
    /// # Errors
    ///
    /// The errors of the server and of connections.
    pub async fn cancel_staging(&self, request: &str) -> Result<()> {
        let request = |_| {
            Request::Prepare(PrepareRequest {
                options: prepare::CANCEL,
                priority: 0,
                port: 0,
                more_options: 0,
                paths: vec![request.to_owned()],
            })
        };
        self.request_here(Action::Read, request).await.map(drop)
    }

    /// The states that a server with a plug-in reports; none from others.
    async fn request_progress(
        &self,
        request: &str,
        further: &[String],
    ) -> Result<Option<Vec<StagingState>>> {
        let paths: Vec<String> = std::iter::once(self.plain_path())
            .chain(further.iter().map(|path| format!("/{path}")))
            .collect();
        let text = format!("{request}\n{}", paths.join("\n"));
        let request = |_| Request::Query { kind: query_kind::PREPARE, text: text.clone() };
        let reply = match self.request_here(Action::Read, request).await {
            Ok(Completion::Text(text)) => text,
            Ok(_) => return Ok(None),
            Err(error) if is_lost(&error) => return Err(error),
            // Servers without a plug-in refuse this in various ways.
            Err(_) => return Ok(None),
        };
        let text = reply.split(|byte| *byte == 0).next().unwrap_or_default();
        let Ok(progress) = serde_json::from_slice::<Progress>(text) else { return Ok(None) };
        let known: HashMap<&str, &FileProgress> =
            progress.responses.iter().map(|file| (file.path.trim_matches('/'), file)).collect();
        let state = |path: &String| match known.get(path.trim_matches('/')) {
            Some(file) if file.online => StagingState::Online,
            Some(file) if !file.error_text.is_empty() => {
                StagingState::Failed(file.error_text.clone())
            }
            Some(_) => StagingState::Waiting,
            None => StagingState::Unlisted,
        };
        Ok(Some(paths.iter().map(state).collect()))
    }

    async fn state_of_status(&self) -> StagingState {
        match self.request_here(Action::Read, Request::Stat).await {
            Ok(Completion::Status(status)) if status.flags & wire::stat_flags::OFFLINE == 0 => {
                StagingState::Online
            }
            Ok(_) => StagingState::Waiting,
            Err(error) if is_lost(&error) => StagingState::Waiting,
            Err(error) => StagingState::Failed(error.to_string()),
        }
    }
}

fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}
