//! The commands to a session, and their results.

use crate::xrootd::entry_sender::EntrySender;
use crate::xrootd::shared_file::SharedFile;
use bytes::Bytes;
use hither_core::error::{Effect, Error};
use hither_core::{PartSink, Request};
use hither_http::date::http_date;
use hither_xrd::client::Completion;
use hither_xrd::wire::{self, Redirect, open};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::oneshot;

/// The version of an open file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FileVersion {
    /// Its size in bytes.
    pub(super) size: Option<u64>,
    /// The time of the last modification, in seconds since 1970.
    pub(super) modified: Option<i64>,
}

impl FileVersion {
    /// The validator of this version, where time and size are known.
    pub(super) fn validator(&self) -> Option<String> {
        Some(validator(self.modified?, self.size?))
    }

    /// The date of the last modification, as HTTP writes it.
    pub(super) fn date(&self) -> Option<String> {
        let seconds = u64::try_from(self.modified?).ok()?;
        http_date(UNIX_EPOCH + Duration::from_secs(seconds))
    }
}

/// The validator of a version, the same on all servers of a cluster: the modification time and the
/// size. (The file id of the protocol differs between servers.)
pub(super) fn validator(modified: i64, size: u64) -> String {
    format!("\"{modified:x}-{size:x}\"")
}

/// The reason why a job was not completed.
#[derive(Debug)]
pub(super) enum JobError {
    /// The server redirected to another one.
    Elsewhere(Redirect),
    /// The server requires TLS. Nothing was requested.
    WantsTls,
    /// The session ended before it took the job, and not because of an error.
    TooLate,
    /// An error.
    Failed(Error),
}

/// A read of ranges of a file.
pub(super) struct ReadJob {
    /// The file.
    pub(super) name: Arc<SharedFile>,
    /// The ranges.
    pub(super) request: Request,
    /// The receiver of the bytes.
    pub(super) sink: PartSink,
    /// The round trip that was next when the job was created.
    pub(super) round_trip: u64,
    /// The receiver of the result.
    pub(super) reply: oneshot::Sender<Result<FileVersion, JobError>>,
}

/// An operation other than a read.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    /// A request that is not about an open file.
    Request(wire::Request),
    /// Lists a directory with the metadata of its entries, which go to this receiver as they
    /// arrive.
    List(String, EntrySender),
    /// Opens a file.
    Open(Arc<SharedFile>),
    /// Writes bytes to a file, at this offset.
    Write(Arc<SharedFile>, u64, Bytes),
    /// Drives a third-party copy into a file ([`wire::Request::Sync`]).
    Sync(Arc<SharedFile>),
    /// Closes a file, which makes written bytes durable.
    Close(Arc<SharedFile>),
}

impl Operation {
    /// The open file of the operation, if it has one.
    pub(super) fn name(&self) -> Option<&Arc<SharedFile>> {
        match self {
            Self::Request(_) | Self::List(..) => None,
            Self::Open(name) | Self::Write(name, ..) | Self::Sync(name) | Self::Close(name) => {
                Some(name)
            }
        }
    }

    /// Its effect at the server.
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::Request(
                wire::Request::Rename { .. }
                | wire::Request::Remove(_)
                | wire::Request::RemoveDirectory(_)
                | wire::Request::MakeDirectory { .. },
            )
            | Self::Sync(_) => Effect::Change,
            // A repeated request would find the file that the first one has made.
            Self::Open(name) if name.request.options & open::NEW != 0 => Effect::Change,
            Self::Request(_) | Self::List(..) => Effect::Read,
            Self::Open(_) | Self::Write(..) | Self::Close(_) => Effect::Own,
        }
    }

    /// The number of bytes to be written.
    pub(super) fn bytes(&self) -> u64 {
        if let Self::Write(_, _, bytes) = self { bytes.len() as u64 } else { 0 }
    }
}

/// A job for one operation.
pub(super) struct OperationJob {
    /// The operation.
    pub(super) what: Operation,
    /// The round trip that was next when the job was created.
    pub(super) round_trip: u64,
    /// The receiver of the response.
    pub(super) reply: oneshot::Sender<Result<OperationResponse, JobError>>,
}

/// The response to an [`OperationJob`].
#[derive(Debug)]
pub(super) struct OperationResponse {
    /// The response.
    pub(super) reply: Completion,
}

/// A command to a session.
pub(super) enum SessionCommand {
    /// Reads. The number identifies the job for [`SessionCommand::Cancel`].
    Fetch(u64, ReadJob),
    /// Does another operation.
    Operation(u64, OperationJob),
    /// Opens a file that will be read soon.
    Open(Arc<SharedFile>),
    /// Cancels a job.
    Cancel(u64),
    /// Closes a file that is no longer used.
    Close(u64),
}
