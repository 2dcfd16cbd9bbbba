//! Columns of a tree as arrays: the branches and expressions that a program names, where a cut passes.
//!
//! ```text
//! names ──> ColumnPlan: branches as they are, expressions, cut          (checked against the tree before anything is read)
//!   Scan ──chunks, in any order──> ColumnPlan::evaluate ──in order──> pieces ──> joined, a column a thread
//! ```
//!
//! Branches without a cut stay in the pieces that their baskets were decoded to, and are copied once, when they are joined.
//!
//! All of it at once ([`RemoteTree::arrays`]), or in steps ([`RemoteTree::iterate`]) of which the next is being read while the
//! program works on one. A step ends where a chunk ends, so no basket is fetched or unpacked twice.
//!
//! **Cuts.** A cut with one value for each entry keeps entries. One with a value for each element of an array keeps elements:
//! of jagged arrays with the same lengths, whose entries become shorter; and of arrays of the same fixed shape, whose
//! entries cannot, so that the elements of all entries come one after the other, as from `TTree::Draw` and from uproot.
//!
//! Memory: a scan holds what `scan.rs` says. Arrays take their own size once more while they are joined. Steps take theirs
//! three times: one that the program has, one that is ready, one that is being read; the scan waits when both are there.

mod column_plan;
mod cut;
mod iterate;

pub use iterate::{ArraysIterator, ArraysStep};

use crate::client::context::ClientContext;
use crate::tree::RemoteTree;
use crate::tree::draw::{PhaseTimings, report};
use crate::tree::progress::ScanProgress;
use crate::tree::scan::{Piece, Scan};
use column_plan::ColumnPlan;
use futures_channel::oneshot;
use futures_util::future::{FutureExt, ready};
use hither_core::Report;
use hither_core::error::{Error, ErrorKind, Result};
use hither_formats::Column;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use tokio::time::Instant;

/// What to read of a tree.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ArraysRequest {
    /// Names of branches, or expressions over them; in this order.
    pub columns: Vec<String>,
    /// Which of it.
    pub cut: Option<String>,
    /// Entries of the tree; what lies beyond the last one is left out.
    pub entries: Range<u64>,
}

impl ArraysRequest {
    /// All entries of `columns`.
    #[must_use]
    pub fn new(columns: Vec<String>) -> Self {
        Self { columns, cut: None, entries: 0..u64::MAX }
    }
}

/// Columns that were read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Arrays {
    /// One for each name that was asked for.
    pub columns: Vec<Column>,
    /// Where the time and the bytes went.
    pub report: Report,
}

impl RemoteTree {
    /// Reads columns. What is compared or computed is double precision, comparisons are true or false, and branches are what
    /// they are in the file.
    ///
    /// # Errors
    ///
    /// Whatever opening and reading the file may fail with; [`ErrorKind::NotFound`] with near matches for a tree or branch
    /// that is not there; [`ErrorKind::Unsupported`] for a branch of a type that cannot be read; [`ErrorKind::Invalid`] for
    /// an expression that does not parse, or a cut that does not fit the columns.
    pub async fn arrays(&self, request: &ArraysRequest, progress: &ScanProgress) -> Result<Arrays> {
        let counters = self.file.context.counters();
        let (started, before) = (Instant::now(), counters.totals());
        let read = match self.pieces(request, progress).await {
            // What the store remembered was of an older version of the file.
            Err(error) if error.kind() == ErrorKind::Changed && self.file.forget_metadata() => {
                self.opened_anew().pieces(request, progress).await
            }
            done => done,
        };
        progress.done();
        let (pieces, stages) = read?;
        let columns = joined(&self.file.context, pieces).await?;
        let (after, elapsed) = (counters.totals(), started.elapsed());
        let report = report(&stages, elapsed, &before, &after, &self.file);
        Ok(Arrays { columns, report })
    }

    /// The pieces of each column.
    async fn pieces(
        &self,
        request: &ArraysRequest,
        progress: &ScanProgress,
    ) -> Result<(Vec<Vec<Piece>>, PhaseTimings)> {
        let started = Instant::now();
        let open = self.opened().await?;
        let opened = started.elapsed();
        let plan = ColumnPlan::new(&open.tree, request).map_err(|e| e.context(self.file.name()))?;
        let mut pieces: Vec<Vec<Piece>> = request.columns.iter().map(|_| Vec::new()).collect();
        let entries = plan.entries();
        if entries.is_empty() {
            let none = plan.none()?.into_iter().map(Piece::whole);
            pieces.iter_mut().zip(none).for_each(|(all, none)| all.push(none));
        }
        let columns = plan.branches().to_vec();
        let scan =
            Scan { file: &self.file, open: &open, columns, entries, step_entries: None, progress };
        if open.from_store && !scan.needs_data()? {
            // Nothing that is about to be asked of the server would tell that what the store has is out of date.
            self.file.first_byte(open.validator.clone()).await?;
        }
        let scan = scan
            .run(
                move |chunk| plan.evaluate(chunk),
                |(_, columns): (Range<u64>, Vec<Vec<Piece>>)| {
                    pieces.iter_mut().zip(columns).for_each(|(all, more)| all.extend(more));
                    ready(Ok(())).boxed()
                },
            )
            .await?;
        self.file.remember_endpoint();
        let (metadata_bytes, from_store) = (open.bytes_used, open.from_store);
        Ok((pieces, PhaseTimings { open: opened, metadata_bytes, from_store, scan }))
    }
}

/// Joins the pieces of each column, side by side on the threads that decode.
async fn joined(shared: &Arc<ClientContext>, pieces: Vec<Vec<Piece>>) -> Result<Vec<Column>> {
    let (done, whole) = oneshot::channel();
    shared.decoders.spawn(move || {
        let columns: Result<Vec<_>, _> = pieces.into_par_iter().map(Piece::joined).collect();
        // Nobody waits for it if it was given up.
        drop(done.send(columns));
    });
    let gone = |_| Error::new(ErrorKind::Cancelled, "the threads that decode have ended");
    Ok(whole.await.map_err(gone)??)
}
