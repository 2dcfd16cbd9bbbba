//! The HTTP/2 connections to a server that supports single ranges only, and the distribution of
//! their streams.
//!
//! There, a read of many pieces takes many requests, which wait for each other: over HTTP/1.1, one
//! request at a time per connection. So such a server is offered HTTP/2 in the handshake (ALPN, RFC
//! 7301), once its capabilities are known. Servers that support many ranges in one request need
//! nothing better, except where many small files are fetched, each by a request of its own.
//!
//! **Shared connections.** Small responses share connections, because their number matters. A large
//! response ([`SHARED_BYTES`]) gets an HTTP/1.1 connection of its own, because there the windows of
//! many connections matter. Where the caller allows few connections, all requests share them.
//!
//! **Number of connections.** One for each initial window of responses in progress, since windows
//! open per connection, or as many as give every request a stream; at most [`MAX_CONNECTIONS`],
//! beyond which nothing is gained (decision 0007 has the figures). They count among the connections
//! that caller and server allow: at the limit, an idle HTTP/1.1 connection is closed for a new one.
//!
//! **Waiting.** A request takes a stream on the connection that has the fewest, or waits in line. A
//! new connection serves its share of the line only, as long as others are being opened.
//!
//! **Servers without HTTP/2.** If the server chooses `http/1.1` in the handshake, the connection
//! becomes an HTTP/1.1 connection, and HTTP/2 is not offered again, also by later processes
//! (`Endpoint::streams`). Until the server has chosen, it is offered on one connection, in addition
//! to the HTTP/1.1 connections if there are any. A server that closes HTTP/2 connections before any
//! response counts as one without HTTP/2.

use super::{Pool, PooledConnection};
use crate::pool::http2::{Http2Connection, Http2Stream};
use crate::pool::request_sender::RequestSender;
use hither_core::endpoint::RangeSupport;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::source::link::INITIAL_WINDOW_BYTES;
use hither_core::sync::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;
use tracing::trace;

/// The maximum number of HTTP/2 connections to one endpoint.
pub(super) const MAX_CONNECTIONS: usize = 8;

/// Responses with more bytes than this get a connection of their own.
const SHARED_BYTES: u64 = 128 * 1024;

/// The HTTP/2 connections to one endpoint.
#[derive(Debug, Default)]
pub(super) struct Http2Pool {
    state: Mutex<Http2PoolState>,
}

#[derive(Debug, Default)]
pub(super) struct Http2PoolState {
    /// Streams per connection; 1 if the server supports no HTTP/2, 0 if that is unknown.
    pub(super) each: usize,
    pub(super) open: Vec<Arc<Http2Connection>>,
    pub(super) connecting: usize,
    /// The waiters. One that receives `None` takes an HTTP/1.1 connection instead.
    pub(super) waiting: VecDeque<oneshot::Sender<Result<Option<Http2Stream>>>>,
    /// The bytes of the last request: the next ones will be similar.
    answer_bytes: u64,
    /// HTTP/2 could not be tried.
    pub(super) given_up: bool,
    /// Connections were opened before they were needed.
    pub(super) speculated: bool,
    /// Many small files are fetched.
    small_files: bool,
}

impl Http2Pool {
    /// No connection yet, to a server with `each` streams per connection.
    pub(super) fn new(each: usize) -> Self {
        Self { state: Mutex::new(Http2PoolState { each, ..Http2PoolState::default() }) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, Http2PoolState> {
        lock(&self.state)
    }

    /// The value of `Endpoint::streams`.
    pub(super) fn each(&self) -> usize {
        self.state().each
    }

    /// Connections, including those that are being opened.
    pub(super) fn connections(&self) -> usize {
        self.state().connections()
    }

    /// Requests that could be sent immediately.
    pub(super) fn free(&self) -> usize {
        self.state().open.iter().map(|connection| connection.free()).sum()
    }
}

impl Http2PoolState {
    pub(super) fn connections(&self) -> usize {
        self.open.len() + self.connecting
    }

    /// The connection with the fewest requests, if it has a free stream.
    fn freest(&self) -> Option<&Arc<Http2Connection>> {
        let free = self.open.iter().filter(|connection| connection.free() > 0);
        free.min_by_key(|connection| connection.taken())
    }

    /// The number of connections that the current requests and waiters need.
    pub(super) fn wanted(&self) -> usize {
        let busy: usize = self.open.iter().map(|connection| connection.taken()).sum();
        let requests = busy + self.waiting.len();
        let windows = (requests as u64).saturating_mul(self.answer_bytes) / INITIAL_WINDOW_BYTES;
        let by_windows = usize::try_from(windows).unwrap_or(usize::MAX).saturating_add(1);
        by_windows.max(requests.div_ceil(self.each.max(1)))
    }

    /// Removes all waiters, to send them elsewhere.
    pub(super) fn dismiss(&mut self) -> VecDeque<oneshot::Sender<Result<Option<Http2Stream>>>> {
        std::mem::take(&mut self.waiting)
    }
}

impl Pool {
    /// A connection for one request whose response has this many bytes. Fails at once if the server
    /// refuses connections.
    pub(crate) async fn acquire_for(self: &Arc<Self>, bytes: u64) -> Result<PooledConnection> {
        if self.shares(bytes)
            && let Some(place) = self.place(bytes).await?
        {
            return Ok(PooledConnection {
                pool: Arc::clone(self),
                sender: Some(RequestSender::Http2(place)),
            });
        }
        self.acquire_now().await
    }

    /// The maximum number of parallel requests.
    #[must_use]
    pub fn max_requests(&self) -> usize {
        let connections = self.max_connections();
        let each = self.streams.each();
        if each <= 1 || !self.may_share() {
            return connections;
        }
        let places = MAX_CONNECTIONS.min(connections) * each;
        places.min(self.limiter().limit().unwrap_or(usize::MAX)).max(connections)
    }

    /// Returns whether small requests share connections.
    pub(crate) fn is_shared(&self) -> bool {
        self.streams.each() > 1 && self.may_share()
    }

    /// Opens connections up to `connections`, or as many as help; returns immediately.
    pub(crate) fn warm_shared(self: &Arc<Self>, connections: usize) {
        let start = self.start(&mut self.streams.state(), connections);
        self.spawn_shared(start);
    }

    /// Announces that many small files will be fetched.
    pub(crate) fn announce_small_files(self: &Arc<Self>) {
        let was_known = std::mem::replace(&mut self.streams.state().small_files, true);
        if !was_known && self.may_share() {
            self.warm_shared(1);
        }
    }

    /// Returns whether the server may support HTTP/2 and it would help.
    fn may_share(&self) -> bool {
        let is_single = self.server().ranges() == RangeSupport::Single;
        let state = self.streams.state();
        let helps = is_single || state.small_files;
        self.location.is_tls() && helps && state.each != 1 && !state.given_up
    }

    fn shares(self: &Arc<Self>, bytes: u64) -> bool {
        let small = bytes <= SHARED_BYTES || self.max_connections() <= MAX_CONNECTIONS;
        if !small || !self.may_share() {
            return false;
        }
        if self.streams.each() == 0 && self.connections() > 0 {
            // It is tried in the background: a request that has a connection need not wait for it.
            self.warm_shared(1);
            return false;
        }
        true
    }

    /// A stream on a connection; `None` if there can be no connection.
    async fn place(self: &Arc<Self>, bytes: u64) -> Result<Option<Http2Stream>> {
        let (start, receiver) = {
            let mut state = self.streams.state();
            state.open.retain(|connection| !connection.is_gone());
            state.answer_bytes = bytes;
            let free = state.freest().filter(|_| state.waiting.is_empty()).map(Arc::clone);
            if let Some(connection) = free {
                connection.take();
                let wanted = state.wanted();
                let start = self.start(&mut state, wanted);
                drop(state);
                self.spawn_shared(start);
                return Ok(Some(Http2Stream::new(Arc::clone(self), connection)));
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back(sender);
            let wanted = state.wanted();
            let start = self.start(&mut state, wanted);
            if state.connections() == 0 {
                // The limit on connections is reached. Earlier waiters have lost theirs.
                for waiter in state.dismiss() {
                    drop(waiter.send(Ok(None)));
                }
                return Ok(None);
            }
            (start, receiver)
        };
        self.spawn_shared(start);
        self.in_turn(receiver).await?.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Cancelled, "the client was shut down while connecting"))
        })
    }

    /// Reserves the connections that are missing to `wanted`, as far as allowed. The caller then
    /// [opens](Self::spawn_shared) them, without the lock.
    pub(super) fn start(&self, state: &mut Http2PoolState, wanted: usize) -> usize {
        // One connection is enough to find out whether the server supports HTTP/2.
        let most = if state.each == 0 { 1 } else { MAX_CONNECTIONS };
        let mut start = 0;
        while state.connections() < wanted.min(most) && self.has_room(state.connections()) {
            state.connecting += 1;
            start += 1;
        }
        start
    }

    /// Returns whether one more connection is allowed in addition to `shared` HTTP/2 connections.
    /// Closes an idle HTTP/1.1 connection if need be.
    fn has_room(&self, shared: usize) -> bool {
        let most = self.max_connections();
        let mut state = self.state();
        if state.open + state.connecting + shared < most {
            return true;
        }
        let idle = state.idle.pop();
        state.open -= usize::from(idle.is_some());
        idle.is_some()
    }

    /// Records the stream limit that the server announced.
    pub(super) fn set_stream_limit(self: &Arc<Self>, streams: usize) {
        if streams <= 1 {
            return self.no_streams();
        }
        trace!(server = %self.location.origin(), streams, "HTTP/2 stream limit");
        self.streams.state().each = streams;
        self.serve();
    }

    /// Records that the server does not support HTTP/2.
    pub(crate) fn no_streams(&self) {
        let dismissed = {
            let mut state = self.streams.state();
            state.each = 1;
            state.open.iter().for_each(|connection| connection.retire());
            state.open.clear();
            state.dismiss()
        };
        for waiter in dismissed {
            drop(waiter.send(Ok(None)));
        }
    }

    /// Removes a connection that accepts no more requests, and replaces it if there are waiters.
    pub(crate) fn parted(self: &Arc<Self>, connection: &Arc<Http2Connection>) {
        if connection.failed_before_response() {
            return self.no_streams();
        }
        let (start, dismissed) = {
            let mut state = self.streams.state();
            state.open.retain(|it| !Arc::ptr_eq(it, connection));
            let wanted = if state.waiting.is_empty() { 0 } else { state.wanted() };
            let start = self.start(&mut state, wanted);
            let none = state.connections() == 0;
            (start, if none { state.dismiss() } else { VecDeque::new() })
        };
        self.spawn_shared(start);
        for waiter in dismissed {
            drop(waiter.send(Ok(None)));
        }
    }

    /// Gives free streams to the waiters.
    pub(crate) fn serve(self: &Arc<Self>) {
        self.progress.note();
        self.serve_share();
    }

    /// Gives the waiters their free streams, without connections that are still being opened.
    pub(super) fn serve_share(self: &Arc<Self>) {
        let mut share = {
            let mut state = self.streams.state();
            state.waiting.retain(|waiter| !waiter.is_closed());
            state.waiting.len().div_ceil(1 + state.connecting)
        };
        while share > 0 {
            let (waiter, connection) = {
                let mut state = self.streams.state();
                let Some(connection) = state.freest().map(Arc::clone) else { return };
                let Some(waiter) = state.waiting.pop_front() else { return };
                connection.take();
                (waiter, connection)
            };
            let place = Http2Stream::new(Arc::clone(self), connection);
            // That request was cancelled; the next one gets its stream.
            match waiter.send(Ok(Some(place))) {
                Err(Ok(Some(place))) => place.undo(),
                _ => share -= 1,
            }
        }
    }
}
