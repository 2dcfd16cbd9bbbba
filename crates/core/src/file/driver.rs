//! Fetches what an open file wants.
//!
//! The driver runs from the first need to the last byte of it, then ends; the next need starts another one. In between it
//! does two things in turn: it hands what is wanted to its [`Reader`], and it puts what arrives into the cache, where those
//! who wait are served.
//!
//! **Order.** What somebody waits for goes first, as urgent requests, and what the advisor wants along with it goes in the
//! same plan. Then the wishes: as many of them as there is room for, in one plan, in the order in which they will be due,
//! and the next ones not before those have been sent, so that what is not wanted any more can still be held back.
//!
//! **The first answer** says what version the file is. Until then requests carry no validator, and nobody is served before
//! all of those have been answered alike. A reader of a known version sends its validator from the start, and whatever
//! arrives confirms it. Wishes wait for the first answer, because only it tells how long the file is; if nobody reads, the
//! first piece of the first wish is asked for alone.
//!
//! **The end of the file**, as long as its size is not known, may be passed by a read. Then the request fails, and if the
//! failure does not tell the size, the first byte is asked for, whose answer does; what lies within is asked for again.
//!
//! Dropping the driver cancels its requests, and whoever waits for them asks himself.

use super::{Shared, State};
use crate::cache::{Cache, Version};
use crate::error::{Error, ErrorKind};
use crate::link::{INITIAL_WINDOW_BYTES, INTRODUCTION_BYTES};
use crate::schedule::Step;
use crate::sync::{MutexGuard, lock};
use crate::{Answer, Limits, Part, Reader, ReaderConfig, plan, range};
use futures_util::future::{Either, select};
use std::future::poll_fn;
use std::ops::{ControlFlow, Range};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// The smallest thing that can be asked for.
const FIRST_BYTE: Range<u64> = 0..1;

/// Up to this, one connection is as good as several: a few initial windows.
const SMALL_BYTES: u64 = 64 << 10;

/// Lanes for a read: no more than give each an initial window, which comes in one round trip on a lane of any age, or than
/// there have to be requests. A job shares what it has to do among more, because more will follow; here nobody knows.
fn lanes_for(ranges: &[Range<u64>], limits: &Limits) -> usize {
    windows(ranges).max(plan::fewest_requests(ranges, limits))
}

/// Initial windows that hold `ranges`.
fn windows(ranges: &[Range<u64>]) -> usize {
    let windows = range::total_bytes(ranges).div_ceil(INITIAL_WINDOW_BYTES);
    usize::try_from(windows).unwrap_or(usize::MAX)
}

/// Drives a file until there is nothing to do.
pub(super) async fn run(file: Arc<Shared>) {
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

/// Notes that nobody drives the file when it is dropped.
struct Driving<'a>(&'a Shared);

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).driving = false;
    }
}

/// The reading of one version.
struct Session<'a> {
    file: &'a Shared,
    reader: Reader<'a>,
    claims: Claims<'a>,
    /// Files that had been opened when the oldest request under way was sent.
    openings: u64,
    /// The last that was confirmed.
    confirmed: u64,
    /// Something was answered since then.
    heard: bool,
    /// The validator is known, and requests carry it.
    conditional: bool,
    /// A server has said which version it is, or it was known.
    versioned: bool,
    under_way: bool,
    /// What is left of the first read of a server that nothing is known of.
    rest: Vec<Range<u64>>,
    /// What failed, and may lie beyond the end of the file; why.
    doubtful: Option<(Vec<Range<u64>>, Error)>,
    probing: bool,
}

/// What the session has in flight. Dropped, it gives it up.
struct Claims<'a> {
    cache: &'a Cache,
    entry: u64,
    owner: u64,
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        self.cache.abandon(self.entry, self.owner);
    }
}

impl<'a> Session<'a> {
    fn new(file: &'a Shared, entry: u64, owner: u64) -> Self {
        let (version, _) = file.cache.version(entry, owner);
        let versioned = version.is_some();
        let validator = version.and_then(|version| version.validator);
        let conditional = validator.is_some();
        let config = ReaderConfig { exact: true, ..file.config };
        Self {
            file,
            reader: Reader::new(&*file.source, validator, config),
            claims: Claims { cache: &file.cache, entry, owner },
            openings: 0,
            confirmed: 0,
            heard: false,
            conditional,
            versioned,
            under_way: false,
            rest: Vec::new(),
            doubtful: None,
            probing: false,
        }
    }

    async fn run(mut self) {
        loop {
            if self.feed().is_break() {
                return;
            }
            let event = {
                let (file, entry) = (self.file, self.claims.entry);
                let wanted = pin!(poll_fn(|cx| {
                    file.driver.register(cx.waker());
                    let state = lock(&file.state);
                    let wanted = state.work.is_pending() || state.closed || state.entry != entry;
                    if wanted { Poll::Ready(()) } else { Poll::Pending }
                }));
                match select(pin!(self.reader.step()), wanted).await {
                    Either::Left((step, _)) => Some(step),
                    Either::Right(((), _)) => None,
                }
            };
            let goes_on = match event {
                None => ControlFlow::Continue(()),
                Some(Some(Step::Part(part))) => self.arrived(&part),
                Some(Some(Step::Answered(answer))) => self.answered(&answer),
                Some(Some(Step::Failed { error, ranges })) => self.failed(error, ranges),
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

    /// Hands the reader what is wanted.
    fn feed(&mut self) -> ControlFlow<()> {
        let file = self.file;
        let mut state = lock(&file.state);
        if state.closed || state.entry != self.claims.entry {
            return ControlFlow::Break(());
        }
        let withdrawn = std::mem::take(&mut state.work.withdrawn);
        if !withdrawn.is_empty() {
            self.withdraw(&withdrawn);
        }
        let hastened = std::mem::take(&mut state.work.hastened);
        if !hastened.is_empty() {
            self.reader.hasten(&hastened);
        }
        let urgent = std::mem::take(&mut state.work.urgent);
        if !urgent.is_empty() {
            self.push_urgent(&urgent);
        }
        if std::mem::take(&mut state.work.probe) && !self.probing {
            self.probe();
        }
        self.feed_wishes(&mut state);
        ControlFlow::Continue(())
    }

    fn feed_wishes(&mut self, state: &mut MutexGuard<'_, State>) {
        let wished = std::mem::take(&mut state.work.wished);
        state.work.busy = self.reader.queued() > 0;
        if state.work.wishes.is_empty() || state.work.busy {
            return;
        }
        if !self.versioned && (self.under_way || !wished) {
            return;
        }
        if !state.work.has_room(&self.cache().standing(self.claims.entry)) {
            return;
        }
        let most = if self.versioned { u64::MAX } else { INTRODUCTION_BYTES };
        let (cache, entry, owner) = (self.cache(), self.claims.entry, self.claims.owner);
        let mut left = most;
        let taken = state.work.wishes.take(|ranges| {
            let (claimed, later) = cache.claim_ahead(entry, owner, ranges, left);
            left = left.saturating_sub(range::total_bytes(&claimed));
            (claimed, later)
        });
        if !taken.is_empty() {
            let ranges = self.over_gaps(&taken);
            self.sends();
            let lanes = lanes_for(&ranges, &self.file.source.limits());
            // More than a window for each: in the order of use.
            match windows(&ranges) > self.file.source.max_lanes() {
                true => self.reader.push_striped(&ranges, lanes),
                false => self.reader.push(&ranges, lanes),
            }
            state.work.busy = self.reader.queued() > 0;
        }
    }

    fn push_urgent(&mut self, claimed: &[Range<u64>]) {
        let mut ranges = self.over_gaps(claimed);
        let stranger = !self.versioned && !self.under_way && self.file.source.link().rtt.is_none();
        if stranger && range::total_bytes(&ranges) > SMALL_BYTES {
            (ranges, self.rest) = range::divided(&ranges, INTRODUCTION_BYTES);
        }
        self.sends();
        self.reader.push_urgent(&ranges, lanes_for(&ranges, &self.file.source.limits()));
    }

    /// Reads over the gaps that cost less than another range, as far as nothing of them is there.
    fn over_gaps(&self, claimed: &[Range<u64>]) -> Vec<Range<u64>> {
        let ranges = range::merged(claimed, 0);
        let gaps = plan::gaps_worth_reading(&ranges, &self.file.source.limits());
        if gaps.is_empty() {
            return ranges;
        }
        let gaps = self.cache().claim_gaps(self.claims.entry, self.claims.owner, &gaps);
        range::merged(&[ranges, gaps].concat(), 0)
    }

    fn probe(&mut self) {
        self.probing = true;
        self.sends();
        self.reader.push_urgent(std::slice::from_ref(&FIRST_BYTE), 1);
    }

    /// Something is about to be sent.
    fn sends(&mut self) {
        if !self.under_way {
            self.under_way = true;
            self.openings = self.cache().openings();
        }
    }

    /// Holds back what has not been sent, unless somebody waits for it.
    fn withdraw(&mut self, unwanted: &[Range<u64>]) {
        let held = self.reader.withdraw(unwanted);
        let released = self.cache().release(self.claims.entry, self.claims.owner, &held);
        let wanted = range::difference(&held, &released);
        if !wanted.is_empty() {
            self.reader.push_urgent(&wanted, usize::MAX);
        }
    }

    fn arrived(&mut self, part: &Part) -> ControlFlow<()> {
        self.cache().insert(self.claims.entry, part);
        self.reader.release(part.bytes.len() as u64);
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.reader.push_urgent(&rest, usize::MAX);
        }
        if self.conditional && self.confirmed < self.openings && self.reader.is_conditional() {
            self.confirm();
        }
        ControlFlow::Continue(())
    }

    fn answered(&mut self, answer: &Answer) -> ControlFlow<()> {
        self.learn(answer)?;
        (self.probing, self.heard) = (false, true);
        if let Some((ranges, error)) = self.doubtful.take() {
            self.ask_again(&ranges, &error);
        }
        if answer.validator.is_none() || self.reader.is_conditional() {
            self.confirm();
        }
        ControlFlow::Continue(())
    }

    fn learn(&mut self, answer: &Answer) -> ControlFlow<()> {
        let told = Version { size: answer.size, validator: answer.validator.clone() };
        if let Err(error) = self.cache().learn(self.claims.entry, &told) {
            return self.changed(error.context(self.file.source.name()));
        }
        self.versioned = true;
        if let (Some(validator), false) = (&told.validator, self.conditional) {
            self.reader.set_validator(validator);
            self.conditional = true;
        }
        // Now it is known how long the file is.
        lock(&self.file.state).work.wished = true;
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
        let (cache, entry, owner) = (self.cache(), self.claims.entry, self.claims.owner);
        let size = || cache.standing(entry).size;
        if size().is_none() && self.reader.answer().size.is_some() {
            // A server that sent less than was asked for has told why.
            let answer = self.reader.answer().clone();
            self.learn(&answer)?;
            if answer.validator.is_none() || self.reader.is_conditional() {
                self.confirm();
            }
        }
        let probe = ranges == [FIRST_BYTE];
        if error.kind() == ErrorKind::Corrupt && !probe {
            match size() {
                // It was asked for when that was not known.
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
            if let Some((ranges, error)) = self.doubtful.take() {
                cache.fail(entry, owner, &ranges, &error);
            }
            cache.fail_unconfirmed(entry, owner, &error);
        }
        let rest = std::mem::take(&mut self.rest);
        cache.fail(entry, owner, &[ranges, rest].concat(), &error);
        ControlFlow::Continue(())
    }

    /// What failed and lies within the file is asked for once more.
    fn ask_again(&mut self, ranges: &[Range<u64>], error: &Error) {
        let (cache, entry, owner) = (self.cache(), self.claims.entry, self.claims.owner);
        match cache.standing(entry).size {
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

    /// Nothing is under way.
    fn rests(&mut self) -> ControlFlow<()> {
        // What was asked for to learn the size or the version may have come with something else, and not have been sent.
        self.probing = false;
        if self.doubtful.is_some() {
            self.probe();
            return ControlFlow::Continue(());
        }
        self.under_way = false;
        if self.versioned && self.heard && self.confirmed < self.openings {
            self.confirm();
        }
        self.heard = false;
        let mut state = lock(&self.file.state);
        if state.work.is_pending() {
            return ControlFlow::Continue(());
        }
        state.work.wishes.all_sent();
        state.work.busy = false;
        // Nothing should be left; if something is, nobody shall wait for it for ever.
        let left = self.cache().in_flight(self.claims.entry, self.claims.owner);
        if !left.is_empty() {
            let error = Error::new(
                ErrorKind::Protocol,
                format!("{}: the answer lacks bytes that were asked for", self.file.source.name()),
            );
            self.cache().fail(self.claims.entry, self.claims.owner, &left, &error);
        }
        if self.cache().lacks_confirmation(self.claims.entry, self.claims.owner) {
            // What would have confirmed it has failed.
            state.work.probe = true;
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(())
    }
}
