//! A small seeded random generator, so that losses are reproducible.

/// `SplitMix64` (Steele, Lea, Flood 2014): one multiplication chain per number; any seed is good.
#[derive(Debug, Clone, Default)]
pub struct Random(u64);

impl Random {
    /// Creates a generator; the same seed gives the same numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, uniform over all of `u64`.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// The next number, uniform from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are kept")]
        let unit = (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        unit
    }

    /// Returns true with the given probability, 0 to 1.
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers() {
        let mut a = Random::new(7);
        let mut b = Random::new(7);
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Random::new(8).next_u64(), Random::new(7).next_u64());
    }

    #[test]
    fn chance_is_near_its_share() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.chance(0.01)).count();
        assert!((900..1100).contains(&hits), "{hits}");
        assert!(!(0..1000).any(|_| random.chance(0.0)));
        assert!((0..1000).all(|_| random.chance(1.0)));
    }
}
