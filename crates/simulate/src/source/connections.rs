//! Simulated connections and their requests.

use super::activity::Activity;
use super::window::{Sending, SharedLink, Window};
use super::{FIRST_VALIDATOR, Fault, Logged, SimulatedSource};
use hither_core::{Clock, Request};
use hither_netem::link::Link;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: usize,
    /// The end of the handshake.
    pub(super) ready: Duration,
    pub(super) busy: bool,
    pub(super) window: Window,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) validator: String,
    pub(super) connections: Vec<Connection>,
    pub(super) opened: usize,
    pub(super) line: SharedLink,
    pub(super) log: Vec<Logged>,
    pub(super) faults: BTreeMap<usize, Fault>,
    pub(super) answered: bool,
    pub(super) activity: Option<Activity>,
}

impl State {
    pub(super) fn new(link: Link) -> Self {
        Self {
            validator: FIRST_VALIDATOR.to_owned(),
            connections: Vec::new(),
            opened: 0,
            line: SharedLink::new(link),
            log: Vec::new(),
            faults: BTreeMap::new(),
            answered: false,
            activity: None,
        }
    }

    pub(super) fn open(&mut self, ready: Duration) -> usize {
        let number = self.opened;
        self.opened += 1;
        self.connections.push(Connection { number, ready, busy: false, window: Window::default() });
        number
    }

    pub(super) fn connected(&self, now: Duration) -> bool {
        self.connections.iter().any(|connection| connection.ready <= now)
    }
}

impl SimulatedSource {
    /// Returns a connection if one is free or may be opened: an open one first, then one that is
    /// opening, then a new one.
    pub(super) fn try_connection(&self, request: &Request) -> Option<Taken<'_>> {
        let now = self.now();
        let mut state = self.state();
        let idle = state
            .connections
            .iter()
            .filter(|connection| !connection.busy)
            .min_by_key(|connection| connection.ready);
        let number = match idle {
            Some(connection) => connection.number,
            None if state.connections.len() < self.max_connections => {
                state.open(now + self.link.rtt)
            }
            None => return None,
        };
        let connection =
            state.connections.iter_mut().find(|connection| connection.number == number)?;
        connection.busy = true;
        let start = connection.ready.max(now);
        let at = state.log.len();
        state.log.push(Logged {
            connection: number,
            request: request.clone(),
            start,
            end: None,
            bytes: 0,
            failed: false,
        });
        if let Some(activity) = &mut state.activity {
            activity.requested(now, start, self.link.rtt, self.server_time);
        }
        let fault = state.faults.get(&at).cloned();
        if let Some(Fault::Change { validator }) = &fault {
            state.validator.clone_from(validator);
        }
        Some(Taken { source: self, number, at, start, fault, keep: false })
    }
}

/// A connection in use. It breaks if it is dropped before it is finished, like a connection with an
/// unread response.
pub(super) struct Taken<'a> {
    pub(super) source: &'a SimulatedSource,
    pub(super) number: usize,
    /// Index of the request in the log.
    pub(super) at: usize,
    pub(super) start: Duration,
    pub(super) fault: Option<Fault>,
    pub(super) keep: bool,
}

impl Taken<'_> {
    pub(super) fn send(&self, sending: &mut Sending) -> (u64, Duration) {
        let mut state = self.source.state();
        let State { connections, line, activity, .. } = &mut *state;
        let mut lost = Window::default();
        let window = connections
            .iter_mut()
            .find(|connection| connection.number == self.number)
            .map_or(&mut lost, |connection| &mut connection.window);
        let (bytes, arrives) = sending.send(window, line);
        if let Some(activity) = activity {
            activity.arrives(self.at, arrives, self.source.link.serialisation(bytes));
        }
        (bytes, arrives)
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

    /// Ends the response, and releases the connection.
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
            if let Some(connection) =
                state.connections.iter_mut().find(|connection| connection.number == self.number)
            {
                connection.busy = false;
            }
        } else {
            state.connections.retain(|connection| connection.number != self.number);
        }
        drop(state);
        self.source.connection_free.notify_waiters();
    }
}
