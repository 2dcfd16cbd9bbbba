//! HTTP/2 to a server that answers one range for each request: the connections, and who gets a place on which.
//!
//! There, a read of many pieces takes as many round trips as it has requests for each that may be under way, and over
//! HTTP/1.1 that is one for each connection. So such a server is offered HTTP/2 in the handshake (ALPN, RFC 7301), once
//! its record says that it is one; servers that take many ranges in one request need nothing better.
//!
//! **What shares.** Small answers share connections, since their number is what counts. A large one
//! ([`SHARED_BYTES`]) gets a connection of its own over HTTP/1.1, as it always has: there, it is the windows of many
//! connections that count. Where the caller allows few connections, all requests share them.
//!
//! **How many connections.** One for each initial window of answers under way, since windows open per connection, or as
//! many as give every request a place; [`MAX_CONNECTIONS`] at the most, beyond which nothing is gained (decision 0007
//! has the figures). They count among the connections that caller and server allow: where there is no room, an idle one
//! of HTTP/1.1 makes way.
//!
//! **Who waits.** A request takes a place on the connection that has the fewest, or waits in line. A connection that comes
//! up serves its share of the line only, as long as others are on their way.
//!
//! **What if the server does not.** One that chooses `http/1.1` in the handshake has made that connection an ordinary one,
//! and is asked no more, also by later processes (`Endpoint::streams`). Until it has chosen, it is asked on one connection, beside
//! the ordinary ones if there are any. One that breaks connections of HTTP/2 before it has answered anything is taken
//! for one that does not speak it.

use super::{Pool, PooledConnection};
use crate::pool::http2::{Http2Connection, Http2Stream};
use crate::pool::request_sender::RequestSender;
use hither_core::endpoint::RangeSupport;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use hither_core::tune::link::INITIAL_WINDOW_BYTES;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;
use tracing::trace;

/// Connections of HTTP/2 to one endpoint.
pub(super) const MAX_CONNECTIONS: usize = 8;

/// Answers of more bytes than this get a connection of their own.
const SHARED_BYTES: u64 = 128 * 1024;

/// The connections of HTTP/2 to one endpoint.
#[derive(Debug, Default)]
pub(super) struct Http2Pool {
    state: Mutex<Http2PoolState>,
}

#[derive(Debug, Default)]
pub(super) struct Http2PoolState {
    /// Streams that a connection may carry; 1 if the server has none, 0 if it was never asked.
    pub(super) each: usize,
    pub(super) open: Vec<Arc<Http2Connection>>,
    pub(super) connecting: usize,
    /// Those in line get none if they had better take another connection.
    pub(super) waiting: VecDeque<oneshot::Sender<Result<Option<Http2Stream>>>>,
    /// Bytes that the last request asked for: the others will be alike.
    answer_bytes: u64,
    /// The server could not be asked.
    pub(super) given_up: bool,
    /// Connections have been started before anybody needed them.
    pub(super) speculated: bool,
}

impl Http2Pool {
    /// None yet, to a server that allowed `each` of them on a connection.
    pub(super) fn new(each: usize) -> Self {
        Self { state: Mutex::new(Http2PoolState { each, ..Http2PoolState::default() }) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, Http2PoolState> {
        lock(&self.state)
    }

    /// What `Endpoint::streams` is to say.
    pub(super) fn each(&self) -> usize {
        self.state().each
    }

    /// Connections, also those on their way.
    pub(super) fn connections(&self) -> usize {
        self.state().connections()
    }

    /// Requests that could be sent at once.
    pub(super) fn free(&self) -> usize {
        self.state().open.iter().map(|connection| connection.free()).sum()
    }
}

impl Http2PoolState {
    pub(super) fn connections(&self) -> usize {
        self.open.len() + self.connecting
    }

    /// The connection with the fewest requests, if it may have one more.
    fn freest(&self) -> Option<&Arc<Http2Connection>> {
        let free = self.open.iter().filter(|connection| connection.free() > 0);
        free.min_by_key(|connection| connection.taken())
    }

    /// Connections that pay for what is under way and in line.
    pub(super) fn wanted(&self) -> usize {
        let busy: usize = self.open.iter().map(|connection| connection.taken()).sum();
        let requests = busy + self.waiting.len();
        let windows = (requests as u64).saturating_mul(self.answer_bytes) / INITIAL_WINDOW_BYTES;
        let by_windows = usize::try_from(windows).unwrap_or(usize::MAX).saturating_add(1);
        by_windows.max(requests.div_ceil(self.each.max(1)))
    }

    /// Sends everybody in line elsewhere.
    pub(super) fn dismiss(&mut self) -> VecDeque<oneshot::Sender<Result<Option<Http2Stream>>>> {
        std::mem::take(&mut self.waiting)
    }
}

impl Pool {
    /// A way for one request whose answer has so many bytes.
    pub(crate) async fn acquire_for(self: &Arc<Self>, bytes: u64) -> Result<PooledConnection> {
        if self.shares(bytes)
            && let Some(place) = self.place(bytes).await?
        {
            return Ok(PooledConnection {
                pool: Arc::clone(self),
                way: Some(RequestSender::Http2(place)),
            });
        }
        self.acquire().await
    }

    /// Most requests that may be under way at a time.
    #[must_use]
    pub fn max_requests(&self) -> usize {
        let connections = self.max_connections();
        let each = self.streams.each();
        if each <= 1 || !self.may_share() {
            return connections;
        }
        let places = MAX_CONNECTIONS.min(connections) * each;
        places.min(self.welcome().limit().unwrap_or(usize::MAX)).max(connections)
    }

    /// Whether small requests share connections.
    pub(crate) fn is_shared(&self) -> bool {
        self.streams.each() > 1 && self.may_share()
    }

    /// Starts connecting until there are so many connections, or as many as pay; returns at once.
    pub(crate) fn warm_shared(self: &Arc<Self>, connections: usize) {
        let start = self.start(&mut self.streams.state(), connections);
        self.spawn_shared(start);
    }

    /// Whether the server may speak HTTP/2 and it would be of use.
    fn may_share(&self) -> bool {
        if !self.location.is_tls() || self.server().ranges() != RangeSupport::Single {
            return false;
        }
        let state = self.streams.state();
        state.each != 1 && !state.given_up
    }

    fn shares(self: &Arc<Self>, bytes: u64) -> bool {
        let small = bytes <= SHARED_BYTES || self.max_connections() <= MAX_CONNECTIONS;
        if !small || !self.may_share() {
            return false;
        }
        if self.streams.each() == 0 && self.connections() > 0 {
            // It is asked on the side: who has a connection need not wait for the answer.
            self.warm_shared(1);
            return false;
        }
        true
    }

    /// A place on a connection; none if there is none to be had.
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
                // There is no room.
                state.waiting.pop_back();
                return Ok(None);
            }
            (start, receiver)
        };
        self.spawn_shared(start);
        receiver.await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Cancelled, "the client was shut down while connecting"))
        })
    }

    /// Counts as many connections as started as are missing to `wanted` and have room. They are then to be
    /// [spawned](Self::spawn_shared), without the lock.
    pub(super) fn start(&self, state: &mut Http2PoolState, wanted: usize) -> usize {
        // Until it is known whether the server speaks HTTP/2, one is enough.
        let most = if state.each == 0 { 1 } else { MAX_CONNECTIONS };
        let mut start = 0;
        while state.connections() < wanted.min(most) && self.has_room(state.connections()) {
            state.connecting += 1;
            start += 1;
        }
        start
    }

    /// Whether there may be one more connection beside `shared` of HTTP/2. An idle one of the others makes way.
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

    /// The server has said how many streams it allows.
    pub(super) fn told(self: &Arc<Self>, streams: usize) {
        if streams <= 1 {
            return self.no_streams();
        }
        trace!(server = %self.location.origin(), streams, "HTTP/2 stream limit");
        self.streams.state().each = streams;
        self.serve();
    }

    /// The server has none.
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

    /// A connection takes no further requests: replaces it if somebody is still in line.
    pub(crate) fn parted(self: &Arc<Self>, connection: &Arc<Http2Connection>) {
        if connection.is_barren() {
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

    /// Gives the places that are free to those in line.
    pub(crate) fn serve(self: &Arc<Self>) {
        let share = {
            let state = self.streams.state();
            state.waiting.len().div_ceil(1 + state.connecting)
        };
        for _ in 0..share {
            let (waiter, connection) = {
                let mut state = self.streams.state();
                let Some(connection) = state.freest().map(Arc::clone) else { return };
                let Some(waiter) = state.waiting.pop_front() else { return };
                connection.take();
                (waiter, connection)
            };
            let place = Http2Stream::new(Arc::clone(self), connection);
            // That request was dropped; the next one gets its place.
            if let Err(Ok(Some(place))) = waiter.send(Ok(Some(place))) {
                place.undo();
            }
        }
    }
}
