//! A file is fetched from another server (`COPY` with `Source`).

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
use crate::third_party::pull_target::{PullTarget, PullTargetStorage};
use crate::third_party::remote::{self, PullSourceStorage, RemoteState};
use crate::third_party::stall_watchdog::StallWatchdog;
use hither_core::Algorithm;
use hither_core::error::{Error, ErrorKind, Result};
use hither_transfer::{CopyOptions, CopyPath, CopyProgress, Destination, Verify, copy};
use http::{HeaderMap, StatusCode, header};
use std::sync::Arc;

/// Bytes that all streams of a pull together ask for at a time, and the least of one: a stream waits a round trip for each of its
/// pieces, so that few streams ask for large ones.
const ASKED_BYTES: u64 = 16 << 20;
const MIN_PIECE_BYTES: u64 = 2 << 20;

/// What there is to do.
#[derive(Debug)]
struct Pull {
    third: Arc<ThirdPartyCopier>,
    order: CopyRequest,
    remote: Arc<PullSourceStorage>,
    landing: Arc<PullTarget>,
    /// Its size, if that is known.
    size: Option<u64>,
    streams: usize,
    replace: bool,
    /// Of the request.
    headers: HeaderMap,
}

pub(crate) async fn handle(
    context: &Arc<ServerContext>,
    third: &Arc<ThirdPartyCopier>,
    request: &ServerRequest,
    url: &str,
) -> Result<ServerResponse, HttpError> {
    let PutTarget { may_replace, there } = writable(context, request).await?;
    let order = CopyRequest::parse(&request.headers, url)?;
    let replace = request.overwrites()?;
    if there.is_some() && !replace {
        let what = "the file exists, and the request does not allow to replace it";
        return Err(HttpError::new(StatusCode::PRECONDITION_FAILED, what));
    }
    let taking = third.take_slot(CopyDirection::Pull, &context.copies)?;
    let looked = third.first_look(&order.other).await?;
    let size = match looked {
        Ok(RemoteState::There(size)) => Some(size),
        Ok(RemoteState::Unknown) => None,
        Ok(RemoteState::Absent) => {
            let what = format!("{} does not exist", order.other);
            return Ok(over(taking, Error::new(ErrorKind::NotFound, what)));
        }
        Err(error) => return Ok(over(taking, error)),
    };
    let streams = order.streams.unwrap_or(usize::MAX).min(third.settings.streams);
    let remote = Arc::new(PullSourceStorage::new(&third.network, &order.other, size));
    let source = Arc::clone(remote.source());
    let landing = PullTarget::new(Arc::clone(context), request.path.clone(), source, streams);
    // Where the size is not known, it is seen at least whether there is a place for it.
    landing.begin(size.unwrap_or(0)).await?;
    let landing = Arc::new(landing);
    let headers = request.headers.clone();
    let third = Arc::clone(third);
    let every = third.settings.marker();
    let (count, left) = (Arc::clone(&landing), Arc::clone(&landing));
    let clean_up = async move { left.give_up() };
    let replace = replace && may_replace;
    let pull = Pull { third, order, remote, landing, size, streams, replace, headers };
    let telling =
        perf_markers::tell(MarkedCopy { work: pull.run(), clean_up, count, every, taking });
    let answer = ServerResponse::empty(StatusCode::ACCEPTED).with(header::CONTENT_TYPE, TYPE);
    Ok(ServerResponse { body: ResponseBody::Stream(telling), ..answer })
}

/// The answer about a copy that failed before it began, through no fault of the request: as one that failed later.
pub(super) fn over(
    taking: crate::third_party::copy_slot::CopySlot,
    error: Error,
) -> ServerResponse {
    let outcome = Err(error);
    taking.finish(&outcome);
    let text = outcome.err().map(perf_markers::told).unwrap_or_default();
    let answer = ServerResponse::empty(StatusCode::ACCEPTED).with(header::CONTENT_TYPE, TYPE);
    ServerResponse { body: ResponseBody::Whole(text), ..answer }
}

impl Pull {
    async fn run(self) -> Result<u64> {
        let (third, other) = (&self.third, &self.order.other);
        // A server may need as long for a checksum as for the file itself.
        let told = async { Ok(remote::checksums(&third.network, other).await) };
        let ((), told) = futures_util::future::try_join(self.moved(), told).await?;
        let lost = || Error::new(ErrorKind::Local, "the fetched file was already discarded");
        let (writer, passed) = self.landing.written().ok_or_else(lost)?;
        let is_required = self.order.require_checksum.unwrap_or(third.settings.require_checksum);
        let comparison = ChecksumComparison { told, passed, is_required, other: other.to_string() };
        let compute = async |algorithm| {
            let what = "cannot read the copied file again for its checksum";
            let computed = writer.checksum(algorithm).await;
            computed.map_err(|error| Error::new(ErrorKind::Local, what).with_source(error))
        };
        let sums = comparison.compare(compute).await?;
        self.landing.publish(self.headers, self.replace, sums).await.map_err(local_error)
    }

    /// Fetches all of it.
    async fn moved(&self) -> Result<()> {
        let mut options = CopyOptions::default();
        // What it is, is asked of the storage, which knows.
        options.recursive = self.size.is_some();
        options.verify = Verify::Algorithm(Algorithm::Adler32);
        options.block_bytes = (ASKED_BYTES / self.streams.max(1) as u64).max(MIN_PIECE_BYTES);
        options.max_workers = self.streams;
        let progress = Arc::new(CopyProgress::default());
        let source =
            place(Arc::<PullSourceStorage>::clone(&self.remote), self.remote.path().to_owned());
        let ground = Arc::new(PullTargetStorage(Arc::clone(&self.landing)));
        let target = Destination::File(place(ground, self.landing.path().to_owned()));
        let copying = copy(vec![source], target, options, Arc::clone(&progress));
        let moved = || {
            let figures = progress.figures();
            // Nothing has to come when everything has.
            let is_all = figures.bytes_found > 0 && figures.bytes_done >= figures.bytes_found;
            (!is_all).then_some(figures.bytes_arrived)
        };
        let watch = StallWatchdog::new(&self.third, &self.order.other);
        let summary = watch.over(Box::pin(copying), moved).await??;
        match summary.error() {
            None => Ok(()),
            Some(error) if error.kind() == ErrorKind::Unauthenticated => {
                Err(remote::not_let(&self.order.other, 401, &self.order))
            }
            Some(error) => Err(error),
        }
    }
}

fn place(storage: Arc<dyn hither_core::Storage>, path: String) -> CopyPath {
    CopyPath { storage, path, local: None, is_directory: false, contents: false }
}
