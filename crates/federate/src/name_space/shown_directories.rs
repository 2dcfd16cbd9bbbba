//! Directories whose metadata endpoints have returned.
//!
//! Unlike one that was listed, such a directory makes no listing incomplete when it is missing: a
//! client may request the metadata of any name, and an HTML index need not list it. They are kept
//! in memory only.

use crate::merge::EndpointId;
use crate::name_cache::NameCache;
use hither_core::sync::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Memory for the names, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// Time after which a directory that an endpoint does not show counts as removed there. The log has
/// times that are up to a day old: after a restart, this leaves at least a day.
pub(super) const MISSED: Duration = Duration::from_hours(48);

/// The directories whose metadata endpoints have returned, with the times.
#[derive(Debug)]
pub(super) struct ShownDirectories(Mutex<NameCache<Arc<BTreeMap<EndpointId, Duration>>>>);

impl Default for ShownDirectories {
    fn default() -> Self {
        Self(Mutex::new(NameCache::new(MAX_BYTES)))
    }
}

impl ShownDirectories {
    /// Records that endpoints have the directory at `path`.
    pub(super) fn add(&self, path: &str, endpoints: &[EndpointId], now: Duration) {
        let mut memory = lock(&self.0);
        let mut shown = memory.get(path, now).map(Arc::unwrap_or_clone).unwrap_or_default();
        shown.extend(endpoints.iter().map(|id| (*id, now)));
        let bytes = shown.len() * size_of::<(EndpointId, Duration)>();
        memory.put(path, Arc::new(shown), bytes, now + MISSED);
    }

    /// Returns true if the endpoint has returned its metadata within [`MISSED`].
    pub(super) fn had(&self, endpoint: EndpointId, path: &str, now: Duration) -> bool {
        let shown = lock(&self.0).get(path, now);
        shown.and_then(|it| it.get(&endpoint).copied()).is_some_and(|at| now < at + MISSED)
    }

    /// Removes the records of a directory that a client may remove, and of everything below it.
    pub(super) fn forget(&self, path: &str, now: Duration) {
        let mut memory = lock(&self.0);
        if memory.get(path, now).is_some() {
            memory.remove_tree(path);
        }
    }
}
