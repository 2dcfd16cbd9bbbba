//! Random bit flips.

use hither_netem::random::Random;

/// Flips each bit with a small probability.
#[derive(Debug)]
pub(super) struct Flips {
    random: Random,
    chance: f64,
    /// Number of bits until the next flip.
    left: u64,
}

impl Flips {
    /// Flips each bit with probability `chance`.
    pub(super) fn new(chance: f64, seed: u64) -> Self {
        let mut flips = Self { random: Random::new(seed), chance, left: 0 };
        flips.left = flips.gap();
        flips
    }

    /// The number of bits before the next flip.
    fn gap(&mut self) -> u64 {
        if self.chance <= 0.0 {
            return u64::MAX;
        }
        let gap = (1.0 - self.random.unit()).ln() / (1.0 - self.chance).ln();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "both logarithms are negative, and a cast to an integer stays within it"
        )]
        let gap = gap as u64;
        gap
    }

    /// Flips the due bits of the next bytes; returns their number.
    pub(super) fn strike(&mut self, bytes: &mut [u8]) -> u64 {
        let bits = 8 * bytes.len() as u64;
        let mut at = self.left;
        let mut count = 0;
        while at < bits {
            let place = usize::try_from(at / 8).ok().and_then(|byte| bytes.get_mut(byte));
            if let Some(byte) = place {
                *byte ^= 1 << (at % 8);
                count += 1;
            }
            at = at.saturating_add(1).saturating_add(self.gap());
        }
        self.left = at - bits;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requested_number_of_bits_is_flipped() {
        let mut flips = Flips::new(1e-3, 5);
        let mut told = 0;
        let mut seen = 0;
        for length in [1, 0, 1000, 77, 500_000, 3] {
            let mut bytes = vec![0; length];
            told += flips.strike(&mut bytes);
            seen += bytes.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
        }
        assert_eq!(told, seen);
        assert!((3_600..4_400).contains(&told), "{told}");
        assert_eq!(Flips::new(0.0, 5).strike(&mut [0; 1000]), 0);
    }
}
