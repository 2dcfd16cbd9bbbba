//! Carries a plan out: so many requests at a time, so many bytes, and what failed again.
//!
//! A [`Reader`] holds a queue of planned requests for one source. Each call of [`Reader::next`] first sends as many of
//! them as there are lanes and budget, then waits for whatever comes first, a part or the end of a request. Parts are
//! handed on as they arrive, in any order and of any size; nothing is reassembled here.
//!
//! What bounds memory: bytes that were asked for and not yet [released](Reader::release) by the consumer never exceed
//! [`ReaderConfig::budget_bytes`], except that one request is always admitted when nothing is on its way, so that a
//! budget smaller than a request slows a job down but cannot stop it.
//!
//! What happens on failure: parts that arrived are kept. The rest of the request is planned again, by the limits that the
//! source has by then, and sent again, until [`ReaderConfig::attempts`] requests in a row on each lane have failed without
//! bringing a wanted byte. Whether to try at all is the error's own advice, [`Error::retry`], taken here and nowhere else.
//!
//! What happens at the end: lanes are not equally fast, because one that loses a packet early keeps a small window for
//! long. When the queue is empty and a lane has nothing to do, the straggler that will need longest gives
//! the later half of what it still owes to that lane; once it has delivered the rest it is cut off. See
//! `straggler.rs` for when that pays.
//!
//! Nothing here needs a runtime: the futures of the source run inside [`Reader::next`], so dropping the reader cancels
//! every request.

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::plan::{Plan, PlanConfig};
use crate::source::{Answer, Part, Request, Source};
use crate::straggler::{self, InFlight};
use crate::{Limits, lanes, range};
use futures_channel::mpsc;
use futures_core::future::BoxFuture;
use futures_util::future::{AbortHandle, Abortable, Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

/// How much a [`Reader`] may have on its way, and how stubborn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReaderConfig {
    /// Bytes asked for and not yet released. 64 MiB by default: the bandwidth-delay product of 2 Gbit/s at 240 ms.
    pub budget_bytes: u64,
    /// Failures in a row, without a wanted byte in between, after which the reader gives up; for each lane in use.
    pub attempts: u32,
    /// How long a file is waited for that its server has to make ready first ([`Retry::Later`]), in all. 10 min by default;
    /// with 0 it is not waited for.
    pub patience: Duration,
}

impl Default for ReaderConfig {
    fn default() -> Self {
        Self { budget_bytes: 64 << 20, attempts: 4, patience: Duration::from_secs(600) }
    }
}

/// Reads ranges of one source, as they arrive.
#[derive(Debug)]
pub struct Reader<'a> {
    source: &'a dyn Source,
    config: ReaderConfig,
    validator: Option<String>,
    /// Invariant: disjoint among each other and from what is running.
    queue: VecDeque<Request>,
    /// The limits by which the queue was planned.
    planned_with: Option<Limits>,
    lanes: usize,
    running: FuturesUnordered<BoxFuture<'a, (u64, Ended)>>,
    requests: HashMap<u64, InFlight>,
    next_id: u64,
    parts: mpsc::UnboundedReceiver<(u64, Part)>,
    sink: mpsc::UnboundedSender<(u64, Part)>,
    /// Requests that have ended, whose parts may still lie in the channel.
    ended: VecDeque<(u64, Ended)>,
    unreleased_bytes: u64,
    /// Bytes that came though no request had asked for them, as from a server without ranges.
    surplus: Vec<Range<u64>>,
    barren_failures: u32,
    /// Since when the file is put off.
    put_off_since: Option<Duration>,
    /// Requests relieved by others.
    reliefs: usize,
    retries: u64,
    answer: Answer,
}

/// Wanted bytes in a failed answer that count as progress, however many were asked for.
const LEAST_PROGRESS_BYTES: u64 = 4096;

/// How a request ended; none if it was cut off because it had delivered what was left to it.
type Ended = Option<Result<Answer>>;

impl<'a> Reader<'a> {
    /// A reader of `source`; requests carry `validator`, so that a file that changed is noticed.
    #[must_use]
    pub fn new(source: &'a dyn Source, validator: Option<String>, config: ReaderConfig) -> Self {
        let (sink, parts) = mpsc::unbounded();
        Self {
            source,
            config,
            validator,
            queue: VecDeque::new(),
            planned_with: None,
            lanes: 1,
            running: FuturesUnordered::new(),
            requests: HashMap::new(),
            next_id: 0,
            parts,
            sink,
            ended: VecDeque::new(),
            unreleased_bytes: 0,
            surplus: Vec::new(),
            barren_failures: 0,
            put_off_since: None,
            reliefs: 0,
            retries: 0,
            answer: Answer::default(),
        }
    }

    /// Asks for the last `tail` bytes of the file along with `ranges`, in one request.
    pub fn push_tail(&mut self, ranges: &[Range<u64>], tail: u64) {
        let validator = self.validator.clone();
        self.queue.push_back(Request {
            ranges: range::merged(ranges, 0),
            tail,
            validator,
            size: None,
        });
    }

    /// Asks for `ranges`, on at most `max_lanes` lanes. What was pushed before is sent before.
    pub fn push(&mut self, ranges: &[Range<u64>], max_lanes: usize) {
        let bytes = range::total_bytes(ranges);
        let cap = self.source.max_lanes().min(max_lanes).max(1);
        let lanes = lanes::useful(bytes, &self.source.link(), cap);
        let limits = self.source.limits();
        let config = PlanConfig::balanced(ranges, &limits, lanes, cap);
        self.source.warm(config.lanes);
        self.lanes = self.lanes.max(config.lanes);
        self.planned_with = Some(limits);
        self.enqueue(&Plan::new(ranges, &limits, &config));
    }

    /// The next bytes to arrive; `None` when everything that was pushed has arrived.
    ///
    /// # Errors
    ///
    /// The first failure that retrying does not cure; the reader is of no use after it.
    pub async fn next(&mut self) -> Option<Result<Part>> {
        loop {
            // Parts first: a request's end says what is missing only once its parts are counted.
            if let Ok((id, part)) = self.parts.try_recv() {
                self.note_part(id, &part);
                return Some(Ok(part));
            }
            if let Some((id, ended)) = self.ended.pop_front() {
                if let Err(error) = self.conclude(id, ended) {
                    return Some(Err(error));
                }
                continue;
            }
            self.launch();
            if self.running.is_empty() {
                return None;
            }
            match select(self.parts.next(), self.running.next()).await {
                Either::Left((Some((id, part)), _)) => {
                    self.note_part(id, &part);
                    return Some(Ok(part));
                }
                Either::Right((Some(ended), _)) => self.ended.push_back(ended),
                // The reader holds a sender itself and something is running, so neither stream can have ended.
                Either::Left((None, _)) | Either::Right((None, _)) => return None,
            }
        }
    }

    /// The consumer needs no more memory for `bytes` of what it was given.
    pub fn release(&mut self, bytes: u64) {
        self.unreleased_bytes = self.unreleased_bytes.saturating_sub(bytes);
    }

    /// What the server has said about the file so far.
    #[must_use]
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Requests sent again.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries
    }

    fn launch(&mut self) {
        while self.running.len() < self.lanes {
            let Some(request) = self.queue.front() else { return self.relieve() };
            let bytes = range::total_bytes(&request.ranges).saturating_add(request.tail);
            let fits = self.unreleased_bytes.saturating_add(bytes) <= self.config.budget_bytes;
            if !fits && !self.running.is_empty() {
                return;
            }
            let Some(mut request) = self.queue.pop_front() else { return };
            if !self.surplus.is_empty() {
                request.ranges = range::difference(&request.ranges, &self.surplus);
                if request.ranges.is_empty() && request.tail == 0 {
                    continue;
                }
            }
            self.send(request, bytes);
        }
    }

    /// Gives part of the slowest request to a lane that has nothing to do.
    fn relieve(&mut self) {
        if self.reliefs >= (self.lanes / 4).max(2) || self.source.idle_lanes() == 0 {
            return;
        }
        let now = self.source.clock().now();
        let link = self.source.link();
        let requests = self.requests.values_mut();
        if let Some(relief) = straggler::relieve(requests, now, &link) {
            self.reliefs += 1;
            // Those bytes are charged already, to the request that they come from.
            self.send(relief, 0);
        }
    }

    fn send(&mut self, request: Request, bytes: u64) {
        let id = self.next_id;
        self.next_id += 1;
        self.unreleased_bytes = self.unreleased_bytes.saturating_add(bytes);
        let sink = self.sink.clone();
        // A send fails only when the reader is gone, and then nobody waits for the part.
        let deliver = Box::new(move |part| drop(sink.unbounded_send((id, part))));
        let (cut_off, registration) = AbortHandle::new_pair();
        let fetch = Abortable::new(self.source.fetch(request.clone(), deliver), registration);
        self.requests.insert(id, InFlight::new(request, self.source.clock().now(), cut_off));
        self.running.push(Box::pin(async move { (id, fetch.await.ok()) }));
    }

    fn note_part(&mut self, id: u64, part: &Part) {
        if let Some(in_flight) = self.requests.get_mut(&id) {
            in_flight.received(part.offset..part.offset.saturating_add(part.bytes.len() as u64));
        }
    }

    /// Settles a request that has ended: done, or its rest planned again.
    fn conclude(&mut self, id: u64, ended: Ended) -> Result<()> {
        let Some(in_flight) = self.requests.remove(&id) else { return Ok(()) };
        let Some(result) = ended else { return Ok(()) };
        let (request, received) = in_flight.finish();
        let missing = range::difference(&request.ranges, &received);
        let error = match result {
            Ok(answer) => {
                let extra = range::difference(&received, &request.ranges);
                if request.tail == 0 && !extra.is_empty() {
                    self.surplus.extend(extra);
                    self.surplus = range::merged(&self.surplus, 0);
                }
                self.answer.unasked_bytes += answer.unasked_bytes;
                self.answer.size = answer.size.or(self.answer.size);
                if answer.validator.is_some() {
                    self.answer.validator = answer.validator;
                }
                // With a tail, the size of the file was not known when its head was asked for.
                self.put_off_since = None;
                if missing.is_empty() || request.tail > 0 {
                    self.barren_failures = 0;
                    self.plan_again();
                    return Ok(());
                }
                self.incomplete(&missing)
            }
            Err(error) => error,
        };
        self.again(request, &missing, error)
    }

    /// A server that said "done" without having delivered everything.
    fn incomplete(&self, missing: &[Range<u64>]) -> Error {
        let bytes = range::total_bytes(missing);
        let end = missing.last().map_or(0, |range| range.end);
        match self.answer.size.filter(|&size| end > size) {
            Some(size) => Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{}: bytes up to {end} are wanted, but the file has only {size}: it is truncated",
                    self.source.name()
                ),
            ),
            None => Error::new(
                ErrorKind::Protocol,
                format!("{}: the answer lacks {bytes} of the bytes asked for", self.source.name()),
            ),
        }
    }

    /// Plans what is still in the queue anew if the source's limits have moved since.
    fn plan_again(&mut self) {
        let limits = self.source.limits();
        if self.planned_with.replace(limits).is_none_or(|before| before == limits) {
            return;
        }
        let (tails, plain): (Vec<_>, Vec<_>) =
            self.queue.drain(..).partition(|request| request.tail > 0);
        self.queue.extend(tails);
        let ranges: Vec<_> = plain.into_iter().flat_map(|request| request.ranges).collect();
        self.enqueue(&Plan::new(&ranges, &limits, &PlanConfig::for_lanes(self.lanes)));
    }

    fn lanes(&self) -> u32 {
        u32::try_from(self.lanes).unwrap_or(u32::MAX)
    }

    fn enqueue(&mut self, plan: &Plan) {
        self.queue.extend(plan.requests.iter().map(|ranges| Request {
            ranges: ranges.clone(),
            tail: 0,
            validator: self.validator.clone(),
            size: None,
        }));
    }

    /// A plan for what a request left over and for the next one in the queue together: where every answer is cut short,
    /// left-overs sent alone would make twice as many requests.
    fn topped_up(&mut self, missing: &[Range<u64>], alone: Plan) -> Plan {
        let one = matches!(alone.requests.as_slice(), [_]);
        let Some(next) = self.queue.pop_front_if(|next| one && next.tail == 0) else {
            return alone;
        };
        let both = [missing, &next.ranges].concat();
        Plan::new(&both, &self.source.limits(), &PlanConfig::default())
    }

    /// Whether a file that is put off is waited for still.
    fn is_patient(&mut self, after: Duration) -> bool {
        let now = self.source.clock().now();
        let since = *self.put_off_since.get_or_insert(now);
        now.saturating_sub(since).saturating_add(after) < self.config.patience
    }

    fn again(&mut self, request: Request, missing: &[Range<u64>], error: Error) -> Result<()> {
        let asked = range::total_bytes(&request.ranges).saturating_add(request.tail);
        let splittable = request.ranges.len() > 1 || request.tail > 0 && !request.ranges.is_empty();
        let hopeful = match (error.kind(), error.retry()) {
            (ErrorKind::TooLarge, _) => splittable,
            (_, Retry::Later { after }) => self.is_patient(after),
            (_, retry) => matches!(retry, Retry::SameServer { .. }),
        };
        let put_off = matches!(error.retry(), Retry::Later { .. });
        let plan = Plan::new(missing, &self.source.limits(), &PlanConfig::default());
        // The source has learned from it to ask for less at once.
        let smaller = plan.requests.len() > 1;
        // Bytes that were not wanted are no progress, nor are a few of many: a server that gives no more with every
        // connection would be asked for ever. A request with a tail is sent again as a whole.
        let got = range::total_bytes(&request.ranges).saturating_sub(range::total_bytes(missing));
        let useful = request.tail == 0 && got > 0 && got >= LEAST_PROGRESS_BYTES.min(asked / 16);
        if useful {
            self.barren_failures = 0;
        } else if (!smaller || request.tail > 0) && !put_off {
            self.barren_failures += 1;
        }
        // What befalls a server befalls all lanes at once.
        if !hopeful || self.barren_failures >= self.config.attempts.saturating_mul(self.lanes()) {
            return Err(error);
        }
        self.retries += 1;
        self.unreleased_bytes = self.unreleased_bytes.saturating_sub(asked);
        if request.tail > 0 {
            self.queue.push_front(request);
            return Ok(());
        }
        // The parts that arrived stay charged until the consumer releases them.
        self.unreleased_bytes += asked.saturating_sub(range::total_bytes(missing));
        self.plan_again();
        let plan = self.topped_up(missing, plan);
        for ranges in plan.requests.into_iter().rev() {
            let validator = request.validator.clone();
            self.queue.push_front(Request { ranges, tail: 0, validator, size: None });
        }
        Ok(())
    }
}
