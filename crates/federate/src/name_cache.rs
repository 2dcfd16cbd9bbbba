//! A cache in memory with an expiry for each entry and a bound on its bytes.
//!
//! Names and listings of the federation are kept in two of these. The oldest entry is evicted
//! first, but one that was used since its insertion, or since the last check, gets a second chance:
//! so a use costs no more than a mark. Callers pass the time, so that tests run in virtual time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The memory of an entry in addition to its path and its value: the map's slots and the two
/// counters.
const ENTRY_BYTES: usize = 160;
/// Maximum second chances for one insertion, which other callers wait for.
const MAX_CHANCES: usize = 16;

/// A cache by path.
#[derive(Debug)]
pub struct NameCache<V> {
    max_bytes: usize,
    bytes: usize,
    turns: u64,
    entries: HashMap<Arc<str>, CacheEntry<V>>,
    /// The paths in the order of eviction.
    by_turn: BTreeMap<u64, Arc<str>>,
}

#[derive(Debug)]
struct CacheEntry<V> {
    value: V,
    until: Duration,
    bytes: usize,
    turn: u64,
    is_used: bool,
}

impl<V: Clone> NameCache<V> {
    /// An empty cache of at most this many bytes.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: 0, turns: 0, entries: HashMap::new(), by_turn: BTreeMap::new() }
    }

    /// The value of a path that has not expired.
    pub fn get(&mut self, path: &str, now: Duration) -> Option<V> {
        let entry = self.entries.get_mut(path)?;
        if entry.until <= now {
            self.remove(path);
            return None;
        }
        entry.is_used = true;
        Some(entry.value.clone())
    }

    /// Keeps the value of a path until a time. A value larger than half of the cache is not kept.
    pub fn put(&mut self, path: &str, value: V, value_bytes: usize, until: Duration) {
        self.remove(path);
        let bytes = value_bytes.saturating_add(path.len()).saturating_add(ENTRY_BYTES);
        if bytes > self.max_bytes / 2 {
            return;
        }
        let mut chances = 0;
        while self.bytes + bytes > self.max_bytes
            && let Some((_, oldest)) = self.by_turn.pop_first()
        {
            if chances < MAX_CHANCES
                && let Some(entry) = self.entries.get_mut(&oldest).filter(|entry| entry.is_used)
            {
                chances += 1;
                self.turns += 1;
                (entry.is_used, entry.turn) = (false, self.turns);
                self.by_turn.insert(self.turns, oldest);
            } else if let Some(entry) = self.entries.remove(&oldest) {
                self.bytes -= entry.bytes;
            }
        }
        self.turns += 1;
        let path: Arc<str> = path.into();
        self.by_turn.insert(self.turns, Arc::clone(&path));
        let entry = CacheEntry { value, until, bytes, turn: self.turns, is_used: false };
        self.entries.insert(path, entry);
        self.bytes += bytes;
    }

    /// Removes a path.
    pub fn remove(&mut self, path: &str) {
        if let Some(entry) = self.entries.remove(path) {
            self.by_turn.remove(&entry.turn);
            self.bytes -= entry.bytes;
        }
    }

    /// Removes a path, and everything below it.
    pub fn remove_tree(&mut self, path: &str) {
        let is_below = |rest: &str| rest.is_empty() || rest.starts_with('/');
        let is_gone = |it: &&Arc<str>| it.strip_prefix(path).is_some_and(is_below);
        let gone: Vec<_> = self.entries.keys().filter(is_gone).cloned().collect();
        gone.iter().for_each(|it| self.remove(it));
    }

    /// The number of entries, and their bytes.
    #[must_use]
    pub fn totals(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_entry_ends_at_its_time() {
        let mut cache = NameCache::new(1 << 20);
        cache.put("a", 1, 10, SECOND);
        assert_eq!(cache.get("a", SECOND / 2), Some(1));
        assert_eq!(cache.get("a", SECOND), None);
        assert_eq!(cache.totals(), (0, 0));
    }

    #[test]
    fn the_oldest_entry_that_was_not_used_is_evicted() {
        let mut cache = NameCache::new(4 * (ENTRY_BYTES + 11));
        for name in ["a", "b", "c", "d"] {
            cache.put(name, name, 10, SECOND);
        }
        assert!(cache.get("a", Duration::ZERO).is_some());
        cache.put("e", "e", 10, SECOND);
        assert_eq!(cache.get("b", Duration::ZERO), None);
        assert!(cache.get("a", Duration::ZERO).is_some());
        cache.put("large", "large", 4 * ENTRY_BYTES, SECOND);
        assert_eq!((cache.get("large", Duration::ZERO), cache.totals().0), (None, 4));
    }

    #[test]
    fn memory_stays_bounded_over_many_names() {
        let mut cache = NameCache::new(100_000);
        for number in 0..100_000u32 {
            cache.put(&format!("{}", number % 3_000), number, 50, SECOND);
        }
        let (count, bytes) = cache.totals();
        assert!(bytes <= 100_000 && count > 400, "{count} entries, {bytes} bytes");
        assert_eq!((cache.entries.len(), cache.by_turn.len()), (count, count));
    }

    #[test]
    fn a_new_entry_finds_room_where_all_others_are_in_use() {
        let mut cache = NameCache::new(100 * (ENTRY_BYTES + 13));
        for number in 0..1_000u32 {
            let name = format!("{number:03}");
            cache.put(&name, number, 10, SECOND);
            assert_eq!(cache.get(&name, Duration::ZERO), Some(number));
        }
        assert_eq!(cache.totals().0, 100);
    }
}
