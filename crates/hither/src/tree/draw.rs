//! Histograms of expressions over a remote tree.

use crate::Report;
use crate::client::Client;
use crate::tree::RemoteTree;
use crate::tree::job_report::{PhaseTimings, report};
use crate::tree::progress::ScanProgress;
use crate::tree::scan::{ChunkColumns, ChunkPieces, Scan};
use crate::tree::tree_url::TreeUrl;
use futures_util::future::{FutureExt, ready};
use hither_core::error::{Error, ErrorKind, Result};
use hither_formats::root::Tree;
use hither_formats::{ElementType, FormatError};
use hither_query::{Chunk, Expression, Histogram, HistogramBuilder, SelectedValues, Selection};
use std::ops::Range;
use tokio::time::Instant;

/// A request for a histogram.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DrawRequest {
    /// The branch or expression to draw.
    pub value: String,
    /// The cut. A value counts with the weight of the cut, and not at all if that is 0.
    pub cut: Option<String>,
    /// The number of bins; 100 by default, as in ROOT.
    pub bins: usize,
    /// The axis limits; taken from the values if none.
    pub range: Option<(f64, f64)>,
    /// Entries of the tree; all by default. The range is cut at the last entry.
    pub entries: Range<u64>,
}

impl DrawRequest {
    /// A request with all entries, 100 bins, and limits from the values.
    #[must_use]
    pub fn new(value: &str, cut: Option<&str>) -> Self {
        let cut = cut.map(str::to_owned);
        Self { value: value.to_owned(), cut, bins: 100, range: None, entries: 0..u64::MAX }
    }
}

/// A histogram and its execution report.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DrawResult {
    /// URL or path of the file, without secrets.
    pub url: String,
    /// Name of the tree.
    pub tree: String,
    /// The number of entries that were read.
    pub entries: u64,
    /// The histogram.
    pub histogram: Histogram,
    /// Times, requests and bytes.
    pub report: Report,
}

impl Client {
    /// Opens a tree and draws a histogram of it.
    ///
    /// # Errors
    ///
    /// The errors of opening and reading the file; [`ErrorKind::NotFound`] with near matches for a
    /// missing tree or branch; [`ErrorKind::Unsupported`] for a branch of an unsupported type;
    /// [`ErrorKind::Invalid`] for an expression that does not parse.
    pub fn draw(
        &self,
        target: &TreeUrl,
        request: &DrawRequest,
        progress: &ScanProgress,
    ) -> Result<DrawResult> {
        let tree = self.open_tree(&target.url, target.tree.as_deref())?;
        let drawing = self.block_on(async {
            match draw(&tree, request, progress).await {
                // The stored metadata were of an older version of the file.
                Err(error) if error.kind() == ErrorKind::Changed && tree.file.forget_metadata() => {
                    draw(&tree.reopen(), request, progress).await
                }
                done => done,
            }
        });
        progress.done();
        let (mut drawing, timings) = drawing?;
        drawing.report = report(&timings, &tree.began, &self.counters().totals(), &tree.file);
        Ok(drawing)
    }
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
    let resolve = |text: &str| Expression::resolve(text, |name| open.tree.has_branch(name));
    let cut = request.cut.as_deref().map(resolve).transpose()?;
    let selection = Selection { value: resolve(&request.value)?, cut };
    let columns = selection.columns();
    refuse_strings(&open.tree, &columns).map_err(|e| Error::from(e).context(file.name()))?;
    let tree_entries = open.tree.entries();
    let end = request.entries.end.min(tree_entries);
    let entries = request.entries.start.min(end)..end;
    let entry_count = entries.end - entries.start;
    let scan =
        Scan { file, open: &open, columns: columns.clone(), entries, step_entries: None, progress };
    let mut histogram = HistogramBuilder::new(request.bins, request.range)?;
    let evaluate =
        move |chunk: ChunkPieces| evaluate(&selection, &columns, &chunk.joined()?, tree_entries);
    let needs_data = scan.needs_data()?;
    if open.from_store && !needs_data && !open.is_fresh {
        // No request for data will validate the stored metadata.
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
    let timings = PhaseTimings {
        open: opened,
        metadata_bytes: open.bytes_used,
        from_store: open.from_store,
        scan: totals,
    };
    let drawing = DrawResult {
        url: file.name(),
        tree: open.tree.name().to_owned(),
        entries: entry_count,
        histogram: histogram.finish(),
        report: Report::default(),
    };
    Ok((drawing, timings))
}

/// Checks, before anything is read, that no expression names a branch of strings.
fn refuse_strings(tree: &Tree, columns: &[String]) -> Result<(), FormatError> {
    for name in columns.iter().filter(|name| !name.starts_with('@')) {
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
