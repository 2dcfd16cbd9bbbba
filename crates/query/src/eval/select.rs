//! The main loop: finds the instances that pass the cut and evaluates the value for them.

use crate::chunk::Chunk;
use crate::eval::batch::{BATCH_SIZE, InstanceBatch};
use crate::eval::bind::{Bound, Formula, Scope, batches};
use crate::eval::evaluate::{Element, evaluate, with_values};
use crate::eval::shape::{Instances, ValueAccess};
use crate::operator::Binary;
use crate::{Expression, SelectedValues};
use hither_core::Error;
use hither_formats::Values;
use std::ops::Range;

/// Evaluates `value` for the instances that pass `cut`.
pub(crate) fn select(
    value: &Expression,
    cut: Option<&Expression>,
    chunk: &Chunk<'_>,
) -> Result<SelectedValues, Error> {
    let mut scope = Scope::new(chunk);
    let cut = cut.map(|cut| scope.bind(&cut.root)).transpose()?;
    let value = scope.bind(&value.root)?;
    let instances = scope.close()?;
    let entries = chunk.entries();
    let selected = SelectedValues { entries: entries as u64, ..SelectedValues::default() };
    let mut selector = Selector {
        scope: &scope,
        instances: &instances,
        value: &value,
        selected,
        passed: Vec::new(),
    };
    let all = 0..instances.start(entries);
    match &cut {
        None => {
            for range in batches(all) {
                selector.evaluate(&InstanceBatch::range(range, &instances));
            }
        }
        Some(cut) if !cut.per_instance => {
            for range in batches(0..entries) {
                let batch = InstanceBatch::entries(range.clone(), &instances);
                let weights = evaluate(&scope, cut, &batch).finish(batch.len());
                for (entry, weight) in range.zip(weights) {
                    for instance in instances.start(entry)..instances.start(entry + 1) {
                        selector.weigh(instance, weight);
                    }
                }
            }
        }
        Some(cut) => {
            let simple = simple_cut(&scope, &cut.root);
            for range in batches(all) {
                if let Some(simple) = &simple {
                    selector.compare(simple, range);
                    continue;
                }
                let batch = InstanceBatch::range(range.clone(), &instances);
                let weights = evaluate(&scope, cut, &batch).finish(batch.len());
                for (instance, weight) in range.zip(weights) {
                    selector.weigh(instance, weight);
                }
            }
        }
    }
    selector.flush();
    Ok(selector.selected)
}

/// The selection of one chunk while it is evaluated.
struct Selector<'a> {
    scope: &'a Scope<'a>,
    instances: &'a Instances,
    value: &'a Formula,
    selected: SelectedValues,
    /// Instances that passed and whose values are not yet evaluated: fewer than two batches.
    passed: Vec<usize>,
}

impl Selector<'_> {
    /// Adds `instance` to the instances that passed if its weight is not zero.
    #[inline]
    fn weigh(&mut self, instance: usize, weight: f64) {
        if weight == 0.0 {
            return;
        }
        if weight != 1.0 && self.selected.weights.is_empty() {
            let before = self.selected.values.len() + self.passed.len();
            self.selected.weights.resize(before, 1.0);
        }
        self.passed.push(instance);
        if weight != 1.0 || !self.selected.weights.is_empty() {
            self.selected.weights.push(weight);
        }
        if self.passed.len() >= BATCH_SIZE {
            self.flush();
        }
    }

    /// Adds the instances of `range` for which a comparison holds. Their weights are 1.
    fn compare(&mut self, simple: &SimpleCut<'_>, range: Range<usize>) {
        let passed = &mut self.passed;
        with_values!(
            simple.values,
            values => {
                let values = values.get(range.clone()).unwrap_or_default();
                let limit = simple.limit;
                match simple.operator {
                    Binary::Less => push_passing(values, range.start, passed, |x| x < limit),
                    Binary::Greater => push_passing(values, range.start, passed, |x| x > limit),
                    Binary::LessOrEqual => push_passing(values, range.start, passed, |x| x <= limit),
                    Binary::GreaterOrEqual => push_passing(values, range.start, passed, |x| x >= limit),
                    Binary::Equal => push_passing(values, range.start, passed, |x| x == limit),
                    _ => push_passing(values, range.start, passed, |x| x != limit),
                }
            },
            ()
        );
        if self.passed.len() >= BATCH_SIZE {
            self.flush();
        }
    }

    /// Evaluates the value for the instances that passed.
    fn flush(&mut self) {
        let passed = std::mem::take(&mut self.passed);
        if !passed.is_empty() {
            self.evaluate(&InstanceBatch::list(&passed, self.instances));
        }
        self.passed = passed;
        self.passed.clear();
    }

    /// Evaluates the value for `batch`.
    fn evaluate(&mut self, batch: &InstanceBatch<'_>) {
        let values = evaluate(self.scope, self.value, batch).finish(batch.len());
        self.selected.values.extend(values);
    }
}

/// A cut that compares a number with a branch that has one value for each instance.
struct SimpleCut<'a> {
    values: &'a Values,
    operator: Binary,
    limit: f64,
}

/// Returns the cut as a [`SimpleCut`] if it has that form. This is the most frequent kind, and
/// needs no intermediate results.
fn simple_cut<'s>(scope: &'s Scope<'_>, cut: &Bound) -> Option<SimpleCut<'s>> {
    let Bound::Binary(operator, left, right) = cut else { return None };
    let (column, operator, limit) = match (left.as_ref(), right.as_ref()) {
        (Bound::Column(index), Bound::Number(limit)) => (index, *operator, *limit),
        (Bound::Number(limit), Bound::Column(index)) => (index, mirrored(*operator)?, *limit),
        _ => return None,
    };
    let comparison = matches!(
        operator,
        Binary::Less
            | Binary::Greater
            | Binary::LessOrEqual
            | Binary::GreaterOrEqual
            | Binary::Equal
            | Binary::NotEqual
    );
    let column = scope.columns.get(*column)?;
    (comparison && column.access == ValueAccess::Identity).then_some(SimpleCut {
        values: &column.column.values,
        operator,
        limit,
    })
}

/// The comparison with its sides exchanged.
fn mirrored(operator: Binary) -> Option<Binary> {
    Some(match operator {
        Binary::Less => Binary::Greater,
        Binary::Greater => Binary::Less,
        Binary::LessOrEqual => Binary::GreaterOrEqual,
        Binary::GreaterOrEqual => Binary::LessOrEqual,
        Binary::Equal | Binary::NotEqual => operator,
        _ => return None,
    })
}

/// Adds the instances for whose value `passes` is true to `passed`; the first value is the one of
/// instance `start`.
#[inline]
fn push_passing<T: Element>(
    values: &[T],
    start: usize,
    passed: &mut Vec<usize>,
    passes: impl Fn(f64) -> bool,
) {
    // Most cuts pass few values: a group of sixteen of which none passes costs one branch.
    for (group, values) in values.chunks(16).enumerate() {
        let any = values.iter().fold(false, |any, value| any | passes(value.number()));
        if any {
            for (i, value) in values.iter().enumerate() {
                if passes(value.number()) {
                    passed.push(start + 16 * group + i);
                }
            }
        }
    }
}
