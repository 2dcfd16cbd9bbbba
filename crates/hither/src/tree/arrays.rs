//! Columns of a tree as arrays: branches and expressions by name, of the entries that pass a cut.
//!
//! ```text
//! names ──> ColumnPlan: branches, expressions, cut    (checked against the tree before any read)
//!   Scan ──chunks, any order──> ColumnPlan::evaluate ──in order──> pieces ──> joined in parallel
//! ```
//!
//! Branches without a cut stay in the pieces that their baskets were decoded to, and are copied
//! once, when the pieces are joined.
//!
//! The columns come all at once ([`RemoteTree::arrays`]), or in steps ([`RemoteTree::iterate`]), of
//! which the next is read while the program works on one. A step ends where a chunk ends, so no
//! basket is fetched or decompressed twice.
//!
//! **Cuts.** A cut with one value for each entry selects entries. A cut with a value for each
//! element of an array selects elements: of jagged arrays with the same lengths, whose entries
//! become shorter; and of arrays of the same fixed shape, whose entries cannot, so that the
//! elements of all entries come one after the other, as from `TTree::Draw` and from uproot.
//!
//! **Bounds.** `scan.rs` bounds the memory of a scan. Arrays take their own size once more while
//! they are joined. Steps take theirs three times: one with the program, one ready, one being read;
//! the scan waits when two are there.

mod column_plan;
mod cut;
mod iterate;

pub use iterate::{ArraysIterator, ArraysStep};

use crate::Report;
use crate::client::context::ClientContext;
use crate::tree::RemoteTree;
use crate::tree::job_report::{JobStart, PhaseTimings, report};
use crate::tree::progress::ScanProgress;
use crate::tree::scan::{Piece, Scan};
use column_plan::ColumnPlan;
use futures_channel::oneshot;
use futures_util::future::{FutureExt, ready};
use hither_core::error::{Error, ErrorKind, Result};
use hither_formats::Column;
use hither_formats::root::RecordType;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use tokio::time::Instant;

/// A request for columns of a tree.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ArraysRequest {
    /// Names of branches, or expressions over them, in this order.
    pub columns: Vec<String>,
    /// The cut: an expression that selects entries or elements.
    pub cut: Option<String>,
    /// Entries of the tree; the range is cut at the last entry.
    pub entries: Range<u64>,
    /// True if the report covers the opening of the tree, which has just begun for this read.
    pub with_opening: bool,
}

impl ArraysRequest {
    /// A request for all entries of `columns`.
    #[must_use]
    pub fn new(columns: Vec<String>) -> Self {
        Self { columns, cut: None, entries: 0..u64::MAX, with_opening: false }
    }
}

/// Columns that were read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Arrays {
    /// One column for each name of the request; for a record, all its columns.
    pub columns: Vec<Column>,
    /// For each name of the request, the type of its entries if that is a record.
    pub records: Arc<[Option<RecordType>]>,
    /// Times, requests and bytes.
    pub report: Report,
}

impl RemoteTree {
    /// Reads columns. Computed values are of double precision, comparisons are booleans, and
    /// branches have their type in the file.
    ///
    /// # Errors
    ///
    /// The errors of opening and reading the file; [`ErrorKind::NotFound`] with near matches for a
    /// missing tree or branch; [`ErrorKind::Unsupported`] for a branch of an unsupported type;
    /// [`ErrorKind::Invalid`] for an expression that does not parse, or a cut that does not fit the
    /// columns.
    pub async fn arrays(&self, request: &ArraysRequest, progress: &ScanProgress) -> Result<Arrays> {
        let counters = self.file.context.counters();
        let start = if request.with_opening { self.began.clone() } else { JobStart::now(counters) };
        let read = match self.pieces(request, progress).await {
            // The stored metadata were of an older version of the file.
            Err(error) if error.kind() == ErrorKind::Changed && self.file.forget_metadata() => {
                self.reopen().pieces(request, progress).await
            }
            done => done,
        };
        progress.done();
        let (pieces, records, timings) = read?;
        let columns = joined(&self.file.context, pieces).await?;
        let report = report(&timings, &start, &counters.totals(), &self.file);
        Ok(Arrays { columns, records, report })
    }

    /// The pieces of each column.
    async fn pieces(
        &self,
        request: &ArraysRequest,
        progress: &ScanProgress,
    ) -> Result<(Vec<Vec<Piece>>, Arc<[Option<RecordType>]>, PhaseTimings)> {
        let started = Instant::now();
        let open = self.opened().await?;
        let opened = started.elapsed();
        let plan = ColumnPlan::new(&open.tree, request).map_err(|e| e.context(self.file.name()))?;
        let mut pieces: Vec<Vec<Piece>> = (0..plan.output_count()).map(|_| Vec::new()).collect();
        let records = plan.records();
        let entries = plan.entries();
        if entries.is_empty() {
            let none = plan.none()?.into_iter().map(Piece::whole);
            pieces.iter_mut().zip(none).for_each(|(all, none)| all.push(none));
        }
        let columns = plan.branches().to_vec();
        let scan =
            Scan { file: &self.file, open: &open, columns, entries, step_entries: None, progress };
        if open.from_store && !scan.needs_data()? {
            // No request for data will validate the stored metadata.
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
        let timings = PhaseTimings {
            open: opened,
            metadata_bytes: open.bytes_used,
            from_store: open.from_store,
            scan,
        };
        Ok((pieces, records, timings))
    }
}

/// Joins the pieces of each column, in parallel on the decoding threads.
async fn joined(context: &Arc<ClientContext>, pieces: Vec<Vec<Piece>>) -> Result<Vec<Column>> {
    let (done, whole) = oneshot::channel();
    context.decoders.spawn(move || {
        let columns: Result<Vec<_>, _> = pieces.into_par_iter().map(Piece::joined).collect();
        // The columns of a cancelled request are not needed.
        drop(done.send(columns));
    });
    let ended = |_| Error::new(ErrorKind::Cancelled, "the decoding threads have ended");
    Ok(whole.await.map_err(ended)??)
}
