//! The description of a link, shared by all emulators.
//!
//! A [`Link`] describes the path between a client and a server: the round-trip time, the rate of
//! each direction, the probability that a packet is lost, and the queue of the router at the
//! bottleneck. The packet-level emulator implements all of it; the TCP proxy and the simulated
//! source implement only time and rate.
//!
//! The links A to G are those of the talk that this project takes its main query from. They are
//! defined here once so that demos, benchmarks and tests mean the same link by a letter.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Minimum queue of a link with a rate, whatever its bandwidth-delay product.
pub const MIN_QUEUE: u64 = 64 * 1024;

/// Maximum bytes in flight on a link without a rate: a bound on memory, not a model.
pub const UNLIMITED_QUEUE: u64 = 64 * 1024 * 1024;

/// The path between a client and a server.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Link {
    /// Round-trip time; each direction delays by half of it.
    pub rtt: Duration,
    /// Rate of each direction in bits per second of IP packets; `None` for no limit.
    pub bandwidth: Option<u64>,
    /// Rate of each connection, in each direction, in bits per second of IP packets; `None` for no
    /// limit. The packet-level emulator enforces it, the simulated source can limit windows by it,
    /// and the TCP proxy ignores it.
    pub each: Option<u64>,
    /// Probability that a packet is lost, 0 to 1, in either direction.
    pub loss: f64,
    /// Size of the queue in bytes, beyond which the newest packet is dropped; `None` for the
    /// default of [`Link::queue_bytes`].
    pub queue: Option<u64>,
    /// Seed of the losses.
    pub seed: u64,
}

impl Link {
    /// A link without loss and with the default queue.
    #[must_use]
    pub const fn new(rtt: Duration, bandwidth: Option<u64>) -> Self {
        Self { rtt, bandwidth, each: None, loss: 0.0, queue: None, seed: 0 }
    }

    /// Link A: the loopback, no delay and no limit.
    pub const A: Self = Self::new(Duration::ZERO, None);
    /// Link B: 0.3 ms, 100 Mbit/s.
    pub const B: Self = Self::new(Duration::from_micros(300), Some(100_000_000));
    /// Link C: 2 ms, 10 Mbit/s.
    pub const C: Self = Self::new(Duration::from_millis(2), Some(10_000_000));
    /// Link D: 11 ms, 100 Mbit/s.
    pub const D: Self = Self::new(Duration::from_millis(11), Some(100_000_000));
    /// Link E: 22 ms, 100 Mbit/s.
    pub const E: Self = Self::new(Duration::from_millis(22), Some(100_000_000));
    /// Link F: 72 ms, 8 Mbit/s.
    pub const F: Self = Self::new(Duration::from_millis(72), Some(8_000_000));
    /// Link G: 240 ms, no limit.
    pub const G: Self = Self::new(Duration::from_millis(240), None);

    /// The talk's links with their letters, in order.
    pub const TALK: [(&'static str, Self); 7] = [
        ("A", Self::A),
        ("B", Self::B),
        ("C", Self::C),
        ("D", Self::D),
        ("E", Self::E),
        ("F", Self::F),
        ("G", Self::G),
    ];

    /// The talk's link with this letter, in either case.
    #[must_use]
    pub fn named(letter: &str) -> Option<Self> {
        Self::TALK.iter().find(|(name, _)| name.eq_ignore_ascii_case(letter)).map(|(_, link)| *link)
    }

    /// Delay of one direction.
    #[must_use]
    pub fn one_way(&self) -> Duration {
        self.rtt / 2
    }

    /// The size of the queue in bytes: as set, else one bandwidth-delay product but at least
    /// [`MIN_QUEUE`]; [`UNLIMITED_QUEUE`] without a rate.
    #[must_use]
    pub fn queue_bytes(&self) -> u64 {
        self.queue.unwrap_or_else(|| self.product(self.bandwidth))
    }

    /// The size of the queue of one connection in bytes; [`UNLIMITED_QUEUE`] if [`Link::each`] has
    /// no limit.
    #[must_use]
    pub fn own_queue_bytes(&self) -> u64 {
        self.product(self.each)
    }

    fn product(&self, rate: Option<u64>) -> u64 {
        rate.map_or(UNLIMITED_QUEUE, |rate| {
            let product = u128::from(rate) * self.rtt.as_nanos() / 8_000_000_000;
            u64::try_from(product).unwrap_or(u64::MAX).max(MIN_QUEUE)
        })
    }

    /// The time to send `bytes` at the link's rate; zero if the link has no rate.
    #[must_use]
    pub fn serialisation(&self, bytes: u64) -> Duration {
        self.bandwidth.map_or(Duration::ZERO, |rate| {
            let nanos = u128::from(bytes) * 8_000_000_000 / u128::from(rate.max(1));
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms, ", thousandths(self.rtt.as_secs_f64() * 1e3))?;
        match self.bandwidth {
            None => write!(f, "unlimited")?,
            Some(rate) => write!(f, "{} Mbit/s", thousandths(mega(rate)))?,
        }
        if let Some(rate) = self.each {
            write!(f, ", {} Mbit/s for each connection", mega(rate))?;
        }
        if self.loss > 0.0 {
            write!(f, ", loss {} %", self.loss * 100.0)?;
        }
        if let Some(queue) = self.queue {
            write!(f, ", queue {queue} B")?;
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown to a person")]
fn mega(rate: u64) -> f64 {
    rate as f64 / 1e6
}

/// A number rounded to three decimals: further digits of measured values have no meaning.
fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Splits `text` into a number and the unit after it.
fn number_and_unit(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 =
        number.parse().map_err(|_| format!("saw {text:?}, expected a number with a unit"))?;
    Ok((number, unit.trim()))
}

/// Rounds a non-negative number; saturates.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "non-negative by parsing, and casts from floats saturate"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// Parses a time: `240ms`, `0.3 ms`, `300us`, `1s`, `0`.
///
/// # Errors
/// The text has no number or an unknown unit, or the time exceeds an hour.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = number_and_unit(text)?;
    let nanos = match unit {
        "s" => number * 1e9,
        "ms" => number * 1e6,
        "us" | "µs" => number * 1e3,
        "ns" => number,
        "" if number == 0.0 => 0.0,
        _ => {
            return Err(format!("saw {text:?}, expected a time in s, ms, us or ns such as 240ms"));
        }
    };
    if nanos > 3.6e12 {
        return Err(format!("saw {text:?}, expected no more than an hour"));
    }
    Ok(Duration::from_nanos(rounded(nanos)))
}

/// Parses a rate: `100Mbit`, `8 Mbit/s`, `1Gbit`, `9600bit`; `unlimited` for `None`.
///
/// # Errors
/// The text has no number or an unknown unit, or the rate is below 1,000 bit/s.
pub fn parse_rate(text: &str) -> Result<Option<u64>, String> {
    if text.trim() == "unlimited" {
        return Ok(None);
    }
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit.strip_suffix("/s").unwrap_or(unit).to_ascii_lowercase().as_str() {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => {
            return Err(format!(
                "saw {text:?}, expected a rate in bit, kbit, Mbit or Gbit such as 100Mbit, or \
                 unlimited"
            ));
        }
    };
    let rate = rounded(number * factor);
    if rate < 1000 {
        return Err(format!("saw {text:?}, expected a rate of at least 1kbit, or unlimited"));
    }
    Ok(Some(rate))
}

/// Parses a probability: `0.01%` or `0.0001`.
///
/// # Errors
/// The text has no number or an unknown unit, or the probability exceeds one.
pub fn parse_loss(text: &str) -> Result<f64, String> {
    let (number, unit) = number_and_unit(text)?;
    let loss = match unit {
        "%" => number / 100.0,
        "" => number,
        _ => {
            return Err(format!("saw {text:?}, expected a share such as 0.01% or 0.0001"));
        }
    };
    if loss > 1.0 {
        return Err(format!("saw {text:?}, expected no more than 100%"));
    }
    Ok(loss)
}

/// Parses a number of bytes: `65536`, `64KiB`, `1MiB`, `1MB`.
///
/// # Errors
/// The text has no number or an unknown unit.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "kB" => 1e3,
        "MB" => 1e6,
        _ => {
            return Err(format!("saw {text:?}, expected bytes such as 65536, 64KiB or 1MB"));
        }
    };
    Ok(rounded(number * factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_read() {
        assert_eq!(parse_time("240ms"), Ok(Duration::from_millis(240)));
        assert_eq!(parse_time("0.3 ms"), Ok(Duration::from_micros(300)));
        assert_eq!(parse_time("0"), Ok(Duration::ZERO));
        assert_eq!(parse_rate("100Mbit"), Ok(Some(100_000_000)));
        assert_eq!(parse_rate("1.5 gbit/s"), Ok(Some(1_500_000_000)));
        assert_eq!(parse_rate("unlimited"), Ok(None));
        assert_eq!(parse_loss("0.01%"), Ok(0.0001));
        assert_eq!(parse_loss("0.5"), Ok(0.5));
        assert_eq!(parse_bytes("64KiB"), Ok(65536));
    }

    #[test]
    fn nonsense_is_an_error_with_what_was_seen() {
        for text in ["", "ms", "-1ms", "5", "5 parsec", "2h", "1e9s", "5000s"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        for text in ["", "100", "100MB", "0Mbit", "fast"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert!(parse_loss("101%").is_err());
        assert!(parse_bytes("3 quires").unwrap_err().contains("3 quires"));
    }

    #[test]
    fn queue_is_a_bandwidth_delay_product_and_at_least_64_kib() {
        assert_eq!(Link::B.queue_bytes(), MIN_QUEUE);
        assert_eq!(Link::E.queue_bytes(), 275_000);
        assert_eq!(Link::F.queue_bytes(), 72_000);
        assert_eq!(Link::G.queue_bytes(), UNLIMITED_QUEUE);
        assert_eq!(Link { queue: Some(5), ..Link::E }.queue_bytes(), 5);
    }

    #[test]
    fn letters_name_the_links_of_the_talk() {
        assert_eq!(Link::named("g"), Some(Link::G));
        assert_eq!(Link::named("H"), None);
        assert_eq!(Link::F.to_string(), "72 ms, 8 Mbit/s");
        let measured = Link { rtt: Duration::from_nanos(54_120), ..Link::F };
        assert_eq!(measured.to_string(), "0.054 ms, 8 Mbit/s");
    }

    proptest! {
        #[test]
        fn parsers_never_panic(text in ".{0,20}") {
            let _ = (parse_time(&text), parse_rate(&text), parse_loss(&text), parse_bytes(&text));
        }
    }
}
