//! Reads: the requests for ranges, and the repair of damaged pages.
//!
//! **Checksums.** The protocol can send a run of bytes in pages of 4 KiB, each with its CRC32C, but
//! no vector of them. So by [`PageChecksums::Long`] long ranges are read in this way, and short
//! ranges stay together in vectors; by [`PageChecksums::Always`] every range is a request of its
//! own, all of them sent at once. Over TLS no range is: its records are authenticated already.
//!
//! **Repair.** The session delivers pages with correct checksums and names the others. Each of
//! those is requested again alone, marked as damaged, which makes servers with stored checksums
//! compare the page with them. A page that is damaged [`MAX_REPAIRS`] more times, or more than
//! [`MAX_DAMAGED`] pages in one read, are not an accident: the read fails.
//!
//! **Short responses.** A response that ends before its range does, although the file continues, is
//! not the end of the file: the received bytes are kept, and the error makes the reader request the
//! rest.

use super::Driver;
use super::jobs::{Fetching, RunningJob};
use crate::config::PageChecksums;
use crate::xrootd::job::{FileVersion, JobError, ReadJob};
use hither_core::error::{Error, ErrorKind, Failure};
use hither_core::range;
use hither_xrd::client::{File, RequestId};
use hither_xrd::wire::{ErrorCode, page_end};
use std::collections::HashMap;
use std::ops::Range;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

/// The minimum length of a long range: compared with it, a separate request and 1/1024 more bytes
/// cost next to nothing.
const LONG_BYTES: u64 = 64 * 1024;
/// The maximum number of repeated requests for one page.
const MAX_REPAIRS: u32 = 3;
/// The maximum number of damaged pages in one read, which has at most 4,096. A bit error rate of
/// one in ten million damages 13 of those.
const MAX_DAMAGED: usize = 512;

/// The repair of damaged pages of a read.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// The number of repetitions of each page that is in progress.
    times: HashMap<RequestId, u32>,
    /// The number of damaged pages, with repetitions.
    damaged: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<'_, S> {
    /// Requests ranges. A range that is too long for a vector, is verified with checksums, or is
    /// the only one, becomes a request of its own.
    pub(super) fn read(&mut self, file: File, ranges: &[Range<u64>]) -> Vec<RequestId> {
        let most = u64::from(self.parts.session.vector_limits().element_bytes);
        let is_alone = |range: &Range<u64>| range::len(range) > most || self.verifies(range);
        let (mut alone, mut together): (Vec<_>, Vec<_>) =
            ranges.iter().cloned().partition(is_alone);
        if together.len() == 1 {
            alone.append(&mut together);
        }
        let mut requests = Vec::new();
        if !together.is_empty() {
            requests.push(self.parts.session.read_vector(file, &together));
        }
        requests.extend(alone.into_iter().map(|range| {
            if self.verifies(&range) {
                self.parts.session.read_pages(file, range, false)
            } else {
                self.parts.session.read(file, range)
            }
        }));
        requests
    }

    /// Returns whether a range is read with checksums.
    fn verifies(&self, range: &Range<u64>) -> bool {
        match self.parts.config.verify {
            PageChecksums::Never => false,
            PageChecksums::Long => {
                range::len(range) >= LONG_BYTES && self.parts.session.profile().has_pages()
            }
            PageChecksums::Always => true,
        }
    }

    /// The error for a server that is known to have no page checksums, where they are required.
    pub(super) fn cannot_verify(&self) -> Option<Error> {
        let profile = self.parts.session.profile();
        let is_known = self.met && profile.flags != 0;
        let lacks = is_known && !profile.is_manager() && !profile.has_pages();
        (lacks && self.parts.config.verify == PageChecksums::Always).then(|| {
            let what = format!(
                "{}: the server has no page checksums, which are required here; use roots://, where TLS protects the bytes",
                self.parts.name
            );
            Error::new(ErrorKind::Unsupported, what).with_failure(Failure::OneServer)
        })
    }

    /// Requests the tail of a file whose size is known.
    pub(super) fn read_tail(
        &mut self,
        file: File,
        fetch: &ReadJob,
        facts: FileVersion,
    ) -> Vec<RequestId> {
        let tail = fetch.request.tail;
        let size = facts.size.unwrap_or_default();
        if tail == 0 {
            return Vec::new();
        }
        let tail = size.saturating_sub(tail)..size;
        let requested = range::merged(&fetch.request.ranges, 0);
        let left = range::difference(std::slice::from_ref(&tail), &requested);
        self.read(file, &left)
    }

    /// Sends the requests that had to wait until the file was open.
    pub(super) fn fetch_on(&mut self, id: u64, file: File, facts: FileVersion) {
        let Some(RunningJob::Fetch(mut fetching)) = self.jobs.remove(&id) else { return };
        let error = unexpected(&self.parts.name, &fetching.fetch, facts);
        if let Some(error) = error.or_else(|| self.cannot_verify()) {
            fetching.requests.iter().for_each(|request_id| self.parts.session.cancel(*request_id));
            let job = RunningJob::Fetch(fetching);
            self.parts.load.done(job.bytes());
            job.fail(JobError::Failed(error));
            return;
        }
        let further = self.read_tail(file, &fetching.fetch, facts);
        if !further.is_empty() {
            // The tail needs another round trip, and its bytes are a packet train of their own.
            self.parts.meter.watch(Some(self.parts.rtt));
        }
        fetching.facts = Some(facts);
        self.sent_further(id, &mut fetching, further, 0);
        self.jobs.insert(id, RunningJob::Fetch(fetching));
        self.finish_if_done(id);
    }

    /// Counts more requests for a read, in a round trip of their own.
    fn sent_further(
        &mut self,
        id: u64,
        fetching: &mut Fetching,
        requests: Vec<RequestId>,
        bytes: u64,
    ) {
        if requests.is_empty() {
            return;
        }
        let round_trip = self.counters().next_round_trip();
        self.counters().sent(round_trip, bytes);
        fetching.tally.begin(round_trip);
        self.requests.extend(requests.iter().map(|request_id| (*request_id, id)));
        fetching.requests.extend(requests);
    }

    /// Handles the completion of a request of a read, except for these ranges.
    pub(super) fn fetched(
        &mut self,
        id: u64,
        request_id: RequestId,
        missing: &[Range<u64>],
        damaged: &[Range<u64>],
    ) {
        let Some(RunningJob::Fetch(mut fetching)) = self.jobs.remove(&id) else { return };
        fetching.requests.remove(&request_id);
        let size = fetching.facts.and_then(|facts| facts.size);
        if let Some(lack) = missing.iter().find(|lack| size.is_some_and(|size| lack.start < size)) {
            let shown = self.shown(fetching.fetch.name.id);
            let what = format!(
                "{shown}: the server sent nothing for {} bytes at {}",
                range::len(lack),
                lack.start
            );
            let error = Error::new(ErrorKind::Protocol, what).with_failure(Failure::Garbled);
            fetching.first_error.get_or_insert(error);
        }
        self.read_on(id, &mut fetching);
        let times = fetching.repairs.times.remove(&request_id).unwrap_or(0);
        let failure = match damaged {
            [] => None,
            damaged => self.repair(id, &mut fetching, damaged, times),
        };
        self.jobs.insert(id, RunningJob::Fetch(fetching));
        match failure {
            None => self.finish_if_done(id),
            Some(error) => {
                if let Some(job) = self.give_up(id) {
                    job.fail(JobError::Failed(error));
                }
            }
        }
    }

    /// Requests more of a long range, as far as the window allows.
    fn read_on(&mut self, id: u64, fetching: &mut Fetching) {
        if fetching.first_error.is_some() {
            // The reader requests the rest.
            fetching.rest = 0..0;
        }
        let Some(opened) = self.files.get(&fetching.fetch.name.id) else { return };
        let file = opened.file;
        while let Some(range) = self.window.next(fetching.requests.len(), &mut fetching.rest) {
            let requests = self.read(file, std::slice::from_ref(&range));
            self.requests.extend(requests.iter().map(|request_id| (*request_id, id)));
            fetching.requests.extend(requests);
        }
    }

    /// Requests damaged pages again, one by one, after `times` repetitions. Returns an error beyond
    /// the maximum.
    fn repair(
        &mut self,
        id: u64,
        fetching: &mut Fetching,
        damaged: &[Range<u64>],
        times: u32,
    ) -> Option<Error> {
        let name = fetching.fetch.name.id;
        let file = self.files.get(&name)?.file;
        let pages: Vec<_> = damaged.iter().flat_map(pages).take(MAX_DAMAGED + 1).collect();
        fetching.repairs.damaged += pages.len();
        self.counters().damaged(pages.len() as u64);
        let at = pages.first().map_or(0, |page| page.start);
        debug!(server = %self.parts.name, pages = pages.len(), at, times, "damaged pages, reading them again");
        let why = match () {
            () if times >= MAX_REPAIRS => format!("the page at {at} arrived damaged every time"),
            () if fetching.repairs.damaged > MAX_DAMAGED => {
                format!("more than {MAX_DAMAGED} pages of one request arrived damaged, one at {at}")
            }
            () => {
                let bytes = range::total_bytes(&pages);
                let again =
                    pages.into_iter().map(|page| self.parts.session.read_pages(file, page, true));
                let requests: Vec<_> = again.collect();
                fetching
                    .repairs
                    .times
                    .extend(requests.iter().map(|request_id| (*request_id, times + 1)));
                self.sent_further(id, fetching, requests, bytes);
                return None;
            }
        };
        let what =
            format!("{}: {why}: the network path to the server damages data", self.shown(name));
        Some(Error::new(ErrorKind::Corrupt, what).with_failure(Failure::OneServer))
    }
}

/// The pages of a range.
fn pages(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { mut start, end } = range.clone();
    std::iter::from_fn(move || {
        let page = start..end.min(page_end(start));
        start = page.end;
        (!page.is_empty()).then_some(page)
    })
}

/// Returns whether the rejection of a valid read shows that the request or the response was
/// damaged. A vector may be too large for a server, a single run may not.
pub(super) fn is_garbled(code: ErrorCode, only_runs: bool) -> bool {
    let known = (ErrorCode::ARG_INVALID.0..=ErrorCode::ARG_INVALID.0 + 999).contains(&code.0);
    let rules = [ErrorCode::ARG_INVALID, ErrorCode::ARG_MISSING, ErrorCode::INVALID_REQUEST];
    let sizes = [ErrorCode::ARG_TOO_LONG, ErrorCode::NO_MEMORY, ErrorCode::UNSUPPORTED];
    !known || rules.contains(&code) || only_runs && sizes.contains(&code)
}

/// The error for another version of the file than expected.
pub(super) fn unexpected(server: &str, fetch: &ReadJob, facts: FileVersion) -> Option<Error> {
    let changed = |what: String| Some(Error::new(ErrorKind::Changed, what));
    let path = fetch.name.bare_path();
    match (fetch.request.size, facts.size) {
        (Some(expected), Some(size)) if size != expected => {
            return changed(format!("{server}/{path} has {size} bytes, expected {expected}"));
        }
        _ => {}
    }
    let now = facts.validator();
    match (&fetch.request.validator, &now) {
        (Some(expected), Some(now)) if now != expected => {
            changed(format!("{server}/{path} changed since it was opened"))
        }
        _ => {
            let version = &fetch.request.version;
            if version.modified().is_none() {
                facts.date().into_iter().for_each(|date| version.note_modified(&date));
            }
            version.bind(&format!("{server}/{path}"), facts.size, now.as_deref()).err()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_servers_that_garble_requests_are_recognised() {
        for (code, of_any, of_runs) in [
            (ErrorCode::INVALID_REQUEST, true, true),
            (ErrorCode(77), true, true),
            (ErrorCode::ARG_TOO_LONG, false, true),
            (ErrorCode::IO_ERROR, false, false),
            (ErrorCode::NOT_AUTHORIZED, false, false),
        ] {
            assert_eq!(
                (is_garbled(code, false), is_garbled(code, true)),
                (of_any, of_runs),
                "{code}"
            );
        }
    }

    #[test]
    fn a_range_is_cut_at_the_borders_of_pages() {
        let cut = |range: Range<u64>| pages(&range).collect::<Vec<_>>();
        assert_eq!(cut(5..7), [5..7]);
        assert_eq!(cut(4095..8193), [4095..4096, 4096..8192, 8192..8193]);
        assert_eq!(cut(8192..8192), []);
    }
}
