//! Bulk jobs: the whole file is wanted, and all replicas share its requests.
//!
//! A request goes to the replica that should be done with it first: the bytes that it has been
//! asked for and not brought yet, divided by the rate at which it brings them. So each gets a share
//! in proportion to its rate, and one that slows down or hangs gets no more.
//!
//! The sender of each byte is recorded. A job that finds wrong bytes asks for the
//! [senders](Replicas::senders), fetches the bytes again from [one replica
//! only](Replicas::use_only), and excludes those by name whose bytes differed.

use super::Replicas;
use super::replica::ActiveReplica;
use crate::error::{Error, ErrorKind};
use crate::sync::lock;
use crate::tune::connections;
use futures_util::future::join_all;
use hither_checksum::{Algorithm, Checksum};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The checksums of the parts of a file, from a catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceChecksums {
    /// Bytes of each piece but the last one. Invariant: not 0.
    pub piece_bytes: u64,
    /// The checksum of each piece, all of one algorithm.
    pub checksums: Vec<Checksum>,
}

impl PieceChecksums {
    /// Returns true if there is a checksum for each piece of a file of `size` bytes.
    #[must_use]
    pub fn covers(&self, size: u64) -> bool {
        self.piece_bytes > 0 && size.div_ceil(self.piece_bytes) == self.checksums.len() as u64
    }

    /// The pieces that begin in `range`, and their checksums.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, &Checksum)> {
        let bytes = self.piece_bytes.max(1);
        let first = range.start.div_ceil(bytes);
        let skipped = usize::try_from(first).unwrap_or(usize::MAX);
        let pieces = self.checksums.iter().skip(skipped).zip(first..);
        pieces.map_while(move |(checksum, number)| {
            let start = number.checked_mul(bytes).filter(|start| *start < range.end)?;
            Some((start..start.saturating_add(bytes).min(range.end), checksum))
        })
    }
}

impl Replicas {
    /// Sets the checksums of pieces from a catalogue. Known ones are not changed.
    pub fn expect_pieces(&self, pieces: PieceChecksums) {
        self.state().pieces.get_or_insert_with(|| Arc::new(pieces));
    }

    /// The checksums of pieces, if a catalogue states them.
    #[must_use]
    pub fn pieces(&self) -> Option<Arc<PieceChecksums>> {
        self.state().pieces.clone()
    }

    /// Begins a bulk job: from now on all replicas share the requests.
    pub fn begin_bulk(&self) {
        let mut state = self.state();
        state.origins.get_or_insert_default();
        let included: Vec<_> = state.replicas.iter().map(Arc::clone).collect();
        drop(state);
        included.iter().for_each(|replica| replica.source().expect_bulk());
    }

    pub(super) fn is_bulk(&self) -> bool {
        self.state().origins.is_some()
    }

    /// The connections that help a bulk job: those that its link is worth, for each replica.
    #[must_use]
    pub fn bulk_connections(&self, cap: usize) -> usize {
        let each = |replica: &Arc<ActiveReplica>| {
            let source = replica.source();
            connections::for_bulk(&source.link(), cap).min(source.max_connections())
        };
        self.included().iter().map(each).sum::<usize>().clamp(1, cap.max(1))
    }

    /// Opens connections to all replicas, in equal shares.
    pub(super) fn preconnect_all(&self, connections: usize) {
        let included = self.included();
        let share = connections.div_ceil(included.len().max(1));
        for replica in included {
            let source = replica.source();
            source.preconnect(share.min(source.max_connections()));
        }
    }

    /// The numbers of the replicas that sent parts of `range`, ascending.
    #[must_use]
    pub fn senders(&self, range: &Range<u64>) -> Vec<usize> {
        let origins = self.state().origins.clone();
        origins.map_or_else(Vec::new, |origins| lock(&origins).of(range))
    }

    /// Sends all requests to the replica of this number, or to all again.
    pub fn use_only(&self, replica: Option<usize>) {
        self.state().only = replica;
    }

    /// Excludes the replica of this number, with a notice that says `why`.
    pub fn exclude(&self, replica: usize, why: &str) {
        let known = self.state().replicas.get(replica).map(Arc::clone);
        let Some(known) = known.filter(|known| known.excluded().is_none()) else { return };
        let error = Error::new(ErrorKind::Corrupt, format!("{}: {why}", known.name()));
        self.note(format!("replica excluded: {error}"));
        known.exclude(error);
    }

    /// The mean rate of a request of the fastest replica, in bytes in a second; none before any
    /// request has ended.
    #[must_use]
    pub fn best_speed(&self) -> Option<f64> {
        let included = self.included();
        let speeds = included.iter().filter_map(|replica| replica.speed());
        speeds.reduce(f64::max).filter(|_| included.len() > 1)
    }

    /// The names of the replicas that are not excluded, by their numbers.
    #[must_use]
    pub fn usable(&self) -> BTreeMap<usize, String> {
        self.included().iter().map(|replica| (replica.number, replica.name())).collect()
    }

    /// The checksum of the file from a catalogue.
    #[must_use]
    pub fn expected_checksum(&self) -> Option<Checksum> {
        self.state().checksum.clone()
    }

    /// The validators of the replicas that have responded, by their names.
    #[must_use]
    pub fn validators(&self) -> BTreeMap<String, String> {
        let validator = |replica: &Arc<ActiveReplica>| {
            Some((replica.name(), replica.version().validator()?.to_owned()))
        };
        self.included().iter().filter_map(validator).collect()
    }

    /// Asks all servers for the checksum of their file, at the same time. A server that has none is
    /// left alone.
    pub async fn ask_checksums(&self, algorithm: Algorithm) {
        let ask = async |replica: &Arc<ActiveReplica>| {
            let Some(digest) = replica.digest() else { return };
            let stated = digest.checksum(algorithm).await.ok().flatten();
            if let Some(stated) = stated.filter(|stated| stated.algorithm() == algorithm) {
                self.state().stated.push((replica.number, stated));
            }
        };
        let included = self.included();
        join_all(included.iter().map(ask)).await;
    }

    /// The checksum of the file: that of the catalogue, else the one that most servers have stated
    /// so far; of two with as many, that of the replica before the other. A replica that states
    /// another one is excluded.
    #[must_use]
    pub fn agreed_checksum(&self) -> Option<Checksum> {
        let mut stated = self.state().stated.clone();
        stated.sort_by_key(|(replica, _)| *replica);
        let votes = |one: &Checksum| stated.iter().filter(|(_, other)| other == one).count();
        // Of several with as many votes, max_by_key returns the last.
        let most = stated.iter().rev().max_by_key(|(_, one)| votes(one)).map(|(_, one)| one);
        let agreed = self.expected_checksum().or_else(|| most.cloned())?;
        for (replica, other) in &stated {
            if other.algorithm() == agreed.algorithm() && *other != agreed {
                self.exclude(*replica, &format!("the server states {other}, expected {agreed}"));
            }
        }
        Some(agreed)
    }

    fn included(&self) -> Vec<Arc<ActiveReplica>> {
        let state = self.state();
        state.replicas.iter().filter(|replica| replica.excluded().is_none()).cloned().collect()
    }
}
