//! Cuts: the entries or elements that pass.

use hither_core::error::{Error, ErrorKind, Result};
use hither_formats::{Column, Values};
use std::ops::Range;

/// The values of a cut for a chunk.
#[derive(Debug)]
pub(crate) struct Mask {
    text: String,
    /// True for each value that passes.
    passes: Vec<bool>,
    /// The offsets of a jagged cut. With `item_shape`, they give the shape of the values.
    offsets: Option<Vec<i64>>,
    item_shape: Vec<usize>,
}

impl Mask {
    /// The mask of a cut: every value but zero passes.
    pub(crate) fn new(text: &str, cut: Column) -> Self {
        let passes = match cut.values {
            Values::Bool(values) => values,
            Values::F64(values) => values.into_iter().map(|value| value != 0.0).collect(),
            // A computed column has one of these two types.
            _ => Vec::new(),
        };
        Self { text: text.to_owned(), passes, offsets: cut.offsets, item_shape: cut.item_shape }
    }

    /// The part of `column` that passes; `name` is its name in the request.
    pub(crate) fn apply(&self, name: &str, column: Column) -> Result<Column> {
        match &self.offsets {
            None if self.item_shape.is_empty() => Ok(column.take_ranges(&runs(&self.passes))),
            None if column.offsets.is_none() && column.item_shape == self.item_shape => {
                let values = column.values.take_ranges(&runs(&self.passes));
                let entries = values.len();
                Ok(Column { entries, offsets: None, item_shape: Vec::new(), values })
            }
            Some(offsets)
                if column.offsets.as_ref() == Some(offsets) && self.item_shape.is_empty() =>
            {
                Ok(self.shortened(offsets, column))
            }
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "the cut `{}` has a value for each element of an array, and `{name}` has other elements: cut on \
                     entries, as with Sum$({})>0",
                    self.text, self.text
                ),
            )),
        }
    }

    /// A jagged column with the items that pass.
    fn shortened(&self, offsets: &[i64], column: Column) -> Column {
        let n = column.item_len();
        let mut kept = vec![0_i64];
        let mut count = 0_i64;
        for pair in offsets.windows(2) {
            let items = position(pair[0])..position(pair[1]);
            let passing = self.passes.get(items).unwrap_or_default().iter().filter(|it| **it);
            count = count.saturating_add_unsigned(passing.count() as u64);
            kept.push(count);
        }
        let items = runs(&self.passes);
        let values: Vec<_> = items
            .iter()
            .map(|run| run.start.saturating_mul(n)..run.end.saturating_mul(n))
            .collect();
        let values = column.values.take_ranges(&values);
        Column { offsets: Some(kept), values, ..column }
    }
}

fn position(offset: i64) -> usize {
    usize::try_from(offset).unwrap_or(0)
}

/// The runs of values that pass.
fn runs(passes: &[bool]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, _) in passes.iter().enumerate().filter(|(_, passes)| **passes) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(offsets: Option<Vec<i64>>, item_shape: Vec<usize>, values: Values) -> Column {
        Column { entries: 2, offsets, item_shape, values }
    }

    fn jagged() -> Column {
        column(Some(vec![0, 2, 5]), vec![], Values::I32(vec![1, 2, 3, 4, 5]))
    }

    #[test]
    fn a_cut_on_entries_keeps_whole_entries_of_any_column() {
        let mask = Mask::new("c", column(None, vec![], Values::Bool(vec![false, true])));
        let kept = mask.apply("j", jagged()).unwrap();
        assert_eq!((kept.entries, kept.offsets), (1, Some(vec![0, 3])));
        assert_eq!(kept.values, Values::I32(vec![3, 4, 5]));
    }

    #[test]
    fn a_cut_on_elements_shortens_lists_and_flattens_fixed_arrays() {
        let mask = Mask::new(
            "c",
            Column { values: Values::F64(vec![0.0, 2.0, 1.0, 0.0, 1.0]), ..jagged() },
        );
        let kept = mask.apply("j", jagged()).unwrap();
        assert_eq!((kept.entries, kept.offsets), (2, Some(vec![0, 1, 3])));
        assert_eq!(kept.values, Values::I32(vec![2, 3, 5]));
        let fixed = || column(None, vec![2], Values::I32(vec![1, 2, 3, 4]));
        assert_eq!(mask.apply("f", fixed()).unwrap_err().kind(), ErrorKind::Invalid);
        let passes = Values::Bool(vec![true, false, true, true]);
        let mask = Mask::new("c", Column { values: passes, ..fixed() });
        let kept = mask.apply("f", fixed()).unwrap();
        assert_eq!((kept.entries, kept.values), (3, Values::I32(vec![1, 3, 4])));
        assert_eq!(mask.apply("j", jagged()).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
