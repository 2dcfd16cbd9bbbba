//! The plan of a request: its branches, expressions and cut, checked against the tree.

use crate::tree::arrays::ArraysRequest;
use crate::tree::arrays::cut::Mask;
use crate::tree::scan::{ChunkColumns, ChunkPieces, Piece};
use hither_core::error::{Error, ErrorKind, Result};
use hither_formats::root::{Branch, ColumnType, RecordType, Tree};
use hither_formats::{Column, ElementType, FormatError, Values};
use hither_query::{Chunk, Expression};
use std::ops::Range;
use std::sync::Arc;

/// A request that was checked against its tree.
#[derive(Debug)]
pub(crate) struct ColumnPlan {
    /// The branches that are read, each once.
    branches: Vec<String>,
    /// The type of each of these branches.
    kinds: Vec<ColumnType>,
    outputs: Vec<Output>,
    /// For each name of the request, the type of its entries if that is a record.
    records: Vec<Option<RecordType>>,
    cut: Option<(String, Expression)>,
    entries: Range<u64>,
    tree_entries: u64,
}

/// One column of the result.
#[derive(Debug)]
enum Output {
    /// A branch, by its index among those that are read.
    Branch(usize, String),
    Expression(String, Expression),
}

impl ColumnPlan {
    pub(crate) fn new(tree: &Tree, request: &ArraysRequest) -> Result<Self> {
        let end = request.entries.end.min(tree.entries());
        let entries = request.entries.start.min(end)..end;
        let mut plan = Self {
            branches: Vec::new(),
            kinds: Vec::new(),
            outputs: Vec::new(),
            records: Vec::new(),
            cut: None,
            entries,
            tree_entries: tree.entries(),
        };
        for text in &request.columns {
            let expression = Expression::resolve(text, |name| tree.has_branch(name))?;
            let branch = expression.as_branch().map(|name| tree.branch(name)).transpose()?;
            // The size of a collection that is not split is computed.
            let branch = branch.filter(|it| !text.starts_with('@') || it.name().starts_with('@'));
            let record = branch.and_then(Branch::record);
            match (record, branch.and(expression.as_branch())) {
                (Some(record), _) => {
                    for path in record.columns() {
                        let output = Output::Branch(plan.read(tree, path, true)?, text.clone());
                        plan.outputs.push(output);
                    }
                }
                (None, Some(name)) => {
                    let output = Output::Branch(plan.read(tree, name, true)?, text.clone());
                    plan.outputs.push(output);
                }
                (None, None) => {
                    plan.read_all(tree, &expression)?;
                    plan.outputs.push(Output::Expression(text.clone(), expression));
                }
            }
            plan.records.push(record.cloned());
        }
        if let Some(text) = &request.cut {
            let expression = Expression::resolve(text, |name| tree.has_branch(name))
                .map_err(|error| error.context("cut"))?;
            plan.read_all(tree, &expression)?;
            plan.cut = Some((text.clone(), expression));
        }
        // Names, shapes and indices are checked before anything is read.
        plan.none()?;
        Ok(plan)
    }

    /// The branches that are read, each once.
    pub(crate) fn branches(&self) -> &[String] {
        &self.branches
    }

    /// For each name of the request, the type of its entries if that is a record.
    pub(crate) fn records(&self) -> Arc<[Option<RecordType>]> {
        self.records.as_slice().into()
    }

    /// The number of columns of the result.
    pub(crate) fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// The entries that are read.
    pub(crate) fn entries(&self) -> Range<u64> {
        self.entries.clone()
    }

    /// The columns of no entries.
    pub(crate) fn none(&self) -> Result<Vec<Column>> {
        let start = self.entries.start;
        let columns = self.kinds.iter().map(empty).collect();
        self.computed(ChunkColumns { entries: start..start, columns })
    }

    /// The columns of the result for a chunk, in pieces, and the entries of the chunk.
    pub(crate) fn evaluate(&self, chunk: ChunkPieces) -> Result<(Range<u64>, Vec<Vec<Piece>>)> {
        let entries = chunk.entries.clone();
        let as_read = |output: &Output| match output {
            Output::Branch(index, _) => chunk.columns.get(*index).cloned(),
            Output::Expression(..) => None,
        };
        let branches = self.outputs.iter().map(as_read).collect::<Option<Vec<_>>>();
        if let (None, Some(pieces)) = (&self.cut, branches) {
            // Copied once, when all chunks are there.
            return Ok((entries, pieces));
        }
        let columns = self.computed(chunk.joined()?)?;
        Ok((entries, columns.into_iter().map(|column| vec![Piece::whole(column)]).collect()))
    }

    fn computed(&self, chunk: ChunkColumns) -> Result<Vec<Column>> {
        let entries = usize::try_from(chunk.entries.end - chunk.entries.start).map_err(|_| {
            Error::new(ErrorKind::Unsupported, "a chunk is too large for this machine")
        })?;
        let input = Chunk::new(chunk.entries.start, entries).of_tree(self.tree_entries);
        let input = self
            .branches
            .iter()
            .zip(&chunk.columns)
            .fold(input, |input, (name, column)| input.with(name, column));
        let mask = match &self.cut {
            Some((text, cut)) => Some(Mask::new(text, cut.column(&input)?)),
            None => None,
        };
        let computed: Vec<_> = self
            .outputs
            .iter()
            .map(|output| match output {
                Output::Expression(_, expression) => expression.column(&input).map(Some),
                Output::Branch(..) => Ok(None),
            })
            .collect::<Result<_>>()?;
        drop(input);
        let mut read: Vec<_> = chunk.columns.into_iter().map(Some).collect();
        let mut columns = Vec::with_capacity(self.outputs.len());
        for (nth, (output, computed)) in self.outputs.iter().zip(computed).enumerate() {
            let (name, column) = match (output, computed) {
                (Output::Expression(text, _), Some(column)) => (text, column),
                (Output::Branch(index, name), _) => (name, self.taken(&mut read, *index, nth)?),
                (Output::Expression(..), None) => continue,
            };
            columns.push(match &mask {
                Some(mask) => mask.apply(name, column)?,
                None => column,
            });
        }
        Ok(columns)
    }

    /// The branch in `index`, copied if a later output is the same.
    fn taken(&self, read: &mut [Option<Column>], index: usize, nth: usize) -> Result<Column> {
        let later = self.outputs.iter().skip(nth + 1);
        let is_used_later =
            later.into_iter().any(|it| matches!(it, Output::Branch(other, _) if *other == index));
        let slot = read.get_mut(index);
        let column = slot.and_then(|slot| if is_used_later { slot.clone() } else { slot.take() });
        column.ok_or_else(|| Error::new(ErrorKind::Corrupt, "a chunk without one of its columns"))
    }

    fn read_all(&mut self, tree: &Tree, expression: &Expression) -> Result<()> {
        expression.columns().iter().try_for_each(|name| self.read(tree, name, false).map(drop))
    }

    /// Adds a branch to those that are read, unless it is there already. Returns its index.
    fn read(&mut self, tree: &Tree, name: &str, allow_text: bool) -> Result<usize> {
        let branch = tree.branch(name)?;
        let kind = branch.column_type()?;
        if kind.element == ElementType::Text && !allow_text && !name.starts_with('@') {
            return Err(FormatError::Unsupported {
                branch: branch.name().to_owned(),
                type_name: branch.type_name(),
                why: "it holds strings, and an expression uses numbers".to_owned(),
            }
            .into());
        }
        if let Some(index) = self.branches.iter().position(|other| other == name) {
            return Ok(index);
        }
        self.branches.push(name.to_owned());
        self.kinds.push(kind);
        Ok(self.branches.len() - 1)
    }
}

/// A column without entries.
fn empty(kind: &ColumnType) -> Column {
    let numbers = Values::with_capacity(kind.element, 0);
    let values = kind.inner.iter().rev().fold(numbers, |values, item_shape| {
        let offsets = Some(vec![0]);
        let item_shape = item_shape.clone();
        Values::Lists(Box::new(Column { entries: 0, offsets, item_shape, values }))
    });
    let offsets = kind.jagged.then(|| vec![0]);
    Column { entries: 0, offsets, item_shape: kind.item_shape.clone(), values }
}
