//! Lanes: who holds one, and what became of its request.

use super::window::{Sending, SharedLink, Window};
use super::{FIRST_VALIDATOR, Fault, Logged, SimulatedSource};
use crate::link::Link;
use hither_core::Request;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) number: usize,
    /// When its handshake is over.
    pub(super) ready: Duration,
    pub(super) busy: bool,
    pub(super) window: Window,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) began: Option<Instant>,
    pub(super) validator: String,
    pub(super) lanes: Vec<Lane>,
    pub(super) opened: usize,
    pub(super) line: SharedLink,
    pub(super) log: Vec<Logged>,
    pub(super) faults: BTreeMap<usize, Fault>,
    pub(super) answered: bool,
}

impl State {
    pub(super) fn new(link: Link) -> Self {
        Self {
            began: None,
            validator: FIRST_VALIDATOR.to_owned(),
            lanes: Vec::new(),
            opened: 0,
            line: SharedLink::new(link),
            log: Vec::new(),
            faults: BTreeMap::new(),
            answered: false,
        }
    }

    pub(super) fn now(&mut self) -> Duration {
        let now = Instant::now();
        now - *self.began.get_or_insert(now)
    }

    pub(super) fn instant(&mut self, time: Duration) -> Instant {
        *self.began.get_or_insert_with(Instant::now) + time
    }

    pub(super) fn open(&mut self, ready: Duration) -> usize {
        let number = self.opened;
        self.opened += 1;
        self.lanes.push(Lane { number, ready, busy: false, window: Window::INITIAL });
        number
    }

    pub(super) fn connected(&mut self) -> bool {
        let now = self.now();
        self.lanes.iter().any(|lane| lane.ready <= now)
    }
}

impl SimulatedSource {
    /// A lane if one is free or may be opened: an open one first, then one that is opening, then a new one.
    pub(super) fn try_lane(&self, request: &Request) -> Option<Taken<'_>> {
        let mut state = self.state();
        let now = state.now();
        let idle = state.lanes.iter().filter(|lane| !lane.busy).min_by_key(|lane| lane.ready);
        let number = match idle {
            Some(lane) => lane.number,
            None if state.lanes.len() < self.max_lanes => state.open(now + self.link.rtt),
            None => return None,
        };
        let lane = state.lanes.iter_mut().find(|lane| lane.number == number)?;
        lane.busy = true;
        let start = lane.ready.max(now);
        let at = state.log.len();
        state.log.push(Logged {
            lane: number,
            request: request.clone(),
            start,
            end: None,
            bytes: 0,
            failed: false,
        });
        let fault = state.faults.get(&at).cloned();
        if let Some(Fault::Change { validator }) = &fault {
            state.validator.clone_from(validator);
        }
        Some(Taken { source: self, number, at, start, fault, keep: false })
    }
}

/// A lane in use. Dropped before it is finished, it breaks, as a connection does whose answer nobody reads.
pub(super) struct Taken<'a> {
    pub(super) source: &'a SimulatedSource,
    pub(super) number: usize,
    /// Position of the request in the log.
    pub(super) at: usize,
    pub(super) start: Duration,
    pub(super) fault: Option<Fault>,
    pub(super) keep: bool,
}

impl Taken<'_> {
    pub(super) fn send_window(&self, sending: &mut Sending) -> (u64, Duration) {
        let mut state = self.source.state();
        let State { lanes, line, .. } = &mut *state;
        let mut lost = Window::INITIAL;
        let window = lanes
            .iter_mut()
            .find(|lane| lane.number == self.number)
            .map_or(&mut lost, |lane| &mut lane.window);
        sending.send_window(window, line)
    }

    pub(super) fn arrived(&self, bytes: u64) {
        if let Some(entry) = self.source.state().log.get_mut(self.at) {
            entry.bytes += bytes;
        }
    }

    pub(super) fn fail(&self, end: Duration) {
        if let Some(entry) = self.source.state().log.get_mut(self.at) {
            entry.end = Some(end);
            entry.failed = true;
        }
    }

    /// The answer is complete, and the lane free for the next.
    pub(super) fn finish(&mut self, end: Duration, failed: bool) {
        self.keep = true;
        let mut state = self.source.state();
        state.answered |= !failed;
        if let Some(entry) = state.log.get_mut(self.at) {
            entry.end = Some(end);
            entry.failed = failed;
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.source.state();
        if self.keep {
            if let Some(lane) = state.lanes.iter_mut().find(|lane| lane.number == self.number) {
                lane.busy = false;
            }
        } else {
            state.lanes.retain(|lane| lane.number != self.number);
        }
        drop(state);
        self.source.lane_free.notify_waiters();
    }
}
