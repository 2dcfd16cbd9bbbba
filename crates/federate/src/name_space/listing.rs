//! A request to all endpoints for the entries of a directory.

use super::{NameSpace, is_negative};
use crate::merge::{EndpointId, ListingMerger, MergedListing};
use crate::name_space::directory_memory::ListedDirectories;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hither_core::Listing;
use hither_core::error::ErrorKind;
use hither_core::storage::{FileKind, file_name, join};
use hither_core::sync::lock;
use std::sync::Arc;
use std::time::Duration;

/// Time for which every listing is cached, so that metadata of its entries can be returned: also an
/// incomplete one, and one that waited for a silent endpoint.
const DESCRIBED: Duration = Duration::from_secs(1);

impl NameSpace {
    pub(super) async fn ask_for_listing(&self, path: &str) -> Option<Arc<MergedListing>> {
        let mut merger = ListingMerger::new(self.settings.compare_dates);
        let mut answers = FuturesUnordered::new();
        let mut exists = false;
        for (id, endpoint) in self.numbered() {
            for name in endpoint.prefixes.leading_names(path) {
                exists = true;
                merger.add_leading(id, name);
            }
            let Some(target) = endpoint.storage_path(path) else { continue };
            let is_inside = endpoint.is_inside(path);
            if self.health.is_down(&endpoint.name) {
                merger.add_unanswered(id);
                continue;
            }
            answers.push(async move {
                let list = async { endpoint.storage.list(&target).await };
                let listed = self.ask(endpoint, self.settings.listing_deadline(), list).await;
                (id, target == endpoint.root(), is_inside, listed)
            });
        }
        let now = self.clock.now();
        let mut answered = Vec::new();
        let mut whole = Vec::new();
        let mut files = Vec::new();
        let mut directories = ListedDirectories::new();
        let mut unlogged = Vec::new();
        while let Some((id, is_root, is_inside, listed)) = answers.next().await {
            match listed {
                Ok(listing) => {
                    exists = true;
                    // If the directory is missing later, this is noticed even if the one above is
                    // never listed.
                    if !is_inside {
                        directories.insert((id, "".into()));
                    } else if self.directories.add(id, path, now) {
                        unlogged.push((id, path.to_owned()));
                    }
                    merger.add(id, &listing.entries);
                    directories.extend(self.directories_in(id, path, &listing, now));
                    merger.add_failed(&listing.failed);
                    if listing.hidden.is_some() {
                        merger.note_hidden();
                    }
                    if listing.is_complete() {
                        whole.push(id);
                    }
                    if listing.gaps.is_empty() {
                        answered.push(id);
                    } else {
                        merger.add_unanswered(id);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Invalid => files.push(id),
                // The name does not exist there, and did not before. A missing root means a disk
                // that is not mounted.
                Err(error)
                    if is_negative(&error) && !is_root && !self.directories.had(id, path, now) => {}
                Err(_) => merger.add_unanswered(id),
            }
        }
        let (lacking, more) = self.directories.note(path, &answered, directories, now);
        lacking.into_iter().for_each(|id| merger.add_unanswered(id));
        unlogged.extend(more);
        self.log_directories(unlogged, now).await;
        // A file in place of the directory that others have may hide entries of it.
        for id in files.into_iter().filter(|_| exists) {
            merger.add_unanswered(id);
        }
        let listing = self.judge(path, merger.finish(), whole);
        exists |= self.endpoints.iter().any(|it| it.prefixes.leads_below(path));
        if !exists && listing.is_complete() {
            return None;
        }
        let listing = Arc::new(listing);
        let mut until = self.clock.now() + DESCRIBED;
        if listing.is_complete() {
            until = until.max(now + Duration::from_secs_f64(self.settings.listing_seconds));
        }
        if !self.is_changing(path) {
            let bytes = listing.memory_bytes();
            lock(&self.listings).put(path, Arc::clone(&listing), bytes, until);
        }
        Some(listing)
    }

    /// The directories that an endpoint lists in the one at `path`, and those that it listed before
    /// and fails to describe now.
    fn directories_in(
        &self,
        id: EndpointId,
        path: &str,
        listing: &Listing,
        now: Duration,
    ) -> impl Iterator<Item = (EndpointId, Box<str>)> {
        let listed = listing.entries.iter().filter(|it| it.kind == FileKind::Directory);
        let had = move |name: &&str| self.directories.had(id, &join(path, name), now);
        let failed = listing.failed.iter().map(|(it, _)| file_name(it)).filter(had);
        let names = listed.map(|it| file_name(&it.path)).chain(failed);
        names.map(move |name| (id, name.into()))
    }

    /// The listing without holders that are known to differ. Endpoints that are copies of others
    /// whose listing is `whole` become [`MergedListing::copied`].
    fn judge(
        &self,
        path: &str,
        mut listing: MergedListing,
        mut whole: Vec<EndpointId>,
    ) -> MergedListing {
        self.exclude_known(path, &mut listing);
        let conflicts = listing.entries.iter().filter(|(_, entry)| !entry.differing.is_empty());
        self.log_conflicts(
            conflicts.map(|(name, it)| (join(path, name), &*it.holders, &*it.differing)),
        );
        whole.retain(|id| !listing.unanswered.contains(id));
        let is_copied = |id: &mut EndpointId| self.is_copy(*id, path, &whole);
        listing.copied = listing.unanswered.extract_if(.., is_copied).collect();
        listing
    }

    /// Returns true if an endpoint is declared as a copy of one of `others` in a directory.
    fn is_copy(&self, id: EndpointId, path: &str, others: &[EndpointId]) -> bool {
        let rule = self.endpoint(id).and_then(|it| it.prefixes.rule(path));
        let mut others = others.iter().filter_map(|id| self.endpoint(*id));
        rule.is_some_and(|rule| others.any(|it| rule.copy_of.contains(&it.name)))
    }
}
