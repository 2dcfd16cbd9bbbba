//! The main loop: finds the turns that pass the cut, and computes their values.

use crate::chunk::Chunk;
use crate::eval::batch::{BLOCK, InstanceBatch};
use crate::eval::bind::{Bound, Formula, Scope, blocks};
use crate::eval::evaluate::{Element, evaluate, with_values};
use crate::eval::shape::{Access, Instances};
use crate::operator::Binary;
use crate::{Expression, SelectedValues};
use hither_core::Error;
use hither_formats::Values;
use std::ops::Range;

/// Evaluates `value` where `cut` passes.
pub(crate) fn select(
    value: &Expression,
    cut: Option<&Expression>,
    chunk: &Chunk<'_>,
) -> Result<SelectedValues, Error> {
    let mut scope = Scope::new(chunk);
    let cut = cut.map(|cut| scope.bind(&cut.root)).transpose()?;
    let value = scope.bind(&value.root)?;
    let turns = scope.close()?;
    let entries = chunk.entries();
    let selected = SelectedValues { entries: entries as u64, ..SelectedValues::default() };
    let mut run = Run { scope: &scope, turns: &turns, value: &value, selected, picks: Vec::new() };
    let all = 0..turns.start(entries);
    match &cut {
        None => blocks(all).for_each(|span| run.take(&InstanceBatch::span(span, &turns))),
        Some(Formula { root, multiple: true }) => match simple(&scope, root) {
            Some(simple) => blocks(all).for_each(|span| run.compare(&simple, span)),
            None => {
                for span in blocks(all) {
                    let instances = InstanceBatch::span(span.clone(), &turns);
                    let weights = evaluate(&scope, cut.as_ref().unwrap_or(&value), &instances);
                    span.zip(weights.finish(instances.len()))
                        .for_each(|(flat, weight)| run.pick(flat, weight));
                }
            }
        },
        Some(once) => {
            for span in blocks(0..entries) {
                let instances = InstanceBatch::entries(span.clone(), &turns);
                let weights = evaluate(&scope, once, &instances).finish(instances.len());
                for (entry, weight) in span.zip(weights) {
                    let turns = turns.start(entry)..turns.start(entry + 1);
                    turns.for_each(|flat| run.pick(flat, weight));
                }
            }
        }
    }
    run.flush();
    Ok(run.selected)
}

struct Run<'a> {
    scope: &'a Scope<'a>,
    turns: &'a Instances,
    value: &'a Formula,
    selected: SelectedValues,
    /// Turns that passed and whose values are not yet computed; about a block at most.
    picks: Vec<usize>,
}

impl Run<'_> {
    /// Picks turn `flat` if its weight is not zero.
    #[inline]
    fn pick(&mut self, flat: usize, weight: f64) {
        if weight == 0.0 {
            return;
        }
        if weight != 1.0 && self.selected.weights.is_empty() {
            let before = self.selected.values.len() + self.picks.len();
            self.selected.weights.resize(before, 1.0);
        }
        self.picks.push(flat);
        if weight != 1.0 || !self.selected.weights.is_empty() {
            self.selected.weights.push(weight);
        }
        if self.picks.len() >= BLOCK {
            self.flush();
        }
    }

    /// Picks the turns of `span` where a comparison holds. All weights are 1.
    fn compare(&mut self, simple: &Simple<'_>, span: Range<usize>) {
        let picks = &mut self.picks;
        with_values!(
            simple.values,
            values => {
                let values = values.get(span.clone()).unwrap_or_default();
                let limit = simple.limit;
                match simple.operator {
                    Binary::Less => passing(values, span.start, picks, |x| x < limit),
                    Binary::Greater => passing(values, span.start, picks, |x| x > limit),
                    Binary::LessOrEqual => passing(values, span.start, picks, |x| x <= limit),
                    Binary::GreaterOrEqual => passing(values, span.start, picks, |x| x >= limit),
                    Binary::Equal => passing(values, span.start, picks, |x| x == limit),
                    _ => passing(values, span.start, picks, |x| x != limit),
                }
            },
            ()
        );
        if self.picks.len() >= BLOCK {
            self.flush();
        }
    }

    /// Computes the values of all picks.
    fn flush(&mut self) {
        let picks = std::mem::take(&mut self.picks);
        if !picks.is_empty() {
            self.take(&InstanceBatch::picks(&picks, self.turns));
        }
        self.picks = picks;
        self.picks.clear();
    }

    /// Computes the values of `instances`.
    fn take(&mut self, instances: &InstanceBatch<'_>) {
        let values = evaluate(self.scope, self.value, instances).finish(instances.len());
        self.selected.values.extend(values);
    }
}

/// A cut that compares a branch with a number, where the branch has one value for each turn.
struct Simple<'a> {
    values: &'a Values,
    operator: Binary,
    limit: f64,
}

/// Returns the cut as a [`Simple`] one, by far the most frequent kind, which needs no intermediate
/// results.
fn simple<'s>(scope: &'s Scope<'_>, cut: &Bound) -> Option<Simple<'s>> {
    let Bound::Binary(operator, left, right) = cut else { return None };
    let (column, operator, limit) = match (left.as_ref(), right.as_ref()) {
        (Bound::Column(place), Bound::Number(limit)) => (place, *operator, *limit),
        (Bound::Number(limit), Bound::Column(place)) => (place, mirrored(*operator)?, *limit),
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
    (comparison && column.access == Access::Identity).then_some(Simple {
        values: &column.column.values,
        operator,
        limit,
    })
}

/// The comparison with its sides swapped.
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

/// Adds positions where `passes` holds to `picks`, counting from `start`.
#[inline]
fn passing<T: Element>(
    values: &[T],
    start: usize,
    picks: &mut Vec<usize>,
    passes: impl Fn(f64) -> bool,
) {
    // Most cuts pass little: sixteen values at a time are rejected without a branch for each.
    for (group, values) in values.chunks(16).enumerate() {
        let any = values.iter().fold(false, |any, value| any | passes(value.number()));
        if any {
            for (i, value) in values.iter().enumerate() {
                if passes(value.number()) {
                    picks.push(start + 16 * group + i);
                }
            }
        }
    }
}
