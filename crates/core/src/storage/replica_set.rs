//! A file with several replicas, as copies see it.
//!
//! A [`Storage`](crate::Storage) returns a [`ReplicaSet`] for a file that several servers may have.
//! It is read as any other [`Source`]; a copy also learns from it which replica sent which bytes,
//! and what servers and catalogues state about the file. The crate replicas implements the choice
//! among replicas, failover and hedging.

use crate::{Result, Source};
use futures_core::future::BoxFuture;
use hither_checksum::{Algorithm, Checksum};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A file with several replicas.
pub trait ReplicaSet: Source {
    /// Begins a bulk job, in which all replicas share the requests.
    fn begin_bulk(&self);
    /// The number of useful connections of a bulk job: those that its link justifies, for each
    /// replica.
    fn bulk_connections(&self, cap: usize) -> usize;
    /// The mean rate of a request of the fastest replica, in bytes in a second; none before any
    /// request has ended.
    fn best_speed(&self) -> Option<f64>;
    /// The names of the replicas that are not excluded, by their numbers.
    fn usable(&self) -> BTreeMap<usize, String>;
    /// The numbers of the replicas that sent parts of `range`, ascending.
    fn senders(&self, range: &Range<u64>) -> Vec<usize>;
    /// Sends all requests to the replica of this number, or to all again.
    fn use_only(&self, replica: Option<usize>);
    /// Excludes the replica of this number, with a notice that says `why`.
    fn exclude(&self, replica: usize, why: &str);
    /// The checksums of pieces, if a catalogue states them.
    fn pieces(&self) -> Option<Arc<PieceChecksums>>;
    /// The checksum of the file from a catalogue.
    fn expected_checksum(&self) -> Option<Checksum>;
    /// The validators of the replicas that have responded, by their names.
    fn validators(&self) -> BTreeMap<String, String>;
    /// Binds replicas that have not responded to the validators that an earlier attempt has seen,
    /// by their names: a response with another one is of a changed file.
    fn bind_validators(&self, known: &BTreeMap<String, String>);
    /// Requests the checksum of the file from all servers concurrently. A server without one stays
    /// as it is.
    fn ask_checksums(&self, algorithm: Algorithm) -> BoxFuture<'_, ()>;
    /// Compares the versions that servers have stated with their checksums to those of the bytes
    /// that they sent, once all bytes have arrived. A server that has left the checksum out, and
    /// states those of other files, is asked once more. Returns true if it leaves it out again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Changed`](crate::ErrorKind::Changed) if a file changed meanwhile.
    fn check_stated(&self, algorithm: Algorithm) -> BoxFuture<'_, Result<bool>>;
    /// The checksum of the file: that of the catalogue, else the one that most servers have stated
    /// so far; in a tie, that of the earlier replica. A replica that states another one is
    /// excluded.
    fn agreed_checksum(&self) -> Option<Checksum>;
    /// Returns true if another request to the first replica is likely to wait: its server is down,
    /// silent or busy. One broken connection does not show that.
    fn first_would_wait(&self) -> bool;
    /// Reasons why replicas are excluded, and which are assumed to be the same file, in words for
    /// the user.
    fn notices(&self) -> Vec<String>;
    /// Counters of each replica.
    fn reports(&self) -> Vec<SourceReport>;
    /// Counters of each server.
    fn server_reports(&self) -> Vec<SourceReport>;
}

/// Counters of one replica of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceReport {
    /// Its URL, secrets removed.
    pub name: String,
    /// Bytes that it delivered.
    pub bytes: u64,
    /// Requests that it failed.
    pub failures: u64,
}

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
