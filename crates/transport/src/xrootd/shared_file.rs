//! A file by the name that its server knows it by.

use crate::xrootd::job::SessionCommand;
use hither_core::sync::lock;
use hither_xrd::wire::OpenRequest;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::mpsc::UnboundedSender;

/// The last number that was given to a file.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A file that may be open in several sessions. When nobody has it any more, it is closed in all of them.
pub(super) struct SharedFile {
    /// Names it among all others of this process.
    pub(super) id: u64,
    /// How it is opened; the opaque information behind its path may hold secrets.
    pub(super) request: OpenRequest,
    /// Sessions that were asked for it.
    asked: Mutex<Vec<UnboundedSender<SessionCommand>>>,
}

impl SharedFile {
    /// The file at `path`, which opaque information may follow behind a `?`.
    pub(super) fn for_reading(path: String) -> Self {
        Self::new(OpenRequest::for_reading(path))
    }

    /// A file that is opened like this.
    pub(super) fn new(request: OpenRequest) -> Self {
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Self { id, request, asked: Mutex::default() }
    }

    /// The path without what may be secret.
    pub(super) fn bare_path(&self) -> &str {
        self.request.path.split('?').next().unwrap_or_default()
    }

    /// Notes that this session is asked for the file.
    pub(super) fn asked_of(&self, session: &UnboundedSender<SessionCommand>) {
        let mut asked = lock(&self.asked);
        if !asked.iter().any(|other| other.same_channel(session)) {
            asked.retain(|other| !other.is_closed());
            asked.push(session.clone());
        }
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        for session in self.asked.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // One that has ended has closed everything.
            let _ended = session.send(SessionCommand::Close(self.id));
        }
    }
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OpenName");
        shown.field("id", &self.id).field("path", &self.bare_path()).finish_non_exhaustive()
    }
}
