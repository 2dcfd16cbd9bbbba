//! Binding: from a syntax tree to a formula over the columns of one chunk.
//!
//! Binding looks up the branches, checks their shapes, and evaluates the parts that have their own
//! loop: `Sum$(x)` and the other aggregates, computed indices, and `Alt$`. These are evaluated over
//! the whole chunk to one number for each entry (`Alt$`: to its values and one number for each
//! entry). The rest is a tree over columns in one loop ([`Instances`]).

use crate::chunk::Chunk;
use crate::eval::batch::{BATCH_SIZE, InstanceBatch};
use crate::eval::evaluate::evaluate;
use crate::eval::shape::{BoundColumn, BoundIndex, Instances};
use crate::function::{Aggregate, Function};
use crate::operator::{Binary, Unary};
use crate::syntax::ast::{Index, Node, Special};
use hither_core::{Error, ErrorKind};

/// An expression over the columns of a [`Scope`].
#[derive(Debug)]
pub(crate) enum Bound {
    Number(f64),
    /// A column, by its index in the scope.
    Column(usize),
    Unary(Unary, Box<Self>),
    Binary(Binary, Box<Self>, Box<Self>),
    Conditional(Box<[Self; 3]>),
    Call(&'static Function, Vec<Self>),
    /// One number for each entry.
    PerEntry(Vec<f64>),
    Alternative(Box<Alternative>),
    /// The number of the entry; the chunk's first entry has this number.
    Entry(u64),
    /// The number of the instance within its entry.
    Iteration,
    /// The number of instances of the entry.
    Length,
}

/// `Alt$(first, fallback)`.
#[derive(Debug)]
pub(crate) struct Alternative {
    /// The values of `first` in its own loop.
    pub(crate) values: Vec<f64>,
    /// For each entry and for the end, the number of values of all entries before.
    pub(crate) starts: Vec<usize>,
    /// One value for each entry.
    pub(crate) fallback: Vec<f64>,
}

/// A bound expression.
#[derive(Debug)]
pub(crate) struct Formula {
    pub(crate) root: Bound,
    /// True if the value can differ between the instances of an entry: the formula has an array or
    /// `Iteration$`. ROOT evaluates others, `Alt$` included, only for the first instance.
    pub(crate) per_instance: bool,
}

/// The columns that run in one loop, in the order in which they were bound.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    chunk: &'a Chunk<'a>,
    pub(crate) columns: Vec<BoundColumn<'a>>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(chunk: &'a Chunk<'a>) -> Self {
        Self { chunk, columns: Vec::new() }
    }

    /// Binds `node` and adds its columns to the scope.
    pub(crate) fn bind(&mut self, node: &Node) -> Result<Formula, Error> {
        let before = self.columns.len();
        let root = self.node(node)?;
        let has_array = self.columns.iter().skip(before).any(BoundColumn::is_per_instance);
        Ok(Formula { per_instance: has_array || has_iteration(&root), root })
    }

    /// The loop over all columns of the scope.
    pub(crate) fn close(&mut self) -> Result<Instances, Error> {
        let entries = self.chunk.entries();
        let instances = Instances::new(&self.columns, entries)?;
        for column in &mut self.columns {
            column.choose_access(&instances, entries);
        }
        Ok(instances)
    }

    fn node(&mut self, node: &Node) -> Result<Bound, Error> {
        Ok(match node {
            Node::Number(value) => Bound::Number(*value),
            Node::Column { name, indices } => {
                let column = self.chunk.column(name)?;
                if let (true, Some(offsets)) = (is_size(name), &column.offsets) {
                    return sizes(name, indices, offsets);
                }
                let indices = indices
                    .iter()
                    .map(|index| self.index(name, index))
                    .collect::<Result<_, _>>()?;
                let entries = self.chunk.entries();
                self.columns.push(BoundColumn::new(name, column, entries, indices)?);
                Bound::Column(self.columns.len() - 1)
            }
            Node::Unary(operator, operand) => {
                Bound::Unary(*operator, Box::new(self.node(operand)?))
            }
            Node::Binary(operator, left, right) => {
                let left = self.node(left)?;
                Bound::Binary(*operator, Box::new(left), Box::new(self.node(right)?))
            }
            Node::Conditional(parts) => {
                let [condition, yes, no] = parts.as_ref();
                let condition = self.node(condition)?;
                let yes = self.node(yes)?;
                Bound::Conditional(Box::new([condition, yes, self.node(no)?]))
            }
            Node::Call(function, arguments) => {
                let arguments =
                    arguments.iter().map(|node| self.node(node)).collect::<Result<_, _>>()?;
                Bound::Call(function, arguments)
            }
            Node::Aggregate(aggregate, arguments) => {
                Bound::PerEntry(aggregate_entries(self.chunk, *aggregate, arguments)?)
            }
            Node::Alternative(parts) => {
                let [first, fallback] = parts.as_ref();
                Bound::Alternative(Box::new(alternative(self.chunk, first, fallback)?))
            }
            Node::Special(special) => match special {
                Special::Entry => Bound::Entry(self.chunk.first_entry()),
                #[expect(clippy::cast_precision_loss, reason = "as in ROOT")]
                Special::Entries => Bound::Number(self.chunk.tree_entries() as f64),
                Special::Iteration => Bound::Iteration,
                Special::Length => Bound::Length,
            },
        })
    }

    fn index(&self, name: &str, index: &Index) -> Result<BoundIndex, Error> {
        Ok(match index {
            Index::All => BoundIndex::All,
            Index::Constant(index) => BoundIndex::Fixed(*index),
            Index::Computed(node) => BoundIndex::PerEntry(per_entry(
                self.chunk,
                node,
                &format!("the index of `{name}`"),
            )?),
        })
    }
}

/// Returns true if `name` names the number of items of a collection (`@name.size()`).
fn is_size(name: &str) -> bool {
    name.starts_with('@') && name.ends_with(".size()")
}

/// The number of items in each entry of the list column `name`.
fn sizes(name: &str, indices: &[Index], offsets: &[i64]) -> Result<Bound, Error> {
    if !indices.is_empty() {
        let message = format!("`{name}` is not an array and takes no index");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    #[expect(clippy::cast_precision_loss, reason = "as in ROOT")]
    let count = |pair: &[i64]| (pair[1] - pair[0]) as f64;
    Ok(Bound::PerEntry(offsets.windows(2).map(count).collect()))
}

/// Returns true if the formula contains `Iteration$`.
fn has_iteration(bound: &Bound) -> bool {
    match bound {
        Bound::Iteration => true,
        Bound::Unary(_, operand) => has_iteration(operand),
        Bound::Binary(_, left, right) => has_iteration(left) || has_iteration(right),
        Bound::Conditional(parts) => parts.iter().any(has_iteration),
        Bound::Call(_, arguments) => arguments.iter().any(has_iteration),
        _ => false,
    }
}

/// The values of an expression with one value for each entry. Errors call the expression `role`.
fn per_entry(chunk: &Chunk<'_>, node: &Node, role: &str) -> Result<Vec<f64>, Error> {
    let mut scope = Scope::new(chunk);
    let formula = scope.bind(node)?;
    let instances = scope.close()?;
    if formula.per_instance || instances.uniform() != Some(1) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("{role} must be one number in each entry, `{node}` is an array"),
        ));
    }
    let mut values = Vec::with_capacity(chunk.entries());
    for range in batches(0..chunk.entries()) {
        let batch = InstanceBatch::entries(range, &instances);
        values.extend(evaluate(&scope, &formula, &batch).finish(batch.len()));
    }
    Ok(values)
}

fn alternative(chunk: &Chunk<'_>, first: &Node, fallback: &Node) -> Result<Alternative, Error> {
    let fallback = per_entry(chunk, fallback, "the second argument of `Alt$`")?;
    let mut scope = Scope::new(chunk);
    let formula = scope.bind(first)?;
    let instances = scope.close()?;
    let starts: Vec<usize> = (0..=chunk.entries()).map(|entry| instances.start(entry)).collect();
    let mut values = Vec::new();
    for range in batches(0..instances.start(chunk.entries())) {
        let batch = InstanceBatch::range(range, &instances);
        values.extend(evaluate(&scope, &formula, &batch).finish(batch.len()));
    }
    Ok(Alternative { values, starts, fallback })
}

/// The values of an aggregate, one for each entry.
fn aggregate_entries(
    chunk: &Chunk<'_>,
    aggregate: Aggregate,
    arguments: &[Node],
) -> Result<Vec<f64>, Error> {
    let mut scope = Scope::new(chunk);
    let first = arguments.first().map(|node| scope.bind(node)).transpose()?;
    let condition = arguments.get(1).map(|node| scope.bind(node)).transpose()?;
    let instances = scope.close()?;
    let entries = chunk.entries();
    if aggregate == Aggregate::Length {
        #[expect(clippy::cast_precision_loss, reason = "as in ROOT")]
        return Ok((0..entries).map(|entry| instances.count(entry) as f64).collect());
    }
    let mut results = vec![0.0; entries];
    let Some(first) = first else { return Ok(results) };
    let mut last_entry = None;
    for range in batches(0..instances.start(entries)) {
        let batch = InstanceBatch::range(range, &instances);
        let values = evaluate(&scope, &first, &batch).finish(batch.len());
        let conditions = condition
            .as_ref()
            .map(|condition| evaluate(&scope, condition, &batch).finish(batch.len()));
        for (i, (value, entry)) in values.iter().zip(&batch.numbers().entries).enumerate() {
            if conditions.as_ref().is_some_and(|conditions| conditions.get(i) == Some(&0.0)) {
                continue;
            }
            let first_of_entry = last_entry != Some(*entry);
            last_entry = Some(*entry);
            if let Some(result) = results.get_mut(*entry) {
                let better = match aggregate {
                    Aggregate::Sum | Aggregate::Length => {
                        *result += value;
                        continue;
                    }
                    Aggregate::Min | Aggregate::MinIf => value < result,
                    Aggregate::Max | Aggregate::MaxIf => value > result,
                };
                if first_of_entry || better {
                    *result = *value;
                }
            }
        }
    }
    Ok(results)
}

/// Splits `range` into parts of [`BATCH_SIZE`].
pub(crate) fn batches(
    range: std::ops::Range<usize>,
) -> impl Iterator<Item = std::ops::Range<usize>> {
    let end = range.end;
    range.step_by(BATCH_SIZE).map(move |start| start..end.min(start.saturating_add(BATCH_SIZE)))
}
