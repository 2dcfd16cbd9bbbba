//! The conditions of changes, and changes of two names: a rename, a copy.

use super::{BackendError, EntryMetadata};
use std::fmt;
use std::time::SystemTime;

/// Decides, with the metadata of the present entry, whether a change may continue. It gets none
/// where there is no entry, or only a link.
pub type Precondition =
    Box<dyn Fn(Option<&EntryMetadata>) -> Result<(), BackendError> + Send + Sync>;

/// As [`Precondition`], with the metadata of the source and of the target of a
/// change of both.
pub type ChangePrecondition = Box<
    dyn Fn(Option<&EntryMetadata>, Option<&EntryMetadata>) -> Result<(), BackendError>
        + Send
        + Sync,
>;

/// The options of [`Backend::rename`](super::Backend::rename) and
/// [`Backend::copy`](super::Backend::copy).
pub struct ChangeOptions {
    /// True if the entry at the target may be replaced.
    pub replace: bool,
    /// The time of the last change that a file gets when it is moved, where the backend keeps it.
    pub modified: Option<SystemTime>,
    /// The condition on source and target.
    pub precondition: ChangePrecondition,
}

impl fmt::Debug for ChangeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeOptions").field("replace", &self.replace).finish_non_exhaustive()
    }
}
