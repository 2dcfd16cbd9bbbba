//! Queries over trees: expressions, cuts and histograms with the meaning that `TTree::Draw` gives
//! them. No I/O.
//!
//! A query names a value ([`Expression`]), a cut ([`Selection`]) and bins ([`HistogramBuilder`]).
//! [`Selection::columns`] lists the branches that it needs. The caller passes their columns, one
//! [`Chunk`] of entries at a time, and receives the values that pass ([`SelectedValues`]).
//! Evaluation has no state, so several threads can evaluate chunks. The caller then fills the
//! histogram with the results in the order of their entries; it does not depend on the size of the
//! chunks.
//!
//! The parts, in the order in which an expression meets them:
//!
//! 1. `syntax`: text to a syntax tree, within limits of length and depth, with ROOT's precedences.
//! 2. `chunk`, `eval::bind`, `eval::shape`: names become columns, whose dimensions give the loop
//!    over the elements of each entry. `eval::shape` explains the loop.
//! 3. `eval::batch`, `eval::evaluate`, `operator`, `function`: evaluation in double precision, a
//!    batch of some thousand instances at a time. An instance is one turn of the loop (ROOT's
//!    word).
//! 4. `eval::select`: the cut first, values only where it passes. The cut is a weight: any value
//!    but zero passes, and the histogram counts it with that weight. `eval::column`: an expression
//!    as a column.
//! 5. `histogram`: bins, mean and standard deviation, limits of the axis.
//!
//! Memory: a batch has a few intermediate results of at most 32 KiB; the rest are the values that
//! passed. `Sum$` and its relatives take 8 bytes for each entry of the chunk, `Alt$` takes 8 for
//! each of its values.
//!
//! The syntax is `TTreeFormula`'s: numbers, branches with indices (`x`, `x[2]`, `m[][1]`,
//! `x[n-1]`), the operators of C without assignment and `~`, `^` and `**` for powers, `?:`,
//! functions ([`Expression::functions`] lists them), `pi`, `Entry$`, `Entries$`, `Iteration$`,
//! `Length$`, `Length$(x)`, `Sum$(x)`, `Min$(x)`, `Max$(x)`, `MinIf$(x, c)`, `MaxIf$(x, c)` and
//! `Alt$(x, y)`. Names with unusual characters stand in back-quotes. ROOT is stricter in some
//! places (it rejects `+x`, `- -x` and `!-x`) and laxer in others: it reads `1 2` as 12 and ignores
//! indices for which a branch has no dimension, which is an error here.

mod chunk;
mod eval;
mod expression;
mod function;
mod histogram;
mod operator;
mod selection;
mod suggestion;
mod syntax;

pub use chunk::Chunk;
pub use expression::Expression;
pub use histogram::{Histogram, HistogramBuilder, MAX_BINS};
pub use selection::{SelectedValues, Selection};
