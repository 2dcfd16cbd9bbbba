//! A file that is open in several sessions.

use crate::xrootd::command_channel::CommandSender;
use crate::xrootd::job::SessionCommand;
use hither_core::sync::lock;
use hither_xrd::wire::OpenRequest;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The last file number.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A file that may be open in several sessions. When it is dropped, it is closed in all of them.
pub(super) struct SharedFile {
    /// Identifies it among all files of this process.
    pub(super) id: u64,
    /// The request that opens it. The opaque information in its path may contain secrets.
    pub(super) request: OpenRequest,
    /// The sessions in which it was opened.
    sessions: Mutex<Vec<CommandSender>>,
}

impl SharedFile {
    /// The file at `path`, which may end with `?` and opaque information.
    pub(super) fn for_reading(path: String) -> Self {
        Self::new(OpenRequest::for_reading(path))
    }

    /// A file that is opened by this request.
    pub(super) fn new(request: OpenRequest) -> Self {
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Self { id, request, sessions: Mutex::default() }
    }

    /// The path without parts that may be secret.
    pub(super) fn bare_path(&self) -> &str {
        self.request.path.split('?').next().unwrap_or_default()
    }

    /// Records that the file is opened in this session.
    pub(super) fn add_session(&self, session: &CommandSender) {
        let mut sessions = lock(&self.sessions);
        if !sessions.iter().any(|other| other.is_same(session)) {
            sessions.retain(|other| !other.is_closed());
            sessions.push(session.clone());
        }
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        for session in self.sessions.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // A session that has ended has closed its files.
            session.send(SessionCommand::Close(self.id));
        }
    }
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SharedFile");
        shown.field("id", &self.id).field("path", &self.bare_path()).finish_non_exhaustive()
    }
}
