//! Bulk jobs: requests for the whole file, shared by all replicas.
//!
//! A request goes to the replica that should complete it first: its outstanding bytes divided by
//! its rate. So each gets a share in proportion to its rate, and one that slows down or hangs gets
//! no further requests.
//!
//! The sender of each byte is recorded. A job that finds corrupt bytes looks up their
//! [senders](ReplicaSet::senders), fetches the bytes again from [one replica
//! only](ReplicaSet::use_only), and excludes the replicas whose bytes differed, by name.

use super::Replicas;
use super::replica::{ActiveReplica, ChecksumQuery};
use futures_core::future::BoxFuture;
use futures_util::future::join_all;
use hither_checksum::{Algorithm, Checksum};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::replica_set::{PieceChecksums, ReplicaSet, SourceReport};
use hither_core::sync::lock;
use hither_load::connections;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

impl ReplicaSet for Replicas {
    fn begin_bulk(&self) {
        let mut state = self.state();
        state.origins.get_or_insert_default();
        let included: Vec<_> = state.replicas.iter().map(Arc::clone).collect();
        drop(state);
        included.iter().for_each(|replica| replica.source().expect_bulk());
    }

    fn bulk_connections(&self, cap: usize) -> usize {
        let each = |replica: &Arc<ActiveReplica>| {
            let source = replica.source();
            connections::for_bulk(&source.link(), cap).min(source.max_connections())
        };
        self.included().iter().map(each).sum::<usize>().clamp(1, cap.max(1))
    }

    fn best_speed(&self) -> Option<f64> {
        let included = self.included();
        let speeds = included.iter().filter_map(|replica| replica.speed());
        speeds.reduce(f64::max).filter(|_| included.len() > 1)
    }

    fn usable(&self) -> BTreeMap<usize, String> {
        self.included().iter().map(|replica| (replica.number, replica.name())).collect()
    }

    fn senders(&self, range: &Range<u64>) -> Vec<usize> {
        let origins = self.state().origins.clone();
        origins.map_or_else(Vec::new, |origins| lock(&origins).of(range))
    }

    fn use_only(&self, replica: Option<usize>) {
        self.state().only = replica;
    }

    fn exclude(&self, replica: usize, why: &str) {
        let known = self.state().replicas.get(replica).map(Arc::clone);
        let Some(known) = known.filter(|known| known.excluded().is_none()) else { return };
        let error = Error::new(ErrorKind::Corrupt, format!("{}: {why}", known.name()));
        self.note(format!("replica excluded: {error}"));
        known.exclude(error);
    }

    fn pieces(&self) -> Option<Arc<PieceChecksums>> {
        self.state().pieces.clone()
    }

    fn expected_checksum(&self) -> Option<Checksum> {
        self.state().checksum.clone()
    }

    fn validators(&self) -> BTreeMap<String, String> {
        let validator = |replica: &Arc<ActiveReplica>| {
            let version = replica.version();
            // A weak tag shows more changes than the date beside it.
            let weak = version.tag().filter(|tag| tag.starts_with("W/"));
            Some((replica.name(), weak.or_else(|| version.validator())?.to_owned()))
        };
        self.included().iter().filter_map(validator).collect()
    }

    fn bind_validators(&self, known: &BTreeMap<String, String>) {
        for replica in self.included() {
            let name = replica.name();
            let version = replica.version();
            // A version that is bound already was compared.
            match known.get(&name) {
                Some(tag) if tag.starts_with("W/") => {
                    version.bind_tag(&name, &replica.site(), tag).ok();
                }
                validator => drop(version.bind(&name, None, validator.map(String::as_str))),
            }
        }
    }

    fn ask_checksums(&self, algorithm: Algorithm) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let ask = async |replica: &Arc<ActiveReplica>| {
                let Some(digest) = replica.digest() else { return };
                self.ask_checksum(replica, digest, algorithm).await;
            };
            let included = self.included();
            join_all(included.iter().map(ask)).await;
        })
    }

    fn check_stated(&self, algorithm: Algorithm) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let mut is_left_out = false;
            for replica in self.included().iter().filter(|replica| replica.report().bytes > 0) {
                let Some(digest) = replica.digest() else { continue };
                let number = replica.number;
                let has_stated = || self.state().stated.iter().any(|(it, _)| *it == number);
                if !has_stated() && digest.has_checksums() {
                    self.ask_checksum(replica, digest, algorithm).await;
                    is_left_out |= !has_stated();
                }
                digest.check_version(&replica.version()).await?;
            }
            Ok(is_left_out)
        })
    }

    fn agreed_checksum(&self) -> Option<Checksum> {
        let (mut stated, trusted) = {
            let state = self.state();
            let is_trusted = |number: usize| {
                state.replicas.get(number).is_some_and(|replica| replica.is_trusted())
            };
            let numbers = state.stated.iter().map(|(number, _)| *number);
            let trusted: Vec<usize> = numbers.filter(|number| is_trusted(*number)).collect();
            (state.stated.clone(), trusted)
        };
        stated.sort_by_key(|(replica, _)| *replica);
        // Replicas that only a response names do not outvote the others.
        let is_voter =
            |(number, _): &&(usize, Checksum)| trusted.is_empty() || trusted.contains(number);
        let votes = |one: &Checksum| {
            stated.iter().filter(is_voter).filter(|(_, other)| other == one).count()
        };
        // `max_by_key` returns the last of equal maxima, so the order is reversed.
        let voters = stated.iter().rev().filter(is_voter);
        let most = voters.max_by_key(|(_, one)| votes(one)).map(|(_, one)| one);
        let agreed = self.expected_checksum().or_else(|| most.cloned())?;
        for (replica, other) in &stated {
            if other.algorithm() == agreed.algorithm() && *other != agreed {
                self.exclude(*replica, &format!("the server states {other}, expected {agreed}"));
            }
        }
        Some(agreed)
    }

    fn first_would_wait(&self) -> bool {
        self.health.is_down(&self.first.site()) || self.first.would_wait()
    }

    fn notices(&self) -> Vec<String> {
        let mut notices = self.state().notices.clone();
        notices.extend(self.assumption());
        notices
    }

    fn reports(&self) -> Vec<SourceReport> {
        self.state().replicas.iter().map(|replica| replica.report()).collect()
    }

    fn server_reports(&self) -> Vec<SourceReport> {
        self.state().replicas.iter().flat_map(|replica| replica.server_reports()).collect()
    }
}

impl Replicas {
    /// Sets the checksums of pieces from a catalogue. Known ones are not changed.
    pub fn expect_pieces(&self, pieces: PieceChecksums) {
        self.state().pieces.get_or_insert_with(|| Arc::new(pieces));
    }

    pub(super) fn is_bulk(&self) -> bool {
        self.state().origins.is_some()
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

    async fn ask_checksum(
        &self,
        replica: &ActiveReplica,
        digest: &dyn ChecksumQuery,
        algorithm: Algorithm,
    ) {
        // A server that is down is not waited for: another one has sent bytes, or will.
        if self.has_several() && self.health.is_down(&replica.site()) {
            return;
        }
        let stated = digest.checksum(algorithm).await.ok().flatten();
        if let Some(stated) = stated.filter(|stated| stated.algorithm() == algorithm) {
            self.state().stated.push((replica.number, stated));
        }
    }

    fn included(&self) -> Vec<Arc<ActiveReplica>> {
        let state = self.state();
        state.replicas.iter().filter(|replica| replica.excluded().is_none()).cloned().collect()
    }
}
