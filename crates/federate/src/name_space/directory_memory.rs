//! Directories that endpoints have listed.
//!
//! A disk that is not mounted looks like a removed directory. So an endpoint that no longer lists a
//! directory counts as one that has not answered, until a client removes the directory through the
//! federation, the endpoint has it again, or a week has passed. The log of the directories keeps
//! that over restarts ([`DirectoryLog`](super::directory_log::DirectoryLog)).

use crate::merge::EndpointId;
use crate::name_cache::NameCache;
use hither_core::storage::{file_name, join, parent};
use hither_core::sync::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Memory for the names, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Time for which an endpoint that lacks a directory counts as not having answered.
pub(super) const KEPT: Duration = Duration::from_hours(7 * 24);
/// Time after which a directory that is still listed is logged again.
const LOGGED: Duration = Duration::from_hours(24);

/// Directories in one directory, each with the endpoint that listed it. The directory itself, with
/// an empty name, is among them if the endpoint lists it in no other one.
pub(super) type ListedDirectories = BTreeSet<(EndpointId, Box<str>)>;

/// The same, with the times until which they count.
type KnownDirectories = BTreeMap<(EndpointId, Box<str>), Expiry>;

/// The time until which a directory counts: in memory, and by its last record in the log.
#[derive(Debug, Clone, Copy)]
struct Expiry {
    memory: Duration,
    log: Duration,
}

/// Directories that are to be logged.
pub(super) type UnloggedDirectories = Vec<(EndpointId, String)>;

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
        self.had_within(endpoint, path, KEPT, now)
    }

    /// Returns true if the endpoint has listed the directory at `path` within a time, at most
    /// [`KEPT`].
    pub(super) fn had_within(
        &self,
        endpoint: EndpointId,
        path: &str,
        within: Duration,
        now: Duration,
    ) -> bool {
        let mut memory = lock(&self.0);
        let mut has = |directory, name: &str| {
            memory
                .get(directory, now)
                .and_then(|it| it.get(&(endpoint, name.into())).copied())
                .is_some_and(|until| now + KEPT < until.memory + within)
        };
        has(parent(path), file_name(path)) || has(path, "")
    }

    /// Records that the endpoint has the directory at `path`. Returns true if that has to be
    /// logged.
    pub(super) fn add(&self, endpoint: EndpointId, path: &str, now: Duration) -> bool {
        let mut memory = lock(&self.0);
        let mut known = known(&mut memory, parent(path), now);
        let is_unlogged = saw(&mut known, (endpoint, file_name(path).into()), now);
        keep(&mut memory, parent(path), known, now);
        is_unlogged
    }

    /// Records a directory of the log, which the endpoint lists in the one above it
    /// (`is_inside`), or in no other.
    pub(super) fn restore(
        &self,
        endpoint: EndpointId,
        path: &str,
        is_inside: bool,
        until: Duration,
        now: Duration,
    ) {
        let (directory, name) =
            if is_inside { (parent(path), file_name(path)) } else { (path, "") };
        let mut memory = lock(&self.0);
        let mut known = known(&mut memory, directory, now);
        known.insert((endpoint, name.into()), Expiry { memory: until, log: until });
        keep(&mut memory, directory, known, now);
    }

    /// Records the directories that endpoints list in the one at `path`. Returns the endpoints that
    /// have `answered` and lack one that they listed before, and the directories to be logged.
    pub(super) fn note(
        &self,
        path: &str,
        answered: &[EndpointId],
        listed: ListedDirectories,
        now: Duration,
    ) -> (Vec<EndpointId>, UnloggedDirectories) {
        let mut memory = lock(&self.0);
        let mut known = known(&mut memory, path, now);
        let lacks = |id: &&EndpointId| known.keys().any(|it| it.0 == **id && !listed.contains(it));
        let lacking = answered.iter().filter(lacks).copied().collect();
        let mut unlogged = Vec::new();
        for (id, name) in listed {
            let below = if name.is_empty() { path.to_owned() } else { join(path, &name) };
            if saw(&mut known, (id, name), now) {
                unlogged.push((id, below));
            }
        }
        keep(&mut memory, path, known, now);
        (lacking, unlogged)
    }

    /// Removes the records of a directory that a client may remove, and of everything below it.
    /// Returns true if there were any.
    pub(super) fn forget(&self, path: &str, now: Duration) -> bool {
        let mut memory = lock(&self.0);
        let mut known = known(&mut memory, parent(path), now);
        let number = known.len();
        known.retain(|(_, name), _| **name != *file_name(path));
        let was_known = known.len() < number || memory.get(path, now).is_some();
        if was_known {
            keep(&mut memory, parent(path), known, now);
            memory.remove_tree(path);
        }
        was_known
    }
}

/// Records that a directory was listed. Returns true if that has to be logged.
fn saw(known: &mut KnownDirectories, directory: (EndpointId, Box<str>), now: Duration) -> bool {
    let memory = now + KEPT;
    let until = known.entry(directory).or_insert(Expiry { memory, log: Duration::ZERO });
    until.memory = memory;
    let is_unlogged = until.log + LOGGED <= memory;
    if is_unlogged {
        until.log = memory;
    }
    is_unlogged
}

/// The directories in `path` that endpoints have listed within [`KEPT`].
fn known(
    memory: &mut NameCache<Arc<KnownDirectories>>,
    path: &str,
    now: Duration,
) -> KnownDirectories {
    let mut known = memory.get(path, now).map(Arc::unwrap_or_clone).unwrap_or_default();
    known.retain(|_, until| now < until.memory);
    known
}

fn keep(
    memory: &mut NameCache<Arc<KnownDirectories>>,
    path: &str,
    known: KnownDirectories,
    now: Duration,
) {
    let names = known.keys().map(|(_, name)| name.len());
    let bytes = names.map(|name| name + size_of::<((EndpointId, Box<str>), Expiry)>()).sum();
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

    /// The endpoints that lack a directory.
    fn lacking(noted: (Vec<EndpointId>, UnloggedDirectories)) -> Vec<EndpointId> {
        noted.0
    }

    #[test]
    fn directories_are_logged_when_they_are_new_and_once_a_day() {
        let memory = DirectoryMemory::default();
        let note = |hours| memory.note("x", &[A], listed(&[A]), Duration::from_hours(hours)).1;
        assert_eq!(note(0), [(A, "x/d".to_owned())]);
        assert_eq!(note(23), []);
        assert!(!memory.add(A, "x/d", Duration::from_hours(23)));
        assert_eq!(note(24), [(A, "x/d".to_owned())]);
        memory.restore(B, "x/e", true, Duration::from_hours(30), Duration::from_hours(24));
        assert!(memory.had(B, "x/e", Duration::from_hours(29)));
        assert!(!memory.had(B, "x/e", Duration::from_hours(31)));
    }

    #[test]
    fn directories_that_are_gone_are_missed_until_a_client_removes_them() {
        let memory = DirectoryMemory::default();
        let now = Duration::ZERO;
        assert_eq!(lacking(memory.note("x", &[A, B], listed(&[A, B]), now)), []);
        assert!(memory.had(A, "x/d", now) && !memory.had(A, "x/e", now));
        assert_eq!(lacking(memory.note("x", &[A, B], listed(&[A]), now)), [B]);
        assert_eq!(lacking(memory.note("x", &[A], listed(&[A]), now)), [], "b was not asked");
        memory.add(A, "x/d/e", now);
        memory.forget("x/d", now);
        assert!(!memory.had(A, "x/d/e", now));
        assert_eq!(lacking(memory.note("x", &[A, B], listed(&[]), now)), []);
    }

    #[test]
    fn a_directory_is_missed_for_a_week_after_it_was_listed_last() {
        let memory = DirectoryMemory::default();
        let day = Duration::from_hours(24);
        memory.note("x", &[A, B], listed(&[A, B]), Duration::ZERO);
        for days in 1..7 {
            assert_eq!(lacking(memory.note("x", &[A, B], listed(&[A]), day * days)), [B]);
        }
        assert_eq!(lacking(memory.note("x", &[A, B], listed(&[A]), day * 7)), []);
        assert_eq!(lacking(memory.note("x", &[A, B], listed(&[]), day * 13)), [A]);
    }
}
