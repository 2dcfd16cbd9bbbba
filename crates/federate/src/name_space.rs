//! The merged name space of a set of endpoints.
//!
//! Nothing is fetched before a client requests it. The lookup of a name sends requests to all
//! endpoints that may have it, concurrently, each with a deadline; endpoints that count as down get
//! none, and count as not having answered. The answers are cached for a while ([`NameCache`]), in
//! memory only.
//!
//! **Request coalescing.** Clients that look up one name at the same time wait for one lookup
//! ([`single_flight`](crate::single_flight)). A caller that needs an entry continues when most
//! endpoints agree about it ([`Agreement`](crate::Agreement)); one that needs all answers, or a
//! negative one, waits for the deadline at most.
//!
//! **Listings answer for names.** A cached listing shows which endpoints hold each of its names, so
//! that reading a file just listed sends no request. A complete one also shows which names do not
//! exist.
//!
//! **Copies.** An endpoint that has not answered makes a listing incomplete, since it may have
//! names that no other has. That holds unless the configuration states that it is a copy of one
//! that has listed the directory ([`PrefixSettings::copy_of`](crate::PrefixSettings::copy_of)). An
//! answer that there is no such directory is not enough: the disk may not be mounted. Nor is a
//! listing by an HTML index, which hides names. A change still needs the answers of all.
//!
//! **Changes.** When a client is redirected to write, the federation does not see when the file is
//! complete. So the name and the listing of its directory are invalidated, and for a minute neither
//! is cached.

mod checksums;
mod directory_log;
mod directory_memory;
mod listing;
mod lost_directories;
mod merged_lookup;
pub(crate) mod replacements;
mod requests;
mod shown_directories;

use crate::choice::{LoadMeter, RecentReferrals};
use crate::endpoint::Endpoint;
use crate::merge::{EndpointId, EntryFacts, MergedEntry, MergedListing, merge_entry};
use crate::name_cache::NameCache;
use crate::name_space::checksums::KnownChecksums;
use crate::name_space::directory_log::{DirectoryLog, ListedDirectory};
use crate::name_space::directory_memory::{DirectoryMemory, KEPT, UnloggedDirectories};
use crate::name_space::replacements::Replacements;
use crate::name_space::shown_directories::ShownDirectories;
use crate::settings::{FederationConfig, FederationSettings};
use crate::single_flight::SingleFlight;
use crate::sites::Sites;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hither_core::Clock;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{file_name, parent};
use hither_core::sync::lock;
use hither_replicas::Health;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

pub use merged_lookup::{MergedLookup, Need};

/// Time for which a name that a client may be writing is not cached.
const CHANGING: Duration = Duration::from_secs(60);
/// Memory in bytes for the names that clients may be writing, and for recently invalidated names.
const NAME_SET_BYTES: usize = 4 << 20;

/// The merged listing of a directory, once it is complete.
#[derive(Debug, Clone, Default)]
struct ListingAnswer {
    listing: Option<Arc<MergedListing>>,
    is_final: bool,
}

/// The name space of a set of endpoints, with its caches.
#[derive(Debug)]
pub struct NameSpace {
    pub(crate) settings: FederationSettings,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) sites: Sites,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) health: Arc<Health>,
    pub(crate) load: Mutex<LoadMeter>,
    pub(crate) recent: Mutex<RecentReferrals>,
    names: Mutex<NameCache<Arc<MergedLookup>>>,
    listings: Mutex<NameCache<Arc<MergedListing>>>,
    directories: DirectoryMemory,
    shown: ShownDirectories,
    log: Option<Arc<DirectoryLog>>,
    /// Names that clients may be writing, with the times of the last change.
    changing: Mutex<NameCache<Duration>>,
    pub(crate) replacements: Arc<Replacements>,
    checksums: KnownChecksums,
    /// Names that were invalidated because a client returned.
    invalidated: Mutex<NameCache<()>>,
    name_lookups: SingleFlight<MergedLookup>,
    listing_lookups: SingleFlight<ListingAnswer>,
}

impl NameSpace {
    /// The name space of these endpoints, with empty caches, and with the directories that are in
    /// the state folder.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid network of a site.
    pub fn new(
        config: &FederationConfig,
        endpoints: Vec<Endpoint>,
        clock: Arc<dyn Clock>,
        health: Arc<Health>,
    ) -> Result<Self> {
        let settings = config.federation.clone();
        let bytes = settings.cache_bytes / 2;
        let keep = Duration::from_secs_f64(settings.return_seconds);
        let now = clock.now();
        let log = settings.state.clone();
        let log = log.map(|folder| DirectoryLog::new(folder, KEPT, now, SystemTime::now()));
        let names = Self {
            endpoints,
            sites: Sites::new(config.sites.clone())?,
            clock,
            health,
            load: Mutex::default(),
            recent: Mutex::new(RecentReferrals::new(keep)),
            names: Mutex::new(NameCache::new(bytes)),
            listings: Mutex::new(NameCache::new(bytes)),
            directories: DirectoryMemory::default(),
            shown: ShownDirectories::default(),
            log: log.map(Arc::new),
            changing: Mutex::new(NameCache::new(NAME_SET_BYTES)),
            replacements: Arc::default(),
            checksums: KnownChecksums::default(),
            invalidated: Mutex::new(NameCache::new(NAME_SET_BYTES)),
            name_lookups: SingleFlight::default(),
            listing_lookups: SingleFlight::default(),
            settings,
        };
        names.restore_directories(now);
        Ok(names)
    }

    /// Reads the log of directories.
    fn restore_directories(&self, now: Duration) {
        let Some(log) = &self.log else { return };
        for (logged, until) in log.load(now) {
            for (id, endpoint) in self.numbered() {
                let path = &logged.path;
                if self.in_log(id, path).as_ref() == Some(&logged) {
                    let is_inside = endpoint.is_inside(path);
                    self.directories.restore(id, path, is_inside, until, now);
                }
            }
        }
    }

    /// Appends directories to the log, before a client sees them.
    async fn log_directories(&self, directories: UnloggedDirectories, now: Duration) {
        let Some(log) = self.log.as_ref().filter(|_| !directories.is_empty()) else { return };
        let listed = directories.iter().filter_map(|(id, path)| self.in_log(*id, path));
        log.listed(listed.collect(), now).await;
    }

    /// A directory of an endpoint as the log names it.
    fn in_log(&self, id: EndpointId, path: &str) -> Option<ListedDirectory> {
        let endpoint = self.endpoint(id)?;
        Some(ListedDirectory {
            endpoint: endpoint.name.clone(),
            storage: endpoint.storage.name(),
            path: path.to_owned(),
            target: endpoint.storage_path(path)?,
        })
    }

    /// The endpoint of a number.
    pub(crate) fn endpoint(&self, id: EndpointId) -> Option<&Endpoint> {
        self.endpoints.get(usize::from(id.0))
    }

    /// All endpoints with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (EndpointId, &Endpoint)> {
        (0..).map(EndpointId).zip(&self.endpoints)
    }

    /// The names of some endpoints, for messages.
    pub(crate) fn names_of(&self, ids: &[EndpointId]) -> String {
        let names = ids.iter().filter_map(|id| self.endpoint(*id)).map(|it| &*it.name);
        names.collect::<Vec<_>>().join(", ")
    }

    /// The number of cached names and listings, and the bytes of both.
    #[must_use]
    pub fn cached(&self) -> (usize, usize, usize) {
        let (names, name_bytes) = lock(&self.names).totals();
        let (listings, listing_bytes) = lock(&self.listings).totals();
        (names, listings, name_bytes + listing_bytes)
    }

    /// The answers about a name: cached ones, or as many as `need` requires.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`] if the lookup was aborted.
    pub async fn look_up(self: &Arc<Self>, path: &str, need: Need) -> Result<Arc<MergedLookup>> {
        if let Some(known) = self.known(path) {
            return Ok(known);
        }
        let ask = |sender| {
            let name_space = Arc::clone(self);
            let path = path.to_owned();
            async move { name_space.ask_about(&path, &sender).await }
        };
        let enough = |answer: &MergedLookup| {
            answer.is_final || (need == Need::Entry && answer.is_decided(self.settings.agreement))
        };
        self.name_lookups.wait(path, ask, enough).await.map(Arc::new)
    }

    /// The cached answer about a name, which is always final.
    pub(crate) fn known(&self, path: &str) -> Option<Arc<MergedLookup>> {
        let now = self.clock.now();
        if let Some(known) = lock(&self.names).get(path, now) {
            return Some(known);
        }
        // Above the rules and at their beginning, the configuration gives the answer.
        let leading = self.numbered().filter(|(_, it)| it.prefixes.leads_below(path));
        let leading: Vec<_> = leading.map(|(id, _)| (id, EntryFacts::DIRECTORY)).collect();
        if !leading.is_empty() {
            let merged = merge_entry(leading.clone(), false).map(Arc::new);
            let answer =
                MergedLookup { found: leading, merged, is_final: true, ..Default::default() };
            return Some(Arc::new(answer));
        }
        let listing = lock(&self.listings).get(parent(path), now)?;
        MergedLookup::from_listing(&listing, file_name(path)).map(Arc::new)
    }

    /// Queries all endpoints that may have a name, and caches the answer.
    async fn ask_about(&self, path: &str, sender: &watch::Sender<MergedLookup>) {
        let began = self.clock.now();
        let mut answers = FuturesUnordered::new();
        let mut answer = MergedLookup::default();
        for (id, endpoint) in self.numbered() {
            let Some(target) = endpoint.storage_path(path) else { continue };
            answer.unanswered.push(id);
            if self.health.is_down(&endpoint.name) {
                continue;
            }
            answers.push(async move {
                let stat = async { endpoint.storage.stat(&target).await };
                (id, self.ask(endpoint, self.settings.deadline(), stat).await)
            });
        }
        let mut late = pin!(tokio::time::sleep(self.settings.agreement_time()));
        loop {
            answer.pending = answers.len();
            if answer.merged.is_some() {
                sender.send_replace(answer.clone());
            }
            let (id, entry) = tokio::select! {
                biased;
                answered = answers.next() => match answered {
                    Some(answered) => answered,
                    None => break,
                },
                () = &mut late, if !answer.is_late => {
                    answer.is_late = true;
                    continue;
                }
            };
            let facts = match entry {
                Ok(entry) => EntryFacts::of(&entry),
                Err(error) if is_negative(&error) => None,
                Err(_) => continue,
            };
            answer.unanswered.retain(|it| *it != id);
            if let Some(facts) = facts {
                answer.found.push((id, facts));
                let merged = merge_entry(answer.found.clone(), self.settings.compare_dates);
                answer.merged = merged.map(|mut merged| {
                    self.known_to_differ(path).iter().for_each(|others| merged.exclude(others));
                    Arc::new(merged)
                });
            }
        }
        answer.is_final = true;
        let conflict = answer.merged.as_deref().filter(|it| !it.differing.is_empty());
        let conflict = conflict.map(|it| (path.to_owned(), &*it.holders, &*it.differing));
        self.log_conflicts(conflict.into_iter());
        self.note_shown(path, &answer.found, began);
        self.keep_answer(path, &answer);
        sender.send_replace(answer);
    }

    fn keep_answer(&self, path: &str, answer: &MergedLookup) {
        if self.is_changing(path) {
            return;
        }
        let seconds = match (answer.found.is_empty(), answer.unanswered.is_empty()) {
            (false, true) => self.settings.positive_seconds,
            // Another endpoint may hold it too and answer later.
            (false, false) => self.settings.positive_seconds.min(self.settings.negative_seconds),
            (true, true) => self.settings.negative_seconds,
            // Unknown: not cached.
            (true, false) => return,
        };
        let until = self.clock.now() + Duration::from_secs_f64(seconds);
        let bytes = answer.memory_bytes();
        lock(&self.names).put(path, Arc::new(answer.clone()), bytes, until);
    }

    /// The merged listing of a directory, which may be incomplete; none if no endpoint that
    /// answered has such a directory, and the answers are complete.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`] if the lookup was aborted.
    pub async fn list(self: &Arc<Self>, path: &str) -> Result<Option<Arc<MergedListing>>> {
        let cached = lock(&self.listings).get(path, self.clock.now());
        if let Some(listing) = cached.filter(|listing| listing.is_complete()) {
            return Ok(Some(listing));
        }
        let ask = |sender: watch::Sender<ListingAnswer>| {
            let name_space = Arc::clone(self);
            let path = path.to_owned();
            async move {
                let listing = name_space.ask_for_listing(&path).await;
                sender.send_replace(ListingAnswer { listing, is_final: true });
            }
        };
        let answer = self.listing_lookups.wait(path, ask, |answer| answer.is_final).await?;
        Ok(answer.listing)
    }

    /// Invalidates a name that a client may be about to change.
    pub(crate) async fn note_change(&self, path: &str) {
        let now = self.clock.now();
        let was_known = self.directories.forget(path, now);
        self.shown.forget(path, now);
        {
            let mut changing = lock(&self.changing);
            for changed in [path, parent(path)] {
                lock(&self.names).remove(changed);
                lock(&self.listings).remove(changed);
                self.checksums.remove(changed);
                changing.put(changed, now, 0, now + CHANGING);
            }
        }
        if let Some(log) = self.log.as_ref().filter(|_| was_known) {
            let all = self.numbered().filter_map(|(id, _)| self.in_log(id, path));
            log.removed(all.collect(), now).await;
        }
    }

    /// Returns true if a client may be changing the entry of a name.
    fn is_changing(&self, path: &str) -> bool {
        lock(&self.changing).get(path, self.clock.now()).is_some()
    }

    /// Invalidates the holders of a file, because a client was redirected there and returned. Rate
    /// limited, since programs that read the same file look like one client.
    pub(crate) fn invalidate_holders(&self, path: &str) {
        let now = self.clock.now();
        {
            let mut invalidated = lock(&self.invalidated);
            if invalidated.get(path, now).is_some() {
                return;
            }
            let until = now + Duration::from_secs_f64(self.settings.return_seconds);
            invalidated.put(path, (), 0, until);
        }
        self.forget(path);
    }

    /// Invalidates the holders of a name, so that the next lookup queries all endpoints.
    pub(crate) fn forget(&self, path: &str) {
        lock(&self.names).remove(path);
        lock(&self.listings).remove(parent(path));
    }

    /// The entry of a name in the cached listing of its directory.
    pub(crate) fn listed(&self, path: &str) -> Option<MergedEntry> {
        let listing = lock(&self.listings).get(parent(path), self.clock.now())?;
        listing.get(file_name(path)).cloned()
    }
}

/// Returns true if the endpoint has answered that it does not have the name. One that refuses the
/// request has not answered.
fn is_negative(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound
}
