//! A random program that reads a file.

use hither::{Client, RemoteFile};
use hither_netem::random::Random;
use std::ops::Range;
use std::time::Duration;

pub(crate) fn below(random: &mut Random, end: u64) -> u64 {
    random.next_u64() % end.max(1)
}

pub(crate) fn pick<T>(random: &mut Random, of: Vec<T>) -> T {
    let which = usize::try_from(below(random, of.len() as u64)).unwrap();
    of.into_iter().nth(which).unwrap()
}

pub(crate) fn content(size: u64, random: &mut Random) -> Vec<u8> {
    (0..size).map(|_| random.next_u64().to_le_bytes()[0]).collect()
}

/// A range within a file, rarely a long one.
fn range(random: &mut Random, size: u64) -> Range<u64> {
    let longest = pick(random, vec![10, 500, 5_000, size]).min(size);
    let start = below(random, size);
    start..(start + 1 + below(random, longest)).min(size)
}

pub(crate) fn ranges(random: &mut Random, max: u64, size: u64) -> Vec<Range<u64>> {
    (0..1 + below(random, max)).map(|_| range(random, size)).collect()
}

/// A program and the file that it reads.
pub(crate) struct Program<'a> {
    pub(crate) client: &'a Client,
    pub(crate) file: &'a RemoteFile,
    pub(crate) content: &'a [u8],
    /// For messages.
    pub(crate) what: &'a str,
}

impl Program<'_> {
    /// Makes up to `max` reads, hints and cancellations, and checks all bytes.
    pub(crate) fn run(&self, max: u64, random: &mut Random) {
        let Self { client, file, content, what } = self;
        let size = content.len() as u64;
        let mut hints = Vec::new();
        for _ in 0..1 + below(random, max) {
            match below(random, 6) {
                0 => {
                    let ranges = ranges(random, 8, size);
                    let found = file.read_ranges(client, &ranges);
                    let found = found.unwrap_or_else(|error| panic!("{what}: {error:?}"));
                    let bytes = |range| self.bytes(range);
                    assert!(found.iter().zip(&ranges).all(|(found, range)| found == bytes(range)));
                }
                1 => {
                    let when = Duration::from_millis(below(random, 3));
                    hints.extend(file.hint(&ranges(random, 8, size), when));
                }
                2 => hints.drain(..).for_each(|hint| file.cancel(hint)),
                3 => {
                    let mut at = below(random, size);
                    let step = 1 + below(random, 3_000);
                    for _ in 0..below(random, 12) {
                        self.read_at(at..at + step);
                        at += step;
                    }
                }
                _ => {
                    let range = range(random, size);
                    // sometimes beyond the end
                    let more = below(random, 2) * 100;
                    self.read_at(range.start..range.end + more);
                }
            }
        }
        hints.into_iter().for_each(|hint| file.cancel(hint));
    }

    fn read_at(&self, range: Range<u64>) {
        let Self { client, file, content, what } = self;
        let mut target = vec![0; usize::try_from(range.end - range.start).unwrap()];
        let read = file.read_at(client, range.start, &mut target);
        let read = read.unwrap_or_else(|error| panic!("{what}: {range:?}: {error:?}"));
        let size = content.len() as u64;
        let within = range.start.min(size)..range.end.min(size);
        assert!(&target[..read] == self.bytes(&within), "{what}: {range:?}");
    }

    fn bytes(&self, range: &Range<u64>) -> &[u8] {
        let at = |offset: u64| usize::try_from(offset).unwrap();
        &self.content[at(range.start)..at(range.end)]
    }
}
