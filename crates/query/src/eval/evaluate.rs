//! Evaluates a formula for a block of turns.

use crate::eval::batch::{BatchValues, InstanceBatch, Layout, Many};
use crate::eval::bind::{Alternative, Bound, Formula, Scope};
use crate::eval::shape::{Access, BoundColumn};
use crate::function::{Compute, Function};
use crate::operator::{Binary, truth};
use hither_formats::{Column, Values};

/// Computes the values of `formula` for `instances`.
pub(crate) fn evaluate(
    scope: &Scope<'_>,
    formula: &Formula,
    instances: &InstanceBatch<'_>,
) -> BatchValues {
    Evaluation { scope, instances, multiple: formula.multiple }.node(&formula.root)
}

struct Evaluation<'a> {
    scope: &'a Scope<'a>,
    instances: &'a InstanceBatch<'a>,
    multiple: bool,
}

impl Evaluation<'_> {
    fn node(&self, bound: &Bound) -> BatchValues {
        match bound {
            Bound::Number(value) => BatchValues::same(*value),
            Bound::Column(place) => match self.scope.columns.get(*place) {
                Some(column) => self.column(column),
                None => BatchValues::same(f64::NAN),
            },
            Bound::Unary(operator, operand) => self.node(operand).map(|x| operator.apply(x)),
            Bound::Binary(operator, left, right) => {
                binary(*operator, self.node(left), self.node(right), self.instances.len())
            }
            Bound::Conditional(parts) => {
                let [condition, yes, no] = parts.as_ref();
                choose(&self.node(condition), &self.node(yes), &self.node(no), self.instances.len())
            }
            Bound::Call(function, arguments) => self.call(function, arguments),
            Bound::PerEntry(values) => {
                BatchValues::each(gather(values, &self.instances.per_entry()))
            }
            Bound::Alternative(parts) => self.alternative(parts),
            Bound::Entry(first) => {
                let entries = &self.instances.placed().entries;
                #[expect(clippy::cast_precision_loss, reason = "as in ROOT")]
                let number = |entry: &usize| first.saturating_add(*entry as u64) as f64;
                BatchValues::each(entries.iter().map(number).collect())
            }
            Bound::Iteration => {
                let turns = &self.instances.placed().turns;
                #[expect(clippy::cast_precision_loss, reason = "as in ROOT")]
                BatchValues::each(turns.iter().map(|turn| *turn as f64).collect())
            }
            Bound::Length => {
                let entries = &self.instances.placed().entries;
                let count = |entry: &usize| self.instances.turns().count(*entry);
                #[expect(clippy::cast_precision_loss, reason = "as in ROOT")]
                BatchValues::each(entries.iter().map(|entry| count(entry) as f64).collect())
            }
        }
    }

    fn column(&self, column: &BoundColumn<'_>) -> BatchValues {
        match column.access {
            Access::PerEntry => {
                BatchValues::each(values_at(&column.column, &self.instances.per_entry()))
            }
            Access::Identity => {
                BatchValues::each(values_at(&column.column, &self.instances.flat()))
            }
            Access::Computed => {
                let placed = self.instances.placed();
                let mut missing = Vec::new();
                let mut positions = Vec::with_capacity(self.instances.len());
                for (i, (entry, turn)) in placed.entries.iter().zip(&placed.turns).enumerate() {
                    match column.position(*entry, *turn, self.instances.turns()) {
                        Some(position) => positions.push(position),
                        None => {
                            missing.resize(self.instances.len(), false);
                            if let Some(missing) = missing.get_mut(i) {
                                *missing = true;
                            }
                            positions.push(usize::MAX);
                        }
                    }
                }
                let values = values_at(&column.column, &Layout::Picks(&positions));
                BatchValues { values: Many::Each(values), missing }
            }
        }
    }

    fn call(&self, function: &Function, arguments: &[Bound]) -> BatchValues {
        match (function.compute, arguments) {
            (Compute::Constant(value), []) => BatchValues::same(value),
            (Compute::One(f), [x]) => self.node(x).map(f),
            (Compute::Two(f), [x, y]) => self.node(x).zip(self.node(y), f),
            (Compute::Three(f), [x, y, z]) => {
                let z = self.node(z);
                // Three arguments: first the pairs of two, then each with its third.
                let (x, y) = (self.node(x), self.node(y));
                let count = self.instances.len();
                let values = (0..count).map(|i| f(x.at(i), y.at(i), z.at(i))).collect();
                let missing = x.zip(y, |x, _| x).zip(z, |x, _| x).missing;
                BatchValues { values: Many::Each(values), missing }
            }
            // The parser has checked the number of arguments.
            _ => BatchValues::same(f64::NAN),
        }
    }

    fn alternative(&self, parts: &Alternative) -> BatchValues {
        let placed = self.instances.placed();
        let value = |(entry, turn): (&usize, &usize)| {
            let turn = if self.multiple { *turn } else { 0 };
            let start = parts.starts.get(*entry).copied().unwrap_or(usize::MAX);
            let end = parts.starts.get(entry + 1).copied().unwrap_or(0);
            let found = start.checked_add(turn).filter(|at| *at < end);
            found
                .and_then(|at| parts.values.get(at))
                .or_else(|| parts.otherwise.get(*entry))
                .copied()
                .unwrap_or(f64::NAN)
        };
        BatchValues::each(placed.entries.iter().zip(&placed.turns).map(value).collect())
    }
}

/// `left operator right`; `&&` and `||` ignore the right side where the left one decides.
fn binary(operator: Binary, left: BatchValues, right: BatchValues, count: usize) -> BatchValues {
    macro_rules! each {
        ($($name:ident)*) => {
            match operator {
                $(Binary::$name => left.zip(right, |x, y| Binary::$name.apply(x, y)),)*
                Binary::And | Binary::Or => {
                    let decided = |i| (left.at(i) != 0.0) == (operator == Binary::Or);
                    let missing = if right.missing.is_empty() {
                        left.missing.clone()
                    } else {
                        (0..count)
                            .map(|i| left.is_missing(i) || (!decided(i) && right.is_missing(i)))
                            .collect()
                    };
                    let values = match operator {
                        Binary::And => left.zip(right, |x, y| truth(x != 0.0 && y != 0.0)),
                        _ => left.zip(right, |x, y| truth(x != 0.0 || y != 0.0)),
                    };
                    BatchValues { missing, ..values }
                }
            }
        };
    }
    each!(BitOr BitAnd Less Greater LessOrEqual GreaterOrEqual Equal NotEqual Add Subtract Modulo
        ShiftRight ShiftLeft Multiply Divide Power)
}

/// `condition ? yes : no`; the side that is not taken is ignored.
fn choose(
    condition: &BatchValues,
    yes: &BatchValues,
    no: &BatchValues,
    count: usize,
) -> BatchValues {
    let taken = |i| if condition.at(i) != 0.0 { yes } else { no };
    let values = (0..count).map(|i| taken(i).at(i)).collect();
    let some_missing = [condition, yes, no].iter().any(|part| !part.missing.is_empty());
    let missing = if some_missing {
        (0..count).map(|i| condition.is_missing(i) || taken(i).is_missing(i)).collect()
    } else {
        Vec::new()
    };
    BatchValues { values: Many::Each(values), missing }
}

/// A number type of a column.
pub(crate) trait Element: Copy {
    /// The value in double precision.
    fn number(self) -> f64;
}

macro_rules! elements {
    ($($type:ty),*) => { $(impl Element for $type {
        #[inline]
        fn number(self) -> f64 {
            f64::from(self)
        }
    })* };
}
elements!(bool, i8, u8, i16, u16, i32, u32, f32, f64);

impl Element for i64 {
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "all arithmetic is in double precision")]
    fn number(self) -> f64 {
        self as f64
    }
}

impl Element for u64 {
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "all arithmetic is in double precision")]
    fn number(self) -> f64 {
        self as f64
    }
}

/// Runs `$body` with `$slice` bound to the values of a column of any type.
macro_rules! with_values {
    ($values:expr, $slice:ident => $body:expr, $otherwise:expr) => {
        match $values {
            Values::Bool($slice) => $body,
            Values::I8($slice) => $body,
            Values::U8($slice) => $body,
            Values::I16($slice) => $body,
            Values::U16($slice) => $body,
            Values::I32($slice) => $body,
            Values::U32($slice) => $body,
            Values::I64($slice) => $body,
            Values::U64($slice) => $body,
            Values::F32($slice) => $body,
            Values::F64($slice) => $body,
            _ => $otherwise,
        }
    };
}
pub(crate) use with_values;

/// The values of `column` at `places`, NaN where there is none.
fn values_at(column: &Column, places: &Layout<'_>) -> Vec<f64> {
    with_values!(&column.values, values => gather(values, places), Vec::new())
}

/// The elements of `values` at `places`, NaN where there is none.
fn gather<T: Element>(values: &[T], places: &Layout<'_>) -> Vec<f64> {
    match places {
        Layout::Span(range) => {
            let values = values.get(range.clone()).unwrap_or_default();
            values.iter().map(|value| value.number()).collect()
        }
        Layout::Picks(picks) => {
            let number = |at: &usize| values.get(*at).map_or(f64::NAN, |value| value.number());
            picks.iter().map(number).collect()
        }
    }
}
