//! Names of files that are being replaced by a file of another endpoint.
//!
//! A rename puts the new file at its endpoint, and then removes the one that it replaces. If the
//! second step fails, or the response to the first one is lost, both may be there, and the entry
//! that counts may be the new one. A client that looks after a lost response would take the rename
//! for carried out. So these names are noted before the first step, until both are carried out.

use crate::name_cache::NameCache;
use hither_core::sync::lock;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::watch;

/// Memory for the names, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// Time for which a name is noted. Clients repeat a look for a minute or so after a lost response.
const KEPT: Duration = Duration::from_mins(10);

/// The renames over one name.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Replacement {
    /// Number of renames that are carried out now.
    running: u32,
    /// One of them has failed, perhaps between its steps.
    has_failed: bool,
}

impl Replacement {
    /// Returns false if all renames have ended.
    pub(crate) fn is_running(self) -> bool {
        self.running > 0
    }
}

/// The names that were noted within [`KEPT`]. They outlive a reload of the configuration.
#[derive(Debug)]
pub(crate) struct Replacements {
    noted: Mutex<NameCache<Replacement>>,
    /// Number of all renames that are carried out now.
    running: watch::Sender<usize>,
}

impl Default for Replacements {
    fn default() -> Self {
        Self { noted: Mutex::new(NameCache::new(MAX_BYTES)), running: watch::Sender::default() }
    }
}

impl Replacements {
    /// Notes that the file at `path` is to be replaced.
    pub(crate) fn begin(&self, path: &str, now: Duration) {
        self.running.send_modify(|number| *number += 1);
        let mut noted = lock(&self.noted);
        let mut replacement = noted.get(path, now).unwrap_or_default();
        replacement.running += 1;
        noted.put(path, replacement, size_of::<Replacement>(), now + KEPT);
    }

    /// Notes that the rename that began has ended, or that it has failed and two files may be left
    /// (`has_failed`).
    pub(crate) fn end(&self, path: &str, has_failed: bool, now: Duration) {
        self.running.send_modify(|number| *number = number.saturating_sub(1));
        let mut noted = lock(&self.noted);
        let mut replacement = noted.get(path, now).unwrap_or_default();
        replacement.running = replacement.running.saturating_sub(1);
        replacement.has_failed |= has_failed;
        if replacement.is_running() || replacement.has_failed {
            noted.put(path, replacement, size_of::<Replacement>(), now + KEPT);
        } else {
            noted.remove(path);
        }
    }

    /// The renames over `path` of which two files may be there.
    pub(crate) fn at(&self, path: &str, now: Duration) -> Option<Replacement> {
        lock(&self.noted).get(path, now)
    }

    /// Waits until no rename is carried out.
    pub(crate) async fn finish(&self) {
        let mut running = self.running.subscribe();
        // It fails only without a sender.
        let _ = running.wait_for(|number| *number == 0).await;
    }
}
