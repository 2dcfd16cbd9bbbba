//! A batch of turns of the loop that are evaluated together, and their values.

use crate::eval::shape::Instances;
use std::cell::OnceCell;
use std::ops::Range;

/// The number of turns evaluated together: few enough that intermediate results of 8 bytes each
/// stay in the processor's first and second cache, many enough that walking the tree costs little.
pub(crate) const BLOCK: usize = 4096;

/// A batch of turns, in order.
#[derive(Debug)]
pub(crate) struct InstanceBatch<'a> {
    which: Which<'a>,
    turns: &'a Instances,
    placed: OnceCell<Placed>,
}

#[derive(Debug)]
enum Which<'a> {
    /// Consecutive turns, numbered through the chunk.
    Span(Range<usize>),
    /// These turns of the chunk.
    Picks(&'a [usize]),
    /// The first turn of each of these entries.
    Entries(Range<usize>),
}

/// The entry of each instance, and its turn within the entry.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    pub(crate) entries: Vec<usize>,
    pub(crate) turns: Vec<usize>,
}

/// The positions of instances in a column: consecutive or picked.
#[derive(Debug)]
pub(crate) enum Layout<'a> {
    Span(Range<usize>),
    Picks(&'a [usize]),
}

impl<'a> InstanceBatch<'a> {
    /// A batch of consecutive turns.
    pub(crate) fn span(span: Range<usize>, turns: &'a Instances) -> Self {
        Self { which: Which::Span(span), turns, placed: OnceCell::new() }
    }

    /// A batch of picked turns, in order.
    pub(crate) fn picks(picks: &'a [usize], turns: &'a Instances) -> Self {
        Self { which: Which::Picks(picks), turns, placed: OnceCell::new() }
    }

    /// One turn of each entry, for values that all turns of an entry share.
    pub(crate) fn entries(entries: Range<usize>, turns: &'a Instances) -> Self {
        Self { which: Which::Entries(entries), turns, placed: OnceCell::new() }
    }

    /// The number of instances.
    pub(crate) fn len(&self) -> usize {
        match &self.which {
            Which::Span(range) | Which::Entries(range) => range.len(),
            Which::Picks(picks) => picks.len(),
        }
    }

    /// The loop to which the instances belong.
    pub(crate) fn turns(&self) -> &'a Instances {
        self.turns
    }

    /// The positions of the instances in a column with one value for each turn.
    pub(crate) fn flat(&self) -> Layout<'_> {
        match &self.which {
            Which::Span(range) => Layout::Span(range.clone()),
            Which::Picks(picks) => Layout::Picks(picks),
            // With one turn per entry, both are the same; loops with more do not come here.
            Which::Entries(range) => Layout::Span(range.clone()),
        }
    }

    /// The positions of the instances in a column with one value for each entry.
    pub(crate) fn per_entry(&self) -> Layout<'_> {
        match &self.which {
            Which::Entries(range) => Layout::Span(range.clone()),
            Which::Span(range) if self.turns.uniform() == Some(1) => Layout::Span(range.clone()),
            Which::Picks(picks) if self.turns.uniform() == Some(1) => Layout::Picks(picks),
            _ => Layout::Picks(&self.placed().entries),
        }
    }

    /// The entry and the turn of each instance.
    pub(crate) fn placed(&self) -> &Placed {
        self.placed.get_or_init(|| match &self.which {
            Which::Span(range) => self.place(range.clone()),
            Which::Picks(picks) => self.place(picks.iter().copied()),
            Which::Entries(range) => {
                Placed { entries: range.clone().collect(), turns: vec![0; range.len()] }
            }
        })
    }

    fn place(&self, flats: impl Iterator<Item = usize>) -> Placed {
        let mut placed = Placed::default();
        placed.entries.reserve(self.len());
        placed.turns.reserve(self.len());
        let mut entry = 0;
        let mut span = 0..0;
        for flat in flats {
            if !span.contains(&flat) {
                entry = self.turns.entry_of(flat, entry);
                span = self.turns.start(entry)..self.turns.start(entry + 1);
            }
            placed.entries.push(entry);
            placed.turns.push(flat - span.start);
        }
        placed
    }
}

/// Values, one for each instance.
#[derive(Debug)]
pub(crate) struct BatchValues {
    pub(crate) values: Many,
    /// Set where a branch lacks the requested element: the whole expression is NaN there. Empty if
    /// none is missing.
    pub(crate) missing: Vec<bool>,
}

/// Values that may all be the same.
#[derive(Debug)]
pub(crate) enum Many {
    Same(f64),
    Each(Vec<f64>),
}

impl BatchValues {
    pub(crate) fn same(value: f64) -> Self {
        Self { values: Many::Same(value), missing: Vec::new() }
    }

    pub(crate) fn each(values: Vec<f64>) -> Self {
        Self { values: Many::Each(values), missing: Vec::new() }
    }

    /// The value of instance `i`.
    pub(crate) fn at(&self, i: usize) -> f64 {
        match &self.values {
            Many::Same(value) => *value,
            Many::Each(values) => values.get(i).copied().unwrap_or(f64::NAN),
        }
    }

    /// Returns true if the value of instance `i` is missing.
    pub(crate) fn is_missing(&self, i: usize) -> bool {
        self.missing.get(i).copied().unwrap_or(false)
    }

    /// The values of `count` instances, NaN where they are missing.
    pub(crate) fn finish(self, count: usize) -> Vec<f64> {
        let mut values = match self.values {
            Many::Same(value) => vec![value; count],
            Many::Each(values) => values,
        };
        for (value, missing) in values.iter_mut().zip(&self.missing) {
            if *missing {
                *value = f64::NAN;
            }
        }
        values
    }

    /// Applies `f` to each value.
    pub(crate) fn map(mut self, f: impl Fn(f64) -> f64) -> Self {
        match &mut self.values {
            Many::Same(value) => *value = f(*value),
            Many::Each(values) => values.iter_mut().for_each(|value| *value = f(*value)),
        }
        self
    }

    /// Applies `f` to each pair of values; missing where one of them is.
    pub(crate) fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let missing = either(self.missing, &other.missing);
        let values = match (self.values, other.values) {
            (Many::Same(x), Many::Same(y)) => Many::Same(f(x, y)),
            (Many::Each(mut xs), Many::Same(y)) => {
                xs.iter_mut().for_each(|x| *x = f(*x, y));
                Many::Each(xs)
            }
            (Many::Same(x), Many::Each(mut ys)) => {
                ys.iter_mut().for_each(|y| *y = f(x, *y));
                Many::Each(ys)
            }
            (Many::Each(mut xs), Many::Each(ys)) => {
                xs.iter_mut().zip(ys).for_each(|(x, y)| *x = f(*x, y));
                Many::Each(xs)
            }
        };
        Self { values, missing }
    }
}

/// The element-wise or of both; an empty slice is all false.
fn either(mut a: Vec<bool>, b: &[bool]) -> Vec<bool> {
    if a.is_empty() {
        return b.to_vec();
    }
    a.iter_mut().zip(b).for_each(|(a, b)| *a |= *b);
    a
}
