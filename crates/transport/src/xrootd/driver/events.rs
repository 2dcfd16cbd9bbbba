//! The events of a session and their effect on jobs.

use super::Driver;
use super::reads::is_garbled;
use crate::config::PageChecksums;
use crate::xrootd::driver::jobs::{OpenedFile, RunningJob};
use crate::xrootd::errors;
use crate::xrootd::job::{FileVersion, JobError, Operation};
use bytes::Bytes;
use hither_core::Part;
use hither_core::error::{Delivery, Error, ErrorKind, Failure};
use hither_xrd::client::{Completion, RequestError, RequestId, SessionError, SessionEvent};
use hither_xrd::wire::{ErrorCode, Redirect, StatInfo};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tracing::debug;

/// The maximum single wait that a server may request.
const MAX_SECONDS: u32 = 3600;
/// The maximum time for a response that the server announces, however often it does. It is also the
/// default limit of the wait for files that are being staged
/// ([`hither_core::RetryPolicy::staging_timeout`]).
const MAX_DEFERRED: Duration = Duration::from_secs(600);
/// The maximum time for the end of a third-party copy, whose caller watches that the file grows.
const MAX_DEFERRED_COPY: Duration = Duration::from_secs(7 * 24 * 3600);

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<'_, S> {
    /// Passes received bytes to the session, and handles its events.
    pub(super) fn take_events(&mut self, mut bytes: Bytes) -> Result<(), SessionError> {
        loop {
            match self.parts.session.receive(&mut bytes) {
                Ok(Some(event)) => self.on_event(event),
                Ok(None) => return Ok(()),
                Err(error) => {
                    // The events before the error are valid.
                    while let Ok(Some(event)) = self.parts.session.receive(&mut Bytes::new()) {
                        self.on_event(event);
                    }
                    return Err(error);
                }
            }
        }
    }

    fn on_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Ready => self.ready(),
            SessionEvent::Data { request_id, offset, bytes } => {
                let Some(&id) = self.requests.get(&request_id) else { return };
                self.answered(id);
                self.counters().payload(bytes.len() as u64);
                if let Some(RunningJob::Fetch(fetching)) = self.jobs.get_mut(&id) {
                    if let Some(since) = fetching.awaited_since.take() {
                        self.parts.load.saw_first_byte(since.elapsed());
                    }
                    (fetching.fetch.sink)(Part { offset, bytes });
                }
            }
            SessionEvent::Entries { request_id, entries } => {
                let job = self.requests.get(&request_id).and_then(|id| self.jobs.get_mut(id));
                if let Some(RunningJob::Operation(operation)) = job
                    && let Operation::List(_, receiver) = &mut operation.job.what
                {
                    operation.progressed = Instant::now();
                    receiver.send(entries);
                }
            }
            SessionEvent::Done { request_id, completion: Completion::Opened { status, .. } } => {
                if let Some(name) = self.opening.remove(&request_id) {
                    self.opened(name, status);
                }
            }
            SessionEvent::Done { request_id, completion: reply } => self.replied(request_id, reply),
            SessionEvent::Failed { request_id, failure, .. } => self.failed(request_id, failure),
            // The session ends with this event.
            SessionEvent::Redirect { request_id: RequestId::SETUP, redirect, .. } => {
                self.redirect = Some(redirect);
            }
            SessionEvent::Redirect { request_id, redirect, .. } => {
                self.redirected(request_id, &redirect)
            }
            SessionEvent::Wait { request_id, seconds, message } => {
                self.wait(request_id, seconds, &message)
            }
            SessionEvent::Later { request_id, seconds } => {
                let now = Instant::now();
                let most = self.max_deferred(request_id);
                let end = *self.deferred.entry(request_id).or_insert(now + most);
                let until = end.min(now + Duration::from_secs(seconds.min(MAX_SECONDS).into()));
                self.postponed_until = self.postponed_until.max(Some(until));
            }
            // TLS starts before the driver does, and messages for users are ignored.
            _ => {}
        }
    }

    /// The login is complete.
    fn ready(&mut self) {
        debug!(server = %self.parts.name, "session logged in");
        self.met = true;
        self.learn();
        if !std::mem::replace(&mut self.is_open, true) {
            self.counters().handshaken(self.login_round_trip, 1);
            let waiting: Vec<u64> = self.jobs.keys().copied().collect();
            waiting.into_iter().for_each(|id| self.sent(id));
        }
    }

    fn jobs_on(&self, name: u64) -> Vec<u64> {
        self.jobs.iter().filter(|(_, job)| job.is_on(name)).map(|(id, _)| *id).collect()
    }

    fn opened(&mut self, name: u64, status: Option<StatInfo>) {
        let facts = status.as_ref().map_or_else(FileVersion::default, |status| FileVersion {
            size: Some(status.size),
            modified: Some(status.modified),
        });
        let Some(OpenedFile { file, facts: known, .. }) = self.files.get_mut(&name) else { return };
        let file = *file;
        *known = Some(facts);
        for id in self.jobs_on(name) {
            self.answered(id);
            self.go_on(id, file, status.as_ref(), facts);
        }
    }

    /// The server cannot open a file.
    fn not_opened(&mut self, name: u64, error: impl Fn() -> JobError) {
        self.files.remove(&name);
        for id in self.jobs_on(name) {
            if let Some(job) = self.end(id) {
                job.fail(error());
            }
        }
    }

    fn failed(&mut self, request_id: RequestId, failure: RequestError) {
        if let Some(name) = self.opening.remove(&request_id) {
            let error = self.failure(&self.shown(name), failure);
            self.not_opened(name, || JobError::Failed(error.clone()));
            return;
        }
        let Some(id) = self.requests.get(&request_id).copied() else { return };
        if let Some(RunningJob::Fetch(fetching)) = self.jobs.get(&id) {
            let size = fetching.facts.and_then(|facts| facts.size);
            let end = fetching.fetch.request.ranges.last().map_or(0, |range| range.end);
            // The server rejected the whole request because a part lies beyond the end. The reader,
            // who knows the size, decides what that means.
            if size.is_some_and(|size| end > size) {
                let nothing = Completion::Read { missing: Vec::new(), damaged: Vec::new() };
                return self.replied(request_id, nothing);
            }
            if matches!(failure, RequestError::Refused { code: ErrorCode::FILE_NOT_OPEN, .. }) {
                let name = fetching.fetch.name.id;
                self.forget(name);
            }
        }
        if let Some(job) = self.give_up(id) {
            let shown = match &job {
                RunningJob::Fetch(fetching) => {
                    let shown = self.shown(fetching.fetch.name.id);
                    let error = self.refused_read(&shown, failure);
                    return job.fail(JobError::Failed(error));
                }
                RunningJob::Operation(operation) => {
                    let name = operation.job.what.name();
                    name.map_or_else(|| self.parts.name.clone(), |name| self.shown(name.id))
                }
            };
            job.fail(JobError::Failed(self.failure(&shown, failure)));
        }
    }

    /// The server does not know a file handle that it gave out. The next read opens the file again;
    /// long ranges end with what has been requested.
    fn forget(&mut self, name: u64) {
        let error = self.failure(&self.shown(name), RequestError::NotOpen);
        let Some(OpenedFile { file, .. }) = self.files.remove(&name) else { return };
        self.parts.session.close(file);
        for job in self.jobs.values_mut().filter(|job| job.is_on(name)) {
            if let RunningJob::Fetch(fetching) = job
                && !fetching.rest.is_empty()
            {
                fetching.rest = 0..0;
                fetching.first_error.get_or_insert_with(|| error.clone());
            }
        }
    }

    /// The error of a failed request. An invalid response may have been damaged in transit.
    fn failure(&self, shown: &str, failure: RequestError) -> Error {
        let nonsense = matches!(failure, RequestError::Wire(_));
        let error = errors::failed(shown, failure);
        if nonsense && self.met { error.with_failure(Failure::Garbled) } else { error }
    }

    /// The error of a failed read.
    fn refused_read(&self, shown: &str, failure: RequestError) -> Error {
        let garbled = match &failure {
            RequestError::Refused { code, .. } => {
                is_garbled(*code, self.parts.config.verify == PageChecksums::Always)
            }
            _ => false,
        };
        let error = self.failure(shown, failure);
        match self.cannot_verify() {
            Some(unverified) if garbled => unverified,
            _ if garbled => {
                Error::new(ErrorKind::Protocol, error.to_string()).with_failure(Failure::Garbled)
            }
            _ => error,
        }
    }

    fn redirected(&mut self, request_id: RequestId, redirect: &Redirect) {
        if let Some(name) = self.opening.remove(&request_id) {
            self.not_opened(name, || JobError::Elsewhere(redirect.clone()));
        } else if let Some(job) =
            self.requests.get(&request_id).copied().and_then(|id| self.give_up(id))
        {
            job.fail(JobError::Elsewhere(redirect.clone()));
        }
    }

    /// Postpones a request. The reader of a file that the server is staging gets an error, and
    /// retries later.
    fn wait(&mut self, request_id: RequestId, seconds: u32, message: &str) {
        let after = Duration::from_secs(seconds.clamp(1, MAX_SECONDS).into());
        debug!(server = %self.parts.name, ?after, message, "server asked to wait");
        let Some(name) = self.opening.remove(&request_id) else {
            let job = self.requests.get(&request_id).and_then(|id| self.jobs.get_mut(id));
            if let Some(RunningJob::Operation(operation)) = job
                && let Operation::List(_, receiver) = &mut operation.job.what
            {
                // The repeated request is another attempt.
                *receiver = receiver.clone();
            }
            self.retry_later(request_id, after);
            return;
        };
        self.parts.session.cancel(request_id);
        let what = match message.trim_end_matches('\0') {
            "" => "the file is being staged".to_owned(),
            message => message.to_owned(),
        };
        let what = format!("{}: {what}, try again later", self.shown(name));
        let error =
            Error::new(ErrorKind::Unavailable, what).with_failure(Failure::Staging { after });
        self.not_opened(name, || JobError::Failed(error.clone()));
    }

    /// Repeats a request after a while, unless the total wait is longer than that for a response.
    fn retry_later(&mut self, request_id: RequestId, after: Duration) {
        let waited = self.waited.entry(request_id).or_default();
        *waited += after;
        if *waited <= self.parts.config.first_byte_timeout {
            let when = Instant::now() + after;
            self.later.push((when, request_id));
            self.postponed_until = self.postponed_until.max(Some(when));
            return;
        }
        let so_far = waited.saturating_sub(after).as_secs();
        let what = format!(
            "{}: the server asked to wait {so_far} s so far, and now {} s more",
            self.parts.name,
            after.as_secs()
        );
        let error = Error::new(ErrorKind::Unavailable, what).with_failure(Failure::OneServer);
        self.exhausted.push((request_id, error));
    }

    /// The time at which a job fails that received nothing of its own, whatever others received.
    pub(super) fn starved_at(&self, job: &RunningJob) -> Instant {
        // Written bytes have to be sent first.
        let writes = matches!(
            job,
            RunningJob::Operation(operation) if matches!(operation.job.what, Operation::Write(..))
        );
        let sent = if writes { self.sent_bytes } else { job.progressed() };
        let since = job.progressed().max(sent);
        since + max_deferred(Some(job)) + self.parts.config.first_byte_timeout
    }

    /// Fails the jobs that received nothing of their own for too long, and the opens that they wait
    /// for.
    pub(super) fn give_up_starved(&mut self, now: Instant) {
        let starved = self.jobs.iter().filter(|(_, job)| self.starved_at(job) <= now);
        let starved: Vec<u64> = starved.map(|(id, _)| *id).collect();
        for id in starved {
            let what = format!(
                "{}: the server sent nothing of what one request asked for, while it sent others",
                self.parts.name
            );
            let error = Error::new(ErrorKind::Timeout, what)
                .with_failure(Failure::Interrupted(Delivery::Sent));
            let Some(job) = self.give_up(id) else { continue };
            let opening = self.opening.iter().find(|(_, name)| job.is_on(**name));
            if let Some((request_id, _)) = opening {
                self.exhausted.push((*request_id, error.clone()));
            }
            job.fail(JobError::Failed(error));
        }
    }

    /// The maximum time for an announced response.
    fn max_deferred(&self, request_id: RequestId) -> Duration {
        max_deferred(self.requests.get(&request_id).and_then(|id| self.jobs.get(id)))
    }

    /// Finds the requests whose announced response did not arrive within the maximum time.
    pub(super) fn exhaust_deferred(&mut self, now: Instant) {
        let overdue = self.deferred.extract_if(|_, end| *end <= now);
        for (request_id, _) in overdue {
            let is_setup = request_id == RequestId::SETUP && !self.is_open;
            if is_setup
                || self.opening.contains_key(&request_id)
                || self.requests.contains_key(&request_id)
            {
                let what = format!(
                    "{}: the server announced a response and did not send it within {} s",
                    self.parts.name,
                    MAX_DEFERRED.as_secs()
                );
                self.exhausted.push((request_id, Error::new(ErrorKind::Timeout, what)));
            }
        }
    }

    /// Fails the requests that waited for too long. If the login is one of them, returns the error
    /// for the session.
    pub(super) fn give_up_exhausted(&mut self) -> Option<Error> {
        for (request_id, error) in std::mem::take(&mut self.exhausted) {
            if let Some(name) = self.opening.remove(&request_id) {
                self.parts.session.cancel(request_id);
                self.not_opened(name, || JobError::Failed(error.clone()));
                continue;
            }
            match self.requests.get(&request_id).copied().and_then(|id| self.give_up(id)) {
                Some(job) => job.fail(JobError::Failed(error)),
                None if request_id == RequestId::SETUP => return Some(error),
                None => {}
            }
        }
        None
    }

    /// The URL of a file in messages.
    pub(super) fn shown(&self, name: u64) -> String {
        match self.files.get(&name) {
            Some(opened) => format!("{}/{}", self.parts.name, opened.path),
            None => self.parts.name.clone(),
        }
    }
}

/// The maximum time for an announced response to a job.
fn max_deferred(job: Option<&RunningJob>) -> Duration {
    match job {
        Some(RunningJob::Operation(operation))
            if matches!(operation.job.what, Operation::Sync(_)) =>
        {
            MAX_DEFERRED_COPY
        }
        _ => MAX_DEFERRED,
    }
}
