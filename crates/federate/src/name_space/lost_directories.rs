//! Directories that an endpoint had and does not show now.
//!
//! A disk that is not mounted looks like a removed directory. A MOVE or DELETE of a directory would
//! then change the part of the other endpoints, leave that of this one behind, and report success.
//! So it is refused where an endpoint has listed the directory, or returned its metadata, within
//! [`MISSED`], and answers now that it does not exist.
//!
//! That ends when the endpoint shows the directory again, when a client changes the name through
//! the federation, or after [`MISSED`]. A reload of the configuration drops all records except
//! those of the log. Changes of the files in the directory are not refused. An object store loses
//! no directory: it has one while there are objects below it.

use super::{NameSpace, is_negative};
use crate::merge::{EndpointId, EntryFacts, MergedEntry};
use crate::name_space::shown_directories::MISSED;
use hither_core::storage::{FileKind, parent};
use hither_core::sync::lock;
use std::time::Duration;

impl NameSpace {
    /// Records the answers to a request that began at a time, if the name is a directory. The
    /// directories above it exist as well: without their records, that of this one would outlive
    /// the removal of those.
    pub(super) fn note_shown(
        &self,
        path: &str,
        found: &[(EndpointId, EntryFacts)],
        began: Duration,
    ) {
        let directories = found.iter().filter(|(_, facts)| facts.kind == FileKind::Directory);
        let mut shown: Vec<_> = directories.map(|(id, _)| *id).collect();
        let above = || {
            let all = std::iter::successors(Some(path), |it| Some(parent(it)));
            all.take_while(|it| !it.is_empty())
        };
        // The answers may be older than the removal by a client.
        if above().any(|it| self.has_changed_since(it, began)) {
            return;
        }
        let now = self.clock.now();
        for directory in above() {
            let endpoint = |id: &EndpointId| self.endpoint(*id);
            shown.retain(|id| endpoint(id).is_some_and(|it| !it.prefixes.leads_below(directory)));
            if shown.is_empty() {
                return;
            }
            self.shown.add(directory, &shown, now);
        }
    }

    /// Returns true if a client may have changed the entry of a name since a time, of less than a
    /// minute ago.
    fn has_changed_since(&self, path: &str, since: Duration) -> bool {
        lock(&self.changing).get(path, self.clock.now()).is_some_and(|at| at >= since)
    }

    /// The endpoints that have listed a directory within a week and do not hold it now: they may
    /// have the files that are to be made in it.
    pub(crate) fn lost_directory(
        &self,
        path: &str,
        entry: Option<&MergedEntry>,
    ) -> Vec<EndpointId> {
        let now = self.clock.now();
        self.lacking(path, entry, |id| self.directories.had(id, path, now))
    }

    /// Returns true if an endpoint has lost the directory in which its part of the name space
    /// begins: its root is missing, or what it has listed there. A new directory would be made on
    /// the disk below.
    pub(crate) async fn has_lost_top(&self, id: EndpointId, path: &str) -> bool {
        let Some(endpoint) = self.endpoint(id).filter(|it| it.keeps_directories) else {
            return false;
        };
        let Some(target) = endpoint.storage_path(path) else { return false };
        let had = self.directories.had(id, path, self.clock.now());
        if !had && target != endpoint.root() {
            return false;
        }
        let stat = async { endpoint.storage.stat(&target).await };
        let answer = self.ask(endpoint, self.settings.deadline(), stat).await;
        // Other errors are those of the change itself.
        answer.is_err_and(|error| is_negative(&error))
    }

    /// The endpoints that have shown a directory within [`MISSED`] and do not hold it now: a MOVE
    /// or DELETE would leave their files behind.
    pub(crate) fn lost_part(&self, path: &str, entry: &MergedEntry) -> Vec<EndpointId> {
        let now = self.clock.now();
        let listed = |id| self.directories.had_within(id, path, MISSED, now);
        let had = |id| self.shown.had(id, path, now) || listed(id);
        self.lacking(path, Some(entry), had)
    }

    /// The endpoints that had a directory and do not hold it now.
    fn lacking(
        &self,
        path: &str,
        entry: Option<&MergedEntry>,
        had: impl Fn(EndpointId) -> bool,
    ) -> Vec<EndpointId> {
        // Above and at rules the configuration answers, and no endpoint was asked.
        if self.endpoints.iter().any(|it| it.prefixes.leads_below(path)) {
            return Vec::new();
        }
        let has =
            |id| entry.is_some_and(|it| it.holders.contains(&id) || it.differing.contains(&id));
        let responsible = self
            .numbered()
            .filter(|(_, it)| it.keeps_directories && it.storage_path(path).is_some());
        let ids = responsible.map(|(id, _)| id);
        ids.filter(|id| !has(*id) && had(*id)).collect()
    }
}
