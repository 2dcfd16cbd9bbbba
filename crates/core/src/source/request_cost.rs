//! Cost of one more request, in bytes that could arrive meanwhile.
//!
//! With a server that accepts one range per request, as object stores do, every gap between two
//! wanted ranges is a choice: read over it, or send another request. The request costs more if more
//! bytes than the gap could arrive in the time that it takes ([`in_bytes`]). With a price per
//! request and bytes that cost the same everywhere, deciding gap by gap is optimal: no other set of
//! gaps costs less in all.
//!
//! The price is about a full pipe. It does not depend on the size of a gap's neighbours, so the
//! rule for many ranges in a request ([`crate::PlanConfig::waste`]) does not apply.

use crate::LinkEstimate;
use std::time::Duration;

/// Time of client and server for one request besides waiting for it. 2,000 requests of 2 KB over
/// HTTP/2 at 22 ms, of which all may be in flight, took 190 us each.
const PROCESSING: Duration = Duration::from_micros(150);

/// Maximum bytes to read over, whatever a request costs. Unwanted bytes count in the memory budgets
/// of readers, too. The object stores' own clients read over as much by default.
const MAX_BYTES: u64 = 1 << 20;

/// Bytes that could arrive while one of `at_once` parallel requests is processed; none if too
/// little is known of the path. A power of two, because plans are made again when limits change,
/// and estimates change with every response.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a float cast saturates, which is intended"
)]
pub fn in_bytes(link: &LinkEstimate, at_once: usize) -> Option<u64> {
    let waiting = link.response_time().into_iter().chain(link.rtt).max()?;
    let seconds = waiting.as_secs_f64() / at_once.max(1) as f64 + PROCESSING.as_secs_f64();
    let rate = link.bandwidth.into_iter().chain(link.response_rate).reduce(f64::max)?;
    let exponent = (rate * seconds).max(1.0).log2().round() as u32;
    Some(1_u64.checked_shl(exponent).map_or(MAX_BYTES, |bytes| bytes.min(MAX_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(rtt_ms: f64, mbit: f64) -> LinkEstimate {
        let mut link = LinkEstimate::default();
        link.saw_rtt(Duration::from_secs_f64(rtt_ms / 1e3));
        link.saw_bandwidth(mbit * 1e6 / 8.0);
        link
    }

    #[test]
    fn a_request_costs_what_could_arrive_meanwhile() {
        // 64 connections; the true values are 6, 59, 3, 486 and 1,359 KB.
        assert_eq!(in_bytes(&link(22.0, 100.0), 64), Some(8 << 10));
        assert_eq!(in_bytes(&link(22.0, 1_000.0), 64), Some(64 << 10));
        assert_eq!(in_bytes(&link(120.0, 10.0), 64), Some(2 << 10));
        assert_eq!(in_bytes(&link(240.0, 1_000.0), 64), Some(512 << 10));
        // HTTP/2: a thousand requests at a time.
        assert_eq!(in_bytes(&link(22.0, 100.0), 1_024), Some(2 << 10));
        assert_eq!(in_bytes(&link(22.0, 100.0), 1), Some(256 << 10));
    }

    #[test]
    fn a_server_that_thinks_makes_requests_dearer() {
        let mut near = link(1.0, 1_000.0);
        assert_eq!(in_bytes(&near, 64), Some(16 << 10));
        near.saw_response(Duration::from_millis(30), 1_400, Duration::from_micros(10), false);
        assert_eq!(in_bytes(&near, 64), Some(64 << 10));
    }

    #[test]
    fn the_price_is_unknown_until_the_path_is_and_never_beyond_a_megabyte() {
        assert_eq!(in_bytes(&LinkEstimate::default(), 64), None);
        assert_eq!(in_bytes(&LinkEstimate { bandwidth: None, ..link(22.0, 1.0) }, 64), None);
        assert_eq!(in_bytes(&link(240.0, 100_000.0), 1), Some(1 << 20));
        assert_eq!(in_bytes(&link(1e12, 1e300), 0), Some(1 << 20));
        assert_eq!(in_bytes(&link(0.0, 0.0), 64), Some(1));
    }
}
