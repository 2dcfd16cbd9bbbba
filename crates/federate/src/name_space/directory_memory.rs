//! Directories that endpoints have listed.
//!
//! A disk that is not mounted looks like a directory that somebody has removed. So an endpoint that
//! lists a directory no more counts as one that has not answered, until a client removes the
//! directory through the federation, the endpoint has it again, or a week has passed.

use crate::merge::EndpointId;
use crate::name_cache::NameCache;
use hither_core::storage::{file_name, parent};
use hither_core::sync::lock;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Memory for the names, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Time for which a directory that is gone is missed.
const KEPT: Duration = Duration::from_hours(7 * 24);

/// Directories of one directory, each with the endpoint that listed it.
pub(super) type ListedDirectories = BTreeSet<(EndpointId, Box<str>)>;

/// The directories that endpoints have listed, by the directory that they are in.
#[derive(Debug)]
pub(super) struct DirectoryMemory(Mutex<NameCache<Arc<ListedDirectories>>>);

impl Default for DirectoryMemory {
    fn default() -> Self {
        Self(Mutex::new(NameCache::new(MAX_BYTES)))
    }
}

impl DirectoryMemory {
    /// Returns true if the endpoint has listed the directory at `path` before.
    pub(super) fn had(&self, endpoint: EndpointId, path: &str, now: Duration) -> bool {
        let known = lock(&self.0).get(parent(path), now);
        known.is_some_and(|known| known.contains(&(endpoint, file_name(path).into())))
    }

    /// Notes the directories that endpoints list in the one at `path`. Returns the endpoints that
    /// have `answered` and lack one that they had.
    pub(super) fn note(
        &self,
        path: &str,
        answered: &[EndpointId],
        listed: ListedDirectories,
        now: Duration,
    ) -> Vec<EndpointId> {
        let mut memory = lock(&self.0);
        let known = memory.get(path, now).unwrap_or_default();
        let lacks = |id: &&EndpointId| known.iter().any(|it| it.0 == **id && !listed.contains(it));
        let lacking = answered.iter().filter(lacks).copied().collect();
        if !listed.is_subset(&known) {
            let all: ListedDirectories = known.iter().cloned().chain(listed).collect();
            keep(&mut memory, path, all, now);
        }
        lacking
    }

    /// Forgets a directory that a client may remove.
    pub(super) fn forget(&self, path: &str, now: Duration) {
        let mut memory = lock(&self.0);
        memory.remove(path);
        let Some(known) = memory.get(parent(path), now) else { return };
        let rest: ListedDirectories =
            known.iter().filter(|(_, name)| **name != *file_name(path)).cloned().collect();
        keep(&mut memory, parent(path), rest, now);
    }
}

fn keep(
    memory: &mut NameCache<Arc<ListedDirectories>>,
    path: &str,
    directories: ListedDirectories,
    now: Duration,
) {
    let names = directories.iter().map(|(_, name)| name.len());
    let bytes = names.map(|name| name + size_of::<(EndpointId, Box<str>)>()).sum();
    memory.put(path, Arc::new(directories), bytes, now + KEPT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_are_gone_are_missed_until_a_client_removes_them() {
        let memory = DirectoryMemory::default();
        let (a, b) = (EndpointId(0), EndpointId(1));
        let listed = |ids: &[EndpointId]| ids.iter().map(|id| (*id, "d".into())).collect();
        let now = Duration::ZERO;
        assert_eq!(memory.note("x", &[a, b], listed(&[a, b]), now), []);
        assert!(memory.had(a, "x/d", now) && !memory.had(a, "x/e", now));
        assert_eq!(memory.note("x", &[a, b], listed(&[a]), now), [b]);
        assert_eq!(memory.note("x", &[a], listed(&[a]), now), [], "b was not asked");
        memory.forget("x/d", now);
        assert_eq!(memory.note("x", &[a, b], listed(&[]), now), []);
    }
}
