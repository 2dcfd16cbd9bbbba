//! Driver of an open file: sends its requests and fills the cache.
//!
//! The driver runs from the first need until its last byte has arrived, then ends; the next need
//! starts another one. It alternates between two steps: it submits needed ranges to its [`Reader`],
//! and it puts the parts that arrive into the cache, which wakes the reads that wait.
//!
//! **Order.** Demand reads go first, as urgent requests, together with the ranges that the
//! prefetcher adds to the same request. Prefetches follow: as many as there is room for, in one
//! plan, in the order in which they are due. The next ones follow only when those have been sent,
//! so that prefetches can still be cancelled.
//!
//! **The first response** names the version of the file. Until then requests carry no validator,
//! and no read is served before all of them have been answered with the same version. A reader of a
//! known version sends its validator from the start, and whatever arrives confirms it. Prefetches
//! wait for the first response, because only it states the size of the file; if no read is waiting,
//! the first piece of the first prefetch is requested alone.
//!
//! **The end of the file.** While the size is unknown, a read may pass the end. So its first bytes
//! are requested alone, and the rest when the response has stated the size. A request that passes
//! the end nevertheless fails, and if the error does not carry the size, the first byte is
//! requested, whose response does; ranges within the file are requested again.
//!
//! Dropping the driver cancels its requests; reads that wait for them request their bytes
//! themselves.

mod submit;

use crate::cache::file::CachedFileInner;
use crate::cache::{Cache, Version};
use crate::schedule::FetchEvent;
use crate::sync::lock;
use crate::{Reader, ReaderConfig};
use futures_util::future::{Either, select};
use hither_core::error::{Error, ErrorKind};
use hither_core::{Part, ResponseMeta};
use std::future::poll_fn;
use std::ops::{ControlFlow, Range};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// The smallest range that can be requested.
const FIRST_BYTE: Range<u64> = 0..1;

/// Drives a file until no work is left.
pub(crate) async fn run(file: Arc<CachedFileInner>) {
    // If the future is dropped, another one can be started.
    let driving = Driving(&file);
    loop {
        let (entry, owner) = {
            let mut state = lock(&file.state);
            if state.closed || !state.work.is_pending() {
                state.driving = false;
                break;
            }
            (state.entry, state.opened)
        };
        Session::new(&file, entry, owner).run().await;
    }
    std::mem::forget(driving);
}

/// Records, when dropped, that the file has no driver.
struct Driving<'a>(&'a CachedFileInner);

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).driving = false;
    }
}

/// The reading of one version.
struct Session<'a> {
    file: &'a CachedFileInner,
    reader: Reader<'a>,
    claims: Claims<'a>,
    /// The number of openings when the oldest request in flight was sent.
    openings: u64,
    /// The last number of openings that was confirmed.
    confirmed: u64,
    /// A response has arrived since then.
    probe_answered: bool,
    /// The validator is known, and requests carry it.
    conditional: bool,
    /// A server has stated the version, or it was known before.
    versioned: bool,
    fetching: bool,
    /// Rest of the first read, for which the first response is awaited.
    rest: Vec<Range<u64>>,
    /// Ranges that failed and may lie beyond the end of the file, with the error.
    doubtful: Option<(Vec<Range<u64>>, Error)>,
    probing: bool,
}

/// Ranges that the session has in flight. Dropping this releases them.
struct Claims<'a> {
    cache: &'a Cache,
    entry: u64,
    owner: u64,
    /// None is left, and the next session requests what is claimed from now on.
    are_settled: bool,
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        if !self.are_settled {
            self.cache.abandon(self.entry, self.owner);
        }
    }
}

impl<'a> Session<'a> {
    fn new(file: &'a CachedFileInner, entry: u64, owner: u64) -> Self {
        let (version, _) = file.cache.version(entry, owner);
        let versioned = version.is_some();
        let Version { size, validator } = version.unwrap_or_default();
        let conditional = validator.is_some();
        let config = ReaderConfig { exact: true, ..file.config };
        let reader = Reader::new(&*file.source, validator, config);
        if let Some(size) = size {
            reader.expect_size(size);
        }
        Self {
            file,
            reader,
            claims: Claims { cache: &file.cache, entry, owner, are_settled: false },
            openings: 0,
            confirmed: 0,
            probe_answered: false,
            conditional,
            versioned,
            fetching: false,
            rest: Vec::new(),
            doubtful: None,
            probing: false,
        }
    }

    async fn run(mut self) {
        loop {
            if self.submit().is_break() {
                return;
            }
            let event = {
                let file = self.file;
                let entry = self.claims.entry;
                let wanted = pin!(poll_fn(|cx| {
                    file.driver.register(cx.waker());
                    let state = lock(&file.state);
                    let wanted = state.work.is_pending() || state.closed || state.entry != entry;
                    if wanted { Poll::Ready(()) } else { Poll::Pending }
                }));
                match select(pin!(self.reader.next_event()), wanted).await {
                    Either::Left((step, _)) => Some(step),
                    Either::Right(((), _)) => None,
                }
            };
            let goes_on = match event {
                None => ControlFlow::Continue(()),
                Some(Some(FetchEvent::Part(part))) => self.arrived(&part),
                Some(Some(FetchEvent::Response(response))) => self.received_response(&response),
                Some(Some(FetchEvent::Failed { error, ranges })) => self.failed(error, ranges),
                Some(None) => self.rests(),
            };
            if goes_on.is_break() {
                return;
            }
        }
    }

    fn cache(&self) -> &'a Cache {
        self.claims.cache
    }

    fn arrived(&mut self, part: &Part) -> ControlFlow<()> {
        self.cache().insert(self.claims.entry, part);
        self.reader.release(part.bytes.len() as u64);
        self.push_rest();
        if self.conditional && self.confirmed < self.openings && self.reader.is_conditional() {
            self.confirm();
        }
        ControlFlow::Continue(())
    }

    fn received_response(&mut self, response: &ResponseMeta) -> ControlFlow<()> {
        self.learn(response)?;
        (self.probing, self.probe_answered) = (false, true);
        if let Some((ranges, error)) = self.doubtful.take() {
            self.ask_again(&ranges, &error);
        }
        if response.validator.is_none() || self.reader.is_conditional() {
            self.confirm();
        }
        ControlFlow::Continue(())
    }

    fn learn(&mut self, response: &ResponseMeta) -> ControlFlow<()> {
        let reported = Version { size: response.size, validator: response.validator.clone() };
        if let Err(error) = self.cache().learn(self.claims.entry, &reported) {
            return self.changed(error.context(self.file.source.name()));
        }
        self.versioned = true;
        if let (Some(validator), false) = (&reported.validator, self.conditional) {
            self.reader.set_validator(validator);
            self.conditional = true;
        }
        // Now the size of the file is known.
        lock(&self.file.state).work.prefetches_due = true;
        ControlFlow::Continue(())
    }

    fn confirm(&mut self) {
        self.confirmed = self.openings;
        self.cache().confirm(self.claims.entry, self.openings);
    }

    fn changed(&self, error: Error) -> ControlFlow<()> {
        self.cache().change(self.claims.entry, &error);
        ControlFlow::Break(())
    }

    fn failed(&mut self, error: Error, ranges: Vec<Range<u64>>) -> ControlFlow<()> {
        if error.kind() == ErrorKind::Changed {
            return self.changed(error);
        }
        let cache = self.cache();
        let entry = self.claims.entry;
        let owner = self.claims.owner;
        let size = || cache.snapshot(entry).size;
        if size().is_none() && self.reader.response().size.is_some() {
            // If the server sent less than was requested, its response shows why.
            let response = self.reader.response().clone();
            self.learn(&response)?;
            if response.validator.is_none() || self.reader.is_conditional() {
                self.confirm();
            }
        }
        let probe = ranges == [FIRST_BYTE];
        if error.kind() == ErrorKind::Corrupt && !probe {
            match size() {
                // It was requested when the size was not known.
                Some(size) if ranges.iter().any(|range| range.end > size) => {
                    self.ask_again(&ranges, &error);
                    return ControlFlow::Continue(());
                }
                Some(_) => {}
                None => {
                    let doubtful = self.doubtful.get_or_insert_with(|| (Vec::new(), error));
                    doubtful.0.extend(ranges);
                    if !self.probing {
                        self.probe();
                    }
                    return ControlFlow::Continue(());
                }
            }
        }
        if probe && self.probing {
            self.probing = false;
            // Without the size it is not known that they lie beyond the end.
            if let Some((ranges, _)) = self.doubtful.take() {
                cache.fail(entry, owner, &ranges, &error);
            }
            cache.fail_unconfirmed(entry, owner, &error);
        }
        let rest = std::mem::take(&mut self.rest);
        cache.fail(entry, owner, &[ranges, rest].concat(), &error);
        ControlFlow::Continue(())
    }

    /// Requests failed ranges that lie within the file again.
    fn ask_again(&mut self, ranges: &[Range<u64>], error: &Error) {
        let cache = self.cache();
        let entry = self.claims.entry;
        let owner = self.claims.owner;
        match cache.snapshot(entry).size {
            Some(size) => {
                let within: Vec<_> = ranges
                    .iter()
                    .map(|range| range.start..range.end.min(size))
                    .filter(|range| range.start < range.end)
                    .collect();
                if !within.is_empty() {
                    self.reader.push_urgent(&within, usize::MAX);
                }
            }
            None => cache.fail(entry, owner, ranges, error),
        }
    }

    /// Called when no request is in flight. Breaks if no work is left.
    fn rests(&mut self) -> ControlFlow<()> {
        // The bytes requested to learn the size or the version may have arrived with another
        // response, so that this request was never sent.
        self.probing = false;
        if self.doubtful.is_some() {
            self.probe();
            return ControlFlow::Continue(());
        }
        self.fetching = false;
        if self.versioned && self.probe_answered && self.confirmed < self.openings {
            self.confirm();
        }
        self.probe_answered = false;
        let mut state = lock(&self.file.state);
        if state.work.is_pending() {
            return ControlFlow::Continue(());
        }
        state.work.queue.all_sent();
        state.work.busy = false;
        // No claim should be left; if one is, its readers get an error and do not wait for it.
        let left = self.cache().in_flight(self.claims.entry, self.claims.owner);
        if !left.is_empty() {
            let error = Error::new(
                ErrorKind::Protocol,
                format!("{}: the response lacks requested bytes", self.file.source.name()),
            );
            self.cache().fail(self.claims.entry, self.claims.owner, &left, &error);
        }
        if self.cache().lacks_confirmation(self.claims.entry, self.claims.owner) {
            // The request that would have confirmed it has failed.
            state.work.probe = true;
            return ControlFlow::Continue(());
        }
        // Under the lock: a read that begins before the session is dropped keeps its claims.
        self.claims.are_settled = true;
        ControlFlow::Break(())
    }
}
