//! Jobs in progress, and the requests that they become.

use super::Driver;
use super::reads::{Repairs, unexpected};
use crate::xrootd::job::{
    FileVersion, JobError, Operation, OperationJob, OperationResponse, ReadJob, SessionCommand,
};
use crate::xrootd::shared_file::SharedFile;
use hither_core::error::Error;
use hither_xrd::client::{Completion, File, RequestId};
use hither_xrd::wire::{Request, StatInfo, dirlist};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tracing::trace;

/// A file that is open in this session, or being opened.
#[derive(Debug)]
pub(super) struct OpenedFile {
    pub(super) file: File,
    /// Its path, without parts that may be secret.
    pub(super) path: String,
    /// Its version, once it is open.
    pub(super) facts: Option<FileVersion>,
}

/// A job in progress.
pub(super) enum RunningJob {
    Fetch(Box<Fetching>),
    Operation(RunningOperation),
}

pub(super) struct Fetching {
    pub(super) fetch: ReadJob,
    pub(super) requests: HashSet<RequestId>,
    /// The end of a long range, which is requested while its beginning arrives.
    pub(super) rest: Range<u64>,
    /// The version of the file. The tail can be requested, and the job can end, only once the file
    /// is open.
    pub(super) facts: Option<FileVersion>,
    pub(super) repairs: Repairs,
    /// The error with which the job ends after all responses have arrived.
    pub(super) first_error: Option<Error>,
    /// When it was sent in a session that was open, until its first byte has arrived.
    pub(super) awaited_since: Option<Instant>,
    pub(super) tally: Tally,
    /// When it began, or last got something of its own.
    pub(super) progressed: Instant,
}

pub(super) struct RunningOperation {
    pub(super) job: OperationJob,
    /// The request of the operation; none for an open that another job requested.
    pub(super) request_id: Option<RequestId>,
    pub(super) tally: Tally,
    /// When it began, or last got something of its own.
    pub(super) progressed: Instant,
}

/// The round trip of a job, for the counters.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The round trip in which it was sent; 0 before.
    round_trip: u64,
    answered: bool,
}

impl Tally {
    /// Records that a request is sent in this round trip.
    pub(super) fn begin(&mut self, round_trip: u64) {
        *self = Self { round_trip, answered: false };
    }
}

impl RunningJob {
    /// The number of requested bytes of the file.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Fetch(fetching) => fetching.fetch.request.requested_bytes(),
            Self::Operation(operation) => operation.job.what.bytes(),
        }
    }

    /// The round trip that was next when the job was created.
    fn round_trip(&self) -> u64 {
        match self {
            Self::Fetch(fetching) => fetching.fetch.round_trip,
            Self::Operation(operation) => operation.job.round_trip,
        }
    }

    fn requests(&self) -> Vec<RequestId> {
        match self {
            Self::Fetch(fetching) => fetching.requests.iter().copied().collect(),
            Self::Operation(operation) => operation.request_id.into_iter().collect(),
        }
    }

    fn tally(&mut self) -> &mut Tally {
        match self {
            Self::Fetch(fetching) => &mut fetching.tally,
            Self::Operation(operation) => &mut operation.tally,
        }
    }

    /// The time at which it began, or last got something of its own.
    pub(super) fn progressed(&self) -> Instant {
        match self {
            Self::Fetch(fetching) => fetching.progressed,
            Self::Operation(operation) => operation.progressed,
        }
    }

    fn note_progress(&mut self) {
        let progressed = match self {
            Self::Fetch(fetching) => &mut fetching.progressed,
            Self::Operation(operation) => &mut operation.progressed,
        };
        *progressed = Instant::now();
    }

    /// Returns whether the job is about this file.
    pub(super) fn is_on(&self, name: u64) -> bool {
        let on = match self {
            Self::Fetch(fetching) => Some(&fetching.fetch.name),
            Self::Operation(operation) => operation.job.what.name(),
        };
        on.is_some_and(|on| on.id == name)
    }

    /// Fails the job. Its caller may have been cancelled.
    pub(super) fn fail(self, error: JobError) {
        match self {
            Self::Fetch(fetching) => drop(fetching.fetch.reply.send(Err(error))),
            Self::Operation(operation) => drop(operation.job.reply.send(Err(error))),
        }
    }

    /// The job as a command for another session.
    pub(super) fn again(self, id: u64) -> SessionCommand {
        match self {
            Self::Fetch(fetching) => SessionCommand::Fetch(id, fetching.fetch),
            Self::Operation(operation) => SessionCommand::Operation(id, operation.job),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<'_, S> {
    /// Executes a command.
    pub(super) fn take(&mut self, command: SessionCommand) {
        match command {
            SessionCommand::Fetch(id, fetch) => self.begin_fetch(id, fetch),
            SessionCommand::Operation(id, job) => self.begin_operation(id, job),
            SessionCommand::Open(name) => drop(self.file(&name)),
            SessionCommand::Cancel(id) => {
                self.give_up(id);
            }
            SessionCommand::Close(name) => {
                if let Some(OpenedFile { file, .. }) = self.files.remove(&name) {
                    let opening = self.opening.iter().find(|(_, of)| **of == name);
                    match opening.map(|(request_id, _)| *request_id) {
                        Some(request_id) => {
                            self.opening.remove(&request_id);
                            self.parts.session.cancel(request_id);
                        }
                        None => drop(self.parts.session.close(file)),
                    }
                }
            }
        }
    }

    /// Resets the timeouts and the meter, if no other job is in progress.
    fn begins(&mut self) {
        if self.jobs.is_empty() {
            self.progressed = Instant::now();
            self.midway = false;
            self.parts.meter.watch(Some(self.parts.rtt));
        }
    }

    fn begin_operation(&mut self, id: u64, job: OperationJob) {
        self.begins();
        let request_id = match &job.what {
            Operation::Request(request) => Some(self.parts.session.submit(request.clone())),
            Operation::List(path, _) => {
                let list = Request::List { path: path.clone(), options: dirlist::STAT };
                Some(self.parts.session.submit(list))
            }
            Operation::Open(name) => match self.file(name) {
                (_, None) => None,
                (file, Some(_)) => {
                    self.parts.load.done(0);
                    let reply = Completion::Opened { file, status: None };
                    drop(job.reply.send(Ok(OperationResponse { reply })));
                    return;
                }
            },
            Operation::Write(name, offset, bytes) => {
                let (file, _) = self.file(name);
                Some(self.parts.session.write(file, *offset, bytes.clone()))
            }
            Operation::Sync(name) => {
                let (file, _) = self.file(name);
                Some(self.parts.session.sync(file))
            }
            Operation::Close(name) => {
                let (file, _) = self.file(name);
                self.files.remove(&name.id);
                Some(self.parts.session.close(file))
            }
        };
        self.requests.extend(request_id.map(|request_id| (request_id, id)));
        let tally = Tally::default();
        let progressed = Instant::now();
        let operation = RunningOperation { job, request_id, tally, progressed };
        self.jobs.insert(id, RunningJob::Operation(operation));
        self.sent(id);
    }

    fn begin_fetch(&mut self, id: u64, fetch: ReadJob) {
        self.begins();
        let (file, facts) = self.file(&fetch.name);
        let error = facts.and_then(|facts| unexpected(&self.parts.name, &fetch, facts));
        if let Some(error) = error.or_else(|| self.cannot_verify()) {
            self.parts.load.done(fetch.request.requested_bytes());
            drop(fetch.reply.send(Err(JobError::Failed(error))));
            return;
        }
        let (ranges, rest) = self.window.first(&fetch.request.ranges);
        let mut requests = self.read(file, &ranges);
        if let Some(facts) = facts {
            requests.extend(self.read_tail(file, &fetch, facts));
        }
        self.requests.extend(requests.iter().map(|request_id| (*request_id, id)));
        let fetching = Fetching {
            fetch,
            requests: requests.into_iter().collect(),
            rest,
            facts,
            repairs: Repairs::default(),
            first_error: None,
            awaited_since: self.is_open.then(Instant::now),
            tally: Tally::default(),
            progressed: Instant::now(),
        };
        self.jobs.insert(id, RunningJob::Fetch(Box::new(fetching)));
        self.sent(id);
        self.finish_if_done(id);
    }

    /// The handle of a file, which is opened if need be.
    fn file(&mut self, name: &Arc<SharedFile>) -> (File, Option<FileVersion>) {
        if let Some(opened) = self.files.get(&name.id) {
            return (opened.file, opened.facts);
        }
        let (file, request_id) = self.parts.session.open(name.request.clone());
        let path = name.bare_path().to_owned();
        self.files.insert(name.id, OpenedFile { file, path, facts: None });
        self.opening.insert(request_id, name.id);
        (file, None)
    }

    /// Continues a job whose file is open.
    pub(super) fn go_on(
        &mut self,
        id: u64,
        file: File,
        status: Option<&StatInfo>,
        facts: FileVersion,
    ) {
        match self.jobs.get(&id) {
            Some(RunningJob::Fetch(fetching)) if fetching.facts.is_none() => {
                self.fetch_on(id, file, facts);
            }
            // Another job has opened the file again. All of this one has been requested before.
            Some(RunningJob::Fetch(_)) => {}
            // The open was the job.
            Some(RunningJob::Operation(operation)) if operation.request_id.is_none() => {
                if let Some(RunningJob::Operation(operation)) = self.end(id) {
                    let reply = Completion::Opened { file, status: status.cloned() };
                    drop(operation.job.reply.send(Ok(OperationResponse { reply })));
                }
            }
            _ => {}
        }
    }

    /// Removes a job.
    pub(super) fn end(&mut self, id: u64) -> Option<RunningJob> {
        let job = self.jobs.remove(&id)?;
        for request_id in job.requests() {
            self.requests.remove(&request_id);
            self.waited.remove(&request_id);
            self.deferred.remove(&request_id);
        }
        self.parts.load.done(job.bytes());
        trace!(server = %self.parts.name, job = id, bytes = job.bytes(), "request finished");
        self.progressed = Instant::now();
        if self.jobs.is_empty() {
            self.parts.load.saw_bandwidth(self.parts.meter.bandwidth());
            self.postponed_until = None;
        }
        Some(job)
    }

    /// Removes a job and cancels its requests.
    pub(super) fn give_up(&mut self, id: u64) -> Option<RunningJob> {
        let job = self.end(id)?;
        job.requests().into_iter().for_each(|request_id| self.parts.session.cancel(request_id));
        Some(job)
    }

    pub(super) fn finish_if_done(&mut self, id: u64) {
        let Some(RunningJob::Fetch(fetching)) = self.jobs.get(&id) else { return };
        let is_over = fetching.requests.is_empty() && fetching.rest.is_empty();
        let Some(facts) = fetching.facts.filter(|_| is_over) else { return };
        if let Some(RunningJob::Fetch(fetching)) = self.end(id) {
            let end = fetching.first_error.map_or(Ok(facts), |error| Err(JobError::Failed(error)));
            drop(fetching.fetch.reply.send(end));
        }
    }

    /// Handles the completion of a request.
    pub(super) fn replied(&mut self, request_id: RequestId, reply: Completion) {
        let Some(id) = self.requests.remove(&request_id) else { return };
        self.answered(id);
        match self.jobs.get(&id) {
            Some(RunningJob::Fetch(_)) => match &reply {
                Completion::Read { missing, damaged } => {
                    self.fetched(id, request_id, missing, damaged)
                }
                _ => self.fetched(id, request_id, &[], &[]),
            },
            Some(RunningJob::Operation(_)) => {
                if let Some(RunningJob::Operation(operation)) = self.end(id) {
                    drop(operation.job.reply.send(Ok(OperationResponse { reply })));
                }
            }
            None => {}
        }
    }

    /// Counts a job that was passed to the session, which sends it if it can.
    pub(super) fn sent(&mut self, id: u64) {
        if !self.is_open {
            return;
        }
        if let Some(job) = self.jobs.get_mut(&id)
            && job.tally().round_trip == 0
        {
            // The job waited for this connection, and for the responses before its creation; not
            // for later responses to other jobs.
            let round_trip = job.round_trip().max(self.first_round_trip);
            job.tally().round_trip = round_trip;
            self.parts.meter.counters().sent(round_trip, job.bytes());
            trace!(server = %self.parts.name, job = id, bytes = job.bytes(), "request sent");
        }
    }

    /// Records that a part of the response to a job has arrived.
    pub(super) fn answered(&mut self, id: u64) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.note_progress();
            let tally = job.tally();
            if !std::mem::replace(&mut tally.answered, true) {
                self.parts.meter.counters().answered(tally.round_trip);
            }
        }
    }
}
