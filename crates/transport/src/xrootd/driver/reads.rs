//! How ranges become requests, and what is done about what arrives damaged.
//!
//! **With checksums or without.** The protocol can send a run of bytes in pages of 4 KiB, each behind its CRC32C. It has no
//! vector of them. So by [`PageChecksums::Long`] what is long by itself is read that way, and short pieces stay together in
//! vectors; by [`PageChecksums::Always`] every range is a request of its own, all of them sent at once. Over TLS nothing is: its
//! records are authenticated already, as a whole.
//!
//! **Repair.** The session hands on pages whose checksums are right and names the others. Each of those is asked for again
//! alone, marked as having come damaged, which makes servers that keep checksums compare the page with theirs. A page that is
//! damaged [`MAX_REPAIRS`] times more, or more than [`MAX_DAMAGED`] in one fetch, are no chance: the fetch fails.
//!
//! **Too little.** An answer that ends before the range does, although the file goes on, is no end of the file: what came
//! is kept, and the fetch fails in a way that has the reader ask for the rest.

use super::jobs::{Fetching, RunningJob};
use super::{AT_ONCE, Driver};
use crate::config::PageChecksums;
use crate::xrootd::job::{FileVersion, JobError, ReadJob};
use hither_core::error::{Error, ErrorKind, Retry};
use hither_core::range;
use hither_xrd::client::{File, RequestId};
use hither_xrd::wire::{ErrorCode, page_end};
use std::collections::HashMap;
use std::ops::Range;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

/// A run of at least so many bytes is long: beside it, a request of its own and 1/1024 more bytes are next to nothing.
const LONG_BYTES: u64 = 64 * 1024;
/// How often one page is asked for again.
const MAX_REPAIRS: u32 = 3;
/// Pages that may arrive damaged in one fetch, of the 4,096 of the largest one. A bit in ten million damages 13 of those.
const MAX_DAMAGED: usize = 512;

/// What is done about damaged pages of a fetch.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// How often each page was asked for again that is under way.
    times: HashMap<RequestId, u32>,
    /// Pages that arrived damaged, each as often as it did.
    damaged: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<'_, S> {
    /// Asks for ranges: what is too long for an element of a vector, what is read with checksums, and what is alone, by
    /// itself.
    pub(super) fn read(&mut self, file: File, ranges: &[Range<u64>]) -> Vec<RequestId> {
        let most = u64::from(self.session.vector_limits().element_bytes);
        let is_alone = |range: &Range<u64>| range::len(range) > most || self.verifies(range);
        let (mut alone, mut together): (Vec<_>, Vec<_>) =
            ranges.iter().cloned().partition(is_alone);
        if together.len() == 1 {
            alone.append(&mut together);
        }
        let mut requests = Vec::new();
        if !together.is_empty() {
            requests.push(self.session.read_vector(file, &together));
        }
        requests.extend(alone.into_iter().map(|range| {
            if self.verifies(&range) {
                self.session.read_pages(file, range, false)
            } else {
                self.session.read(file, range)
            }
        }));
        requests
    }

    /// A range is read with checksums.
    fn verifies(&self, range: &Range<u64>) -> bool {
        match self.config.verify {
            PageChecksums::Never => false,
            PageChecksums::Long => {
                range::len(range) >= LONG_BYTES && self.session.profile().has_pages()
            }
            PageChecksums::Always => true,
        }
    }

    /// The server is known to have no checksums, and nothing is to be read without.
    pub(super) fn cannot_verify(&self) -> Option<Error> {
        let profile = self.session.profile();
        let told = self.met && profile.flags != 0;
        let lacks = told && !profile.is_manager() && !profile.has_pages();
        (lacks && self.config.verify == PageChecksums::Always).then(|| {
            let what = format!(
                "{}: the server has no page checksums, which are required here; use roots://, where TLS protects the bytes",
                self.name
            );
            Error::new(ErrorKind::Unsupported, what).with_retry(Retry::OtherServer)
        })
    }

    /// Asks for the end of a file that is known to be so long.
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
        let asked = range::merged(&fetch.request.ranges, 0);
        let left = range::difference(std::slice::from_ref(&tail), &asked);
        self.read(file, &left)
    }

    /// The file of a fetch is open: what had to wait for that is asked for.
    pub(super) fn fetch_on(&mut self, id: u64, file: File, facts: FileVersion) {
        let Some(RunningJob::Fetch(mut fetching)) = self.jobs.remove(&id) else { return };
        let trouble = unexpected(&self.name, &fetching.fetch, facts);
        if let Some(error) = trouble.or_else(|| self.cannot_verify()) {
            fetching.requests.iter().for_each(|request_id| self.session.cancel(*request_id));
            let job = RunningJob::Fetch(fetching);
            self.load.done(job.bytes());
            job.fail(JobError::Failed(error));
            return;
        }
        let further = self.read_tail(file, &fetching.fetch, facts);
        if !further.is_empty() {
            // It has to wait for another round trip, and its bytes are a train of their own.
            self.tap.watch(Some(self.rtt));
        }
        fetching.facts = Some(facts);
        self.sent_further(id, &mut fetching, further, 0);
        self.jobs.insert(id, RunningJob::Fetch(fetching));
        self.finish_if_done(id);
    }

    /// More was asked for on behalf of a fetch, in a flight of its own.
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
        let flight = self.account().next_flight();
        self.account().sent(flight, bytes);
        fetching.tally.begin(flight);
        self.requests.extend(requests.iter().map(|request_id| (*request_id, id)));
        fetching.requests.extend(requests);
    }

    /// A request_id of a fetch is over, but for these ranges.
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
            let error = Error::new(ErrorKind::Protocol, what).with_retry(AT_ONCE);
            fetching.trouble.get_or_insert(error);
        }
        let times = fetching.repairs.times.remove(&request_id).unwrap_or(0);
        let hopeless = match damaged {
            [] => None,
            damaged => self.repair(id, &mut fetching, damaged, times),
        };
        self.jobs.insert(id, RunningJob::Fetch(fetching));
        match hopeless {
            None => self.finish_if_done(id),
            Some(error) => {
                if let Some(job) = self.give_up(id) {
                    job.fail(JobError::Failed(error));
                }
            }
        }
    }

    /// Asks again, page by page, for what arrived damaged after having been asked for again so many `times`. The error, if that has no end.
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
        self.account().damaged(pages.len() as u64);
        let at = pages.first().map_or(0, |page| page.start);
        debug!(server = %self.name, pages = pages.len(), at, times, "damaged pages, reading them again");
        let why = match () {
            () if times >= MAX_REPAIRS => format!("the page at {at} arrived damaged every time"),
            () if fetching.repairs.damaged > MAX_DAMAGED => {
                format!("more than {MAX_DAMAGED} pages of one request arrived damaged, one at {at}")
            }
            () => {
                let bytes = range::total_bytes(&pages);
                let again = pages.into_iter().map(|page| self.session.read_pages(file, page, true));
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
        Some(Error::new(ErrorKind::Corrupt, what).with_retry(Retry::OtherServer))
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

/// The refusal of a read that no client can be to blame for who has made it by the rules: what arrived at the server was
/// not what was sent, or what arrived here is not what it sent. A vector can be too much for a server, a run cannot.
pub(super) fn is_garbled(code: ErrorCode, only_runs: bool) -> bool {
    let known = (ErrorCode::ARG_INVALID.0..=ErrorCode::ARG_INVALID.0 + 999).contains(&code.0);
    let rules = [ErrorCode::ARG_INVALID, ErrorCode::ARG_MISSING, ErrorCode::INVALID_REQUEST];
    let sizes = [ErrorCode::ARG_TOO_LONG, ErrorCode::NO_MEMORY, ErrorCode::UNSUPPORTED];
    !known || rules.contains(&code) || only_runs && sizes.contains(&code)
}

/// Why a file is not the one that is expected, if it is not.
pub(super) fn unexpected(server: &str, fetch: &ReadJob, facts: FileVersion) -> Option<Error> {
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
            changed(format!("{server}/{path} changed since it was opened"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_that_make_no_sense_are_told_from_those_that_do() {
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
