//! Which replicas may send bytes of one file.
//!
//! Replicas that the user names count as the same file if their sizes are equal. Those that only a
//! response names may be of an older version, since servers name them by static fields. Their bytes
//! are mixed with those of others only if a date or a strong entity tag shows that both are of one
//! version, or if a checksum decides about all bytes at the end.

use super::ActiveReplica;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::source::VersionBinding;
use hither_core::sync::lock;
use std::sync::{Arc, Mutex, OnceLock};

/// The replicas that have sent bytes of the version that is read.
pub(crate) type Senders = Arc<Mutex<Vec<Arc<ActiveReplica>>>>;

/// The decision about the bytes of one request.
#[derive(Debug)]
pub(crate) struct Admission {
    replica: Arc<ActiveReplica>,
    first: Arc<ActiveReplica>,
    /// The version that the reader has seen at the first replica.
    read: VersionBinding,
    /// None where a checksum decides at the end.
    senders: Option<Senders>,
    refusal: OnceLock<Error>,
}

impl Admission {
    /// The decision about a request to `replica`, whose reader has seen `validator` at the `first`
    /// one.
    pub(crate) fn new(
        replica: &Arc<ActiveReplica>,
        first: &Arc<ActiveReplica>,
        validator: Option<&str>,
        senders: Option<Senders>,
    ) -> Self {
        let read = VersionBinding::default();
        // Nothing is bound yet.
        let _ = read.bind("", None, validator);
        Self {
            replica: Arc::clone(replica),
            first: Arc::clone(first),
            read,
            senders,
            refusal: OnceLock::new(),
        }
    }

    /// Returns true if the bytes of a response whose head was read may be delivered.
    pub(crate) fn is_given(&self) -> bool {
        let Some(senders) = &self.senders else { return true };
        let Self { replica, first, read, refusal, .. } = self;
        if refusal.get().is_some() {
            return false;
        }
        let mut senders = lock(senders);
        if senders.iter().any(|sender| Arc::ptr_eq(sender, replica)) {
            return true;
        }
        let agrees = |version: &VersionBinding| replica.version().agrees_with(version);
        let is_same = |sender: &Arc<ActiveReplica>| {
            replica.is_trusted() && sender.is_trusted() || agrees(&sender.version())
        };
        // The first replica may have responded without sending bytes yet.
        let differs = |version: &VersionBinding| {
            let is_known = version.size().is_some() || version.validator().is_some();
            !replica.is_trusted() && is_known && !agrees(version)
        };
        let now = first.version();
        // The version that was read has its date only here.
        let is_read_now = now.validator() == read.validator();
        let is_other = differs(&now) || !is_read_now && differs(read);
        let other = senders.iter().find(|sender| !is_same(sender));
        let other = other.or_else(|| is_other.then_some(first));
        let Some(other) = other else {
            senders.push(Arc::clone(replica));
            return true;
        };
        let what = format!(
            "{}: neither its date nor its entity tag shows that it is the same file as {}, and only \
             a response names one of them as a replica",
            replica.name(),
            other.name(),
        );
        refusal.get_or_init(|| Error::new(ErrorKind::Changed, what));
        false
    }

    /// Fails if bytes were not delivered.
    pub(crate) fn outcome(&self) -> Result<()> {
        self.refusal.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}
