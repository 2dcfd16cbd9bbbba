//! The table of a branch's baskets: their ranges and entries.

use crate::error::{FormatError, Result};
use crate::root::basket::EmbeddedBasket;
use std::ops::Range;

/// The baskets of a branch, ordered by entries.
///
/// Stored in three flat arrays: 20 bytes per basket.
#[derive(Debug, Clone, Default)]
pub struct BasketTable {
    seeks: Vec<u64>,
    bytes: Vec<u32>,
    /// The first entry of each basket, and the end of the last one.
    entries: Vec<u64>,
    /// Baskets inside the tree's object, by index.
    embedded: Vec<(usize, EmbeddedBasket)>,
    compressed: u64,
    uncompressed: u64,
}

/// A branch's tables as stored in the file.
pub(crate) struct Tables<'a> {
    /// Index of the basket that the writer was filling; all before it are in the file.
    pub(crate) write_basket: usize,
    /// Number of entries of the branch.
    pub(crate) entries: u64,
    pub(crate) sizes: &'a [u8],
    pub(crate) starts: (usize, &'a [u8]),
    pub(crate) seeks: (usize, &'a [u8]),
    pub(crate) embedded: Vec<(usize, EmbeddedBasket)>,
    pub(crate) compressed: u64,
    pub(crate) uncompressed: u64,
    /// Size of the file.
    pub(crate) file_end: u64,
}

/// Decodes big-endian numbers of four or eight bytes.
fn numbers(width: usize, raw: &[u8], count: usize) -> Vec<u64> {
    if width == 8 {
        let (chunks, _) = raw.as_chunks::<8>();
        chunks.iter().take(count).map(|chunk| u64::from_be_bytes(*chunk)).collect()
    } else {
        let (chunks, _) = raw.as_chunks::<4>();
        chunks.iter().take(count).map(|chunk| u64::from(u32::from_be_bytes(*chunk))).collect()
    }
}

impl BasketTable {
    pub(crate) fn new(tables: Tables<'_>) -> Result<Self> {
        let corrupt = |why: String| Err(FormatError::corrupt("basket table", why));
        let in_file = tables.write_basket;
        let mut seeks = numbers(tables.seeks.0, tables.seeks.1, in_file);
        let (sizes, _) = tables.sizes.as_chunks::<4>();
        let mut bytes: Vec<u32> =
            sizes.iter().take(in_file).map(|size| u32::from_be_bytes(*size)).collect();
        let mut entries = numbers(tables.starts.0, tables.starts.1, in_file + 1);
        let short = seeks.len().min(bytes.len()).min(entries.len());
        if short < in_file {
            return corrupt(format!("{in_file} baskets announced, {short} listed"));
        }
        if entries.is_empty() {
            entries.push(0);
        }
        let last_embedded = tables.embedded.iter().any(|(index, _)| *index == in_file);
        if entries.len() == in_file {
            entries.push(tables.entries);
        }
        if last_embedded {
            seeks.push(0);
            bytes.push(0);
            let start = entries.last().copied().unwrap_or(0);
            entries.push(tables.entries.max(start));
        }
        if let Some(pair) = entries.windows(2).find(|pair| pair.first() > pair.last()) {
            return corrupt(format!("entries run backwards: {pair:?}"));
        }
        let mut embedded = tables.embedded;
        embedded.retain(|(index, _)| seeks.get(*index) == Some(&0));
        embedded.sort_by_key(|(index, _)| *index);
        let outside = seeks.iter().zip(&bytes).find(|&(&seek, &size)| {
            size > i32::MAX.cast_unsigned() || seek.saturating_add(size.into()) > tables.file_end
        });
        if let Some((seek, size)) = outside {
            return corrupt(format!(
                "basket of {size} bytes at {seek} lies outside the file of {} bytes",
                tables.file_end
            ));
        }
        Ok(Self {
            seeks,
            bytes,
            entries,
            embedded,
            compressed: tables.compressed,
            uncompressed: tables.uncompressed,
        })
    }

    /// Creates the table of baskets at `places` (offset, bytes) in the file. `starts` holds the
    /// first entry of each, and the end of the last one.
    #[cfg(test)]
    pub(crate) fn in_file(places: &[(u64, u32)], starts: Vec<u64>) -> Result<Self> {
        if starts.len() != places.len() + 1 || !starts.is_sorted() {
            let why = format!("{} baskets, but {} borders of entries", places.len(), starts.len());
            return Err(FormatError::corrupt("basket table", why));
        }
        let (seeks, bytes): (Vec<u64>, Vec<u32>) = places.iter().copied().unzip();
        let compressed = bytes.iter().copied().map(u64::from).sum();
        let embedded = Vec::new();
        let uncompressed = compressed;
        Ok(Self { seeks, bytes, entries: starts, embedded, compressed, uncompressed })
    }

    /// Number of baskets, embedded ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.seeks.len()
    }

    /// Returns true if there are no baskets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seeks.is_empty()
    }

    /// The range of basket `index` in the file; `None` if it is inside the tree's object, or does
    /// not exist.
    #[must_use]
    pub fn range(&self, index: usize) -> Option<Range<u64>> {
        let &seek = self.seeks.get(index)?;
        let &size = self.bytes.get(index)?;
        (seek != 0).then(|| seek..seek.saturating_add(u64::from(size)))
    }

    /// The entries in basket `index`; empty if it does not exist.
    #[must_use]
    pub fn entries(&self, index: usize) -> Range<u64> {
        match (self.entries.get(index), self.entries.get(index + 1)) {
            (Some(&start), Some(&end)) if index < self.len() => start..end,
            _ => 0..0,
        }
    }

    /// The baskets that hold `entries`.
    #[must_use]
    pub fn holding(&self, entries: &Range<u64>) -> Range<usize> {
        if entries.start >= entries.end || self.is_empty() {
            return 0..0;
        }
        let starts = self.entries.get(..self.len()).unwrap_or_default();
        let ends = self.entries.get(1..).unwrap_or_default();
        let first = ends.partition_point(|&end| end <= entries.start);
        let stop = starts.partition_point(|&start| start < entries.end);
        first..stop.max(first)
    }

    /// Bytes of all baskets as stored, keys included (the writer's count).
    #[must_use]
    pub fn compressed_bytes(&self) -> u64 {
        self.compressed
    }

    /// Bytes of all baskets uncompressed, keys included (the writer's count).
    #[must_use]
    pub fn uncompressed_bytes(&self) -> u64 {
        self.uncompressed
    }

    pub(crate) fn embedded(&self, index: usize) -> Option<&EmbeddedBasket> {
        let at = self.embedded.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.embedded.get(at).map(|(_, basket)| basket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables<'a>(sizes: &'a [u8], starts: &'a [u8], seeks: &'a [u8], n: usize) -> Tables<'a> {
        Tables {
            write_basket: n,
            entries: 30,
            sizes,
            starts: (8, starts),
            seeks: (8, seeks),
            embedded: Vec::new(),
            compressed: 0,
            uncompressed: 0,
            file_end: 1000,
        }
    }

    fn wide(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_be_bytes()).collect()
    }

    fn narrow(values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_be_bytes()).collect()
    }

    #[test]
    fn every_entry_has_its_basket() {
        let (sizes, starts, seeks) =
            (narrow(&[50, 50, 50]), wide(&[0, 10, 10, 30]), wide(&[100, 200, 300]));
        let baskets = BasketTable::new(tables(&sizes, &starts, &seeks, 3)).unwrap();
        assert_eq!(baskets.len(), 3);
        assert_eq!(baskets.range(1), Some(200..250));
        assert_eq!(baskets.range(3), None);
        assert_eq!(baskets.entries(2), 10..30);
        assert_eq!(baskets.entries(3), 0..0);
        assert_eq!(baskets.holding(&(0..1)), 0..1);
        assert_eq!(baskets.holding(&(9..11)), 0..3);
        assert_eq!(baskets.holding(&(10..30)), 2..3);
        assert_eq!(baskets.holding(&(30..90)), 3..3);
        assert_eq!(baskets.holding(&(5..5)), 0..0);
    }

    #[test]
    fn in_a_full_table_the_last_basket_ends_with_the_branch() {
        let sizes = narrow(&[50, 50]);
        let starts = wide(&[0, 10]);
        let seeks = wide(&[100, 200]);
        let baskets = BasketTable::new(tables(&sizes, &starts, &seeks, 2)).unwrap();
        assert_eq!(baskets.entries(1), 10..30);
    }

    #[test]
    fn nonsense_is_an_error() {
        let sizes = narrow(&[50, 50]);
        let starts = wide(&[0, 10, 30]);
        let seeks = wide(&[100, 990]);
        assert!(BasketTable::new(tables(&sizes, &starts, &seeks, 2)).is_err(), "beyond the file");
        assert!(BasketTable::new(tables(&sizes, &starts, &seeks, 9)).is_err(), "too few");
        let starts = wide(&[0, 10, 5]);
        let seeks = wide(&[100, 200]);
        assert!(BasketTable::new(tables(&sizes, &starts, &seeks, 2)).is_err(), "backwards");
    }
}
