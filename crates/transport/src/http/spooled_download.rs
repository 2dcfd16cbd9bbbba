//! The single download of a file whose server does not support ranges.
//!
//! Some servers send the whole file for every request. So there is one download only: it runs as
//! far as bytes are needed, pauses there with its connection open, and its bytes are kept in an
//! unnamed temporary file. The next request is served from the kept bytes, then continues the
//! download. A small file that arrives whole where a few ranges were requested is kept in the same
//! way.
//!
//! Requests take turns, because there is one stream of bytes. A turn is one chunk, read by a task
//! of its own: a request may be blocked while its bytes are not written, and bytes that are written
//! in order may wait for those of another request. If the connection is lost, a new download starts
//! and skips what is kept already.

use crate::http::delivery::Delivery;
use crate::http::exchange::version_check;
use crate::http::response_body::next_chunk;
use crate::location::Location;
use crate::pool::Pool;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use hither_core::error::{Error, ErrorKind, Failure, Result};
use hither_core::{Request, range, validators_differ};
use hyper::body::Incoming;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Mutex;

/// Bytes read back at a time.
const PIECE_BYTES: u64 = 256 * 1024;

/// The space for the kept bytes of a file, where it is limited.
pub trait SpoolSpace: Debug + Send + Sync {
    /// Takes the space for the first `bytes` of the file, before they are kept. Earlier calls have
    /// taken it for fewer.
    fn take(&self, bytes: u64) -> BoxFuture<'_, Result<()>>;
}

/// The download of one file, if there is one.
#[derive(Debug, Default)]
pub(crate) struct SpooledDownload {
    started: AtomicBool,
    state: Arc<Mutex<SpoolState>>,
}

/// The next bytes for a request.
#[derive(Debug)]
enum Turn {
    /// The bytes are in this file, up to this offset.
    Kept(Arc<File>, u64),
    /// A chunk has arrived, and its offset.
    Arrived(u64, Bytes),
    /// The file has ended.
    Ended,
    /// A new response is needed.
    Interrupted,
}

/// A response with the whole file.
#[derive(Debug)]
pub(crate) struct WholeFileResponse {
    pub(crate) body: Incoming,
    pub(crate) size: Option<u64>,
    pub(crate) validator: Option<String>,
    /// The response is labelled as an HTML page.
    pub(crate) is_page: bool,
}

#[derive(Debug, Default)]
struct SpoolState {
    space: Option<Arc<dyn SpoolSpace>>,
    /// The rest of the download; `None` if it is complete or was interrupted.
    body: Option<Incoming>,
    kept: Option<Arc<File>>,
    /// The number of bytes kept, from the first one on.
    have: u64,
    /// Bytes of the body that repeat what is kept.
    skip: u64,
    /// A chunk that was taken from the body and not kept yet: the request that took it may have
    /// been dropped meanwhile.
    pending: Option<Bytes>,
    size: Option<u64>,
    /// The size is the number of bytes that a response without a length had.
    is_size_counted: bool,
    ended: bool,
    validator: Option<String>,
    is_page: bool,
}

impl SpooledDownload {
    /// A download that takes its space from `space`.
    pub(crate) fn within(space: Arc<dyn SpoolSpace>) -> Self {
        let state = SpoolState { space: Some(space), ..SpoolState::default() };
        Self { state: Arc::new(Mutex::new(state)), ..Self::default() }
    }

    /// Returns whether something is kept, so that no ranges need to be requested.
    pub(crate) fn is_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// The validator of the kept version.
    pub(crate) async fn validator(&self, pool: &Pool) -> Option<String> {
        pool.in_turn(self.state.lock()).await.ok()?.validator.clone()
    }

    /// Delivers the ranges of `request`, from the kept bytes and from the download. `arrived` is a
    /// new response, needed if no download is in progress. Returns false if a new response is
    /// needed.
    pub(crate) async fn serve(
        &self,
        arrived: Option<WholeFileResponse>,
        request: &Request,
        delivery: &mut Delivery<'_>,
        location: &Location,
    ) -> Result<bool> {
        let pool = delivery.pool;
        let mut state = pool.in_turn(self.state.lock()).await?;
        if let Some(arrived) = arrived {
            state.adopt(arrived, location, pool)?;
            self.started.store(true, Ordering::Release);
        }
        state.check(request, location)?;
        let mut size = state.size;
        drop(state);
        if request.tail > 0 && size.is_none() {
            // The start of the tail is known at the end only.
            while let Turn::Arrived(_, chunk) = self.turn(u64::MAX, 0, pool, location).await? {
                pool.counters().payload(chunk.len() as u64);
            }
            size = pool.in_turn(self.state.lock()).await?.size;
        }
        delivery.size = size;
        let mut rest = wanted(request, size);
        while let Some(first) = rest.first().cloned() {
            let got = delivery.received_bytes();
            let done = match self.turn(first.start, got, pool, location).await? {
                Turn::Kept(file, end) => {
                    let kept = first.start..first.end.min(end);
                    read_back(&file, kept.clone(), delivery).await?;
                    kept
                }
                Turn::Arrived(offset, chunk) => {
                    delivery.deliver_within(&rest, offset, &chunk);
                    offset..offset.saturating_add(chunk.len() as u64)
                }
                Turn::Ended => break,
                Turn::Interrupted if got == 0 => return Ok(false),
                Turn::Interrupted => return Err(interrupted(location, got)),
            };
            rest = range::difference(&rest, &[done]);
        }
        if size.is_none() {
            self.check_end(request, delivery, location).await?;
        }
        let state = pool.in_turn(self.state.lock()).await?;
        delivery.size = state.size;
        delivery.is_size_counted = state.is_size_counted;
        Ok(true)
    }

    /// Fails if a file of unknown size goes on after the end that `request` expects, up to which it
    /// was delivered: it is another version. An end that cannot be read shows nothing, but bytes
    /// that cannot be kept have been read.
    async fn check_end(
        &self,
        request: &Request,
        delivery: &mut Delivery<'_>,
        location: &Location,
    ) -> Result<()> {
        let last = request.ranges.last().map(|range| range.end);
        let Some(end) = request.size.filter(|size| last == Some(*size)) else { return Ok(()) };
        let next = self.turn(end, delivery.received_bytes(), delivery.pool, location).await;
        if let Ok(Turn::Arrived(offset, chunk)) = &next {
            delivery.deliver_within(&[], *offset, chunk);
        }
        match next {
            Ok(Turn::Kept(..) | Turn::Arrived(..)) => {
                let what = format!("{location}: the file has more bytes than the expected {end}");
                Err(Error::new(ErrorKind::Changed, what))
            }
            Err(error) if matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Local) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// The bytes at `at`, or the next ones of the download, for a request that `got` some already.
    async fn turn(&self, at: u64, got: u64, pool: &Arc<Pool>, location: &Location) -> Result<Turn> {
        let state = Arc::clone(&self.state);
        let of = Arc::clone(pool);
        let location = location.clone();
        let turn = async move {
            let mut state = state.lock_owned().await;
            match (&state.kept, &state.body) {
                (Some(file), _) if at < state.have => {
                    return Ok(Turn::Kept(Arc::clone(file), state.have));
                }
                (_, None) if state.ended => return Ok(Turn::Ended),
                (_, None) => return Ok(Turn::Interrupted),
                _ => {}
            }
            let pulled = state.pull(&location, &of, got).await?;
            Ok(pulled.map_or(Turn::Ended, |(offset, chunk)| Turn::Arrived(offset, chunk)))
        };
        pool.in_turn(tokio::spawn(turn)).await?.map_err(|error| {
            Error::new(ErrorKind::Cancelled, "the download was cancelled").with_source(error)
        })?
    }
}

/// The ranges of a request, ascending.
fn wanted(request: &Request, size: Option<u64>) -> Vec<Range<u64>> {
    let mut ranges = request.ranges.clone();
    if let (1.., Some(size)) = (request.tail, size) {
        ranges.push(size.saturating_sub(request.tail)..size);
        for range in &mut ranges {
            range.end = range.end.min(size);
        }
    }
    range::merged(&ranges, 0)
}

impl SpoolState {
    /// Adopts a new response as the rest of the file, unless a download is in progress.
    fn adopt(
        &mut self,
        arrived: WholeFileResponse,
        location: &Location,
        pool: &Pool,
    ) -> Result<()> {
        if self.body.is_some() || self.ended {
            return Ok(());
        }
        let same = self.validator == arrived.validator
            && self.is_page == arrived.is_page
            && (self.size.is_none() || arrived.size.is_none() || self.size == arrived.size);
        if self.have > 0 && !same {
            return Err(Error::new(
                ErrorKind::Changed,
                format!("{location}: the file changed on the server while it was read"),
            ));
        }
        if self.kept.is_none() {
            let made = match &pool.config().spool {
                // The user need not be able to write to the folder where nothing is confined.
                Some(folder) => tempfile::tempfile_in(folder).or_else(|_| tempfile::tempfile()),
                None => tempfile::tempfile(),
            };
            self.kept = Some(Arc::new(made.map_err(|error| cannot_keep(&error))?));
        }
        pool.counters().whole_file();
        self.skip = self.have;
        self.size = self.size.or(arrived.size);
        self.validator = arrived.validator;
        self.is_page = arrived.is_page;
        self.body = Some(arrived.body);
        Ok(())
    }

    /// Rejects a request for another version than the kept one.
    fn check(&self, request: &Request, location: &Location) -> Result<()> {
        let other = |wanted: &String| {
            self.validator.as_ref().is_some_and(|kept| validators_differ(kept, wanted))
        };
        if request.validator.as_ref().is_some_and(other) {
            return Err(Error::new(
                ErrorKind::Changed,
                format!("{location}: another version of the file was read before"),
            ));
        }
        // No byte of it may be delivered: a page that came first may be kept in place of the file.
        version_check::check_page(request, self.is_page, self.size, location)?;
        version_check::check_size(request, self.size, location)?;
        let size = self.size.filter(|_| !self.is_size_counted);
        request.version.bind(&location.to_string(), size, self.validator.as_deref())
    }

    /// The next chunk of the file, which has been kept, and its offset; `None` at the end.
    async fn pull(
        &mut self,
        location: &Location,
        pool: &Pool,
        got: u64,
    ) -> Result<Option<(u64, Bytes)>> {
        while self.pending.is_none() {
            let Some(body) = &mut self.body else { return Ok(None) };
            match next_chunk(body, location, pool, got).await {
                Ok(Some(mut chunk)) => {
                    let repeated = self.skip.min(chunk.len() as u64);
                    self.skip -= repeated;
                    pool.counters().payload(repeated);
                    drop(chunk.split_to(usize::try_from(repeated).unwrap_or(chunk.len())));
                    self.pending = Some(chunk).filter(|chunk| !chunk.is_empty());
                }
                Ok(None) => {
                    self.body = None;
                    // An earlier response had more bytes, or stated another length.
                    if self.skip > 0 || self.size.is_some_and(|size| size != self.have) {
                        return Err(interrupted(location, got));
                    }
                    self.ended = true;
                    self.is_size_counted = self.size.is_none();
                    self.size = Some(self.have);
                    return Ok(None);
                }
                Err(error) => {
                    self.body = None;
                    return Err(error);
                }
            }
        }
        let (Some(chunk), Some(file)) = (self.pending.clone(), self.kept.clone()) else {
            return Ok(None);
        };
        let offset = self.have;
        if let Some(space) = &self.space {
            space.take(offset.saturating_add(chunk.len() as u64)).await?;
        }
        let written = chunk.clone();
        on_disk(move || file.write_all_at(&written, offset)).await?;
        self.pending = None;
        self.have += chunk.len() as u64;
        if self.size == Some(self.have) {
            self.body = None;
            self.ended = true;
        }
        Ok(Some((offset, chunk)))
    }
}

/// Delivers a range of the bytes that are kept in `file`.
async fn read_back(file: &Arc<File>, range: Range<u64>, delivery: &mut Delivery<'_>) -> Result<()> {
    let mut at = range.start;
    while at < range.end {
        let bytes = (range.end - at).min(PIECE_BYTES);
        let mut piece = vec![0; usize::try_from(bytes).unwrap_or_default()];
        let file = Arc::clone(file);
        let piece = on_disk(move || file.read_exact_at(&mut piece, at).map(|()| piece)).await?;
        delivery.deliver_kept(at, piece.into());
        at += bytes;
    }
    Ok(())
}

/// The error of a request whose download was interrupted while another request read it.
fn interrupted(location: &Location, got: u64) -> Error {
    let what = format!(
        "{location}: the connection was lost in the middle of a response, after {got} bytes of the file"
    );
    Error::new(ErrorKind::Unavailable, what)
        .with_failure(Failure::Interrupted(hither_core::Delivery::Sent))
}

/// Runs `work`, which may wait for the disk, on a thread that may block.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other).and_then(|done| done).map_err(|error| cannot_keep(&error))
}

fn cannot_keep(error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        _ => ErrorKind::Local,
    };
    Error::new(
        kind,
        format!(
            "the server sends whole files only, and this file cannot be kept in a temporary file (TMPDIR): {error}"
        ),
    )
}
