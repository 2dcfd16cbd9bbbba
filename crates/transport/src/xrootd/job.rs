//! What a session is asked to do, and what comes of it.

use crate::xrootd::shared_file::SharedFile;
use bytes::Bytes;
use hither_core::error::Error;
use hither_core::{PartSink, Request};
use hither_xrd::client::Completion;
use hither_xrd::wire::{self, Redirect};
use std::sync::Arc;
use tokio::sync::oneshot;

/// What a server says of an open file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FileVersion {
    /// Its size in bytes.
    pub(super) size: Option<u64>,
    /// When it was last modified, in seconds since 1970.
    pub(super) modified: Option<i64>,
}

impl FileVersion {
    /// What tells this version of the file from others, where both are known.
    pub(super) fn validator(&self) -> Option<String> {
        Some(validator(self.modified?, self.size?))
    }
}

/// What tells a version of a file from others, on whatever server of a cluster: when it was written and how long it is.
/// (What the protocol calls its id is of the server's disk.)
pub(super) fn validator(modified: i64, size: u64) -> String {
    format!("\"{modified:x}-{size:x}\"")
}

/// Why a job did not come to its end.
#[derive(Debug)]
pub(super) enum JobError {
    /// Another server has the file.
    Elsewhere(Redirect),
    /// The server wants TLS. Nothing was asked of it.
    WantsTls,
    /// The session was over before it took the job, and not because it failed.
    TooLate,
    /// It failed.
    Failed(Error),
}

/// Ranges of a file to be read.
pub(super) struct ReadJob {
    /// Which file.
    pub(super) name: Arc<SharedFile>,
    /// What of it.
    pub(super) request: Request,
    /// Where the bytes go.
    pub(super) sink: PartSink,
    /// The flight that was next when it was asked for.
    pub(super) flight: u64,
    /// Who waits for the end.
    pub(super) reply: oneshot::Sender<Result<FileVersion, JobError>>,
}

/// What else can be asked.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    /// Something that is not about an open file.
    Request(wire::Request),
    /// That a file be open.
    Open(Arc<SharedFile>),
    /// That bytes be written to a file, from this one on.
    Write(Arc<SharedFile>, u64, Bytes),
    /// That a file be closed: then what was written to it is there.
    Close(Arc<SharedFile>),
}

impl Operation {
    /// The open file that it is about, if it is about one.
    pub(super) fn name(&self) -> Option<&Arc<SharedFile>> {
        match self {
            Self::Request(_) => None,
            Self::Open(name) | Self::Write(name, ..) | Self::Close(name) => Some(name),
        }
    }

    /// Bytes that go along.
    pub(super) fn bytes(&self) -> u64 {
        if let Self::Write(_, _, bytes) = self { bytes.len() as u64 } else { 0 }
    }
}

/// Something to be asked.
pub(super) struct OperationJob {
    /// What.
    pub(super) what: Operation,
    /// The flight that was next when it was asked.
    pub(super) flight: u64,
    /// Who waits for the answer.
    pub(super) reply: oneshot::Sender<Result<OperationResponse, JobError>>,
}

/// What came of an [`OperationJob`].
#[derive(Debug)]
pub(super) struct OperationResponse {
    /// The answer.
    pub(super) reply: Completion,
    /// Names, if it was a listing.
    pub(super) entries: Vec<wire::DirlistEntry>,
}

/// What a session is told.
pub(super) enum SessionCommand {
    /// To read; the number names it for [`SessionCommand::Cancel`].
    Fetch(u64, ReadJob),
    /// To ask something else.
    Ask(u64, OperationJob),
    /// To open a file, because it will be read soon.
    Open(Arc<SharedFile>),
    /// Nobody waits for this any more.
    Cancel(u64),
    /// Nobody has this file open any more.
    Close(u64),
}
