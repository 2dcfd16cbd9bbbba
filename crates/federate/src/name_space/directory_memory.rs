//! Directories that endpoints have listed.
//!
//! A disk that is not mounted looks like a removed directory. So an endpoint that no longer lists a
//! directory counts as one that has not answered, until a client removes the directory through the
//! federation, the endpoint has it again, or a week has passed.

use crate::merge::EndpointId;
use crate::name_cache::NameCache;
use hither_core::storage::{file_name, parent};
use hither_core::sync::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Memory for the names, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Time for which an endpoint that lacks a directory counts as not having answered.
const KEPT: Duration = Duration::from_hours(7 * 24);

/// Directories in one directory, each with the endpoint that listed it. The directory itself, with
/// an empty name, is among them if the endpoint lists it in no other one.
pub(super) type ListedDirectories = BTreeSet<(EndpointId, Box<str>)>;

/// The same, with the time at which the endpoint last listed them.
type KnownDirectories = BTreeMap<(EndpointId, Box<str>), Duration>;

/// The directories that endpoints have listed, by the directory that they are in.
#[derive(Debug)]
pub(super) struct DirectoryMemory(Mutex<NameCache<Arc<KnownDirectories>>>);

impl Default for DirectoryMemory {
    fn default() -> Self {
        Self(Mutex::new(NameCache::new(MAX_BYTES)))
    }
}

impl DirectoryMemory {
    /// Returns true if the endpoint has listed the directory at `path` before.
    pub(super) fn had(&self, endpoint: EndpointId, path: &str, now: Duration) -> bool {
        let mut memory = lock(&self.0);
        let mut has = |directory, name: &str| {
            memory
                .get(directory, now)
                .and_then(|it| it.get(&(endpoint, name.into())).copied())
                .is_some_and(|seen| now < seen + KEPT)
        };
        has(parent(path), file_name(path)) || has(path, "")
    }

    /// Records that the endpoint has the directory at `path`.
    pub(super) fn add(&self, endpoint: EndpointId, path: &str, now: Duration) {
        let mut memory = lock(&self.0);
        let mut known = known(&mut memory, parent(path), now);
        known.insert((endpoint, file_name(path).into()), now);
        keep(&mut memory, parent(path), known, now);
    }

    /// Records the directories that endpoints list in the one at `path`. Returns the endpoints that
    /// have `answered` and lack one that they listed before.
    pub(super) fn note(
        &self,
        path: &str,
        answered: &[EndpointId],
        listed: ListedDirectories,
        now: Duration,
    ) -> Vec<EndpointId> {
        let mut memory = lock(&self.0);
        let mut known = known(&mut memory, path, now);
        let lacks = |id: &&EndpointId| known.keys().any(|it| it.0 == **id && !listed.contains(it));
        let lacking = answered.iter().filter(lacks).copied().collect();
        known.extend(listed.into_iter().map(|it| (it, now)));
        keep(&mut memory, path, known, now);
        lacking
    }

    /// Removes the records of a directory that a client may remove, and of everything below it.
    pub(super) fn forget(&self, path: &str, now: Duration) {
        let mut memory = lock(&self.0);
        let mut known = known(&mut memory, parent(path), now);
        let number = known.len();
        known.retain(|(_, name), _| **name != *file_name(path));
        if known.len() < number || memory.get(path, now).is_some() {
            keep(&mut memory, parent(path), known, now);
            memory.remove_tree(path);
        }
    }
}

/// The directories in `path` that endpoints have listed within [`KEPT`].
fn known(
    memory: &mut NameCache<Arc<KnownDirectories>>,
    path: &str,
    now: Duration,
) -> KnownDirectories {
    let mut known = memory.get(path, now).map(Arc::unwrap_or_clone).unwrap_or_default();
    known.retain(|_, seen| now < *seen + KEPT);
    known
}

fn keep(
    memory: &mut NameCache<Arc<KnownDirectories>>,
    path: &str,
    known: KnownDirectories,
    now: Duration,
) {
    let names = known.keys().map(|(_, name)| name.len());
    let bytes = names.map(|name| name + size_of::<((EndpointId, Box<str>), Duration)>()).sum();
    if known.is_empty() {
        memory.remove(path);
    } else {
        memory.put(path, Arc::new(known), bytes, now + KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: EndpointId = EndpointId(0);
    const B: EndpointId = EndpointId(1);

    fn listed(ids: &[EndpointId]) -> ListedDirectories {
        ids.iter().map(|id| (*id, "d".into())).collect()
    }

    #[test]
    fn directories_that_are_gone_are_missed_until_a_client_removes_them() {
        let memory = DirectoryMemory::default();
        let now = Duration::ZERO;
        assert_eq!(memory.note("x", &[A, B], listed(&[A, B]), now), []);
        assert!(memory.had(A, "x/d", now) && !memory.had(A, "x/e", now));
        assert_eq!(memory.note("x", &[A, B], listed(&[A]), now), [B]);
        assert_eq!(memory.note("x", &[A], listed(&[A]), now), [], "b was not asked");
        memory.add(A, "x/d/e", now);
        memory.forget("x/d", now);
        assert!(!memory.had(A, "x/d/e", now));
        assert_eq!(memory.note("x", &[A, B], listed(&[]), now), []);
    }

    #[test]
    fn a_directory_is_missed_for_a_week_after_it_was_listed_last() {
        let memory = DirectoryMemory::default();
        let day = Duration::from_hours(24);
        memory.note("x", &[A, B], listed(&[A, B]), Duration::ZERO);
        for days in 1..7 {
            assert_eq!(memory.note("x", &[A, B], listed(&[A]), day * days), [B]);
        }
        assert_eq!(memory.note("x", &[A, B], listed(&[A]), day * 7), []);
        assert_eq!(memory.note("x", &[A, B], listed(&[]), day * 13), [A]);
    }
}
