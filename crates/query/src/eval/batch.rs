//! A batch: the instances that are evaluated together, and their values.

use crate::eval::shape::Instances;
use std::cell::OnceCell;
use std::ops::Range;

/// Number of instances evaluated together: few enough that the intermediate results of 8 bytes each
/// fit into the L1 and L2 caches, and enough that the traversal of the syntax tree costs little.
pub(crate) const BATCH_SIZE: usize = 4096;

/// Instances to evaluate, in order.
#[derive(Debug)]
pub(crate) struct InstanceBatch<'a> {
    subset: Subset<'a>,
    instances: &'a Instances,
    numbers: OnceCell<InstanceNumbers>,
}

#[derive(Debug)]
enum Subset<'a> {
    /// Consecutive instances, counted from the start of the chunk.
    Range(Range<usize>),
    /// These instances, counted from the start of the chunk.
    List(&'a [usize]),
    /// The first instance of each of these entries.
    Entries(Range<usize>),
}

/// The entry of each instance of a batch, and its number within the entry.
#[derive(Debug, Default)]
pub(crate) struct InstanceNumbers {
    pub(crate) entries: Vec<usize>,
    pub(crate) instances: Vec<usize>,
}

/// The positions of a batch's instances in the values of a column.
#[derive(Debug)]
pub(crate) enum Positions<'a> {
    Range(Range<usize>),
    List(&'a [usize]),
}

impl<'a> InstanceBatch<'a> {
    /// A batch of consecutive instances.
    pub(crate) fn range(range: Range<usize>, instances: &'a Instances) -> Self {
        Self { subset: Subset::Range(range), instances, numbers: OnceCell::new() }
    }

    /// A batch of the instances in `list`, which is in ascending order.
    pub(crate) fn list(list: &'a [usize], instances: &'a Instances) -> Self {
        Self { subset: Subset::List(list), instances, numbers: OnceCell::new() }
    }

    /// A batch of the first instance of each entry, for formulas that are constant within an entry.
    pub(crate) fn entries(entries: Range<usize>, instances: &'a Instances) -> Self {
        Self { subset: Subset::Entries(entries), instances, numbers: OnceCell::new() }
    }

    /// Number of instances in the batch.
    pub(crate) fn len(&self) -> usize {
        match &self.subset {
            Subset::Range(range) | Subset::Entries(range) => range.len(),
            Subset::List(list) => list.len(),
        }
    }

    /// The loop that the batch is part of.
    pub(crate) fn instances(&self) -> &'a Instances {
        self.instances
    }

    /// The positions in a column with one value for each instance.
    pub(crate) fn per_instance(&self) -> Positions<'_> {
        match &self.subset {
            Subset::Range(range) => Positions::Range(range.clone()),
            Subset::List(list) => Positions::List(list),
            // Each entry has one instance here; a formula with more is never evaluated for a batch
            // of entries.
            Subset::Entries(range) => Positions::Range(range.clone()),
        }
    }

    /// The positions in a column with one value for each entry.
    pub(crate) fn per_entry(&self) -> Positions<'_> {
        let one_each = self.instances.uniform() == Some(1);
        match &self.subset {
            Subset::Entries(range) => Positions::Range(range.clone()),
            Subset::Range(range) if one_each => Positions::Range(range.clone()),
            Subset::List(list) if one_each => Positions::List(list),
            _ => Positions::List(&self.numbers().entries),
        }
    }

    /// The entry of each instance, and its number within the entry; computed on first use.
    pub(crate) fn numbers(&self) -> &InstanceNumbers {
        self.numbers.get_or_init(|| match &self.subset {
            Subset::Range(range) => self.number(range.clone()),
            Subset::List(list) => self.number(list.iter().copied()),
            Subset::Entries(range) => InstanceNumbers {
                entries: range.clone().collect(),
                instances: vec![0; range.len()],
            },
        })
    }

    fn number(&self, chunk_instances: impl Iterator<Item = usize>) -> InstanceNumbers {
        let mut numbers = InstanceNumbers::default();
        numbers.entries.reserve(self.len());
        numbers.instances.reserve(self.len());
        let mut entry = 0;
        let mut of_entry = 0..0;
        for instance in chunk_instances {
            if !of_entry.contains(&instance) {
                entry = self.instances.entry_of(instance, entry);
                of_entry = self.instances.start(entry)..self.instances.start(entry + 1);
            }
            numbers.entries.push(entry);
            numbers.instances.push(instance - of_entry.start);
        }
        numbers
    }
}

/// The values of a batch, one for each instance.
#[derive(Debug)]
pub(crate) struct BatchValues {
    pub(crate) values: Numbers,
    /// True for each instance in which a branch lacks the requested element: the whole expression
    /// is NaN there. Empty if no element is missing.
    pub(crate) missing: Vec<bool>,
}

/// One number for each instance.
#[derive(Debug)]
pub(crate) enum Numbers {
    Constant(f64),
    Each(Vec<f64>),
}

impl BatchValues {
    pub(crate) fn constant(value: f64) -> Self {
        Self { values: Numbers::Constant(value), missing: Vec::new() }
    }

    pub(crate) fn each(values: Vec<f64>) -> Self {
        Self { values: Numbers::Each(values), missing: Vec::new() }
    }

    /// The number of instance `i`.
    pub(crate) fn at(&self, i: usize) -> f64 {
        match &self.values {
            Numbers::Constant(value) => *value,
            Numbers::Each(values) => values.get(i).copied().unwrap_or(f64::NAN),
        }
    }

    /// Returns true if instance `i` has no number.
    pub(crate) fn is_missing(&self, i: usize) -> bool {
        self.missing.get(i).copied().unwrap_or(false)
    }

    /// The numbers of `count` instances, NaN where they are missing.
    pub(crate) fn finish(self, count: usize) -> Vec<f64> {
        let mut values = match self.values {
            Numbers::Constant(value) => vec![value; count],
            Numbers::Each(values) => values,
        };
        for (value, missing) in values.iter_mut().zip(&self.missing) {
            if *missing {
                *value = f64::NAN;
            }
        }
        values
    }

    /// Applies `f` to each number.
    pub(crate) fn map(mut self, f: impl Fn(f64) -> f64) -> Self {
        match &mut self.values {
            Numbers::Constant(value) => *value = f(*value),
            Numbers::Each(values) => values.iter_mut().for_each(|value| *value = f(*value)),
        }
        self
    }

    /// Applies `f` to each pair of numbers. The result is missing if either number is.
    pub(crate) fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let missing = either(self.missing, &other.missing);
        let values = match (self.values, other.values) {
            (Numbers::Constant(x), Numbers::Constant(y)) => Numbers::Constant(f(x, y)),
            (Numbers::Each(mut xs), Numbers::Constant(y)) => {
                xs.iter_mut().for_each(|x| *x = f(*x, y));
                Numbers::Each(xs)
            }
            (Numbers::Constant(x), Numbers::Each(mut ys)) => {
                ys.iter_mut().for_each(|y| *y = f(x, *y));
                Numbers::Each(ys)
            }
            (Numbers::Each(mut xs), Numbers::Each(ys)) => {
                xs.iter_mut().zip(ys).for_each(|(x, y)| *x = f(*x, y));
                Numbers::Each(xs)
            }
        };
        Self { values, missing }
    }
}

/// The element-wise `or` of two masks; an empty mask is false everywhere.
fn either(mut a: Vec<bool>, b: &[bool]) -> Vec<bool> {
    if a.is_empty() {
        return b.to_vec();
    }
    a.iter_mut().zip(b).for_each(|(a, b)| *a |= *b);
    a
}
