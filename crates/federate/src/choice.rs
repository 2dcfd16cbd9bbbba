//! Choice of the endpoint to which a client is redirected.
//!
//! The holders of a file are ranked by, in this order:
//!
//! 1. health ([`hither_replicas::Health`]): those that count as down come last, and are not
//!    dropped, because all may be down;
//! 2. the number of times that the client was redirected there within seconds
//!    ([`RecentReferrals`]): a client that returns was not served;
//! 3. distance, by the sites of the client and the endpoint ([`crate::Sites`]);
//! 4. speed, in two classes: an endpoint whose responses take much longer than those of the fastest
//!    one is overloaded or failing;
//! 5. load: the clients that were redirected there recently, divided by its weight ([`LoadMeter`]).
//!
//! So equally near endpoints share the clients in proportion to their weights.
//!
//! For new names endpoints are not ranked: one endpoint is responsible for all new names of a
//! directory ([`decider`]).

use crate::merge::EndpointId;
use hither_checksum::{Algorithm, Hasher};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

/// An endpoint is slow if its responses take this many times as long as those of the fastest one,
/// and this much longer.
const SLOW_FACTOR: u32 = 4;
const SLOW_BY: Duration = Duration::from_millis(50);
/// Time after which a client that was redirected to an endpoint counts half.
const LOAD_HALF_LIFE: Duration = Duration::from_secs(10);
/// Maximum number of referrals of one client to one path that are remembered.
const MAX_RETURNS: usize = 16;
/// Maximum number of all referrals that are remembered; older ones are forgotten.
const MAX_REFERRALS: usize = 65_536;

/// A holder of a file, with the properties that the choice depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The number of times that the client was redirected there within seconds.
    pub returns: u32,
    /// True if it counts as down.
    pub is_down: bool,
    /// Its distance from the client.
    pub distance: u16,
    /// The time that its responses take; zero if it has not been measured.
    pub answer_time: Duration,
    /// Its load divided by its weight.
    pub load: f64,
}

/// Sorts candidates, the best first. Equal ones stay in their order.
pub fn rank(candidates: &mut [Candidate]) {
    let measured = candidates.iter().filter(|it| !it.is_down && !it.answer_time.is_zero());
    let fastest = measured.map(|it| it.answer_time).min().unwrap_or_default();
    let limit = (fastest * SLOW_FACTOR).max(fastest + SLOW_BY);
    candidates.sort_by(|a, b| {
        let key = |it: &Candidate| (it.is_down, it.returns, it.distance, it.answer_time > limit);
        key(a).cmp(&key(b)).then(a.load.total_cmp(&b.load))
    });
}

/// The endpoint that is responsible for new names in a directory. Of all candidates, each with its
/// name and weight, it is always the same one, for every client and every federation with this
/// configuration.
///
/// Weighted rendezvous hashing: candidates get directories in proportion to their weights, and one
/// that is added or removed changes the endpoint of its own directories only.
pub(crate) fn decider<'a>(
    directory: &str,
    candidates: impl Iterator<Item = (EndpointId, &'a str, f64)>,
) -> Option<EndpointId> {
    let scored = candidates.map(|(id, name, weight)| {
        let sum = Hasher::of(Algorithm::Sha256, format!("{name}\0{directory}").as_bytes());
        let first = sum.value().first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        // Between 0 and 1, without both ends.
        let share = (f64::from(first) + 0.5) / (f64::from(u32::MAX) + 1.0);
        (id, name, -weight / share.ln())
    });
    let best = scored.max_by(|(_, one, a), (_, other, b)| a.total_cmp(b).then(one.cmp(other)));
    best.map(|(id, ..)| id)
}

/// The clients that were recently redirected to each endpoint.
#[derive(Debug, Default)]
pub struct LoadMeter {
    /// A decaying count, and the time at which it was exact.
    counts: Vec<(f64, Duration)>,
}

impl LoadMeter {
    /// Records that a client was redirected to an endpoint.
    pub fn add(&mut self, endpoint: EndpointId, now: Duration) {
        let index = usize::from(endpoint.0);
        if self.counts.len() <= index {
            self.counts.resize(index + 1, (0.0, now));
        }
        let count = self.count(endpoint, now) + 1.0;
        if let Some(slot) = self.counts.get_mut(index) {
            *slot = (count, now);
        }
    }

    /// The number of clients redirected there, each of which counts half after ten seconds.
    #[must_use]
    pub fn count(&self, endpoint: EndpointId, now: Duration) -> f64 {
        let Some((count, then)) = self.counts.get(usize::from(endpoint.0)) else { return 0.0 };
        let halvings = now.saturating_sub(*then).as_secs_f64() / LOAD_HALF_LIFE.as_secs_f64();
        count * (-halvings).exp2()
    }
}

/// The endpoints to which clients were redirected within seconds.
///
/// A client is identified by its address, its user agent and the path: kept as a hash, because a
/// wrong match only redirects a client to the second best endpoint.
#[derive(Debug)]
pub struct RecentReferrals {
    keep: Duration,
    hasher: RandomState,
    by_client: HashMap<u64, VecDeque<(EndpointId, Duration)>>,
    /// The clients in the order of their referrals.
    order: VecDeque<(u64, Duration)>,
}

impl RecentReferrals {
    /// An empty record, in which a referral counts for the time `keep`.
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        let hasher = RandomState::new();
        Self { keep, hasher, by_client: HashMap::new(), order: VecDeque::new() }
    }

    /// The key of a client that requests a path.
    #[must_use]
    pub fn key(&self, client: IpAddr, agent: &str, path: &str) -> u64 {
        self.hasher.hash_one((client.to_canonical(), agent, path))
    }

    /// The endpoints to which a client was redirected and that still count, the latest last.
    pub fn of(&mut self, client: u64, now: Duration) -> Vec<EndpointId> {
        self.forget(now);
        let sent = self.by_client.get(&client).into_iter().flatten();
        sent.filter(|(_, at)| now < *at + self.keep).map(|(endpoint, _)| *endpoint).collect()
    }

    /// Records that a client was redirected to an endpoint.
    pub fn add(&mut self, client: u64, endpoint: EndpointId, now: Duration) {
        if self.keep.is_zero() {
            return;
        }
        let sent = self.by_client.entry(client).or_default();
        if sent.len() == MAX_RETURNS {
            sent.pop_front();
        }
        sent.push_back((endpoint, now));
        self.order.push_back((client, now));
        self.forget(now);
    }

    fn forget(&mut self, now: Duration) {
        while let Some((_, at)) = self.order.front()
            && (self.order.len() > MAX_REFERRALS || *at + self.keep <= now)
        {
            let Some((client, at)) = self.order.pop_front() else { return };
            if let Some(sent) = self.by_client.get_mut(&client) {
                sent.retain(|(_, then)| *then > at);
                if sent.is_empty() {
                    self.by_client.remove(&client);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn candidate(number: u16) -> Candidate {
        Candidate {
            endpoint: EndpointId(number),
            returns: 0,
            is_down: false,
            distance: 0,
            answer_time: Duration::from_millis(10),
            load: 0.0,
        }
    }

    fn ranked(mut candidates: Vec<Candidate>) -> Vec<u16> {
        rank(&mut candidates);
        candidates.iter().map(|it| it.endpoint.0).collect()
    }

    #[test]
    fn health_comes_before_distance_and_distance_before_load() {
        let order = ranked(vec![
            Candidate { is_down: true, ..candidate(0) },
            Candidate { distance: 1, ..candidate(1) },
            Candidate { load: 5.0, ..candidate(2) },
            Candidate { answer_time: SECOND, ..candidate(3) },
            Candidate { returns: 1, ..candidate(4) },
            candidate(5),
        ]);
        assert_eq!(order, [5, 2, 3, 1, 4, 0]);
    }

    #[test]
    fn small_differences_of_speed_do_not_count() {
        let slower = Candidate { answer_time: Duration::from_millis(55), ..candidate(0) };
        assert_eq!(ranked(vec![slower, candidate(1)]), [0, 1]);
    }

    #[test]
    fn endpoints_share_clients_by_their_weights() {
        let mut meter = LoadMeter::default();
        let weights = [1.0, 3.0];
        let mut sent = [0u32; 2];
        for step in 0..4_000u32 {
            let now = Duration::from_millis(u64::from(step));
            let with_load = |number: u16| Candidate {
                load: meter.count(EndpointId(number), now) / weights[usize::from(number)],
                ..candidate(number)
            };
            let first = ranked(vec![with_load(0), with_load(1)])[0];
            meter.add(EndpointId(first), now);
            sent[usize::from(first)] += 1;
        }
        assert!((950..1050).contains(&sent[0]), "{sent:?}");
        assert!(meter.count(EndpointId(1), Duration::from_secs(200)) < 1.0);
    }

    #[test]
    fn one_endpoint_decides_about_a_directory_in_any_order() {
        let endpoints = [("a", 1.0), ("b", 3.0), ("c", 1.0)];
        let all = || (0..).map(EndpointId).zip(endpoints).map(|(id, (name, it))| (id, name, it));
        let mut shares = [0u32; 3];
        for number in 0..5_000 {
            let directory = format!("d/{number}");
            let chosen = decider(&directory, all()).unwrap();
            let backwards = all().collect::<Vec<_>>().into_iter().rev();
            assert_eq!(decider(&directory, backwards), Some(chosen));
            let others = all().filter(|(id, ..)| *id != EndpointId(2));
            if chosen != EndpointId(2) {
                assert_eq!(decider(&directory, others), Some(chosen), "c was removed");
            }
            shares[usize::from(chosen.0)] += 1;
        }
        assert!((2_850..3_150).contains(&shares[1]), "{shares:?}");
        assert!((900..1_100).contains(&shares[0]), "{shares:?}");
        assert_eq!(decider("d", std::iter::empty()), None);
    }

    #[test]
    fn a_client_that_returns_is_known_for_seconds() {
        let mut recent = RecentReferrals::new(5 * SECOND);
        let address = IpAddr::from([192, 0, 2, 1]);
        let (one, two) = (recent.key(address, "one", "a"), recent.key(address, "two", "a"));
        recent.add(one, EndpointId(3), SECOND);
        recent.add(one, EndpointId(4), 3 * SECOND);
        assert_eq!(recent.of(one, 4 * SECOND), [EndpointId(3), EndpointId(4)]);
        assert_eq!(recent.of(two, 4 * SECOND), []);
        assert_eq!(recent.of(one, 7 * SECOND), [EndpointId(4)]);
        assert_eq!(recent.of(one, 8 * SECOND), []);
        assert!(recent.by_client.is_empty() && recent.order.is_empty());
    }

    #[test]
    fn referrals_are_bounded() {
        let mut recent = RecentReferrals::new(5 * SECOND);
        let address = IpAddr::from([192, 0, 2, 1]);
        for number in 0..70_000u32 {
            let client = recent.key(address, "", &number.to_string());
            recent.add(client, EndpointId(0), SECOND);
        }
        assert_eq!(recent.order.len(), MAX_REFERRALS);
        assert_eq!(recent.by_client.len(), MAX_REFERRALS);
    }
}
