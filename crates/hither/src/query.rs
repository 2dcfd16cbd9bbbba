//! Queries over trees: expressions, cuts and histograms, with the meaning that `TTree::Draw` gives them.
//!
//! A query says which values to look at ([`Expression`]), which of them to keep ([`Selection`]), and what to do with
//! them ([`HistogramBuilder`]). It knows nothing of files: it names the branches that it needs
//! ([`Selection::columns`]), is handed their columns a [`Chunk`] of entries at a time, and answers with the values
//! that pass ([`SelectedValues`]). Evaluation has no state, so chunks can be evaluated on several threads; the histogram is
//! then filled with the results in the order of their entries, and does not depend on where the chunks were cut.
//!
//! The parts, in the order in which an expression meets them:
//!
//! 1. `token`, `parse`, `ast`: from text to a tree, within limits of length and depth, with ROOT's precedences.
//! 2. `chunk`, `bind`, `shape`: the names become columns, whose dimensions give the loop over the elements of each
//!    entry. `shape` explains the loop.
//! 3. `instances`, `evaluate`, `operator`, `function`: a block of some thousand turns at a time, in double precision.
//! 4. `select`: cut first, values only where it passes. The cut is a weight: anything but zero passes, and is what
//!    the histogram counts.
//! 5. `histogram`, `moments`, `limits`: bins, mean and standard deviation.
//!
//! Memory: a block has at most a few intermediate results of 32 KiB; beyond them there are only the values that
//! passed. `Sum$` and its kin take 8 bytes for each entry of the chunk, `Alt$` 8 for each of its values.
//!
//! The syntax is `TTreeFormula`'s: numbers, branches with indices (`x`, `x[2]`, `m[][1]`, `x[n-1]`), the operators of
//! C without assignment and `~`, `^` and `**` for powers, `?:`, functions ([`Expression::functions`] lists them),
//! `pi`, `Entry$`, `Entries$`, `Iteration$`, `Length$`, `Length$(x)`, `Sum$(x)`, `Min$(x)`, `Max$(x)`,
//! `MinIf$(x, c)`, `MaxIf$(x, c)` and `Alt$(x, y)`. Names with odd characters stand in back-quotes. ROOT is stricter
//! in places (it refuses `+x`, `- -x` and `!-x`) and laxer in others: it reads `1 2` as 12 and ignores indices that a
//! branch has no dimension for, which is an error here.

mod ast;
mod axis_limits;
mod batch;
mod bind;
mod chunk;
mod column;
mod error;
mod evaluate;
mod function;
mod histogram;
mod moments;
mod operator;
mod parser;
mod select;
mod shape;
mod suggestion;
mod token;

use std::fmt;
use std::str::FromStr;

use hither_core::Error;

pub use chunk::Chunk;
pub use histogram::{Histogram, HistogramBuilder, MAX_BINS};

/// A formula over the branches of a tree.
///
/// `Display` writes it with all its parentheses, from which [`Expression::parse`] reads the same expression (if it is
/// not nested more than half as deep as is allowed: parentheses nest, too).
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    root: ast::Node,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// [`Invalid`](hither_core::ErrorKind::Invalid) with what was expected and a caret under the place.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match parser::parse(text) {
            Ok(root) => Ok(Self { root }),
            Err(error) => Err(error.into_error(text)),
        }
    }

    /// The names of the branches in it, each once, in the order in which they appear.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        self.root.walk(&mut |node| {
            if let ast::Node::Column { name, .. } = node
                && !names.contains(name)
            {
                names.push(name.clone());
            }
        });
        names
    }

    /// The names of all functions that an expression can call.
    pub fn functions() -> impl Iterator<Item = &'static str> {
        function::names()
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}

impl FromStr for Expression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

/// Which values to look at.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The values.
    pub value: Expression,
    /// Values count where this is not zero, and count this much.
    pub cut: Option<Expression>,
}

impl Selection {
    /// Reads a value and, if there is one, a cut.
    ///
    /// # Errors
    /// As [`Expression::parse`].
    pub fn parse(value: &str, cut: Option<&str>) -> Result<Self, Error> {
        Ok(Self {
            value: Expression::parse(value)?,
            cut: cut.map(|cut| Expression::parse(cut).map_err(|e| e.context("cut"))).transpose()?,
        })
    }

    /// The names of the branches that are needed, each once: those of the value, then those of the cut.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        let mut names = self.value.columns();
        for name in self.cut.iter().flat_map(Expression::columns) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The values of `chunk` that pass.
    ///
    /// Evaluating a chunk of no entries, whose columns have the shapes of the real ones, checks names, shapes and
    /// indices before anything was read.
    ///
    /// # Errors
    /// [`NotFound`](hither_core::ErrorKind::NotFound) for a branch that the chunk does not have,
    /// [`Invalid`](hither_core::ErrorKind::Invalid) or [`Unsupported`](hither_core::ErrorKind::Unsupported) for
    /// indices that do not fit, [`Corrupt`](hither_core::ErrorKind::Corrupt) for a column that is not what
    /// [`hither_formats::ColumnTracker`] promises.
    pub fn evaluate(&self, chunk: &Chunk<'_>) -> Result<SelectedValues, Error> {
        select::select(&self.value, self.cut.as_ref(), chunk)
    }
}

/// The values that passed, in the order of their entries.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct SelectedValues {
    /// Number of entries that were looked at.
    pub entries: u64,
    /// The values.
    pub values: Vec<f64>,
    /// The value of the cut for each of them; empty when all are 1.
    pub weights: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use hither_core::ErrorKind;
    use hither_formats::{Column, Values};

    use super::*;

    fn scalar(values: Vec<i32>) -> Column {
        let entries = values.len();
        Column { entries, offsets: None, item_shape: vec![], values: Values::I32(values) }
    }

    fn jagged(offsets: Vec<i64>, values: Vec<f32>) -> Column {
        let entries = offsets.len() - 1;
        let values = Values::F32(values);
        Column { entries, offsets: Some(offsets), item_shape: vec![], values }
    }

    #[test]
    fn columns_are_named_once_in_the_order_of_appearance() {
        let selection = Selection::parse("b*a[n]+b", Some("Sum$(c)>a && `odd one`")).unwrap();
        assert_eq!(selection.columns(), ["b", "a", "n", "c", "odd one"]);
    }

    #[test]
    fn shapes_are_checked_without_any_entries() {
        let fixed =
            Column { entries: 0, offsets: None, item_shape: vec![5], values: Values::F32(vec![]) };
        let (n, j) = (scalar(vec![]), jagged(vec![0], vec![]));
        let chunk = Chunk::new(0, 0).with("fixed", &fixed).with("n", &n).with("j", &j);
        for (text, kind, part) in [
            ("fixed[5]", ErrorKind::Invalid, "index 5 of dimension 1 of `fixed` is out of range"),
            ("n[0]", ErrorKind::Invalid, "`n` is not an array"),
            ("j[1][2]", ErrorKind::Invalid, "`j` has 1 dimension, 2 indices given"),
            ("fixde", ErrorKind::NotFound, "did you mean `fixed`"),
            ("fixed[j]", ErrorKind::Unsupported, "must be one number in each entry, `j` is"),
            ("Alt$(j, fixed)", ErrorKind::Unsupported, "second argument of `Alt$`"),
        ] {
            let error = Selection::parse(text, None).unwrap().evaluate(&chunk).unwrap_err();
            assert_eq!(error.kind(), kind, "{text}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        let fine = Selection::parse("fixed[4]+j[7]", Some("n")).unwrap();
        assert_eq!(fine.evaluate(&chunk).unwrap(), SelectedValues::default());
    }

    #[test]
    fn columns_that_break_their_promise_are_refused() {
        for column in [
            scalar(vec![1, 2, 3]),
            jagged(vec![0, 2, 1], vec![1.0]),
            jagged(vec![0, 1, 3], vec![1.0]),
            jagged(vec![1, 1, 1], vec![1.0]),
            jagged(vec![0, i64::MAX, i64::MAX], vec![1.0]),
            Column { item_shape: vec![usize::MAX, 2], ..scalar(vec![1, 2]) },
        ] {
            let chunk = Chunk::new(0, 2).with("x", &column);
            let error = Selection::parse("x", None).unwrap().evaluate(&chunk).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn weights_begin_where_the_first_is_not_one() {
        let x = scalar((0..10_000).collect());
        let chunk = Chunk::new(0, 10_000).with("x", &x);
        let selection = Selection::parse("x", Some("x>=100 ? 1+(x==9000) : 0")).unwrap();
        let selected = selection.evaluate(&chunk).unwrap();
        assert_eq!(selected.values.len(), 9900);
        assert_eq!(selected.weights.len(), 9900);
        assert!((selected.weights.iter().sum::<f64>() - 9901.0).abs() < 1e-9);
        assert_eq!(selected.weights[8900], 2.0);
    }
}
