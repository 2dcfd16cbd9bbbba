//! Options of a copy.

use crate::control::CopyControl;
use crate::copy::bandwidth_limiter::BandwidthLimiter;
use crate::filter::Filter;
use crate::server_actions::{Stager, ThirdPartyMover};
use hither_checksum::{Algorithm, Checksum};
use hither_core::RetryPolicy;
use hither_core::storage::DirEntry;
use hither_tune::TuningMemory;
use std::path::PathBuf;
use std::sync::Arc;

/// Treatment of targets that exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OverwritePolicy {
    /// The target is replaced, in one step, when the new file is whole.
    #[default]
    Replace,
    /// The target is kept, and the source is skipped.
    Keep,
    /// The target is kept if it has the size of the source and was not changed before the source;
    /// else it is replaced. A source whose time of last change is unknown is always copied.
    Update,
    /// The target is kept, and the copy of the source fails
    /// ([`hither_core::ErrorKind::AlreadyExists`]).
    Refuse,
}

impl OverwritePolicy {
    /// Returns true if an existing target may be replaced once the file is complete.
    pub(crate) fn replaces(self) -> bool {
        matches!(self, Self::Replace | Self::Update)
    }
}

/// Which checksum of each whole file is computed and compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Verify {
    /// Adler-32, compared with the server's if it states one. For files smaller than a block it is
    /// not requested, because the request would cost as much as the file.
    #[default]
    Automatic,
    /// No checksum.
    Nothing,
    /// This algorithm, compared with the server's checksum if it states one.
    Algorithm(Algorithm),
    /// The expected checksum. For a single file.
    Value(Checksum),
}

impl Verify {
    /// The algorithm to compute.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        match self {
            Self::Automatic => Some(Algorithm::Adler32),
            Self::Nothing => None,
            Self::Algorithm(algorithm) => Some(*algorithm),
            Self::Value(checksum) => Some(checksum.algorithm()),
        }
    }

    /// Returns true if the user requested a checksum.
    pub(crate) fn is_explicit(&self) -> bool {
        matches!(self, Self::Algorithm(_) | Self::Value(_))
    }
}

/// Options of a copy.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Copies directories with their contents. Not by default.
    pub recursive: bool,
    /// Copies within this machine keep symbolic links as links, the permissions of files and
    /// directories whatever the mask, and the times of directories; copies from servers keep those
    /// that the servers state. Not by default.
    pub archive: bool,
    /// Which files of directories are copied; all by default.
    pub filter: Arc<Filter>,
    /// Treatment of targets that exist; replaced by default.
    pub existing: OverwritePolicy,
    /// The only version of a target on a server that may be replaced, with
    /// [`OverwritePolicy::Replace`], by the copy of a single file; any by default.
    pub expected: Option<DirEntry>,
    /// Verification of checksums.
    pub verify: Verify,
    /// The block size, in bytes: the most that each worker may have to fetch again after an
    /// interruption. 4 MiB by default: 64 workers on a path of 1 Gbit/s need two seconds for a
    /// block each, so that the round trip between two blocks is small in comparison. For a server
    /// with a part size of its own, that size is used.
    pub block_bytes: u64,
    /// Most bytes that have arrived and are not written yet. 256 MiB by default: a block for each
    /// of 64 workers.
    pub budget_bytes: u64,
    /// The largest number of workers, and so of connections and large files in use at the same
    /// time. 64 by default. The number of small files in flight is limited by the servers.
    pub max_workers: usize,
    /// Most files that are copied at the same time; as many large ones as workers by default.
    pub transfers: Option<usize>,
    /// Attempts for each file that fails for a transient reason: an unavailable server, a timeout,
    /// damaged bytes. One by default, besides the attempts for single requests.
    pub attempts: u32,
    /// Retries of single requests.
    pub retry: RetryPolicy,
    /// Limit of bandwidth, over all connections, and over all copies that have it. None by default.
    pub bandwidth: Option<Arc<BandwidthLimiter>>,
    /// A handle that changes limits while the copy runs.
    pub control: Arc<CopyControl>,
    /// Has the servers move files between them, instead of through this machine. None by default.
    pub third_party: Option<Arc<dyn ThirdPartyMover>>,
    /// Stages the files from tape to disk first. None by default.
    pub stager: Option<Arc<dyn Stager>>,
    /// Memory of tuned settings, and the state of the path. None by default: every copy then starts
    /// from the rules for the link, and does not detect queues on the path.
    pub tuning: Option<Arc<dyn TuningMemory>>,
    /// Folder for the journal, without which an interrupted copy begins again. None by default: the
    /// command gives one.
    pub journal: Option<PathBuf>,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            recursive: false,
            archive: false,
            filter: Arc::default(),
            existing: OverwritePolicy::default(),
            expected: None,
            verify: Verify::default(),
            block_bytes: 4 << 20,
            budget_bytes: 256 << 20,
            max_workers: hither_load::connections::MAX_INTERACTIVE,
            transfers: None,
            attempts: 1,
            retry: RetryPolicy::default(),
            bandwidth: None,
            control: Arc::default(),
            third_party: None,
            stager: None,
            tuning: None,
            journal: None,
        }
    }
}
