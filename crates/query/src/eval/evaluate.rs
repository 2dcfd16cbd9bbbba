//! Evaluation of a formula for a batch of instances.

use crate::eval::batch::{BatchValues, InstanceBatch, Numbers, Positions};
use crate::eval::bind::{Alternative, Bound, Formula, Scope};
use crate::eval::shape::{BoundColumn, ValueAccess};
use crate::function::{Compute, Function};
use crate::operator::{Binary, truth};
use hither_formats::{Column, Values};

/// The values of `formula` for the instances of `batch`.
pub(crate) fn evaluate(
    scope: &Scope<'_>,
    formula: &Formula,
    batch: &InstanceBatch<'_>,
) -> BatchValues {
    Evaluation { scope, batch, per_instance: formula.per_instance }.node(&formula.root)
}

struct Evaluation<'a> {
    scope: &'a Scope<'a>,
    batch: &'a InstanceBatch<'a>,
    per_instance: bool,
}

impl Evaluation<'_> {
    fn node(&self, bound: &Bound) -> BatchValues {
        match bound {
            Bound::Number(value) => BatchValues::constant(*value),
            Bound::Column(index) => match self.scope.columns.get(*index) {
                Some(column) => self.column(column),
                None => BatchValues::constant(f64::NAN),
            },
            Bound::Unary(operator, operand) => self.node(operand).map(|x| operator.apply(x)),
            Bound::Binary(operator, left, right) => {
                binary(*operator, self.node(left), self.node(right), self.batch.len())
            }
            Bound::Conditional(parts) => {
                let [condition, yes, no] = parts.as_ref();
                choose(&self.node(condition), &self.node(yes), &self.node(no), self.batch.len())
            }
            Bound::Call(function, arguments) => self.call(function, arguments),
            Bound::PerEntry(values) => BatchValues::each(gather(values, &self.batch.per_entry())),
            Bound::Alternative(parts) => self.alternative(parts),
            Bound::Entry(first) => {
                let entries = &self.batch.numbers().entries;
                #[expect(clippy::cast_precision_loss, reason = "as in ROOT")]
                let number = |entry: &usize| first.saturating_add(*entry as u64) as f64;
                BatchValues::each(entries.iter().map(number).collect())
            }
            Bound::Iteration => {
                let instances = &self.batch.numbers().instances;
                #[expect(clippy::cast_precision_loss, reason = "as in ROOT")]
                BatchValues::each(instances.iter().map(|instance| *instance as f64).collect())
            }
            Bound::Length => {
                let entries = &self.batch.numbers().entries;
                let count = |entry: &usize| self.batch.instances().count(*entry);
                #[expect(clippy::cast_precision_loss, reason = "as in ROOT")]
                BatchValues::each(entries.iter().map(|entry| count(entry) as f64).collect())
            }
        }
    }

    fn column(&self, column: &BoundColumn<'_>) -> BatchValues {
        match column.access {
            ValueAccess::PerEntry => {
                BatchValues::each(values_at(&column.column, &self.batch.per_entry()))
            }
            ValueAccess::Identity => {
                BatchValues::each(values_at(&column.column, &self.batch.per_instance()))
            }
            ValueAccess::Computed => {
                let numbers = self.batch.numbers();
                let mut missing = Vec::new();
                let mut positions = Vec::with_capacity(self.batch.len());
                let places = numbers.entries.iter().zip(&numbers.instances);
                for (i, (entry, instance)) in places.enumerate() {
                    match column.position(*entry, *instance, self.batch.instances()) {
                        Some(position) => positions.push(position),
                        None => {
                            missing.resize(self.batch.len(), false);
                            if let Some(missing) = missing.get_mut(i) {
                                *missing = true;
                            }
                            positions.push(usize::MAX);
                        }
                    }
                }
                let values = values_at(&column.column, &Positions::List(&positions));
                BatchValues { values: Numbers::Each(values), missing }
            }
        }
    }

    fn call(&self, function: &Function, arguments: &[Bound]) -> BatchValues {
        match (function.compute, arguments) {
            (Compute::Constant(value), []) => BatchValues::constant(value),
            (Compute::One(f), [x]) => self.node(x).map(f),
            (Compute::Two(f), [x, y]) => self.node(x).zip(self.node(y), f),
            (Compute::Three(f), [x, y, z]) => {
                let x = self.node(x);
                let y = self.node(y);
                let z = self.node(z);
                let count = self.batch.len();
                let values = (0..count).map(|i| f(x.at(i), y.at(i), z.at(i))).collect();
                let missing = x.zip(y, |x, _| x).zip(z, |x, _| x).missing;
                BatchValues { values: Numbers::Each(values), missing }
            }
            // unreachable: the parser checks the number of arguments
            _ => BatchValues::constant(f64::NAN),
        }
    }

    fn alternative(&self, parts: &Alternative) -> BatchValues {
        let numbers = self.batch.numbers();
        let value = |(entry, instance): (&usize, &usize)| {
            let instance = if self.per_instance { *instance } else { 0 };
            let start = parts.starts.get(*entry).copied().unwrap_or(usize::MAX);
            let end = parts.starts.get(entry + 1).copied().unwrap_or(0);
            let position = start.checked_add(instance).filter(|position| *position < end);
            position
                .and_then(|position| parts.values.get(position))
                .or_else(|| parts.fallback.get(*entry))
                .copied()
                .unwrap_or(f64::NAN)
        };
        BatchValues::each(numbers.entries.iter().zip(&numbers.instances).map(value).collect())
    }
}

/// `left operator right`. For `&&` and `||`, a missing right operand has no effect if the left one
/// decides.
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

/// `condition ? yes : no`. A missing value has no effect if the other one is chosen.
fn choose(
    condition: &BatchValues,
    yes: &BatchValues,
    no: &BatchValues,
    count: usize,
) -> BatchValues {
    let chosen = |i| if condition.at(i) != 0.0 { yes } else { no };
    let values = (0..count).map(|i| chosen(i).at(i)).collect();
    let any_missing = [condition, yes, no].iter().any(|part| !part.missing.is_empty());
    let missing = if any_missing {
        (0..count).map(|i| condition.is_missing(i) || chosen(i).is_missing(i)).collect()
    } else {
        Vec::new()
    };
    BatchValues { values: Numbers::Each(values), missing }
}

/// The type of a column's numbers.
pub(crate) trait Element: Copy {
    /// The number in double precision.
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

/// Runs `$body` with `$slice` bound to the values of a column of any number type.
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

/// The values of `column` at `positions`, NaN where there is none.
fn values_at(column: &Column, positions: &Positions<'_>) -> Vec<f64> {
    with_values!(&column.values, values => gather(values, positions), Vec::new())
}

/// The elements of `values` at `positions`, NaN where there is none.
fn gather<T: Element>(values: &[T], positions: &Positions<'_>) -> Vec<f64> {
    match positions {
        Positions::Range(range) => {
            let values = values.get(range.clone()).unwrap_or_default();
            values.iter().map(|value| value.number()).collect()
        }
        Positions::List(list) => {
            let number =
                |position: &usize| values.get(*position).map_or(f64::NAN, |value| value.number());
            list.iter().map(number).collect()
        }
    }
}
