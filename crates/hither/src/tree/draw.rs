//! A histogram of an expression over a remote tree: the main job.

use crate::client::Client;
use crate::file::origin::FileOrigin;
use crate::tree::RemoteTree;
use crate::tree::progress::ScanProgress;
use crate::tree::scan::{ChunkColumns, ChunkPieces, Scan, ScanTotals};
use crate::tree::tree_url::TreeUrl;
use futures_util::future::{FutureExt, ready};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{ReadReport, Report};
use hither_formats::root::Tree;
use hither_formats::{ElementType, FormatError};
use hither_query::{Chunk, Expression, Histogram, HistogramBuilder, SelectedValues, Selection};
use hither_transport::TransferTotals;
use std::ops::Range;
use std::time::Duration;
use tokio::time::Instant;

/// What to draw.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DrawRequest {
    /// What to histogram.
    pub value: Expression,
    /// Which of it: the value counts with the weight of the cut, and not at all where that is 0.
    pub cut: Option<Expression>,
    /// Bins; 100 by default, as ROOT.
    pub bins: usize,
    /// Axis limits; taken from the values if none.
    pub range: Option<(f64, f64)>,
    /// Entries of the tree; all of them by default. What lies beyond the last one is left out.
    pub entries: Range<u64>,
}

impl DrawRequest {
    /// All entries, 100 bins, limits from the values.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if an expression does not parse.
    pub fn new(value: &str, cut: Option<&str>) -> Result<Self> {
        Ok(Self {
            value: Expression::parse(value)?,
            cut: cut.map(Expression::parse).transpose()?,
            bins: 100,
            range: None,
            entries: 0..u64::MAX,
        })
    }
}

/// A histogram and how it was come by.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DrawResult {
    /// URL or path of the file, without secrets.
    pub url: String,
    /// Name of the tree.
    pub tree: String,
    /// Entries that were looked at.
    pub entries: u64,
    /// The histogram.
    pub histogram: Histogram,
    /// Where the time and the bytes went.
    pub report: Report,
}

impl Client {
    /// Opens a tree and draws a histogram of it.
    ///
    /// # Errors
    ///
    /// Whatever opening and reading the file may fail with; [`ErrorKind::NotFound`] with near matches for a tree or branch
    /// that is not there; [`ErrorKind::Unsupported`] for a branch of a type that cannot be read.
    pub fn draw(
        &self,
        target: &TreeUrl,
        request: &DrawRequest,
        progress: &ScanProgress,
    ) -> Result<DrawResult> {
        let before = (Instant::now(), self.counters().totals());
        let tree = self.open_tree(&target.url, target.tree.as_deref())?;
        self.draw_since(&before, &tree, request, progress)
    }

    /// Draws a histogram of a tree that is open, or being opened. The report counts from here, and what else the client is
    /// doing meanwhile counts in.
    ///
    /// # Errors
    ///
    /// As [`Client::draw`].
    pub fn draw_tree(
        &self,
        tree: &RemoteTree,
        request: &DrawRequest,
        progress: &ScanProgress,
    ) -> Result<DrawResult> {
        self.draw_since(&(Instant::now(), self.counters().totals()), tree, request, progress)
    }

    fn draw_since(
        &self,
        (started, before): &(Instant, TransferTotals),
        tree: &RemoteTree,
        request: &DrawRequest,
        progress: &ScanProgress,
    ) -> Result<DrawResult> {
        let drawing = self.block_on(async {
            match draw(tree, request, progress).await {
                // What the store remembered was of an older version of the file.
                Err(error) if error.kind() == ErrorKind::Changed && tree.file.forget_metadata() => {
                    draw(&tree.opened_anew(), request, progress).await
                }
                done => done,
            }
        });
        progress.done();
        let (mut drawing, stages) = drawing?;
        let after = self.counters().totals();
        drawing.report = report(&stages, started.elapsed(), before, &after, &tree.file);
        Ok(drawing)
    }
}

/// Figures of a job that only the job knows.
#[derive(Debug, Default)]
pub(crate) struct PhaseTimings {
    pub(crate) open: Duration,
    pub(crate) metadata_bytes: u64,
    pub(crate) from_store: bool,
    pub(crate) scan: ScanTotals,
}

async fn draw(
    tree: &RemoteTree,
    request: &DrawRequest,
    progress: &ScanProgress,
) -> Result<(DrawResult, PhaseTimings)> {
    let started = Instant::now();
    let open = tree.opened().await?;
    let opened = started.elapsed();
    let file = &tree.file;
    let selection = Selection { value: request.value.clone(), cut: request.cut.clone() };
    let columns = selection.columns();
    refuse_strings(&open.tree, &columns).map_err(|e| Error::from(e).context(file.name()))?;
    let tree_entries = open.tree.entries();
    let end = request.entries.end.min(tree_entries);
    let entries = request.entries.start.min(end)..end;
    let looked_at = entries.end - entries.start;
    let (columns_read, step_entries) = (columns.clone(), None);
    let scan = Scan { file, open: &open, columns: columns_read, entries, step_entries, progress };
    let mut histogram = HistogramBuilder::new(request.bins, request.range)?;
    let evaluate =
        move |chunk: ChunkPieces| evaluate(&selection, &columns, &chunk.joined()?, tree_entries);
    let needs_data = scan.needs_data()?;
    if open.from_store && !needs_data && !open.is_fresh {
        // Nothing that is about to be asked of the server would tell that what the store has is out of date.
        file.first_byte(open.validator.clone()).await?;
    }
    let totals = scan
        .run(evaluate, |selected: SelectedValues| {
            histogram.fill(&selected);
            ready(Ok(())).boxed()
        })
        .await?;
    file.remember_endpoint();
    if open.from_store && (needs_data || !open.is_fresh) {
        file.renew_metadata(open.validator.clone());
    }
    let stages = PhaseTimings {
        open: opened,
        metadata_bytes: open.bytes_used,
        from_store: open.from_store,
        scan: totals,
    };
    let drawing = DrawResult {
        url: file.name(),
        tree: open.tree.name().to_owned(),
        entries: looked_at,
        histogram: histogram.finish(),
        report: Report::default(),
    };
    Ok((drawing, stages))
}

/// Says so before anything is read where an expression names a branch of strings.
fn refuse_strings(tree: &Tree, columns: &[String]) -> Result<(), FormatError> {
    for name in columns {
        let branch = tree.branch(name)?;
        if branch.column_type()?.element == ElementType::Text {
            return Err(FormatError::Unsupported {
                branch: branch.name().to_owned(),
                type_name: branch.type_name(),
                why: "it holds strings, and an expression uses numbers".to_owned(),
            });
        }
    }
    Ok(())
}

fn evaluate(
    selection: &Selection,
    names: &[String],
    chunk: &ChunkColumns,
    tree_entries: u64,
) -> Result<SelectedValues> {
    let entries = usize::try_from(chunk.entries.end - chunk.entries.start)
        .map_err(|_| Error::new(ErrorKind::Unsupported, "a chunk too large for this machine"))?;
    let input = Chunk::new(chunk.entries.start, entries).of_tree(tree_entries);
    let input = names
        .iter()
        .zip(&chunk.columns)
        .fold(input, |input, (name, column)| input.with(name, column));
    selection.evaluate(&input)
}

/// The account of a job, from its own figures and those of the client before and after it.
pub(crate) fn report(
    stages: &PhaseTimings,
    elapsed: Duration,
    before: &TransferTotals,
    after: &TransferTotals,
    file: &FileOrigin,
) -> Report {
    let micros = |micros: u64| Duration::from_micros(micros).as_secs_f64();
    let (sources, notices) = file.replicas();
    let connect = after.connect_micros.saturating_sub(before.connect_micros);
    Report {
        seconds: elapsed.as_secs_f64(),
        requests: after.requests - before.requests,
        whole_file_downloads: after.whole_files - before.whole_files,
        round_trips: after.flights - before.flights,
        connections: after.connections - before.connections,
        bytes_requested: after.bytes_requested - before.bytes_requested,
        bytes_received: after.bytes_received - before.bytes_received,
        bytes_payload: after.bytes_payload - before.bytes_payload,
        bytes_used: stages.metadata_bytes + stages.scan.bytes_used,
        retries: stages.scan.retries,
        connect_seconds: micros(connect),
        rtt_seconds: file.source.link().rtt.unwrap_or_default().as_secs_f64(),
        open_seconds: stages.open.as_secs_f64(),
        data_seconds: stages.scan.transfer.as_secs_f64(),
        decode_seconds: stages.scan.decode.as_secs_f64(),
        compute_seconds: stages.scan.compute.as_secs_f64(),
        reads: ReadReport::default(),
        metadata_from_store: stages.from_store,
        sources,
        notices,
    }
}
