//! Checksums of files as their holders state them, and the holders whose checksums differ.
//!
//! Checksums are requested from holders only if a client wants one, because storages may have to
//! read the whole file. The result applies to all clients: holders whose checksum is not that of
//! most are excluded from the entry for an hour, or until a client changes the file. One that
//! states no checksum in time is not excluded, because its checksum is not known.

use super::NameSpace;
use crate::endpoint::Endpoint;
use crate::merge::{EndpointId, MergedListing};
use crate::name_cache::NameCache;
use crate::settings::Agreement;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hither_checksum::{Algorithm, Checksum};
use hither_core::storage::join;
use hither_core::sync::lock;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::warn;

/// Maximum number of holders from which the checksum of a file is requested.
const MAX_HOLDERS: usize = 4;
/// Memory for each of the caches of [`KnownChecksums`], in bytes.
const CACHE_BYTES: usize = 4 << 20;
/// Time for which holders are excluded.
const EXCLUDED: Duration = Duration::from_hours(1);
/// Time after which a conflict is logged again.
const LOGGED: Duration = Duration::from_hours(24);

/// Checksums, and names about which endpoints differ.
#[derive(Debug)]
pub(super) struct KnownChecksums {
    /// The last requested checksum of each file; none if no holder has one of that kind.
    reported: Mutex<NameCache<(Algorithm, Option<Checksum>)>>,
    /// The endpoints at which a file has another checksum.
    differing: Mutex<NameCache<Arc<[EndpointId]>>>,
    /// The names for which a conflict was logged.
    logged: Mutex<NameCache<()>>,
}

impl Default for KnownChecksums {
    fn default() -> Self {
        Self {
            reported: Mutex::new(NameCache::new(CACHE_BYTES)),
            differing: Mutex::new(NameCache::new(CACHE_BYTES)),
            logged: Mutex::new(NameCache::new(CACHE_BYTES)),
        }
    }
}

impl KnownChecksums {
    pub(super) fn remove(&self, path: &str) {
        lock(&self.reported).remove(path);
        lock(&self.differing).remove(path);
    }
}

impl NameSpace {
    /// The checksum of a file that most of the best holders state, as soon as all have answered, or
    /// after the time for a majority. All are queried concurrently.
    pub(crate) async fn checksum(
        &self,
        path: &str,
        algorithm: Algorithm,
        holders: &[EndpointId],
    ) -> Option<Checksum> {
        let now = self.clock.now();
        let known = lock(&self.checksums.reported).get(path, now);
        if let Some((_, known)) = known.filter(|(of, _)| *of == algorithm) {
            return known;
        }
        let queried = holders.iter().filter_map(|id| Some((*id, self.endpoint(*id)?)));
        let queried = queried.filter(|(_, it)| !self.health.is_down(&it.name)).take(MAX_HOLDERS);
        let mut answers: FuturesUnordered<_> = queried
            .filter_map(|(id, endpoint)| Some((id, endpoint, endpoint.storage_path(path)?)))
            .map(async |(id, it, target)| (id, it.storage.checksum(&target, algorithm).await))
            .collect();
        let mut sums = Vec::new();
        let mut is_sure = true;
        let mut is_late = self.settings.agreement == Agreement::First;
        let mut late = pin!(tokio::time::sleep(self.settings.agreement_time()));
        let mut deadline = pin!(tokio::time::sleep(self.settings.deadline()));
        while !is_late || sums.is_empty() {
            tokio::select! {
                biased;
                answer = answers.next() => match answer {
                    Some((id, Ok(Some(sum)))) => sums.push((id, sum)),
                    Some((_, Ok(None))) => {}
                    Some((_, Err(_))) => is_sure = false,
                    None => break,
                },
                () = &mut late, if !is_late => is_late = true,
                // A holder that is still computing it will have it the next time; this is not a
                // failure.
                () = &mut deadline => {
                    is_sure = false;
                    break;
                }
            }
        }
        sums.sort_unstable_by_key(|(id, _)| *id);
        let votes = |sum: &Checksum| sums.iter().filter(|(_, it)| it == sum).count();
        // `max_by_key` returns the last of equal maxima, so the order is reversed.
        let most = sums.iter().rev().max_by_key(|(_, sum)| votes(sum)).map(|(_, sum)| sum.clone());
        if let Some(most) = &most {
            self.note_checksums(path, most, &sums);
        }
        if (is_sure || most.is_some()) && !self.is_changing(path) {
            let until = now + Duration::from_secs_f64(self.settings.positive_seconds);
            let bytes = size_of::<(Algorithm, Option<Checksum>)>();
            lock(&self.checksums.reported).put(path, (algorithm, most.clone()), bytes, until);
        }
        most
    }

    /// Excludes holders that state another checksum than `most`.
    fn note_checksums(&self, path: &str, most: &Checksum, sums: &[(EndpointId, Checksum)]) {
        let (same, differing): (Vec<_>, Vec<_>) = sums.iter().partition(|(_, sum)| sum == most);
        if differing.is_empty() {
            return;
        }
        let ids = |sums: Vec<&(EndpointId, _)>| sums.into_iter().map(|(id, _)| *id).collect();
        let holders: Vec<_> = ids(same);
        let differing: Vec<_> = ids(differing);
        let now = self.clock.now();
        let bytes = size_of_val(&*differing);
        let excluded = differing.as_slice().into();
        lock(&self.checksums.differing).put(path, excluded, bytes, now + EXCLUDED);
        self.forget(path);
        self.log_conflicts([(path.to_owned(), &*holders, &*differing)].into_iter());
    }

    /// The endpoints at which a file is known to have another checksum.
    pub(crate) fn known_to_differ(&self, path: &str) -> Option<Arc<[EndpointId]>> {
        lock(&self.checksums.differing).get(path, self.clock.now())
    }

    /// Excludes the holders that are known to differ from the entries of a directory.
    pub(super) fn exclude_known(&self, directory: &str, listing: &mut MergedListing) {
        let now = self.clock.now();
        let mut differing = lock(&self.checksums.differing);
        if differing.totals().0 == 0 {
            return;
        }
        for (name, entry) in listing.entries.iter_mut().filter(|(_, it)| it.holders.len() > 1) {
            if let Some(others) = differing.get(&join(directory, name), now) {
                entry.exclude(&others);
            }
        }
    }

    /// Logs and counts, once a day for each name, that endpoints differ about it: those that hold
    /// the entry, and the others.
    pub(super) fn log_conflicts<'a>(
        &self,
        names: impl Iterator<Item = (String, &'a [EndpointId], &'a [EndpointId])>,
    ) {
        let now = self.clock.now();
        let mut logged = lock(&self.checksums.logged);
        let mut is_new = |path: &str| {
            let is_new = logged.get(path, now).is_none();
            if is_new {
                logged.put(path, (), 0, now + LOGGED);
            }
            is_new
        };
        let mut first = None;
        let mut more = 0;
        for (path, holders, differing) in names.filter(|(path, ..)| is_new(path)) {
            differing
                .iter()
                .filter_map(|id| self.endpoint(*id))
                .for_each(Endpoint::record_conflict);
            match first {
                None => first = Some((path, holders, differing)),
                Some(_) => more += 1,
            }
        }
        if let Some((path, holders, differing)) = first {
            warn!(
                more,
                "{path}: {} shows another kind, size, date or checksum than {}, or none, and no client \
                 is sent there",
                self.names_of(differing),
                self.names_of(holders),
            );
        }
    }
}
