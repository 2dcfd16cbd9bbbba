//! A source behind a simulated link, in virtual time.
//!
//! [`SimulatedSource`] is a [`Source`] over a byte vector. In a test with tokio's paused clock
//! (`#[tokio::test(start_paused = true)]`) a link of 240 ms costs no time, and the times in the log
//! are those of a perfect network. So a test can assert round trips instead of measuring them.
//!
//! The model: opening a connection takes one round trip. A request leaves as soon as its connection
//! is open; its size does not matter. The response begins to leave the server half a round trip
//! later, in windows: ten segments of 1,448 bytes at first, doubling each round trip while the
//! connection is busy, and kept from one response to the next. All connections share the link's
//! rate in the order in which their windows leave. There are no losses, no receive windows and, by
//! default, no server time. Because tokio's timers count whole milliseconds, logged times are exact
//! for links without a rate whose round-trip time is an even number of milliseconds; otherwise a
//! chain of requests may drift by a millisecond each. [`SimulatedSource::with_clock`] takes a clock
//! that is exact.
//!
//! Every request is logged ([`SimulatedSource::log`]) with its connection and its times, and can be
//! made to fail ([`Fault`]). A request outside the limits, or with ranges out of order, is an
//! error: the planner is at fault.

mod activity;
mod clock;
mod connections;
mod fault;
mod parts;
mod settings;
mod window;

pub use activity::WaitCauses;
pub use fault::Fault;

use bytes::Bytes;
use clock::TokioClock;
use connections::{State, Taken};
use futures_core::future::BoxFuture;
use hither_core::sync::lock;
use hither_core::{
    Clock, Delivery, Endpoint, Error, ErrorKind, Failure, Limits, LinkEstimate, PartSink, Request,
    ResponseMeta, Result, Source, range,
};
use hither_netem::dependency_chain::longest_chain;
use hither_netem::link::Link;
use parts::{Content, Parts};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use window::Sending;

/// A record of one request. Times count from the first use of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Number of the connection, from 0 in the order of opening.
    pub connection: usize,
    /// The request.
    pub request: Request,
    /// The time at which it left the client on an open connection.
    pub start: Duration,
    /// The time at which the whole response or the error had arrived; `None` before that, and if
    /// the caller cancelled the request.
    pub end: Option<Duration>,
    /// Bytes of the file that arrived.
    pub bytes: u64,
    /// The request failed.
    pub failed: bool,
}

/// A file behind a simulated link.
#[derive(Debug)]
pub struct SimulatedSource {
    name: String,
    content: Content,
    link: Link,
    limits: Limits,
    max_connections: usize,
    timeout: Duration,
    /// Gaps of up to this many bytes between ranges are also sent.
    merging: u64,
    server_time: Duration,
    states_size: bool,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
    connection_free: Arc<Notify>,
}

/// The validator of a file that has not changed.
pub const FIRST_VALIDATOR: &str = "\"first\"";

impl SimulatedSource {
    /// Creates a source of these bytes behind `link`, with unlimited requests, 64 connections and
    /// no faults. Losses and the queue of the link are not modelled.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>, link: Link) -> Self {
        Self::of(Content::Bytes(bytes.into()), link)
    }

    /// A source of `size` bytes of zero, which take no memory.
    #[must_use]
    pub fn zeros(size: u64, link: Link) -> Self {
        Self::of(Content::Zeros(size), link)
    }

    fn of(content: Content, link: Link) -> Self {
        Self {
            name: format!("{} bytes in memory", content.len()),
            content,
            link,
            limits: Limits::unlimited(),
            max_connections: 64,
            timeout: Duration::MAX,
            merging: 0,
            server_time: Duration::ZERO,
            states_size: true,
            clock: Arc::new(TokioClock::default()),
            state: Arc::new(Mutex::new(State::new(link))),
            connection_free: Arc::new(Notify::new()),
        }
    }

    /// Another file of the same server, of `size` bytes of zero. It shares the settings, the
    /// connections, the link and the log.
    #[must_use]
    pub fn beside(&self, size: u64) -> Self {
        Self {
            name: format!("{size} bytes in memory"),
            content: Content::Zeros(size),
            link: self.link,
            limits: self.limits,
            max_connections: self.max_connections,
            timeout: self.timeout,
            merging: self.merging,
            server_time: self.server_time,
            states_size: self.states_size,
            clock: Arc::clone(&self.clock),
            state: Arc::clone(&self.state),
            connection_free: Arc::clone(&self.connection_free),
        }
    }

    /// The causes of a wait of a reader from `start` to `end`, the time at which the last byte that
    /// it needed arrived. Zero unless activity is recorded.
    #[must_use]
    pub fn causes(&self, start: Duration, end: Duration) -> WaitCauses {
        let state = self.state();
        let activity = state.activity.as_ref();
        activity.map(|activity| activity.causes(start, end)).unwrap_or_default()
    }

    /// All requests so far, in the order in which connections were assigned.
    #[must_use]
    pub fn log(&self) -> Vec<Logged> {
        self.state().log.clone()
    }

    /// Numbers of requests, and of connections opened so far.
    #[must_use]
    pub fn counts(&self) -> (u64, usize) {
        let state = self.state();
        (state.log.len() as u64, state.opened)
    }

    /// Number of connections opened so far, including broken ones.
    #[must_use]
    pub fn connections_opened(&self) -> usize {
        self.state().opened
    }

    /// The longest chain of requests of which each left when the response to the previous one was
    /// complete, or later. Handshakes do not count.
    #[must_use]
    pub fn round_trips(&self) -> u32 {
        // Odd numbers for sending, even ones for arrival: a response that arrives at an instant
        // precedes a request that is sent at the same instant.
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2) * 2;
        let state = self.state();
        longest_chain(state.log.iter().map(|it| (nanos(it.start) + 1, it.end.map(nanos))))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits for a connection and takes it.
    async fn take_connection(&self, request: &Request) -> Taken<'_> {
        loop {
            let freed = self.connection_free.notified();
            if let Some(taken) = self.try_connection(request) {
                return taken;
            }
            freed.await;
        }
    }

    /// Resolves and checks the ranges of a request.
    fn located(&self, request: &Request) -> Result<Vec<Range<u64>>> {
        let size = self.content.len();
        let invalid = |what: String| Error::new(ErrorKind::Invalid, what);
        let total: u64 = request.ranges.iter().map(|it| it.end.saturating_sub(it.start)).sum();
        let headers: usize = request.ranges.iter().map(Limits::range_text_bytes).sum();
        let limits = &self.limits;
        if request.ranges.len() > limits.max_ranges
            || headers > limits.max_header_bytes
            || total > limits.max_total_bytes
            || request
                .ranges
                .iter()
                .any(|it| it.end.saturating_sub(it.start) > limits.max_range_bytes)
        {
            return Err(invalid(format!(
                "saw a request of {} ranges, {headers} header bytes, {total} bytes, expected no \
                 more than {limits:?}",
                request.ranges.len()
            )));
        }
        let ordered = request.ranges.iter().all(|range| range.start < range.end)
            && request.ranges.is_sorted_by(|a, b| a.end <= b.start);
        if !ordered || (request.ranges.is_empty() && request.tail == 0) {
            return Err(invalid(format!(
                "saw the ranges {:?}, expected some, in order and disjoint",
                request.ranges
            )));
        }
        let mut ranges = request.ranges.clone();
        if request.tail > 0 {
            let tail = size.saturating_sub(request.tail)..size;
            for range in &mut ranges {
                range.end = range.end.min(tail.start);
            }
            ranges.push(tail);
            ranges.retain(|range| range.start < range.end);
        }
        if let Some(beyond) = ranges.iter().find(|range| range.end > size) {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("bytes {beyond:?} are wanted, but the file has {size}: it is truncated"),
            ));
        }
        Ok(ranges)
    }

    async fn answer(&self, request: Request, mut sink: PartSink) -> Result<ResponseMeta> {
        let mut connection = self.take_connection(&request).await;
        let located = self.located(&request);
        let refused = match (&connection.fault, located) {
            (Some(Fault::Fail(error)), _) => Err(error.clone()),
            (_, Err(error)) => Err(error),
            (_, Ok(ranges)) => self.unchanged(&request).map(|()| ranges),
        };
        let ranges = match refused {
            Ok(ranges) => ranges,
            Err(error) => {
                let end = connection.start + self.link.rtt;
                self.until(end).await;
                connection.finish(end, true);
                return Err(error);
            }
        };
        let last =
            self.stream(&mut connection, range::merged(&ranges, self.merging), &mut sink).await?;
        if let Some(Fault::FailAtEnd(error)) = &connection.fault {
            let error = error.clone();
            connection.finish(last, true);
            return Err(error);
        }
        connection.finish(last, false);
        let state = self.state();
        Ok(ResponseMeta {
            size: self.reported_size(),
            validator: Some(state.validator.clone()),
            ..ResponseMeta::default()
        })
    }

    fn reported_size(&self) -> Option<u64> {
        self.states_size.then(|| self.content.len())
    }

    fn unchanged(&self, request: &Request) -> Result<()> {
        let size = self.reported_size();
        if let Some((seen, expected)) = size.zip(request.size).filter(|(seen, it)| seen != it) {
            return Err(Error::new(
                ErrorKind::Changed,
                format!("the file has {seen} bytes, expected {expected}"),
            ));
        }
        let state = self.state();
        match &request.validator {
            Some(wanted) if *wanted != state.validator => Err(Error::new(
                ErrorKind::Changed,
                format!("the file has validator {}, expected {wanted}", state.validator),
            )),
            _ => request.version.bind("the file", size, Some(&state.validator)),
        }
    }

    /// Sends the ranges in windows and delivers them as they arrive. Returns the time of the last
    /// byte.
    async fn stream(
        &self,
        connection: &mut Taken<'_>,
        ranges: Vec<Range<u64>>,
        sink: &mut PartSink,
    ) -> Result<Duration> {
        let total = ranges.iter().map(|range| range.end - range.start).sum();
        let mut parts = Parts { content: &self.content, ranges: ranges.into() };
        let mut sending = Sending::new(&self.link, connection.start + self.server_time, total);
        let mut under_way = VecDeque::new();
        let mut left = match connection.fault {
            Some(Fault::Cut { after } | Fault::Stall { after }) => after,
            _ => u64::MAX,
        };
        // The arrival of an empty file's response.
        let mut last = connection.start + self.link.rtt + self.server_time;
        loop {
            let leaves = (!sending.done()).then_some(sending.next);
            let arrives = under_way.front().map(|(_, arrives)| *arrives);
            match (leaves, arrives) {
                (Some(leaves), arrives) if arrives.is_none_or(|arrives| leaves < arrives) => {
                    self.until(leaves).await;
                    under_way.push_back(connection.send(&mut sending));
                }
                (_, Some(arrives)) => {
                    self.until(arrives).await;
                    last = arrives;
                    let bytes = under_way.pop_front().map_or(0, |(bytes, _)| bytes).min(left);
                    left -= bytes;
                    connection.arrived(bytes);
                    parts.take(bytes, sink);
                    if left == 0 {
                        self.strike(connection, last).await?;
                    }
                }
                (_, None) => {
                    self.until(last).await;
                    return Ok(last);
                }
            }
        }
    }

    async fn strike(&self, connection: &mut Taken<'_>, now: Duration) -> Result<()> {
        if let Some(Fault::Stall { .. }) = connection.fault {
            self.clock.sleep(self.timeout).await;
            connection.fail(now.saturating_add(self.timeout));
            return Err(Error::new(ErrorKind::Timeout, "no byte arrived")
                .with_failure(Failure::Interrupted(Delivery::Sent)));
        }
        connection.fail(now);
        Err(Error::new(ErrorKind::Unavailable, "the connection was cut during an answer")
            .with_failure(Failure::Interrupted(Delivery::Sent)))
    }

    async fn until(&self, time: Duration) {
        let now = self.clock.now();
        if time > now {
            self.clock.sleep(time - now).await;
        }
    }
}

/// Log times are read from the source's clock; tokio's counts from the first use of the source.
impl Source for SimulatedSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn limits(&self) -> Limits {
        self.limits.priced(&self.link(), self.max_connections)
    }

    /// The round-trip time once a connection is open, and the rate once a response is complete.
    fn link(&self) -> LinkEstimate {
        let now = self.clock.now();
        let state = self.state();
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let bandwidth = self.link.bandwidth.map(|rate| rate as f64 / 8.0);
        LinkEstimate {
            rtt: state.connected(now).then_some(self.link.rtt),
            bandwidth: bandwidth.filter(|_| state.answered),
            ..LinkEstimate::default()
        }
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::default()
    }

    fn max_connections(&self) -> usize {
        self.max_connections
    }

    fn idle_connections(&self) -> usize {
        let now = self.clock.now();
        self.state()
            .connections
            .iter()
            .filter(|connection| !connection.busy && connection.ready <= now)
            .count()
    }

    fn preconnect(&self, connections: usize) {
        let ready = self.clock.now() + self.link.rtt;
        let mut state = self.state();
        while state.connections.len() < connections.min(self.max_connections) {
            state.open(ready);
        }
    }

    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        Box::pin(self.answer(request, sink))
    }
}

#[cfg(test)]
mod tests;
