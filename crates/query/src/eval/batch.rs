//! The turns of the loop that are evaluated together, and the numbers that they have.

use crate::eval::shape::Instances;
use std::cell::OnceCell;
use std::ops::Range;

/// How many turns are evaluated together: few enough that some intermediate results of 8 bytes each stay in the
/// processor's first and second cache, many enough that walking the tree does not count.
pub(crate) const BLOCK: usize = 4096;

/// Some turns, in order.
#[derive(Debug)]
pub(crate) struct InstanceBatch<'a> {
    which: Which<'a>,
    turns: &'a Instances,
    placed: OnceCell<Placed>,
}

#[derive(Debug)]
enum Which<'a> {
    /// Consecutive turns of the chunk, counted through.
    Span(Range<usize>),
    /// These turns of the chunk.
    Picks(&'a [usize]),
    /// The first turn of each of these entries.
    Entries(Range<usize>),
}

/// The entry of each instance, and the number of the turn within it.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    pub(crate) entries: Vec<usize>,
    pub(crate) turns: Vec<usize>,
}

/// Instances that stand side by side in a column, or that do not.
#[derive(Debug)]
pub(crate) enum Layout<'a> {
    Span(Range<usize>),
    Picks(&'a [usize]),
}

impl<'a> InstanceBatch<'a> {
    /// Consecutive turns.
    pub(crate) fn span(span: Range<usize>, turns: &'a Instances) -> Self {
        Self { which: Which::Span(span), turns, placed: OnceCell::new() }
    }

    /// Picked turns, in order.
    pub(crate) fn picks(picks: &'a [usize], turns: &'a Instances) -> Self {
        Self { which: Which::Picks(picks), turns, placed: OnceCell::new() }
    }

    /// One turn of each entry: for what does not differ between the turns of an entry.
    pub(crate) fn entries(entries: Range<usize>, turns: &'a Instances) -> Self {
        Self { which: Which::Entries(entries), turns, placed: OnceCell::new() }
    }

    /// How many instances there are.
    pub(crate) fn len(&self) -> usize {
        match &self.which {
            Which::Span(range) | Which::Entries(range) => range.len(),
            Which::Picks(picks) => picks.len(),
        }
    }

    /// The loop that the instances belong to.
    pub(crate) fn turns(&self) -> &'a Instances {
        self.turns
    }

    /// The instances as places in a column whose values are the turns, counted through.
    pub(crate) fn flat(&self) -> Layout<'_> {
        match &self.which {
            Which::Span(range) => Layout::Span(range.clone()),
            Which::Picks(picks) => Layout::Picks(picks),
            // what has one turn for each entry cannot tell the two apart; what has more is not evaluated so
            Which::Entries(range) => Layout::Span(range.clone()),
        }
    }

    /// The instances as places in a column with one value for each entry.
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
        let (mut entry, mut span) = (0, 0..0);
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

/// Numbers, one for each instance.
#[derive(Debug)]
pub(crate) struct BatchValues {
    pub(crate) values: Many,
    /// Where a branch was asked for an element that it does not have: the whole expression is NaN there. Empty if
    /// nowhere.
    pub(crate) missing: Vec<bool>,
}

/// Numbers that may all be the same.
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

    /// The number of instance `i`.
    pub(crate) fn at(&self, i: usize) -> f64 {
        match &self.values {
            Many::Same(value) => *value,
            Many::Each(values) => values.get(i).copied().unwrap_or(f64::NAN),
        }
    }

    /// Whether instance `i` has no number.
    pub(crate) fn is_missing(&self, i: usize) -> bool {
        self.missing.get(i).copied().unwrap_or(false)
    }

    /// The numbers of `count` instances, NaN where they are missing.
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

    /// `f` of each number.
    pub(crate) fn map(mut self, f: impl Fn(f64) -> f64) -> Self {
        match &mut self.values {
            Many::Same(value) => *value = f(*value),
            Many::Each(values) => values.iter_mut().for_each(|value| *value = f(*value)),
        }
        self
    }

    /// `f` of each pair of numbers; missing where one of them is.
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

/// Where one of both is true.
fn either(mut a: Vec<bool>, b: &[bool]) -> Vec<bool> {
    if a.is_empty() {
        return b.to_vec();
    }
    a.iter_mut().zip(b).for_each(|(a, b)| *a |= *b);
    a
}
