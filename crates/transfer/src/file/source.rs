//! The source of a file that is copied: its replicas, its version, and which replica is asked next.
//!
//! All requests read one version. A response of another one fails the copy.
//!
//! Where a file has several replicas and the checksum of the whole is wrong, some bytes are wrong,
//! but it is unknown which. Then the file is completed from the single replica that has sent most
//! of it: only the blocks from other replicas are fetched again ([`FileSource::try_next_replica`]).
//! If the checksum is right then, the blocks that differ were wrong, and their senders are excluded
//! by name ([`FileSource::conclude`]). If not, another replica is tried.

use crate::file::blocks::FileBlocks;
use crate::file::checks::WrongPiece;
use crate::file::item::CopyItem;
use crate::file::version::FileVersion;
use hither_checksum::Checksum;
use hither_core::endpoint::RangeSupport;
use hither_core::sync::lock;
use hither_core::{
    Error, ErrorKind, ReplicaSet, Request, ResponseMeta, Result, Source, VersionBinding,
    validators_differ,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::warn;

/// Round-trip time below which a worker that ends later than the others does not matter.
const MIN_BALANCING_RTT: Duration = Duration::from_millis(2);
/// [`MIN_BALANCING_RTT`] where replicas may have links of very different rates: a slow one may take
/// arbitrarily long.
const REPLICA_BALANCING_RTT: Duration = Duration::from_millis(20);
/// Replicas that a file is completed from, one after the other, after its checksum was wrong. Each
/// may cost its whole size.
const MAX_TRIALS: usize = 3;

/// The source of one file.
#[derive(Debug)]
pub(crate) struct FileSource {
    /// For messages.
    name: String,
    /// The file may not be a page of HTML.
    refuses_pages: bool,
    replicas: Replicas,
    version: FileVersion,
    size: u64,
    /// The validator that requests carry, so that a change of the file is noticed.
    validator: Mutex<Option<String>>,
    /// The version that all requests read.
    binding: VersionBinding,
    trials: Mutex<Option<Trials>>,
}

/// The source of a file, and the same with its replicas where there may be some.
#[derive(Debug)]
pub(crate) struct Replicas {
    source: Arc<dyn Source>,
    all: Option<Arc<dyn ReplicaSet>>,
}

/// Replicas that are still to be tried.
#[derive(Debug)]
struct Trials {
    pending: Vec<usize>,
    /// The senders of the blocks that were fetched again, before that.
    senders: BTreeMap<u64, Vec<usize>>,
}

impl Replicas {
    /// The source of a file that is to be copied.
    pub(crate) fn of(item: &CopyItem) -> Result<Self> {
        let all = item.storage.replicas(&item.path)?;
        let source = match &all {
            Some(all) => {
                all.begin_bulk();
                Arc::clone(all) as Arc<dyn Source>
            }
            None => item.storage.source(&item.path)?,
        };
        Ok(Self { source, all })
    }

    pub(crate) fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// The replicas, where there may be several.
    pub(crate) fn all(&self) -> Option<&Arc<dyn ReplicaSet>> {
        self.all.as_ref()
    }
}

impl FileSource {
    pub(crate) fn new(
        item: &CopyItem,
        replicas: Replicas,
        version: FileVersion,
        size: u64,
    ) -> Self {
        Self {
            name: item.name.clone(),
            refuses_pages: item.refuses_pages(),
            replicas,
            validator: Mutex::new(version.validator.clone()),
            version,
            size,
            binding: VersionBinding::default(),
            trials: Mutex::default(),
        }
    }

    pub(crate) fn source(&self) -> &Arc<dyn Source> {
        self.replicas.source()
    }

    /// The replicas, where there may be several.
    pub(crate) fn replicas(&self) -> Option<&Arc<dyn ReplicaSet>> {
        self.replicas.all()
    }

    /// The version as it was when the copy began.
    pub(crate) fn version(&self) -> &FileVersion {
        &self.version
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The time, by the clock of the source.
    pub(crate) fn now(&self) -> Duration {
        self.source().clock().now()
    }

    /// Support of ranges by the server, learned so far.
    pub(crate) fn ranges(&self) -> RangeSupport {
        self.source().endpoint().ranges
    }

    /// The request for a range.
    pub(crate) fn request(&self, range: Range<u64>) -> Request {
        Request {
            ranges: vec![range],
            validator: lock(&self.validator).clone(),
            size: Some(self.size),
            version: self.binding.clone(),
            refuses_pages: self.refuses_pages,
            ..Request::default()
        }
    }

    /// Compares the version in a response with the known version.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Changed`] if it is of another version.
    pub(crate) fn check_response(&self, response: &ResponseMeta) -> Result<()> {
        let changed = |was: String, is: String| {
            let message =
                format!("{} changed while it was copied (it was {was}, now it is {is})", self.name);
            Err(Error::new(ErrorKind::Changed, message))
        };
        if let Some(size) = response.size.filter(|size| *size != self.size) {
            return changed(format!("{} bytes", self.size), format!("{size} bytes"));
        }
        let Some(seen) = &response.validator else { return Ok(()) };
        let mut validator = lock(&self.validator);
        match &*validator {
            Some(known) if validators_differ(known, seen) => changed(known.clone(), seen.clone()),
            // A strong validator is kept rather than a weak one. The source has compared them.
            Some(known) if !known.starts_with("W/") || !seen.starts_with('"') => Ok(()),
            _ => {
                *validator = Some(seen.clone());
                Ok(())
            }
        }
    }

    /// The version as it is known now, including the checksum that servers `stated`.
    pub(crate) fn version_now(&self, stated: Option<Checksum>) -> FileVersion {
        let Some(replicas) = self.replicas() else { return self.version.clone() };
        let checksum = replicas.expected_checksum().or(stated);
        FileVersion {
            checksum: checksum.map(|sum| sum.to_string()).or_else(|| self.version.checksum.clone()),
            replicas: replicas.validators(),
            ..self.version.clone()
        }
    }

    /// The latency by which pieces are balanced; none if balancing would gain nothing.
    /// `has_more_workers` is true where each connection seems to be limited.
    pub(crate) fn balancing_rtt(&self, has_more_workers: bool) -> Option<Duration> {
        let latency = self.source().link().latency();
        match self.replicas() {
            Some(replicas) if replicas.usable().len() > 1 => {
                Some(latency.unwrap_or_default().max(REPLICA_BALANCING_RTT))
            }
            _ if has_more_workers => Some(latency.unwrap_or_default().max(MIN_BALANCING_RTT)),
            _ => latency.filter(|latency| *latency >= MIN_BALANCING_RTT),
        }
    }

    /// The rate of the fastest replica, in bytes per second, if there are several.
    pub(crate) fn best_speed(&self) -> Option<f64> {
        self.replicas()?.best_speed()
    }

    /// Excludes the sender of a wrong piece, if there is another replica. Returns the description
    /// of the error.
    pub(crate) fn wrong_piece(&self, wrong: &WrongPiece) -> Error {
        let WrongPiece { range: piece, seen, expected } = wrong;
        let what = format!(
            "bytes {} to {} have {seen}, the catalogue states {expected}",
            piece.start, piece.end
        );
        let mut from = self.name.clone();
        if let Some(replicas) = self.replicas() {
            let usable = replicas.usable();
            let senders = replicas.senders(piece);
            let names: Vec<_> = senders.iter().filter_map(|it| usable.get(it).cloned()).collect();
            if let [sender] = senders.as_slice()
                && usable.keys().any(|other| other != sender)
            {
                replicas.exclude(*sender, &what);
            }
            if !names.is_empty() {
                from = names.join(" and ");
            }
        }
        Error::new(ErrorKind::Corrupt, format!("{from}: {what}"))
    }

    /// Returns true if the file was completed from single replicas.
    pub(crate) fn has_tried_replicas(&self) -> bool {
        lock(&self.trials).is_some()
    }

    /// Begins to complete the file from a single replica, after its checksum was wrong. Returns the
    /// bytes that are fetched again; none if there is nothing left to try.
    pub(crate) fn try_next_replica(&self, blocks: &FileBlocks) -> Option<u64> {
        let replicas = self.replicas()?;
        let usable = replicas.usable();
        let mut trials = lock(&self.trials);
        if trials.is_none() && usable.len() < 2 {
            return None;
        }
        let trials = trials.get_or_insert_with(|| {
            let mut pending: Vec<usize> = usable.keys().copied().collect();
            let reports = replicas.reports();
            let brought = |replica: &usize| reports.get(*replica).map_or(0, |it| it.bytes);
            pending.sort_by_key(|replica| std::cmp::Reverse(brought(replica)));
            pending.truncate(MAX_TRIALS);
            pending.reverse();
            Trials { pending, senders: BTreeMap::new() }
        });
        while let Some(only) = trials.pending.pop() {
            let is_from_others = |block: &Range<u64>| {
                let senders = replicas.senders(block);
                let is_from_others = senders != [only];
                if is_from_others {
                    trials.senders.insert(block.start, senders);
                }
                is_from_others
            };
            let prepare = || replicas.use_only(Some(only));
            let bytes = blocks.fetch_blocks_again(is_from_others, prepare);
            // Otherwise all of it came from this one.
            if bytes > 0 {
                let replica = usable.get(&only);
                warn!(file = self.name, replica, bytes, "trying a replica");
                return Some(bytes);
            }
        }
        None
    }

    /// Excludes the replicas whose blocks were `damaged`, now that the checksum is right.
    pub(crate) fn conclude(&self, damaged: &[u64]) {
        let Some(replicas) = self.replicas() else { return };
        replicas.use_only(None);
        let Some(trials) = lock(&self.trials).take() else { return };
        let mut wrong: BTreeMap<usize, usize> = BTreeMap::new();
        for start in damaged {
            if let Some([sender]) = trials.senders.get(start).map(Vec::as_slice) {
                *wrong.entry(*sender).or_default() += 1;
            }
        }
        for (sender, blocks) in wrong {
            replicas.exclude(sender, &format!("sent wrong bytes, in {blocks} blocks"));
        }
    }
}

#[cfg(test)]
mod tests;
