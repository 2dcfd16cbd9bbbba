//! Servers that refuse connections: the time for which they are waited for.
//!
//! A server refuses connections while it restarts, and so does a machine without a server at that
//! port. So a connection that was refused is tried again, after pauses that grow with the time
//! since the first refusal: until the connect timeout where the server was reached before, and up
//! to [`FIRST_CONTACT`] where it never was, because then the port is likely to be wrong. The time
//! is counted per server, so that many files on a server that is down fail together, not one after
//! the other.

use hither_core::sync::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// The time for which a server that was never reached is waited for: longer than most restarts.
const FIRST_CONTACT: Duration = Duration::from_secs(5);
/// The pause before the second attempt.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The servers that refuse connections at the moment.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    servers: Mutex<HashMap<String, Outage>>,
}

/// The time in which a server refused every connection.
#[derive(Debug, Clone, Copy)]
struct Outage {
    since: Instant,
    /// If nobody has asked until then, what follows is another outage.
    forgotten: Instant,
}

impl Outages {
    /// Records that `server` refused a connection at `now`. Returns the pause before the next
    /// attempt; `None` if the server has refused for too long.
    pub(crate) fn refused(
        &self,
        server: &str,
        now: Instant,
        was_reached: bool,
        connect_timeout: Duration,
    ) -> Option<Duration> {
        let patience =
            if was_reached { connect_timeout } else { connect_timeout.min(FIRST_CONTACT) };
        let mut servers = lock(&self.servers);
        servers.retain(|_, outage| now <= outage.forgotten);
        let forgotten = now + patience + MAX_PAUSE;
        let outage = servers.entry(server.to_owned()).or_insert(Outage { since: now, forgotten });
        outage.forgotten = forgotten;
        let age = now.saturating_duration_since(outage.since);
        let left = patience.checked_sub(age).filter(|left| !left.is_zero())?;
        Some(age.clamp(MIN_PAUSE, MAX_PAUSE).min(left))
    }

    /// Records that `server` accepted a connection.
    pub(crate) fn ended(&self, server: &str) {
        lock(&self.servers).remove(server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

    /// The times of the attempts at a server that refuses all of them, in milliseconds since the
    /// first refusal.
    fn attempts(outages: &Outages, was_reached: bool, start: Instant) -> Vec<u128> {
        let mut now = start;
        let mut times = vec![0];
        while let Some(pause) = outages.refused("server", now, was_reached, CONNECT_TIMEOUT) {
            now += pause;
            times.push((now - start).as_millis());
        }
        times
    }

    #[test]
    fn pauses_grow_until_time_is_up() {
        let start = Instant::now();
        let unknown = attempts(&Outages::default(), false, start);
        assert_eq!(unknown, [0, 100, 200, 400, 800, 1600, 2600, 3600, 4600, 5000]);
        let known = attempts(&Outages::default(), true, start);
        assert_eq!((known.len(), known.last()), (20, Some(&15_000)));
    }

    #[test]
    fn the_files_of_a_server_that_is_down_fail_together() {
        let (outages, start) = (Outages::default(), Instant::now());
        attempts(&outages, true, start);
        let later = start + CONNECT_TIMEOUT + Duration::from_secs(3);
        assert_eq!(outages.refused("server", later, true, CONNECT_TIMEOUT), None);
        assert!(outages.refused("another", later, true, CONNECT_TIMEOUT).is_some());
    }

    #[test]
    fn a_server_that_was_up_or_not_asked_meanwhile_is_waited_for_again() {
        let (outages, start) = (Outages::default(), Instant::now());
        attempts(&outages, true, start);
        let much_later = start + 3 * CONNECT_TIMEOUT;
        assert!(outages.refused("server", much_later, true, CONNECT_TIMEOUT).is_some());
        attempts(&outages, true, much_later);
        outages.ended("server");
        let soon = much_later + CONNECT_TIMEOUT;
        assert!(outages.refused("server", soon, true, CONNECT_TIMEOUT).is_some());
    }

    #[test]
    fn servers_that_never_answered_are_forgotten() {
        let (outages, start) = (Outages::default(), Instant::now());
        for number in 0..100 {
            outages.refused(&format!("server-{number}"), start, false, CONNECT_TIMEOUT);
        }
        outages.refused("another", start + CONNECT_TIMEOUT, false, CONNECT_TIMEOUT);
        assert_eq!(lock(&outages.servers).len(), 1);
    }

    #[test]
    fn a_short_connect_timeout_is_kept() {
        let (outages, now, short) = (Outages::default(), Instant::now(), Duration::from_millis(20));
        assert_eq!(outages.refused("server", now, false, short), Some(short));
        assert_eq!(outages.refused("server", now + short, false, short), None);
    }
}
