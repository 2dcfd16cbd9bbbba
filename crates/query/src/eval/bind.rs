//! Binds a syntax tree to the columns of one chunk.
//!
//! Binding looks up the branches and checks their shapes. Everything with a loop of its own
//! (`Sum$(x)` and its relatives, computed indices, `Alt$`) is evaluated here, over the whole chunk,
//! to one value for each entry. The rest is a tree over columns that run in one loop
//! ([`Instances`]).

use crate::chunk::Chunk;
use crate::eval::batch::{BLOCK, InstanceBatch};
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
    /// One value for each entry.
    PerEntry(Vec<f64>),
    Alternative(Box<Alternative>),
    /// The number of the entry, counted from this number of the chunk's first.
    Entry(u64),
    /// The number of the turn.
    Iteration,
    /// The number of turns of the entry.
    Length,
}

/// `Alt$(first, otherwise)`.
#[derive(Debug)]
pub(crate) struct Alternative {
    /// The values of `first` in a loop of its own.
    pub(crate) values: Vec<f64>,
    /// The number of values of all entries before, for each entry and for the end.
    pub(crate) starts: Vec<usize>,
    pub(crate) otherwise: Vec<f64>,
}

/// A formula, with its dependence on the turn.
#[derive(Debug)]
pub(crate) struct Formula {
    pub(crate) root: Bound,
    /// True if it may differ between the turns of an entry. As in ROOT, a formula without arrays
    /// and `Iteration$` is evaluated for the first turn only, even with `Alt$`.
    pub(crate) multiple: bool,
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

    /// Binds `node`, and adds its columns to the loop.
    pub(crate) fn bind(&mut self, node: &Node) -> Result<Formula, Error> {
        let before = self.columns.len();
        let root = self.node(node)?;
        let arrays = self.columns.iter().skip(before).any(BoundColumn::is_multiple);
        Ok(Formula { multiple: arrays || iterates(&root), root })
    }

    /// Ends the scope, and returns the loop over all its columns.
    pub(crate) fn close(&mut self) -> Result<Instances, Error> {
        let entries = self.chunk.entries();
        let turns = Instances::new(&self.columns, entries)?;
        for column in &mut self.columns {
            column.choose_access(&turns, entries);
        }
        Ok(turns)
    }

    fn node(&mut self, node: &Node) -> Result<Bound, Error> {
        Ok(match node {
            Node::Number(value) => Bound::Number(*value),
            Node::Column { name, indices } => {
                let column = self.chunk.column(name)?;
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
                Bound::PerEntry(aggregated(self.chunk, *aggregate, arguments)?)
            }
            Node::Alternative(parts) => {
                let [first, otherwise] = parts.as_ref();
                Bound::Alternative(Box::new(alternative(self.chunk, first, otherwise)?))
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
            Index::Constant(at) => BoundIndex::At(*at),
            Index::Computed(node) => BoundIndex::PerEntry(per_entry(
                self.chunk,
                node,
                &format!("the index of `{name}`"),
            )?),
        })
    }
}

/// Returns true if `bound` contains `Iteration$`.
fn iterates(bound: &Bound) -> bool {
    match bound {
        Bound::Iteration => true,
        Bound::Unary(_, operand) => iterates(operand),
        Bound::Binary(_, left, right) => iterates(left) || iterates(right),
        Bound::Conditional(parts) => parts.iter().any(iterates),
        Bound::Call(_, arguments) => arguments.iter().any(iterates),
        _ => false,
    }
}

/// Evaluates an expression that has one value for each entry.
fn per_entry(chunk: &Chunk<'_>, node: &Node, what: &str) -> Result<Vec<f64>, Error> {
    let mut scope = Scope::new(chunk);
    let formula = scope.bind(node)?;
    let turns = scope.close()?;
    if formula.multiple || turns.uniform() != Some(1) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("{what} must be one number in each entry, `{node}` is an array"),
        ));
    }
    let mut values = Vec::with_capacity(chunk.entries());
    for span in blocks(0..chunk.entries()) {
        let instances = InstanceBatch::entries(span, &turns);
        values.extend(evaluate(&scope, &formula, &instances).finish(instances.len()));
    }
    Ok(values)
}

fn alternative(chunk: &Chunk<'_>, first: &Node, otherwise: &Node) -> Result<Alternative, Error> {
    let otherwise = per_entry(chunk, otherwise, "the second argument of `Alt$`")?;
    let mut scope = Scope::new(chunk);
    let formula = scope.bind(first)?;
    let turns = scope.close()?;
    let starts: Vec<usize> = (0..=chunk.entries()).map(|entry| turns.start(entry)).collect();
    let mut values = Vec::new();
    for span in blocks(0..turns.start(chunk.entries())) {
        let instances = InstanceBatch::span(span, &turns);
        values.extend(evaluate(&scope, &formula, &instances).finish(instances.len()));
    }
    Ok(Alternative { values, starts, otherwise })
}

/// Evaluates `Sum$(...)` and its relatives: one value for each entry.
fn aggregated(
    chunk: &Chunk<'_>,
    aggregate: Aggregate,
    arguments: &[Node],
) -> Result<Vec<f64>, Error> {
    let mut scope = Scope::new(chunk);
    let first = arguments.first().map(|node| scope.bind(node)).transpose()?;
    let condition = arguments.get(1).map(|node| scope.bind(node)).transpose()?;
    let turns = scope.close()?;
    let entries = chunk.entries();
    if aggregate == Aggregate::Length {
        #[expect(clippy::cast_precision_loss, reason = "as in ROOT")]
        return Ok((0..entries).map(|entry| turns.count(entry) as f64).collect());
    }
    let mut results = vec![0.0; entries];
    let Some(first) = first else { return Ok(results) };
    // The entry of the last value; the first value of an entry starts its result.
    let mut begun = None;
    for span in blocks(0..turns.start(entries)) {
        let instances = InstanceBatch::span(span, &turns);
        let values = evaluate(&scope, &first, &instances).finish(instances.len());
        let passing = condition
            .as_ref()
            .map(|condition| evaluate(&scope, condition, &instances).finish(instances.len()));
        for (i, (value, entry)) in values.iter().zip(&instances.placed().entries).enumerate() {
            if passing.as_ref().is_some_and(|passing| passing.get(i) == Some(&0.0)) {
                continue;
            }
            let first_of_entry = begun != Some(*entry);
            begun = Some(*entry);
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

/// Splits `range` into pieces of [`BLOCK`].
pub(crate) fn blocks(
    range: std::ops::Range<usize>,
) -> impl Iterator<Item = std::ops::Range<usize>> {
    let end = range.end;
    range.step_by(BLOCK).map(move |start| start..end.min(start.saturating_add(BLOCK)))
}
