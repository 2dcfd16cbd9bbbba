//! The store: the kinds of values, and their times to live.

use crate::connection_slots::{self, ConnectionSlot};
use crate::endpoint::{EndpointRecord, merged};
use crate::learned::LearnedTree;
use crate::metadata::{FileMetadata, MetadataKey};
use crate::private_dir::PrivateDir;
use crate::record::{self, Record, RecordKind};
use hither_core::layout::LearnedSet;
use hither_core::{Endpoint, Result, SlotClaim};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Limits of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// Maximum bytes on disk; default 512 MiB. The least recently used values are evicted beyond
    /// it. A larger value is not kept, so 0 keeps nothing. Each process that writes at the same
    /// time may exceed it by a sixteenth.
    pub max_bytes: u64,
    /// Time for which a server's record is used after its last confirmation; default 7 days. With 0
    /// it is never used.
    pub endpoint_ttl: Duration,
    /// Time for which the metadata of a file is used after it was read; default 30 days. It limits
    /// clutter and does not detect changed files: the validator, sent with every request for data,
    /// does.
    pub metadata_ttl: Duration,
    /// Time for which a learned set is used after its last use; default 90 days.
    pub learned_ttl: Duration,
    /// Time for which a tuned setting is used after it was settled on; default 7 days.
    pub tuning_ttl: Duration,
}

impl Default for StoreConfig {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self {
            max_bytes: 512 * 1024 * 1024,
            endpoint_ttl: 7 * day,
            metadata_ttl: 30 * day,
            learned_ttl: 90 * day,
            tuning_ttl: 7 * day,
        }
    }
}

/// The largest clock error that is accepted: a value dated further into the future counts as
/// expired.
const CLOCK_SLACK: Duration = Duration::from_secs(3600);

/// The largest tuned setting that is plausible.
const MAX_SETTING: usize = 1 << 16;

/// A directory of remembered values, shared by processes. Cheap to open; reads and writes are
/// blocking file I/O.
///
/// Callers pass the time. Only [`Store::open`] fails: a value that cannot be read counts as
/// unknown, and a value that cannot be written is not stored.
#[derive(Debug)]
pub struct Store {
    folder: PrivateDir,
    config: StoreConfig,
}

impl Store {
    /// Opens the store in `directory`; creates it, readable by its owner only, if it does not
    /// exist.
    ///
    /// # Errors
    /// [`Local`](hither_core::ErrorKind::Local): the directory cannot be created or opened, belongs
    /// to another user, is writable by others, or is a symbolic link. A job then continues without
    /// a store.
    pub fn open(directory: &Path, config: StoreConfig) -> Result<Self> {
        const PREFIXES: &[&str] = &[
            RecordKind::Endpoint.prefix(),
            RecordKind::Metadata.prefix(),
            RecordKind::Learned.prefix(),
            RecordKind::Tuning.prefix(),
            connection_slots::PREFIX,
        ];
        Ok(Self { folder: PrivateDir::open(directory, PREFIXES, config.max_bytes)?, config })
    }

    /// Returns the record of the server `key` (scheme, host and port), with every figure clamped to
    /// its possible range.
    #[must_use]
    pub fn endpoint(&self, key: &str, now: SystemTime) -> Option<Endpoint> {
        self.endpoint_record(key, now).map(|record| record.endpoint.clamped())
    }

    /// Stores the record of the server `key`, merged with that of other processes: the smallest
    /// round-trip time and the highest bandwidth are kept, otherwise the last value counts.
    pub fn put_endpoint(&self, key: &str, endpoint: &Endpoint, now: SystemTime) {
        let since = micros(now);
        let record = match self.endpoint_record(key, now) {
            Some(old) if is_fresh(old.since, self.config.endpoint_ttl, now) => {
                EndpointRecord { since: old.since, endpoint: merged(&old.endpoint, endpoint) }
            }
            _ => EndpointRecord { since, endpoint: endpoint.clone() },
        };
        if let Ok(record) = serde_json::to_vec(&record) {
            self.write(RecordKind::Endpoint, key.as_bytes(), &record, &[], now);
        }
    }

    /// Returns the metadata of a file; its pieces are slices of one buffer.
    #[must_use]
    pub fn metadata(&self, key: &MetadataKey, now: SystemTime) -> Option<FileMetadata> {
        let ttl = self.config.metadata_ttl;
        let entry = self.read(RecordKind::Metadata, key.text().as_bytes(), ttl, now)?;
        FileMetadata::of(&entry, UNIX_EPOCH.checked_add(Duration::from_micros(entry.learned))?)
    }

    /// Stores the metadata of a file, in place of the old. Pieces outside of the file, and
    /// validators that cannot be sent, are not stored.
    pub fn put_metadata(&self, key: &MetadataKey, metadata: &FileMetadata, now: SystemTime) {
        let Some(record) = metadata.record() else {
            return;
        };
        let pieces: Vec<&[u8]> = metadata.pieces.iter().map(|(_, bytes)| bytes.as_ref()).collect();
        self.write(RecordKind::Metadata, key.text().as_bytes(), &record, &pieces, now);
    }

    /// Removes the metadata of a file that has changed.
    pub fn remove_metadata(&self, key: &MetadataKey) {
        self.folder.remove(&RecordKind::Metadata.file_name(key.text().as_bytes()));
    }

    /// Returns the learned sets of trees of this schema.
    #[must_use]
    pub fn learned(&self, schema: &str, now: SystemTime) -> Option<LearnedTree> {
        let entry =
            self.read(RecordKind::Learned, schema.as_bytes(), self.config.learned_ttl, now)?;
        LearnedTree::of(&entry, schema)
    }

    /// Stores a set of the tree `tree` of this schema, in addition to the others.
    pub fn put_learned(&self, schema: &str, tree: &str, set: LearnedSet, now: SystemTime) {
        let known = self.learned(schema, now);
        let mut known = known.unwrap_or_else(|| LearnedTree {
            schema: schema.to_owned(),
            tree: tree.to_owned(),
            sets: Vec::new(),
        });
        known.put(set);
        self.write_learned(&known, now);
    }

    /// Adds the sets of `tree` to those of its schema, as if they had been learned here. Returns
    /// false, and adds nothing, if they are not plausible.
    pub fn import_learned(&self, tree: &LearnedTree, now: SystemTime) -> bool {
        if !tree.is_plausible() {
            return false;
        }
        // The newest is put last, and so comes first again.
        for set in tree.sets.iter().rev() {
            self.put_learned(&tree.schema, &tree.tree, set.clone(), now);
        }
        true
    }

    fn write_learned(&self, tree: &LearnedTree, now: SystemTime) {
        if let (true, Ok(record)) = (tree.is_plausible(), serde_json::to_vec(tree)) {
            self.write(RecordKind::Learned, tree.schema.as_bytes(), &record, &[], now);
        }
    }

    /// Returns the setting that copies under `key` (knob, servers, size class) settled on.
    #[must_use]
    pub fn tuning(&self, key: &str, now: SystemTime) -> Option<usize> {
        let ttl = self.config.tuning_ttl;
        let entry = self.read(RecordKind::Tuning, key.as_bytes(), ttl, now)?;
        let setting = serde_json::from_slice(&entry.record).ok()?;
        (1..=MAX_SETTING).contains(&setting).then_some(setting)
    }

    /// Stores the setting that a copy under `key` settled on, in place of the old.
    pub fn put_tuning(&self, key: &str, setting: usize, now: SystemTime) {
        if let (1..=MAX_SETTING, Ok(record)) = (setting, serde_json::to_vec(&setting)) {
            self.write(RecordKind::Tuning, key.as_bytes(), &record, &[], now);
        }
    }

    /// Claims one more connection to the server `key`, of a maximum for all processes that share
    /// this store.
    #[must_use]
    pub fn claim_slot(&self, key: &str, most: usize) -> SlotClaim {
        for nth in 0..most {
            let Some(file) = self.folder.lockable(&connection_slots::file_name(key, nth)) else {
                // Slots cannot be counted in this store: the limit is not enforced.
                return SlotClaim::Granted(Box::new(()));
            };
            if let Some(held) = ConnectionSlot::take(file) {
                return SlotClaim::Granted(Box::new(held));
            }
        }
        SlotClaim::Full
    }

    /// Removes all values.
    pub fn clear(&self) {
        self.folder.clear();
    }

    /// Bytes on disk.
    #[must_use]
    pub fn usage(&self) -> u64 {
        self.folder.usage()
    }

    fn endpoint_record(&self, key: &str, now: SystemTime) -> Option<EndpointRecord> {
        let entry =
            self.read(RecordKind::Endpoint, key.as_bytes(), self.config.endpoint_ttl, now)?;
        serde_json::from_slice(&entry.record).ok()
    }

    fn read(&self, kind: RecordKind, key: &[u8], ttl: Duration, now: SystemTime) -> Option<Record> {
        let file = self.folder.read(&kind.file_name(key), now)?;
        record::decode(&file, kind, key).filter(|entry| is_fresh(entry.learned, ttl, now))
    }

    fn write(
        &self,
        kind: RecordKind,
        key: &[u8],
        record: &[u8],
        payload: &[&[u8]],
        now: SystemTime,
    ) {
        if let Some(file) = record::encode(kind, micros(now), key, record, payload) {
            self.folder.write(&kind.file_name(key), &file, now);
        }
    }
}

/// Microseconds since 1970.
fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Returns true if a value learned at `learned` microseconds since 1970 may still be used.
fn is_fresh(learned: u64, ttl: Duration, now: SystemTime) -> bool {
    let learned = Duration::from_micros(learned);
    let now = Duration::from_micros(micros(now));
    match now.checked_sub(learned) {
        Some(age) => age < ttl,
        None => learned.saturating_sub(now) <= CLOCK_SLACK && !ttl.is_zero(),
    }
}
