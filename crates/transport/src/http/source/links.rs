//! Links of responses to other replicas of the file.

use crate::location::Location;
use hither_http::metalink::MetalinkLinks;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes the links of a response, and the URL that they are about.
pub(crate) type HearLinks = dyn Fn(&MetalinkLinks, &Location) + Send + Sync;

/// The callback for links to other replicas of a file.
#[derive(Default)]
pub(super) struct ReplicaLinks {
    hear: OnceLock<Box<HearLinks>>,
    is_heard: AtomicBool,
}

impl fmt::Debug for ReplicaLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplicaLinks")
    }
}

impl ReplicaLinks {
    /// Calls `hear` once, when a response links to other replicas. A second callback is ignored: a
    /// file has one set of replicas.
    pub(super) fn listen(&self, hear: Box<HearLinks>) {
        drop(self.hear.set(hear));
    }

    /// Hands the links about `about` to the callback, if they are the first ones.
    pub(super) fn hear(&self, links: &MetalinkLinks, about: &Location) {
        if let Some(hear) = self.hear.get()
            && !self.is_heard.swap(true, Ordering::Relaxed)
        {
            hear(links, about);
        }
    }
}
