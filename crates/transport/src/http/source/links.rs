//! Links of responses to other replicas of the file.

use crate::location::Location;
use hither_http::metalink::MetalinkLinks;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes the links of a response, and the URL that they are about.
pub(crate) type LinksCallback = dyn Fn(&MetalinkLinks, &Location) + Send + Sync;

/// The callback for links to other replicas of a file.
#[derive(Default)]
pub(super) struct ReplicaLinks {
    callback: OnceLock<Box<LinksCallback>>,
    is_called: AtomicBool,
}

impl fmt::Debug for ReplicaLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplicaLinks")
    }
}

impl ReplicaLinks {
    /// Calls `callback` once, when a response links to other replicas. A second callback is
    /// ignored: a file has one set of replicas.
    pub(super) fn listen(&self, callback: Box<LinksCallback>) {
        drop(self.callback.set(callback));
    }

    /// Hands the links about `about` to the callback, if they are the first ones.
    pub(super) fn report(&self, links: &MetalinkLinks, about: &Location) {
        if let Some(callback) = self.callback.get()
            && !self.is_called.swap(true, Ordering::Relaxed)
        {
            callback(links, about);
        }
    }
}
