//! Directory entries, passed on frame by frame.

use super::{Outcome, Sink};
use crate::client::event::{Completion, SessionEvent};
use crate::wire::dirlist;
use crate::wire::{Dirlist, DirlistEntry, Request, WireError};
use bytes::Bytes;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::client) struct List {
    path: String,
    options: u8,
    listing: Dirlist,
    /// The error of the listing. Its remaining bytes are dropped.
    error: Option<WireError>,
}

impl List {
    pub(in crate::client) fn new(path: String, options: u8) -> Self {
        Self { path, options, listing: Dirlist::default(), error: None }
    }

    pub(super) fn request(&mut self) -> Request {
        let with_status = self.options & dirlist::STAT != 0;
        self.listing = Dirlist::new(with_status);
        Request::List { path: self.path.clone(), options: self.options }
    }

    pub(super) fn has_use_for_data(&self) -> bool {
        self.error.is_none()
    }

    pub(super) fn data(&mut self, bytes: &Bytes, sink: &mut Sink<'_>) {
        if self.error.is_none() {
            let entries = self.listing.feed(bytes);
            self.report(entries, sink);
        }
    }

    fn report(&mut self, entries: Result<Vec<DirlistEntry>, WireError>, sink: &mut Sink<'_>) {
        match entries {
            Ok(entries) if entries.is_empty() => {}
            Ok(entries) => sink
                .events
                .push_back(SessionEvent::Entries { request_id: sink.request_id, entries }),
            Err(error) => self.error = Some(error),
        }
    }

    pub(super) fn finish(mut self, sink: &mut Sink<'_>) -> Outcome {
        if self.error.is_none() {
            let entries = self.listing.finish();
            self.report(entries, sink);
        }
        match self.error {
            Some(error) => Outcome::Failed(error.into()),
            None => Outcome::Reply(Completion::Nothing),
        }
    }
}
