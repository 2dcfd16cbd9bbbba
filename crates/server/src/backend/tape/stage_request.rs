//! One request to stage files.

use crate::backend::tape::now_ms;
use std::collections::HashMap;
use tokio::time::Instant;

/// The state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileState {
    /// It has not been queried yet.
    Submitted,
    /// It was requested from the tape system.
    Started,
    /// It is on disk.
    Completed,
    Cancelled,
    Failed,
}

impl FileState {
    /// The name in the API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Submitted => "SUBMITTED",
            Self::Started => "STARTED",
            Self::Completed => "COMPLETED",
            Self::Cancelled => "CANCELLED",
            Self::Failed => "FAILED",
        }
    }

    fn is_over(self) -> bool {
        !matches!(self, Self::Submitted | Self::Started)
    }
}

/// A file of a request.
#[derive(Debug, Clone)]
pub(crate) struct StagedFile {
    /// The path in the namespace, without slashes at its ends.
    pub(crate) path: String,
    pub(crate) state: FileState,
    pub(crate) error: Option<String>,
    /// Milliseconds since 1970.
    pub(crate) started: Option<u64>,
    pub(crate) finished: Option<u64>,
}

impl StagedFile {
    pub(crate) fn new(path: String) -> Self {
        let state = FileState::Submitted;
        Self { path, state, error: None, started: None, finished: None }
    }

    /// A file that may not be staged.
    pub(crate) fn failed(path: String, error: String) -> Self {
        let mut file = Self::new(path);
        file.settle(FileState::Failed, Some(error));
        file
    }

    fn settle(&mut self, state: FileState, error: Option<String>) {
        if self.state.is_over() {
            return;
        }
        self.started.get_or_insert_with(now_ms);
        self.finished = state.is_over().then(now_ms);
        self.state = state;
        self.error = error;
    }
}

/// A request to stage files.
#[derive(Debug)]
pub(crate) struct StageRequest {
    pub(crate) owner: String,
    /// Milliseconds since 1970.
    pub(crate) created: u64,
    pub(crate) began: Instant,
    pub(crate) files: Vec<StagedFile>,
    /// The numbers of the files, by path.
    numbers: HashMap<String, usize>,
}

impl StageRequest {
    pub(crate) fn new(owner: String, files: Vec<StagedFile>) -> Self {
        let number = |(number, file): (usize, &StagedFile)| (file.path.clone(), number);
        let numbers = files.iter().enumerate().map(number).collect();
        Self { owner, created: now_ms(), began: Instant::now(), files, numbers }
    }

    /// Changes the state of an unfinished file. Returns true if the request has the file.
    pub(crate) fn settle(&mut self, path: &str, state: FileState, error: Option<String>) -> bool {
        let file = self.numbers.get(path).and_then(|number| self.files.get_mut(*number));
        file.map(|file| file.settle(state, error)).is_some()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.files.iter().all(|file| file.state.is_over())
    }

    pub(super) fn is_waiting_for(&self, path: &str) -> bool {
        let file = self.numbers.get(path).and_then(|number| self.files.get(*number));
        file.is_some_and(|file| !file.state.is_over())
    }

    /// The paths of the unfinished files.
    pub(super) fn waiting(&self) -> Vec<String> {
        let waiting = self.files.iter().filter(|file| !file.state.is_over());
        waiting.map(|file| file.path.clone()).collect()
    }
}
