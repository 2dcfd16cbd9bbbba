//! Eviction: makes room in the order of `eviction_policy.rs`.

use super::entry::EntryContext;
use super::eviction_policy::Class;
use super::{Cache, CacheState};

impl Cache {
    /// Removes the protection of the oldest prefetched bytes, about `bytes`. Called when a read
    /// missed although there is no room for more prefetches: those present are not the ones that
    /// are read.
    pub(crate) fn age(&self, bytes: u64) {
        self.with(|state| {
            let used = state.policy.ahead_bytes() + state.policy.prefetching_bytes;
            let mut excess = (used + bytes).saturating_sub(self.config.ahead_bytes).min(bytes);
            while excess > 0 {
                let Some(token) = state.policy.next_ahead() else { return };
                let CacheState { policy, entries, wakers, counters, .. } = &mut *state;
                let mut context = EntryContext { policy, wakers, counters };
                let Some(entry) = entries.get_mut(&token.entry).filter(|it| it.is_at(&token))
                else {
                    continue;
                };
                let len = entry.extents.get(&token.start).map_or(0, |extent| extent.len());
                entry.move_to(token.start, Class::Small, &mut context);
                excess = excess.saturating_sub(len);
            }
        });
    }
}

impl CacheState {
    /// Drops extents until the budget is kept.
    pub(super) fn evict(&mut self) {
        while self.policy.is_over_budget() {
            let Some((class, token)) = self.policy.next_victim() else { return };
            let Self { policy, entries, wakers, counters, .. } = self;
            let mut context = EntryContext { policy, wakers, counters };
            let Some(entry) = entries.get_mut(&token.entry).filter(|entry| entry.is_at(&token))
            else {
                continue;
            };
            let Some(extent) = entry.extents.get_mut(&token.start) else { continue };
            match (class, extent.again) {
                (Class::Small, 1..) => {
                    extent.again = 0;
                    entry.move_to(token.start, Class::Main, &mut context);
                }
                (Class::Main, 1..) => {
                    extent.again -= 1;
                    entry.move_to(token.start, Class::Main, &mut context);
                }
                _ => {
                    if class == Class::Small {
                        context.policy.remember(token.entry, token.start);
                    }
                    entry.drop_extent(token.start, &mut context);
                    self.forget_if_empty(token.entry);
                }
            }
        }
        let entries = &self.entries;
        self.policy.sweep(|token| entries.get(&token.entry).is_some_and(|it| it.is_at(token)));
    }
}
