//! Jobs under way, and how they become requests.

use super::Driver;
use crate::xrootd::job::{Answered, Ask, Command, Facts, Fetch, Trouble, What};
use crate::xrootd::name::OpenName;
use hither_core::error::{Error, ErrorKind};
use hither_core::range;
use hither_xrd::client::{File, Reply, Ticket};
use hither_xrd::wire::{Entry, FileStatus};
use std::ops::Range;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// A file that is open in this session, or being opened.
#[derive(Debug)]
pub(super) struct OpenedFile {
    pub(super) file: File,
    /// Its path, without what may be secret.
    pub(super) path: String,
    /// What the server said of it, once it is open.
    pub(super) facts: Option<Facts>,
}

/// A job under way.
pub(super) enum Running {
    Fetch(Fetching),
    Ask(Asking),
}

pub(super) struct Fetching {
    pub(super) fetch: Fetch,
    pub(super) tickets: Vec<Ticket>,
    /// The file has to be open before all of it can be asked for, or before it can be over.
    pub(super) waits: bool,
    pub(super) tally: Tally,
}

pub(super) struct Asking {
    pub(super) ask: Ask,
    /// None for an open that was asked for by somebody else before.
    pub(super) ticket: Option<Ticket>,
    pub(super) entries: Vec<Entry>,
    pub(super) tally: Tally,
}

/// For the books.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The flight in which it was sent; 0 before.
    flight: u64,
    answered: bool,
}

impl Running {
    /// Bytes of the file that it asks for.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Fetch(fetching) => fetching.fetch.request.asked_bytes(),
            Self::Ask(asking) => asking.ask.what.bytes(),
        }
    }

    fn tickets(&self) -> &[Ticket] {
        match self {
            Self::Fetch(fetching) => &fetching.tickets,
            Self::Ask(asking) => asking.ticket.as_slice(),
        }
    }

    fn tally(&mut self) -> &mut Tally {
        match self {
            Self::Fetch(fetching) => &mut fetching.tally,
            Self::Ask(asking) => &mut asking.tally,
        }
    }

    /// It is on this file.
    pub(super) fn is_on(&self, name: u64) -> bool {
        let on = match self {
            Self::Fetch(fetching) => Some(&fetching.fetch.name),
            Self::Ask(asking) => asking.ask.what.name(),
        };
        on.is_some_and(|on| on.id == name)
    }

    /// Tells who waits that it came to nothing. Who does not wait any more does not mind.
    pub(super) fn fail(self, trouble: Trouble) {
        match self {
            Self::Fetch(fetching) => drop(fetching.fetch.reply.send(Err(trouble))),
            Self::Ask(asking) => drop(asking.ask.reply.send(Err(trouble))),
        }
    }

    /// The job, for another session.
    pub(super) fn again(self, id: u64) -> Command {
        match self {
            Self::Fetch(fetching) => Command::Fetch(id, fetching.fetch),
            Self::Ask(asking) => Command::Ask(id, asking.ask),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<'_, S> {
    /// Does what it is told.
    pub(super) fn take(&mut self, command: Command) {
        match command {
            Command::Fetch(id, fetch) => self.begin_fetch(id, fetch),
            Command::Ask(id, ask) => self.begin_ask(id, ask),
            Command::Open(name) => drop(self.file(&name)),
            Command::Cancel(id) => {
                self.give_up(id);
            }
            Command::Close(name) => {
                if let Some(OpenedFile { file, .. }) = self.files.remove(&name) {
                    let opening = self.opening.iter().find(|(_, of)| **of == name);
                    match opening.map(|(ticket, _)| *ticket) {
                        Some(ticket) => {
                            self.opening.remove(&ticket);
                            self.session.cancel(ticket);
                        }
                        None => drop(self.session.close(file)),
                    }
                }
            }
        }
    }

    /// There is something to wait for from now on, if there was nothing before.
    fn begins(&mut self) {
        if self.jobs.is_empty() {
            self.heard = Instant::now();
            self.midway = false;
            self.tap.watch(Some(self.rtt));
        }
    }

    fn begin_ask(&mut self, id: u64, ask: Ask) {
        self.begins();
        let ticket = match &ask.what {
            What::Request(request) => Some(self.session.submit(request.clone())),
            What::Open(name) => match self.file(name) {
                (_, None) => None,
                (file, Some(_)) => {
                    self.load.done(0);
                    let reply = Reply::Opened { file, status: None };
                    drop(ask.reply.send(Ok(Answered { reply, entries: Vec::new() })));
                    return;
                }
            },
            What::Write(name, offset, bytes) => {
                let (file, _) = self.file(name);
                Some(self.session.write(file, *offset, bytes.clone()))
            }
            What::Close(name) => {
                let (file, _) = self.file(name);
                self.files.remove(&name.id);
                Some(self.session.close(file))
            }
        };
        self.tickets.extend(ticket.map(|ticket| (ticket, id)));
        let (entries, tally) = (Vec::new(), Tally::default());
        self.jobs.insert(id, Running::Ask(Asking { ask, ticket, entries, tally }));
        self.sent(id);
    }

    fn begin_fetch(&mut self, id: u64, fetch: Fetch) {
        self.begins();
        let (file, facts) = self.file(&fetch.name);
        if let Some(error) = facts.and_then(|facts| unexpected(&self.name, &fetch, facts)) {
            self.load.done(fetch.request.asked_bytes());
            drop(fetch.reply.send(Err(Trouble::Failed(error))));
            return;
        }
        let mut tickets = self.read(file, &fetch.request.ranges);
        if let Some(facts) = facts {
            tickets.extend(self.read_tail(file, &fetch, facts));
        }
        self.tickets.extend(tickets.iter().map(|ticket| (*ticket, id)));
        let (waits, tally) = (facts.is_none(), Tally::default());
        self.jobs.insert(id, Running::Fetch(Fetching { fetch, tickets, waits, tally }));
        self.sent(id);
        self.finish_if_done(id);
    }

    /// The file, which is opened if it is not.
    fn file(&mut self, name: &Arc<OpenName>) -> (File, Option<Facts>) {
        if let Some(opened) = self.files.get(&name.id) {
            return (opened.file, opened.facts);
        }
        let (file, ticket) = self.session.open(name.request.clone());
        let path = name.bare_path().to_owned();
        self.files.insert(name.id, OpenedFile { file, path, facts: None });
        self.opening.insert(ticket, name.id);
        (file, None)
    }

    /// Asks for ranges: what is too long for an element of a vector, and what is alone, by itself.
    fn read(&mut self, file: File, ranges: &[Range<u64>]) -> Vec<Ticket> {
        let most = u64::from(self.session.vector_limits().element_bytes);
        let is_long = |range: &Range<u64>| range::len(range) > most;
        let (mut long, mut short): (Vec<_>, Vec<_>) = ranges.iter().cloned().partition(is_long);
        if short.len() == 1 {
            long.append(&mut short);
        }
        let mut tickets = Vec::new();
        if !short.is_empty() {
            tickets.push(self.session.read_vector(file, &short));
        }
        tickets.extend(long.into_iter().map(|range| self.session.read(file, range)));
        tickets
    }

    /// Asks for the end of a file that is known to be so long.
    fn read_tail(&mut self, file: File, fetch: &Fetch, facts: Facts) -> Vec<Ticket> {
        let (tail, size) = (fetch.request.tail, facts.size.unwrap_or_default());
        if tail == 0 {
            return Vec::new();
        }
        let tail = size.saturating_sub(tail)..size;
        let asked = range::merged(&fetch.request.ranges, 0);
        let left = range::difference(std::slice::from_ref(&tail), &asked);
        self.read(file, &left)
    }

    /// The file of a job is open.
    pub(super) fn go_on(&mut self, id: u64, file: File, status: Option<&FileStatus>, facts: Facts) {
        match self.jobs.get(&id) {
            Some(Running::Fetch(_)) => self.fetch_on(id, file, facts),
            // That is what was asked.
            Some(Running::Ask(asking)) if asking.ticket.is_none() => {
                if let Some(Running::Ask(asking)) = self.end(id) {
                    let reply = Reply::Opened { file, status: status.cloned() };
                    drop(asking.ask.reply.send(Ok(Answered { reply, entries: Vec::new() })));
                }
            }
            _ => {}
        }
    }

    /// The file of a fetch is open: what had to wait for that is asked for.
    fn fetch_on(&mut self, id: u64, file: File, facts: Facts) {
        let Some(Running::Fetch(mut fetching)) = self.jobs.remove(&id) else { return };
        if let Some(error) = unexpected(&self.name, &fetching.fetch, facts) {
            fetching.tickets.iter().for_each(|ticket| self.session.cancel(*ticket));
            let job = Running::Fetch(fetching);
            self.load.done(job.bytes());
            job.fail(Trouble::Failed(error));
            return;
        }
        let further = self.read_tail(file, &fetching.fetch, facts);
        self.tickets.extend(further.iter().map(|ticket| (*ticket, id)));
        if !further.is_empty() {
            // It has to wait for another round trip, and its bytes are a train of their own.
            self.tap.watch(Some(self.rtt));
            let flight = self.account().next_flight();
            self.account().sent(flight, 0);
            fetching.tally = Tally { flight, answered: false };
        }
        fetching.tickets.extend(further);
        fetching.waits = false;
        self.jobs.insert(id, Running::Fetch(fetching));
        self.finish_if_done(id);
    }

    /// Takes a job off the books.
    pub(super) fn end(&mut self, id: u64) -> Option<Running> {
        let job = self.jobs.remove(&id)?;
        for ticket in job.tickets() {
            self.tickets.remove(ticket);
        }
        self.load.done(job.bytes());
        self.heard = Instant::now();
        if self.jobs.is_empty() {
            self.load.saw_bandwidth(self.tap.bandwidth());
            self.patience_until = None;
        }
        Some(job)
    }

    /// Takes a job off the books that is not over.
    pub(super) fn give_up(&mut self, id: u64) -> Option<Running> {
        let job = self.end(id)?;
        job.tickets().iter().for_each(|ticket| self.session.cancel(*ticket));
        Some(job)
    }

    pub(super) fn finish_if_done(&mut self, id: u64) {
        let Some(Running::Fetch(fetching)) = self.jobs.get(&id) else { return };
        if fetching.waits || !fetching.tickets.is_empty() {
            return;
        }
        let opened = self.files.get(&fetching.fetch.name.id);
        let facts = opened.and_then(|opened| opened.facts).unwrap_or_default();
        if let Some(Running::Fetch(fetching)) = self.end(id) {
            drop(fetching.fetch.reply.send(Ok(facts)));
        }
    }

    /// A ticket of a job is over.
    pub(super) fn replied(&mut self, ticket: Ticket, reply: Reply) {
        let Some(id) = self.tickets.remove(&ticket) else { return };
        self.answered(id);
        match self.jobs.get_mut(&id) {
            Some(Running::Fetch(fetching)) => {
                fetching.tickets.retain(|other| *other != ticket);
                self.finish_if_done(id);
            }
            Some(Running::Ask(_)) => {
                if let Some(Running::Ask(asking)) = self.end(id) {
                    let Asking { ask, entries, .. } = asking;
                    drop(ask.reply.send(Ok(Answered { reply, entries })));
                }
            }
            None => {}
        }
    }

    /// A job was handed to the session, which sends it at once if it can.
    pub(super) fn sent(&mut self, id: u64) {
        if !self.is_open {
            return;
        }
        let flight = self.tap.account().next_flight();
        if let Some(job) = self.jobs.get_mut(&id)
            && job.tally().flight == 0
        {
            job.tally().flight = flight;
            self.tap.account().sent(flight, job.bytes());
        }
    }

    /// The answer to a job has begun to arrive.
    pub(super) fn answered(&mut self, id: u64) {
        if let Some(job) = self.jobs.get_mut(&id) {
            let tally = job.tally();
            if !std::mem::replace(&mut tally.answered, true) {
                self.tap.account().answered(tally.flight);
            }
        }
    }
}

/// Why a file is not the one that is expected, if it is not.
fn unexpected(server: &str, fetch: &Fetch, facts: Facts) -> Option<Error> {
    let changed = |what: String| Some(Error::new(ErrorKind::Changed, what));
    let path = fetch.name.bare_path();
    match (fetch.request.size, facts.size) {
        (Some(expected), Some(size)) if size != expected => {
            return changed(format!("{server}/{path} has {size} bytes, expected {expected}"));
        }
        _ => {}
    }
    match (&fetch.request.validator, facts.validator()) {
        (Some(expected), Some(now)) if now != *expected => {
            changed(format!("{server}/{path} has changed since it was opened"))
        }
        _ => None,
    }
}
