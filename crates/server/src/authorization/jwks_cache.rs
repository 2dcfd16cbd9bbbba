//! A cache of the keys of token issuers (JWKS): when keys are valid and when they are fetched
//! again.
//!
//! Only issuers of the configuration have an entry, so that no client can make this server connect
//! to a host of its choice, and the configuration bounds the memory. For each issuer:
//!
//! - Keys are fresh for [`FRESH`] seconds; then they are fetched again while requests still use
//!   them.
//! - If the issuer does not respond, its keys are used for up to [`KEPT`] seconds; then its tokens
//!   are invalid.
//! - A token with an unknown key makes the server fetch the keys immediately, since issuers change
//!   keys, but not within [`AGAIN`] seconds of the last fetch: any number of invented key names
//!   costs one request in that time.
//! - After a failure the next attempt waits; the backoff doubles each time, up to [`MAX_WAIT`]
//!   seconds.
//!
//! Keys from a file of the configuration never expire.

use hither_auth::Jwks;
use std::collections::HashMap;
use std::sync::Arc;

/// Seconds for which keys are fresh.
const FRESH: u64 = 3_600;
/// Seconds for which keys are used if they cannot be fetched again.
const KEPT: u64 = 4 * 24 * 3_600;
/// The minimum number of seconds between fetches because of unknown keys.
const AGAIN: u64 = 60;
/// The backoff in seconds after the first failure.
const FIRST_WAIT: u64 = 2;
/// The maximum backoff in seconds.
const MAX_WAIT: u64 = 300;

/// The keys of all issuers; see the module above.
#[derive(Debug, Default)]
pub(crate) struct JwksCache {
    issuers: HashMap<String, IssuerKeys>,
}

#[derive(Debug, Default)]
struct IssuerKeys {
    keys: Option<Arc<Jwks>>,
    /// The time at which they were fetched; none for those of a file.
    fetched_at: Option<u64>,
    /// The time of the last attempt to fetch them.
    attempted_at: Option<u64>,
    /// Failures since they were last fetched.
    failures: u32,
}

/// The need to fetch keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JwksRefresh {
    /// The keys need no fetch, or may not be fetched again yet.
    Nothing,
    /// The keys should be fetched; the present ones can be used meanwhile.
    Soon,
    /// The keys have to be fetched before the token can be verified.
    Now,
}

impl JwksCache {
    /// Adds an issuer, with keys from a file if there is one.
    pub(crate) fn add(&mut self, issuer: &str, keys: Option<Jwks>) {
        let keys = keys.map(Arc::new);
        self.issuers.insert(issuer.to_owned(), IssuerKeys { keys, ..IssuerKeys::default() });
    }

    /// The keys of an issuer, unless they are too old.
    pub(crate) fn keys(&self, issuer: &str, now: u64) -> Option<&Arc<Jwks>> {
        let cached = self.issuers.get(issuer)?;
        let is_old = cached.fetched_at.is_some_and(|at| now.saturating_sub(at) > KEPT);
        cached.keys.as_ref().filter(|_| !is_old)
    }

    /// Returns whether to fetch the keys of an issuer, given a token. `fits` is true if the present
    /// keys have the token's key.
    pub(crate) fn need(&self, issuer: &str, fits: bool, now: u64) -> JwksRefresh {
        let Some(cached) = self.issuers.get(issuer) else { return JwksRefresh::Nothing };
        if cached.keys.is_some() && cached.fetched_at.is_none() {
            return JwksRefresh::Nothing;
        }
        let since = |then: u64| now.saturating_sub(then);
        let wait = match cached.failures {
            0 => AGAIN,
            n => (FIRST_WAIT << n.min(16).saturating_sub(1)).min(MAX_WAIT),
        };
        let has_waited = cached.attempted_at.is_none_or(|at| since(at) >= wait);
        match cached.fetched_at {
            _ if !has_waited => JwksRefresh::Nothing,
            Some(at) if since(at) <= KEPT && fits => {
                if since(at) > FRESH {
                    JwksRefresh::Soon
                } else {
                    JwksRefresh::Nothing
                }
            }
            _ => JwksRefresh::Now,
        }
    }

    /// Records that a fetch begins, so that other requests do not begin another one.
    pub(crate) fn begin(&mut self, issuer: &str, now: u64) {
        if let Some(cached) = self.issuers.get_mut(issuer) {
            cached.attempted_at = Some(now);
        }
    }

    /// Records the result of a fetch; no keys mean that it failed.
    pub(crate) fn done(&mut self, issuer: &str, keys: Option<Jwks>, now: u64) {
        let Some(cached) = self.issuers.get_mut(issuer) else { return };
        let Some(keys) = keys else {
            cached.failures = cached.failures.saturating_add(1);
            return;
        };
        (cached.fetched_at, cached.failures) = (Some(now), 0);
        // The same keys stay the same object: tokens verified with them stay verified.
        if cached.keys.as_deref() != Some(&keys) {
            cached.keys = Some(Arc::new(keys));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://iam.example";

    fn keys(kid: &str) -> Jwks {
        let point = r#""x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0""#;
        let set = format!(r#"{{"keys":[{{"kty":"EC","crv":"P-256","kid":"{kid}",{point}}}]}}"#);
        Jwks::parse(set.as_bytes()).unwrap()
    }

    fn ring() -> JwksCache {
        let mut ring = JwksCache::default();
        ring.add(ISSUER, None);
        ring
    }

    fn fetch(ring: &mut JwksCache, kid: &str, now: u64) {
        ring.begin(ISSUER, now);
        ring.done(ISSUER, Some(keys(kid)), now);
    }

    #[test]
    fn keys_are_asked_for_when_they_are_needed_and_again_when_they_are_old() {
        let mut ring = ring();
        assert!(ring.keys(ISSUER, 0).is_none());
        assert_eq!(ring.need(ISSUER, false, 0), JwksRefresh::Now);
        fetch(&mut ring, "a", 0);
        assert!(ring.keys(ISSUER, FRESH).is_some());
        assert_eq!(ring.need(ISSUER, true, FRESH), JwksRefresh::Nothing);
        assert_eq!(ring.need(ISSUER, true, FRESH + 1), JwksRefresh::Soon);
        ring.begin(ISSUER, FRESH + 1);
        assert_eq!(ring.need(ISSUER, true, FRESH + 2), JwksRefresh::Nothing, "somebody is at it");
    }

    #[test]
    fn an_issuer_that_is_gone_stops_nothing_for_days() {
        let mut ring = ring();
        fetch(&mut ring, "a", 0);
        for now in (FRESH + 1..KEPT).step_by(1_000) {
            assert!(ring.keys(ISSUER, now).is_some());
            assert_ne!(ring.need(ISSUER, true, now), JwksRefresh::Now, "nobody waits for it");
            ring.begin(ISSUER, now);
            ring.done(ISSUER, None, now);
        }
        assert!(ring.keys(ISSUER, KEPT + 1).is_none());
        assert_eq!(ring.need(ISSUER, true, KEPT + 1_000), JwksRefresh::Now);
    }

    #[test]
    fn floods_of_unknown_keys_and_dead_issuers_ask_seldom() {
        let mut ring = ring();
        fetch(&mut ring, "a", 0);
        let mut fetches = 0;
        for now in 1..=3_600 {
            if ring.need(ISSUER, false, now) == JwksRefresh::Now {
                fetch(&mut ring, "a", now);
                fetches += 1;
            }
        }
        assert_eq!(fetches, 3_600 / AGAIN);
        let mut dead = self::ring();
        let mut fetches = 0;
        for now in 0..3_600 {
            if dead.need(ISSUER, false, now) == JwksRefresh::Now {
                dead.begin(ISSUER, now);
                dead.done(ISSUER, None, now);
                fetches += 1;
            }
        }
        assert!((12..=24).contains(&fetches), "{fetches}");
        assert_eq!(ring.need("https://evil.example", false, 0), JwksRefresh::Nothing);
    }

    #[test]
    fn the_same_keys_stay_the_same() {
        let mut ring = ring();
        fetch(&mut ring, "a", 0);
        let first = Arc::clone(ring.keys(ISSUER, 0).unwrap());
        fetch(&mut ring, "a", 100);
        assert!(Arc::ptr_eq(&first, ring.keys(ISSUER, 100).unwrap()));
        fetch(&mut ring, "b", 200);
        assert!(!Arc::ptr_eq(&first, ring.keys(ISSUER, 200).unwrap()));
    }

    #[test]
    fn keys_of_a_file_are_never_asked_for() {
        let mut ring = JwksCache::default();
        ring.add(ISSUER, Some(keys("a")));
        assert!(ring.keys(ISSUER, u64::MAX).is_some());
        assert_eq!(ring.need(ISSUER, false, u64::MAX), JwksRefresh::Nothing);
    }
}
