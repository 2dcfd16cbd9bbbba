//! A replay of the seeds of the fuzz targets and of mutants of them, which tests their parsers
//! without a fuzzer.

use hither_netem::random::Random;
use std::io;
use std::path::Path;

/// Number of mutants of each seed.
const MUTANTS: u64 = 300;

/// Passes every file in `fuzz/seeds/TARGET` and mutants of each to `check`; the mutants are always
/// the same. Some mutants contain `bait`, bytes that have a meaning for the parser. Returns the
/// number of seeds.
///
/// # Errors
///
/// The folder or a seed cannot be read.
pub fn replay(target: &str, bait: &[u8], check: impl Fn(&[u8])) -> io::Result<usize> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder)? {
        let seed = std::fs::read(entry?.path())?;
        check(&seed);
        for number in 0..MUTANTS {
            check(&mutant(&seed, bait, number));
        }
        seeds += 1;
    }
    Ok(seeds)
}

/// The seed with a few random changes, reproducible by `number`.
fn mutant(seed: &[u8], bait: &[u8], number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut below = move |end: usize| {
        usize::try_from(random.next_u64() % end.max(1) as u64).unwrap_or_default()
    };
    let mut data = seed.to_vec();
    for _ in 0..=below(4) {
        let at = below(data.len());
        let end = (at + below(40)).min(data.len());
        match below(5) {
            0 => data.truncate(at),
            1 => drop(data.drain(at..end)),
            2 => data.extend_from_within(at..end),
            3 => drop(data.splice(at..at, bait.iter().copied())),
            _ => data.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (end % 8)),
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_differ_and_repeat() {
        let seed: Vec<u8> = (0..=255).collect();
        let all: std::collections::BTreeSet<_> =
            (0..MUTANTS).map(|number| mutant(&seed, b"bait", number)).collect();
        assert!(all.len() > 250, "{} of {MUTANTS} differ", all.len());
        assert_eq!(mutant(&seed, b"bait", 7), mutant(&seed, b"bait", 7));
        assert!(all.iter().any(|data| data.windows(4).any(|four| four == b"bait")));
        assert!(mutant(&[], &[], 1).is_empty());
    }
}
