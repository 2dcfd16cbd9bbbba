//! Fetches a file from another server (`COPY` with `Source`).

use crate::backend::Precondition;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::put::{PutTarget, writable};
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use crate::response::body::ResponseBody;
use crate::third_party::checksum_comparison::ChecksumComparison;
use crate::third_party::copier::{ThirdPartyCopier, local_error};
use crate::third_party::copy_request::CopyRequest;
use crate::third_party::copy_slot::CopyDirection;
use crate::third_party::perf_markers::{self, MarkedCopy, TYPE};
use crate::third_party::pull_target::{PullProgress, PullTarget, PullTargetStorage};
use crate::third_party::remote::{self, PullSourceStorage, RemoteState};
use crate::third_party::stall_watchdog::StallWatchdog;
use hither_checksum::Algorithm;
use hither_core::error::{Error, ErrorKind, Result};
use hither_transfer::{CopyOptions, CopyPath, CopyProgress, Destination, Verify, copy};
use http::{StatusCode, header};
use std::sync::Arc;

/// Bytes of a pull that have arrived and are not written yet.
const BUDGET_BYTES: u64 = 32 << 20;

/// A pull that is about to run.
struct Pull {
    copier: Arc<ThirdPartyCopier>,
    copy_request: CopyRequest,
    remote: Arc<PullSourceStorage>,
    target: Arc<PullTarget>,
    streams: usize,
    replace: bool,
    /// The conditions of the request on the target.
    precondition: Precondition,
}

/// Handles a `COPY` that fetches a file.
pub(crate) async fn handle(
    context: &Arc<ServerContext>,
    copier: &Arc<ThirdPartyCopier>,
    request: &ServerRequest,
    url: &str,
) -> Result<ServerResponse, HttpError> {
    let PutTarget { may_replace, there, conditions } = writable(context, request).await?;
    let copy_request = CopyRequest::parse(&request.headers, url)?;
    let replace = request.overwrites()?;
    if there.is_some() && !replace {
        return Err(HttpError::may_not_overwrite("the file"));
    }
    let slot = copier.take_slot(context, request, CopyDirection::Pull)?;
    let looked = copier.first_look(&copy_request.other).await?;
    let size = match looked {
        Ok(RemoteState::There(size)) => Some(size),
        Ok(RemoteState::Unknown) => None,
        Ok(RemoteState::Absent) => {
            let what = format!("{} does not exist", copy_request.other);
            return Ok(failed(slot, Error::new(ErrorKind::NotFound, what)));
        }
        Err(error) => return Ok(failed(slot, error)),
    };
    let known = size.unwrap_or_default();
    let counted = context.unfinished.begin(context, request, &request.path, known).await?;
    let streams = copy_request.streams.unwrap_or(usize::MAX).min(copier.settings.streams);
    let target = PullTarget::new(Arc::clone(context), request.path.clone(), counted, streams);
    // For an unknown size, this checks at least that the file can be created.
    target.begin(size).await?;
    let target = Arc::new(target);
    let space = Arc::<PullTarget>::clone(&target);
    let other = &copy_request.other;
    let remote = Arc::new(PullSourceStorage::new(&copier.network, other, space));
    let copier = Arc::clone(copier);
    let interval = copier.settings.marker();
    let source = Arc::clone(remote.source());
    let progress = Arc::new(PullProgress { target: Arc::clone(&target), source });
    let discarded = Arc::clone(&target);
    let clean_up = async move { discarded.give_up() };
    let replace = replace && may_replace;
    let precondition = conditions.on_target();
    let pull = Pull { copier, copy_request, remote, target, streams, replace, precondition };
    let copy = MarkedCopy { work: pull.run(), clean_up, progress, interval, slot };
    let body = ResponseBody::Stream(perf_markers::run_reported(copy));
    let response = ServerResponse::empty(StatusCode::ACCEPTED).with(header::CONTENT_TYPE, TYPE);
    Ok(ServerResponse { body, ..response })
}

/// The response for a copy that failed before it began, where the request is not the cause: the
/// same as for one that fails later.
pub(super) fn failed(
    slot: crate::third_party::copy_slot::CopySlot,
    error: Error,
) -> ServerResponse {
    let outcome = Err(error);
    slot.finish(&outcome);
    let text = outcome.err().map(perf_markers::failure).unwrap_or_default();
    let response = ServerResponse::empty(StatusCode::ACCEPTED).with(header::CONTENT_TYPE, TYPE);
    ServerResponse { body: ResponseBody::Whole(text), ..response }
}

impl Pull {
    async fn run(self) -> Result<u64> {
        let copier = &self.copier;
        let other = &self.copy_request.other;
        // A server may need as much time for a checksum as for the file itself.
        let reported =
            async { Ok(remote::file(&copier.network, other).await.map(|it| it.checksums)) };
        let ((), reported) = futures_util::future::try_join(self.fetch(), reported).await?;
        let lost = || Error::new(ErrorKind::Local, "the fetched file was already discarded");
        let (writer, passed) = self.target.written().ok_or_else(lost)?;
        let is_required =
            self.copy_request.require_checksum.unwrap_or(copier.settings.require_checksum);
        let other = other.to_string();
        let comparison = ChecksumComparison { reported, passed, is_required, other };
        let compute = async |algorithm| {
            let what = "cannot read the copied file again for its checksum";
            let computed = writer.checksum(algorithm).await;
            computed.map_err(|error| Error::new(ErrorKind::Local, what).with_source(error))
        };
        let sums = comparison.compare(compute).await?;
        self.target.publish(self.precondition, self.replace, sums).await.map_err(local_error)
    }

    /// Fetches the whole file.
    async fn fetch(&self) -> Result<()> {
        // As a file that is given by its URL alone: a page in its place is noticed (`identify`).
        let mut options = CopyOptions::default();
        options.verify = Verify::Algorithm(Algorithm::Adler32);
        options.budget_bytes = BUDGET_BYTES;
        options.retry = self.copier.network.config().retry_policy();
        options.max_workers = self.streams;
        let progress = Arc::new(CopyProgress::default());
        let source =
            copy_path(Arc::<PullSourceStorage>::clone(&self.remote), self.remote.path().to_owned());
        let storage = Arc::new(PullTargetStorage(Arc::clone(&self.target)));
        let destination = Destination::File(copy_path(storage, self.target.path().to_owned()));
        let copying = copy(vec![source], destination, options, Arc::clone(&progress));
        let moved = || {
            let figures = progress.figures();
            // Once everything has arrived, nothing needs to move.
            let is_all = figures.bytes_found > 0 && figures.bytes_done >= figures.bytes_found;
            // A file of unknown size may be read to its end before it is copied.
            let arrived = figures.bytes_arrived.saturating_add(self.target.spooled_bytes());
            (!is_all).then_some(arrived)
        };
        let watchdog = StallWatchdog::new(&self.copier, &self.copy_request.other);
        let summary = watchdog.over(Box::pin(copying), moved).await??;
        match summary.error() {
            None => Ok(()),
            Some(error) if error.kind() == ErrorKind::Unauthenticated => {
                Err(remote::denied(&self.copy_request.other, 401, &self.copy_request))
            }
            Some(error) => Err(error),
        }
    }
}

fn copy_path(storage: Arc<dyn hither_core::Storage>, path: String) -> CopyPath {
    CopyPath { storage, path, local: None, is_directory: false, contents: false }
}
