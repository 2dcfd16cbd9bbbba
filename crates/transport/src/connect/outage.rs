//! Servers that refuse connections, and the longest wait for them.
//!
//! A server refuses connections while it restarts, and so does a machine without a server at that
//! port. So a connection that was refused is tried again ([`hither_core::retry`]): until the
//! connect timeout where the server was reached before, and up to [`FIRST_CONTACT`] where it never
//! was, because then the port is likely to be wrong. The time is counted per server, so that many
//! files on a server that is down fail together, not one after the other.

use hither_core::sync::lock;
use hither_core::{Backoff, Clock, Retry, RetryPolicy};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

/// The longest wait for a server that was never reached: longer than most restarts.
const FIRST_CONTACT: Duration = Duration::from_secs(5);
/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The servers that refuse connections now.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    servers: Mutex<HashMap<String, Outage>>,
}

/// A wait for a server that refuses connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutageWait {
    /// The pause before the next attempt.
    pub(crate) pause: Duration,
    /// The longest wait, if this was the first refusal.
    pub(crate) begins: Option<Duration>,
}

/// The time in which a server refused every connection.
#[derive(Debug)]
struct Outage {
    backoff: Backoff,
    /// Without an attempt until then, a later refusal begins another outage.
    forgotten: Duration,
}

impl Outages {
    /// Records that `server` refused a connection. Returns the wait before the next attempt; `None`
    /// if the server has refused for too long.
    pub(crate) fn refused(
        &self,
        server: &str,
        was_reached: bool,
        connect_timeout: Duration,
        clock: &dyn Clock,
    ) -> Option<OutageWait> {
        let mut policy = RetryPolicy::default();
        policy.max_pause = MAX_PAUSE;
        policy.busy_timeout =
            if was_reached { connect_timeout } else { connect_timeout.min(FIRST_CONTACT) };
        let now = clock.now();
        let mut servers = lock(&self.servers);
        servers.retain(|_, outage| now <= outage.forgotten);
        let begins = (!servers.contains_key(server)).then_some(policy.busy_timeout);
        let new = || Outage { backoff: Backoff::default(), forgotten: now };
        let outage = servers.entry(server.to_owned()).or_insert_with(new);
        outage.forgotten = now + policy.busy_timeout + MAX_PAUSE;
        let busy = Retry::Busy { after: Duration::ZERO };
        let pause = outage.backoff.next(&policy, busy, false, clock)?;
        Some(OutageWait { pause, begins })
    }

    /// Records that `server` accepted a connection.
    pub(crate) fn ended(&self, server: &str) {
        lock(&self.servers).remove(server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_simulate::virtual_time::VirtualTime;
    use std::sync::atomic::AtomicBool;

    const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

    fn wait(time: &VirtualTime, duration: Duration) {
        time.run(time.sleep(duration), &AtomicBool::new(false)).unwrap();
    }

    /// The times of the attempts at a server that refuses all of them, since the first refusal.
    fn attempts(outages: &Outages, was_reached: bool, time: &VirtualTime) -> Vec<Duration> {
        let start = time.now();
        let mut times = vec![Duration::ZERO];
        while let Some(next) = outages.refused("server", was_reached, CONNECT_TIMEOUT, time) {
            wait(time, next.pause);
            times.push(time.now() - start);
        }
        times
    }

    #[test]
    fn pauses_differ_from_client_to_client_and_end_when_time_is_up() {
        for (was_reached, end) in [(false, FIRST_CONTACT), (true, CONNECT_TIMEOUT)] {
            let of =
                |seed| attempts(&Outages::default(), was_reached, &VirtualTime::with_seed(seed));
            let (one, another) = (of(1), of(2));
            assert_eq!((one.last(), another.last()), (Some(&end), Some(&end)));
            assert_ne!(one, another);
            let mut pauses = one.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(pauses.all(|pause| pause <= MAX_PAUSE), "{one:?}");
        }
    }

    #[test]
    fn the_files_of_a_server_that_is_down_fail_together() {
        let (outages, time) = (Outages::default(), VirtualTime::new());
        attempts(&outages, true, &time);
        assert_eq!(outages.refused("server", true, CONNECT_TIMEOUT, &time), None);
        assert!(outages.refused("another", true, CONNECT_TIMEOUT, &time).is_some());
    }

    #[test]
    fn a_server_that_was_up_or_not_asked_meanwhile_is_waited_for_again() {
        let (outages, time) = (Outages::default(), VirtualTime::new());
        attempts(&outages, true, &time);
        wait(&time, 2 * CONNECT_TIMEOUT);
        assert!(outages.refused("server", true, CONNECT_TIMEOUT, &time).is_some());
        attempts(&outages, true, &time);
        outages.ended("server");
        assert!(outages.refused("server", true, CONNECT_TIMEOUT, &time).is_some());
    }

    #[test]
    fn servers_that_never_answered_are_forgotten() {
        let (outages, time) = (Outages::default(), VirtualTime::new());
        for number in 0..100 {
            outages.refused(&format!("server-{number}"), false, CONNECT_TIMEOUT, &time);
        }
        wait(&time, CONNECT_TIMEOUT);
        outages.refused("another", false, CONNECT_TIMEOUT, &time);
        assert_eq!(lock(&outages.servers).len(), 1);
    }

    #[test]
    fn the_first_refusal_tells_the_longest_wait() {
        let (outages, time) = (Outages::default(), VirtualTime::new());
        for (server, was_reached, longest) in
            [("new", false, FIRST_CONTACT), ("known", true, CONNECT_TIMEOUT)]
        {
            let begins = || outages.refused(server, was_reached, CONNECT_TIMEOUT, &time)?.begins;
            assert_eq!([begins(), begins()], [Some(longest), None]);
        }
    }

    #[test]
    fn a_short_connect_timeout_is_kept() {
        let (outages, time) = (Outages::default(), VirtualTime::new());
        let short = Duration::from_millis(20);
        let wait = outages.refused("server", true, short, &time);
        assert_eq!(wait, Some(OutageWait { pause: short, begins: Some(short) }));
        self::wait(&time, short);
        assert_eq!(outages.refused("server", true, short, &time), None);
    }
}
