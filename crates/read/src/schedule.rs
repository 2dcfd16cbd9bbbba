//! Executes a plan: a bounded number of requests and bytes in flight, and retries of failed ones.
//!
//! A [`Reader`] holds a queue of planned requests for one source. Each call of
//! [`Reader::next_event`] first sends as many of them as connections and budget allow, then waits
//! for the next event, a part or the end of a request. Parts are returned as they arrive, in any
//! order and of any size; nothing is reassembled here.
//!
//! *Memory.* Bytes that were requested and not yet [released](Reader::release) by the consumer
//! never exceed [`ReaderConfig::budget_bytes`], except that one request is always admitted when
//! none is in flight, so that a budget smaller than a request slows a job down but cannot stop it.
//!
//! *Failure* (`retry`). Parts that arrived are kept. The rest of the request is planned again, with
//! the limits that the source has then, and sent again as [`hither_core::retry`] decides: after a
//! pause in which the reader sends nothing, until [`RetryPolicy::attempts`] requests in a row on
//! each connection have failed without transferring a wanted byte.
//!
//! *The end* (`in_flight`). Connections are not equally fast, because one that loses a packet early
//! keeps a small window for long. When the queue is empty and a connection is idle, it takes over
//! the later half of the slowest request; once that has received the rest, it is aborted. See
//! [`hither_load::straggler`] for the conditions.
//!
//! *Limited connections* (`trial`). Where a server limits the rate of each connection, a long read
//! tries more of them.
//!
//! *Requests in flight* (`concurrency`). As many as there are connections, and where connections
//! carry several, as many as the source accepts.
//!
//! *Demand reads* (`priority`). A reader may live as long as its file is open, and ranges may be
//! pushed at any time. Reads that a program waits for are pushed as urgent
//! ([`Reader::push_urgent`]); they are sent before everything else, and immediately, even if
//! prefetches use all connections: the source then opens another one, or uses the next that becomes
//! idle.
//!
//! Nothing here needs a runtime: the futures of the source run inside [`Reader::next_event`], so
//! dropping the reader cancels every request.

mod concurrency;
mod in_flight;
mod priority;
mod retry;
mod trial;

use futures_channel::mpsc;
use futures_core::future::BoxFuture;
use futures_util::future::{AbortHandle, Abortable, Either, pending, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hither_core::error::retry::RetryPolicy;
use hither_core::error::{Error, Result};
use hither_core::plan::{Plan, PlanConfig};
use hither_core::source::connection_trial::BeginTrial;
use hither_core::source::{Part, Request, ResponseMeta, Source, VersionBinding};
use hither_core::{Limits, plan, range};
use hither_load::connections;
use in_flight::InFlightRequest;
use retry::ReaderBackoff;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use trial::ReadTrial;

/// Limits and retries of a [`Reader`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ReaderConfig {
    /// Bytes requested and not yet released. 64 MiB by default: the bandwidth-delay product of 2
    /// Gbit/s at 240 ms.
    pub budget_bytes: u64,
    /// Retries; the attempts are those of each connection in use.
    pub retry: RetryPolicy,
    /// Only pushed ranges are requested, and none of them twice unless it failed: gaps that cost
    /// less than one more range are not read over (`PlanConfig::waste`), and no connection takes
    /// over part of another one's request, unless the server limits each of them. False by default.
    pub exact: bool,
    /// Begins a trial of more connections during a long read; none for no trial, the default.
    pub trial: Option<BeginTrial>,
}

impl Default for ReaderConfig {
    fn default() -> Self {
        Self { budget_bytes: 64 << 20, retry: RetryPolicy::default(), exact: false, trial: None }
    }
}

impl ReaderConfig {
    /// This configuration with trials of more connections.
    #[must_use]
    pub const fn with_trial(self, begin: BeginTrial) -> Self {
        Self { trial: Some(begin), ..self }
    }
}

/// Reads ranges of one source, as they arrive.
#[derive(Debug)]
pub struct Reader<'a> {
    source: &'a dyn Source,
    config: ReaderConfig,
    validator: Option<String>,
    version: VersionBinding,
    /// Invariant: disjoint from each other, from urgent and from running requests.
    queue: VecDeque<Request>,
    /// Requests that a program waits for; sent first.
    urgent: VecDeque<Request>,
    /// Ids of the requests in flight that came from `urgent`.
    urgent_ids: HashSet<u64>,
    /// Several reads wait, each for other bytes.
    crowded: bool,
    /// The limits with which the queue was planned.
    planned_with: Option<Limits>,
    connections: usize,
    /// Largest number of requests that were in flight at a time.
    widest: usize,
    running: FuturesUnordered<BoxFuture<'a, (u64, Ended)>>,
    requests: HashMap<u64, InFlightRequest>,
    next_id: u64,
    parts: mpsc::UnboundedReceiver<(u64, Part)>,
    sink: mpsc::UnboundedSender<(u64, Part)>,
    /// Requests that have ended, whose parts may still lie in the channel.
    ended: VecDeque<(u64, Ended)>,
    unreleased_bytes: u64,
    failures: ReaderBackoff,
    /// Requests that were split for idle connections.
    splits: usize,
    trial: ReadTrial,
    retries: u64,
    response: ResponseMeta,
}

/// Event of a [`Reader`].
#[derive(Debug, Clone)]
pub enum FetchEvent {
    /// Bytes arrived.
    Part(Part),
    /// A response is complete; its parts came before.
    Response(ResponseMeta),
    /// A request failed and is not retried. The others continue.
    Failed {
        /// Why.
        error: Error,
        /// The ranges that did not arrive.
        ranges: Vec<Range<u64>>,
    },
}

/// Result of a request; none if it was aborted after its own half had arrived.
type Ended = Option<Result<ResponseMeta>>;

impl<'a> Reader<'a> {
    /// A reader of `source`; requests carry `validator`, so that a file that changed is noticed.
    #[must_use]
    pub fn new(source: &'a dyn Source, validator: Option<String>, config: ReaderConfig) -> Self {
        let (sink, parts) = mpsc::unbounded();
        Self {
            source,
            config,
            validator,
            version: VersionBinding::default(),
            queue: VecDeque::new(),
            urgent: VecDeque::new(),
            urgent_ids: HashSet::new(),
            crowded: false,
            planned_with: None,
            connections: 1,
            widest: 0,
            running: FuturesUnordered::new(),
            requests: HashMap::new(),
            next_id: 0,
            parts,
            sink,
            ended: VecDeque::new(),
            unreleased_bytes: 0,
            failures: ReaderBackoff::default(),
            splits: 0,
            trial: ReadTrial::default(),
            retries: 0,
            response: ResponseMeta::default(),
        }
    }

    /// Requests the last `tail` bytes of the file together with `ranges`, in one request.
    pub fn push_tail(&mut self, ranges: &[Range<u64>], tail: u64) {
        let request = Request { tail, ..self.request(range::merged(ranges, 0)) };
        self.queue.push_back(request);
    }

    /// Requests `ranges`, on at most `max_connections` connections. Ranges pushed earlier are sent
    /// first.
    pub fn push(&mut self, ranges: &[Range<u64>], max_connections: usize) {
        let requests = self.planned(ranges, max_connections);
        self.queue.extend(requests);
    }

    /// As [`Reader::push`], for a consumer that continues with the first bytes while the rest
    /// arrives; see `plan/stripes.rs`.
    pub fn push_striped(&mut self, ranges: &[Range<u64>], max_connections: usize) {
        let requests = self.planned(ranges, max_connections);
        let requests = requests.into_iter().map(|request| request.ranges).collect();
        let requests = plan::striped(requests, self.connections, &self.source.limits());
        let requests = self.requests_of(Plan { requests });
        self.queue.extend(requests);
    }

    fn planned(&mut self, ranges: &[Range<u64>], max_connections: usize) -> Vec<Request> {
        let most = self.source.max_connections().min(max_connections).max(1);
        let limits = self.source.limits();
        let merged;
        let ranges = if limits.is_single() {
            // The number of connections follows from the requests that will be sent.
            merged =
                plan::read_over(ranges, &limits, self.plan_config(PlanConfig::default()).waste);
            &merged
        } else {
            ranges
        };
        let bytes = range::total_bytes(ranges);
        let useful = connections::for_bytes(bytes, &self.source.link(), most);
        let useful = useful.max(self.tried_connections(bytes).min(most));
        let requests = plan::fewest_requests(ranges, &limits);
        let useful = connections::for_requests(useful, requests, bytes, most);
        let connections =
            connections::prefer_open(useful, self.running.len() + self.source.idle_connections());
        // Where the open connections suffice, no others are opened only to balance the number of
        // turns.
        let cap = if connections < useful { connections } else { most };
        let config = self.plan_config(PlanConfig::balanced(ranges, &limits, connections, cap));
        self.source.preconnect(config.connections);
        self.connections = self.connections.max(config.connections);
        self.planned_with = Some(limits);
        let plan = Plan::new(ranges, &limits, &config);
        self.trial.pushed(plan.bytes());
        self.requests_of(plan)
    }

    fn plan_config(&self, mut config: PlanConfig) -> PlanConfig {
        if self.config.exact {
            config.waste = 0.0;
        }
        config
    }

    /// The next bytes to arrive; `None` when everything that was pushed has arrived.
    ///
    /// # Errors
    ///
    /// The first failure that is not retried. Other requests continue; [`Reader::next_event`]
    /// returns the ranges that failed.
    pub async fn next(&mut self) -> Option<Result<Part>> {
        loop {
            match self.next_event().await? {
                FetchEvent::Part(part) => return Some(Ok(part)),
                FetchEvent::Response(_) => {}
                FetchEvent::Failed { error, .. } => return Some(Err(error)),
            }
        }
    }

    /// The next event; `None` when everything that was pushed has arrived or failed. Dropping the
    /// future loses nothing.
    pub async fn next_event(&mut self) -> Option<FetchEvent> {
        loop {
            // Parts first: the end of a request shows the missing bytes only once its parts are
            // counted.
            if let Ok((id, part)) = self.parts.try_recv() {
                self.note_part(id, &part);
                return Some(FetchEvent::Part(part));
            }
            if let Some((id, ended)) = self.ended.pop_front() {
                match self.conclude(id, ended) {
                    Some(step) => return Some(step),
                    None => continue,
                }
            }
            self.launch();
            if self.running.is_empty() {
                let waits = !self.queue.is_empty() || !self.urgent.is_empty();
                if let Some(pause) = self.failures.pause.as_mut().filter(|_| waits) {
                    pause.await;
                    self.failures.pause = None;
                    continue;
                }
                self.failures = ReaderBackoff::default();
                self.trial = ReadTrial::default();
                return None;
            }
            let arrival = select(self.parts.next(), self.running.next());
            let interval = match self.trial.interval(self.source.clock()) {
                Some(interval) => Either::Left(interval),
                None => Either::Right(pending()),
            };
            let pause = match &mut self.failures.pause {
                Some(pause) => Either::Left(pause),
                None => Either::Right(pending()),
            };
            match select(arrival, select(interval, pause)).await {
                Either::Left((Either::Left((Some((id, part)), _)), _)) => {
                    self.note_part(id, &part);
                    return Some(FetchEvent::Part(part));
                }
                Either::Left((Either::Right((Some(ended), _)), _)) => self.ended.push_back(ended),
                // The reader holds a sender itself and something is running, so neither stream can
                // have ended.
                Either::Left(_) => return None,
                Either::Right((Either::Left(_), _)) => self.end_interval(),
                Either::Right((Either::Right(_), _)) => self.failures.pause = None,
            }
        }
    }

    /// Releases `bytes` of the budget, whose memory the consumer has freed.
    pub fn release(&mut self, bytes: u64) {
        self.unreleased_bytes = self.unreleased_bytes.saturating_sub(bytes);
    }

    /// Metadata of the file from the responses so far.
    #[must_use]
    pub fn response(&self) -> &ResponseMeta {
        &self.response
    }

    /// The size of the file, from the head of the first response on.
    pub(crate) fn size(&self) -> Option<u64> {
        self.version.size()
    }

    /// Number of requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.running.len()
    }

    /// Returns true if the version of the file is known by a validator: from the start, or from the
    /// head of the first response on.
    #[must_use]
    pub fn has_validator(&self) -> bool {
        self.validator.is_some() || self.version.validator().is_some()
    }

    /// Requests sent again.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries
    }

    fn launch(&mut self) {
        if self.failures.pause.is_some() {
            return;
        }
        self.launch_urgent();
        while self.has_room_for_prefetch() {
            let Some(request) = self.queue.front() else { return self.split_slowest_request() };
            let bytes = range::total_bytes(&request.ranges).saturating_add(request.tail);
            let fits = self.unreleased_bytes.saturating_add(bytes) <= self.config.budget_bytes;
            if !fits && !self.running.is_empty() {
                return;
            }
            let Some(request) = self.queue.pop_front() else { return };
            self.send(request, bytes);
        }
    }

    /// Moves part of the slowest request to an idle connection.
    fn split_slowest_request(&mut self) {
        let most = if self.config.exact { 0 } else { (self.connections / 4).max(2) };
        if self.splits >= most || self.source.idle_connections() == 0 {
            return;
        }
        let now = self.source.clock().now();
        let link = self.source.link();
        let requests = self.requests.values_mut();
        if let Some(split_off) = in_flight::split_slowest(requests, now, &link) {
            self.splits += 1;
            // Those bytes are charged already, to the request that they come from.
            self.send(split_off, 0);
        }
    }

    fn send(&mut self, request: Request, bytes: u64) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.unreleased_bytes = self.unreleased_bytes.saturating_add(bytes);
        let sink = self.sink.clone();
        // A send fails only when the reader is dropped, and then no consumer waits for the part.
        let deliver = Box::new(move |part| drop(sink.unbounded_send((id, part))));
        let (cut_off, registration) = AbortHandle::new_pair();
        let fetch = Abortable::new(self.source.fetch(request.clone(), deliver), registration);
        self.requests.insert(id, InFlightRequest::new(request, self.source.clock().now(), cut_off));
        self.running.push(Box::pin(async move { (id, fetch.await.ok()) }));
        self.widest = self.widest.max(self.running.len());
        id
    }

    fn note_part(&mut self, id: u64, part: &Part) {
        let Some(in_flight) = self.requests.get_mut(&id) else { return };
        let range = part.offset..part.offset.saturating_add(part.bytes.len() as u64);
        self.trial.arrived(range::len(&range));
        let unasked = in_flight.unasked(&range);
        in_flight.received(range);
        if !unasked.is_empty() {
            self.came_unasked(id, &unasked);
        }
    }

    /// Records bytes that a response had beyond its request, as from servers that merge ranges. The
    /// consumer has them now: ranges of them in the queue are neither sent nor retried. Later
    /// pushes are not filtered: a caller that requests such bytes again has not kept them.
    fn came_unasked(&mut self, by: u64, ranges: &[Range<u64>]) {
        for (id, in_flight) in &mut self.requests {
            if *id != by {
                in_flight.received_elsewhere(ranges);
            }
        }
        let queue = std::mem::take(&mut self.queue);
        let urgent = std::mem::take(&mut self.urgent);
        (self.queue, _) = self.without(queue, ranges);
        (self.urgent, _) = self.without(urgent, ranges);
    }

    /// The requests of a queue without `ranges`, which are sorted and disjoint, and the ranges
    /// removed. Requests with a tail are not changed.
    fn without(
        &self,
        queue: VecDeque<Request>,
        ranges: &[Range<u64>],
    ) -> (VecDeque<Request>, Vec<Range<u64>>) {
        let mut kept = VecDeque::with_capacity(queue.len());
        let mut removed = Vec::new();
        for request in queue {
            if request.tail > 0 || range::are_apart(&request.ranges, ranges) {
                kept.push_back(request);
                continue;
            }
            let left = range::difference(&request.ranges, ranges);
            if left == request.ranges {
                kept.push_back(request);
                continue;
            }
            removed.extend(range::difference(&request.ranges, &left));
            // A range without its middle is two, which may be too many for one request.
            let config = self.plan_config(PlanConfig::default());
            kept.extend(self.requests_of(Plan::new(&left, &self.source.limits(), &config)));
        }
        (kept, removed)
    }
}
