//! Links of responses to other replicas of the file.

use super::HttpSource;
use crate::location::Location;
use crate::pool::observation::{ExchangeOutcome, ExchangeResult};
use hither_http::metalink::MetalinkLinks;
use http::Method;
use std::fmt;
use std::sync::atomic::Ordering;

/// A callback for `Link` fields.
pub(super) struct WhenLinked(Box<HearLinks>);

/// Takes the links of a response, and the URL that they are about.
type HearLinks = dyn Fn(&MetalinkLinks, &Location) + Send + Sync;

impl fmt::Debug for WhenLinked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WhenLinked")
    }
}

impl HttpSource {
    /// Calls `hear` once, when a response links to other replicas.
    pub(crate) fn when_linked(&self, hear: Box<HearLinks>) {
        // A second callback is ignored: a file has one set of replicas.
        drop(self.when_linked.set(WhenLinked(hear)));
    }

    /// Takes the links of a response from `location`.
    pub(super) fn hear_links(
        &self,
        location: &Location,
        settled: &ExchangeResult,
        links: &MetalinkLinks,
    ) {
        let about = match &settled.outcome {
            Ok(ExchangeOutcome::Redirect(to)) => {
                self.network.learn_servers(location, &Method::GET, to, links);
                to
            }
            _ => return self.hear(links, location),
        };
        let mut links = links.clone();
        // Its document would name the same ones, at the cost of another request.
        if links.replicas.len() > 1 {
            links.documents.clear();
        }
        self.hear(&links, about);
    }

    pub(super) fn hear(&self, links: &MetalinkLinks, about: &Location) {
        if let Some(hear) = self.when_linked.get()
            && !self.linked.swap(true, Ordering::Relaxed)
        {
            (hear.0)(links, about);
        }
    }
}
