//! Columns in steps: the next one is read while the program works on one.
//!
//! A task runs the scan and collects the chunks of a step. A complete step waits in a channel of
//! capacity one. While the channel is full the task waits, and with it the scan.

use crate::client::context::ClientContext;
use crate::tree::RemoteTree;
use crate::tree::arrays::column_plan::ColumnPlan;
use crate::tree::arrays::{ArraysRequest, joined};
use crate::tree::progress::ScanProgress;
use crate::tree::scan::{Piece, Scan};
use futures_util::future::{BoxFuture, FutureExt, ready};
use hither_core::error::{Error, ErrorKind, Result};
use hither_formats::Column;
use hither_formats::root::RecordType;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// The columns of some consecutive entries.
#[derive(Debug)]
#[non_exhaustive]
pub struct ArraysStep {
    /// The entries of the tree that the step covers.
    pub entries: Range<u64>,
    /// One column for each name of the request.
    pub columns: Vec<Column>,
    /// For each name of the request, the type of its entries if that is a record.
    pub records: Arc<[Option<RecordType>]>,
}

/// An iterator over steps. Dropping it cancels the reads.
#[derive(Debug)]
pub struct ArraysIterator {
    context: Arc<ClientContext>,
    ready: mpsc::Receiver<Result<Pieces>>,
    task: AbortHandle,
}

/// A step that is not joined yet.
#[derive(Debug)]
struct Pieces {
    entries: Range<u64>,
    columns: Vec<Vec<Piece>>,
    records: Arc<[Option<RecordType>]>,
}

impl ArraysIterator {
    /// The next step; none after the last one, and after an error.
    ///
    /// # Errors
    ///
    /// As [`RemoteTree::arrays`].
    pub async fn next(&mut self) -> Option<Result<ArraysStep>> {
        let Pieces { entries, columns, records } = match self.ready.recv().await? {
            Ok(pieces) => pieces,
            Err(error) => return Some(Err(error)),
        };
        let columns = joined(&self.context, columns).await;
        Some(columns.map(|columns| ArraysStep { entries, columns, records }))
    }
}

impl Drop for ArraysIterator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RemoteTree {
    /// Reads columns in steps of `step_entries` entries; the last one may be shorter. Requests the
    /// first step at once. Call it on the client's runtime. `progress` covers all steps.
    #[must_use]
    pub fn iterate(
        &self,
        request: ArraysRequest,
        step_entries: NonZeroU64,
        progress: Arc<ScanProgress>,
    ) -> ArraysIterator {
        let (send, ready) = mpsc::channel(1);
        let tree = self.clone();
        let work = async move {
            let sent = Arc::new(AtomicBool::new(false));
            let sender = Sender { send, sent: Arc::clone(&sent) };
            let mut read = tree.send_steps(&request, step_entries, &sender, &progress).await;
            if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::Changed)
                && !sent.load(Ordering::Relaxed)
                && tree.file.forget_metadata()
            {
                // The stored metadata were of an older version of the file.
                let reopened = tree.reopen();
                read = reopened.send_steps(&request, step_entries, &sender, &progress).await;
            }
            progress.done();
            if let Err(error) = read {
                // The receiver is gone if the iterator was dropped.
                drop(sender.send.send(Err(error)).await);
            }
        };
        let task = self.file.context.network.runtime().spawn(work).abort_handle();
        ArraysIterator { context: Arc::clone(&self.file.context), ready, task }
    }

    /// The number of entries whose columns take about `bytes` of memory, at least one.
    ///
    /// # Errors
    ///
    /// As [`RemoteTree::arrays`].
    pub async fn num_entries_for(&self, request: &ArraysRequest, bytes: u64) -> Result<NonZeroU64> {
        let open = self.opened().await?;
        let tree = &open.tree;
        let plan = ColumnPlan::new(tree, request).map_err(|e| e.context(self.file.name()))?;
        let unpacked = plan.branches().iter().filter_map(|name| tree.branch(name).ok());
        let total: u64 = unpacked.map(|branch| branch.baskets().uncompressed_bytes()).sum();
        let entries = u128::from(bytes) * u128::from(tree.entries()) / u128::from(total.max(1));
        let entries = u64::try_from(entries).unwrap_or(u64::MAX);
        Ok(NonZeroU64::new(entries).unwrap_or(NonZeroU64::MIN))
    }

    async fn send_steps(
        &self,
        request: &ArraysRequest,
        step_entries: NonZeroU64,
        sender: &Sender,
        progress: &ScanProgress,
    ) -> Result<()> {
        let open = self.opened().await?;
        let plan = ColumnPlan::new(&open.tree, request).map_err(|e| e.context(self.file.name()))?;
        let columns = plan.branches().to_vec();
        let entries = plan.entries();
        let mut collector = Collector {
            first: entries.start,
            end: entries.end,
            step: step_entries,
            pieces: Pieces {
                entries: entries.start..entries.start,
                columns: Vec::new(),
                records: plan.records(),
            },
            sender: sender.clone(),
        };
        let step_entries = Some(step_entries);
        let scan = Scan { file: &self.file, open: &open, columns, entries, step_entries, progress };
        if open.from_store && !scan.needs_data()? {
            self.file.first_byte(open.validator.clone()).await?;
        }
        scan.run(move |chunk| plan.evaluate(chunk), move |chunk| collector.accept(chunk)).await?;
        self.file.remember_endpoint();
        Ok(())
    }
}

/// The channel of the steps, and a flag that is set once a step was sent.
#[derive(Clone)]
struct Sender {
    send: mpsc::Sender<Result<Pieces>>,
    sent: Arc<AtomicBool>,
}

/// Collects chunks into steps.
struct Collector {
    first: u64,
    end: u64,
    step: NonZeroU64,
    pieces: Pieces,
    sender: Sender,
}

impl Collector {
    fn accept(
        &mut self,
        (entries, columns): (Range<u64>, Vec<Vec<Piece>>),
    ) -> BoxFuture<'static, Result<()>> {
        self.pieces.entries.end = entries.end;
        self.pieces.columns.resize_with(columns.len(), Vec::new);
        self.pieces.columns.iter_mut().zip(columns).for_each(|(all, more)| all.extend(more));
        if (entries.end - self.first) % self.step != 0 && entries.end < self.end {
            return ready(Ok(())).boxed();
        }
        let none = Pieces {
            entries: entries.end..entries.end,
            columns: Vec::new(),
            records: Arc::clone(&self.pieces.records),
        };
        let whole = std::mem::replace(&mut self.pieces, none);
        let Sender { send, sent } = self.sender.clone();
        async move {
            sent.store(true, Ordering::Relaxed);
            let cancelled = |_| Error::new(ErrorKind::Cancelled, "the iteration was cancelled");
            send.send(Ok(whole)).await.map_err(cancelled)
        }
        .boxed()
    }
}
