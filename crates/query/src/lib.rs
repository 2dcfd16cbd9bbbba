//! Queries over trees: expressions, cuts and histograms with the semantics of `TTree::Draw`. No
//! I/O.
//!
//! A query has a value ([`Expression`]), a cut ([`Selection`]) and bins ([`HistogramBuilder`]).
//! [`Selection::columns`] lists the branches that it needs. The caller passes their columns, one
//! [`Chunk`] of entries at a time, and receives the values that pass ([`SelectedValues`]).
//! Evaluation has no state, so several threads can evaluate chunks. The caller then fills the
//! histogram with the results in the order of their entries; the histogram does not depend on the
//! size of the chunks.
//!
//! The modules, in the order in which an expression passes through them:
//!
//! 1. `syntax`: text to a syntax tree, within limits of length and depth, with ROOT's precedences.
//! 2. `chunk`, `eval::bind`, `eval::shape`: names are bound to columns, whose dimensions define
//!    the loop over the elements of each entry. `eval::shape` explains the loop. An instance is one
//!    iteration of it (ROOT's word).
//! 3. `eval::batch`, `eval::evaluate`, `operator`, `function`: evaluation in double precision, in
//!    batches of 4096 instances.
//! 4. `eval::select`: evaluates the cut, then the value for the instances that pass. The cut is a
//!    weight: an instance passes if it is not zero, and the histogram adds the value with that
//!    weight. `eval::column`: evaluates an expression as a column.
//! 5. `histogram`: bins, mean and standard deviation, limits of the axis.
//!
//! Memory: a batch has a few intermediate results of at most 32 KiB each; besides them, only the
//! selected values are kept. `Sum$` and the other aggregates take 8 bytes for each entry of the
//! chunk, `Alt$` takes 8 bytes for each of its values.
//!
//! The syntax is `TTreeFormula`'s: numbers, branches with indices (`x`, `x[2]`, `m[][1]`,
//! `x[n-1]`), the operators of C except assignment and `~`, `^` and `**` for powers, `?:`,
//! functions ([`Expression::functions`] lists them), `pi`, `Entry$`, `Entries$`, `Iteration$`,
//! `Length$`, `Length$(x)`, `Sum$(x)`, `Min$(x)`, `Max$(x)`, `MinIf$(x, c)`, `MaxIf$(x, c)` and
//! `Alt$(x, y)`. Names with unusual characters are written in back-quotes. ROOT is stricter in some
//! places (it rejects `+x`, `- -x` and `!-x`) and less strict in others: it reads `1 2` as 12 and
//! ignores indices for which a branch has no dimension. Here both are errors.
//!
//! # Where to start reading
//!
//! - what an expression may contain: `src/syntax/parser.rs`, `src/function.rs`, `src/operator.rs`;
//! - which elements of an entry an expression loops over: `src/eval/shape.rs`;
//! - how values and cut become selected values: `src/selection.rs`, `src/eval/select.rs`;
//! - how the histogram is filled, and where its axis ends: `src/histogram.rs`,
//!   `src/histogram/axis_limits.rs`.

mod chunk;
mod eval;
mod expression;
mod function;
mod histogram;
mod operator;
mod selection;
mod syntax;

pub use chunk::Chunk;
pub use expression::Expression;
pub use histogram::{Histogram, HistogramBuilder, MAX_BINS};
pub use selection::{SelectedValues, Selection};
