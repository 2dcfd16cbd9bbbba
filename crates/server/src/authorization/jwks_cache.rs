//! The keys of issuers as they are remembered: when they are good, when they are asked for again, and when not.
//!
//! Only issuers of the configuration have a place here, so nobody can make this server ask a host of their choice, and
//! memory is bounded by the configuration. For each of them:
//!
//! - keys are good for [`FRESH`], then asked for again beside the requests that still use them;
//! - an issuer that is gone does not stop what is remembered, up to [`KEPT`]; then its tokens are refused;
//! - a token with a key that is not known makes the keys be asked for at once, as issuers change keys, but no sooner than
//!   [`AGAIN`] after the last time: a flood of invented names of keys costs one question in that time;
//! - after a failure the next attempt waits, twice as long each time, up to [`MAX_WAIT`].
//!
//! Keys from a file of the configuration are good for ever.

use hither_auth::Jwks;
use std::collections::HashMap;
use std::sync::Arc;

/// Seconds for which keys are not asked for again.
const FRESH: u64 = 3_600;
/// Seconds for which they are used if they cannot be had again.
const KEPT: u64 = 4 * 24 * 3_600;
/// Seconds between questions because of keys that are not known.
const AGAIN: u64 = 60;
/// Seconds after the first failure, and at most.
const FIRST_WAIT: u64 = 2;
const MAX_WAIT: u64 = 300;

/// See the module above.
#[derive(Debug, Default)]
pub(crate) struct JwksCache {
    places: HashMap<String, JwkPlace>,
}

#[derive(Debug, Default)]
struct JwkPlace {
    keys: Option<Arc<Jwks>>,
    /// When they were got; none for those of a file.
    got: Option<u64>,
    /// When they were asked for the last time.
    asked: Option<u64>,
    /// Failures since they were got the last time.
    failures: u32,
}

/// Whether keys are to be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JwksRefresh {
    /// They are not, or not yet again.
    Nothing,
    /// They are, but those that are there do meanwhile.
    Soon,
    /// They are, before the token can be judged.
    Now,
}

impl JwksCache {
    /// Gives an issuer its place, and keys from a file if there is one.
    pub(crate) fn add(&mut self, issuer: &str, keys: Option<Jwks>) {
        let keys = keys.map(Arc::new);
        self.places.insert(issuer.to_owned(), JwkPlace { keys, ..JwkPlace::default() });
    }

    /// The keys of an issuer, if they can be relied on.
    pub(crate) fn keys(&self, issuer: &str, now: u64) -> Option<&Arc<Jwks>> {
        let place = self.places.get(issuer)?;
        let is_old = place.got.is_some_and(|got| now.saturating_sub(got) > KEPT);
        place.keys.as_ref().filter(|_| !is_old)
    }

    /// Whether the keys of an issuer are to be asked for, on account of a token whose key `fits` one of them or none.
    pub(crate) fn need(&self, issuer: &str, fits: bool, now: u64) -> JwksRefresh {
        let Some(place) = self.places.get(issuer) else { return JwksRefresh::Nothing };
        if place.keys.is_some() && place.got.is_none() {
            return JwksRefresh::Nothing;
        }
        let since = |then: u64| now.saturating_sub(then);
        let wait = match place.failures {
            0 => AGAIN,
            n => (FIRST_WAIT << n.min(16).saturating_sub(1)).min(MAX_WAIT),
        };
        let has_waited = place.asked.is_none_or(|asked| since(asked) >= wait);
        match place.got {
            _ if !has_waited => JwksRefresh::Nothing,
            Some(got) if since(got) <= KEPT && fits => {
                if since(got) > FRESH {
                    JwksRefresh::Soon
                } else {
                    JwksRefresh::Nothing
                }
            }
            _ => JwksRefresh::Now,
        }
    }

    /// Somebody asks the issuer now: others need not.
    pub(crate) fn begin(&mut self, issuer: &str, now: u64) {
        if let Some(place) = self.places.get_mut(issuer) {
            place.asked = Some(now);
        }
    }

    /// What has become of it.
    pub(crate) fn done(&mut self, issuer: &str, keys: Option<Jwks>, now: u64) {
        let Some(place) = self.places.get_mut(issuer) else { return };
        let Some(keys) = keys else {
            place.failures = place.failures.saturating_add(1);
            return;
        };
        (place.got, place.failures) = (Some(now), 0);
        // The same keys stay the same object: what was verified with them stays verified.
        if place.keys.as_deref() != Some(&keys) {
            place.keys = Some(Arc::new(keys));
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

    fn got(ring: &mut JwksCache, kid: &str, now: u64) {
        ring.begin(ISSUER, now);
        ring.done(ISSUER, Some(keys(kid)), now);
    }

    #[test]
    fn keys_are_asked_for_when_they_are_needed_and_again_when_they_are_old() {
        let mut ring = ring();
        assert!(ring.keys(ISSUER, 0).is_none());
        assert_eq!(ring.need(ISSUER, false, 0), JwksRefresh::Now);
        got(&mut ring, "a", 0);
        assert!(ring.keys(ISSUER, FRESH).is_some());
        assert_eq!(ring.need(ISSUER, true, FRESH), JwksRefresh::Nothing);
        assert_eq!(ring.need(ISSUER, true, FRESH + 1), JwksRefresh::Soon);
        ring.begin(ISSUER, FRESH + 1);
        assert_eq!(ring.need(ISSUER, true, FRESH + 2), JwksRefresh::Nothing, "somebody is at it");
    }

    #[test]
    fn an_issuer_that_is_gone_stops_nothing_for_days() {
        let mut ring = ring();
        got(&mut ring, "a", 0);
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
        got(&mut ring, "a", 0);
        let mut asked = 0;
        for now in 1..=3_600 {
            if ring.need(ISSUER, false, now) == JwksRefresh::Now {
                got(&mut ring, "a", now);
                asked += 1;
            }
        }
        assert_eq!(asked, 3_600 / AGAIN);
        let mut dead = self::ring();
        let mut asked = 0;
        for now in 0..3_600 {
            if dead.need(ISSUER, false, now) == JwksRefresh::Now {
                dead.begin(ISSUER, now);
                dead.done(ISSUER, None, now);
                asked += 1;
            }
        }
        assert!((12..=24).contains(&asked), "{asked}");
        assert_eq!(ring.need("https://evil.example", false, 0), JwksRefresh::Nothing);
    }

    #[test]
    fn the_same_keys_stay_the_same() {
        let mut ring = ring();
        got(&mut ring, "a", 0);
        let first = Arc::clone(ring.keys(ISSUER, 0).unwrap());
        got(&mut ring, "a", 100);
        assert!(Arc::ptr_eq(&first, ring.keys(ISSUER, 100).unwrap()));
        got(&mut ring, "b", 200);
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
