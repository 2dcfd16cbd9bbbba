//! Scan of a tree: runs a function over its columns, chunk by chunk, while baskets are still
//! arriving.
//!
//! ```text
//! groups ──> Reader ──> Assembly ──baskets──> decoders ──columns──> chunks ──> decoders ──> accept
//!  (two ahead)  (parts, any order)           (in parallel)       (complete?) (evaluate) (in order)
//! ```
//!
//! The entries are divided into *chunks* of a few thousand entries, which end where baskets of the
//! first column end. A chunk is evaluated as soon as every basket that holds any of its entries has
//! been decoded, and its result waits until the results before it have been accepted. Baskets are
//! requested in *groups* of many chunks each. Within a group the planner may order them by position
//! in the file; the groups follow the order of the entries.
//!
//! **Bounds.** A group is requested only when all but one of the groups before it are finished, to
//! the last accepted result. So there are at most two groups of compressed baskets, of their
//! decoded columns, and of results that wait for an earlier one. A group ends with the chunk in
//! which it has [`GROUP_BYTES`] compressed or [`GROUP_DECODED_BYTES`] decoded bytes.

mod layout;
mod piece;
#[cfg(test)]
mod tests;

pub(crate) use piece::{ChunkColumns, ChunkPieces, Piece};

use crate::file::assembly::Assembly;
use crate::file::origin::FileOrigin;
use crate::trace::outstanding_reads::OutstandingReads;
use crate::tree::progress::ScanProgress;
use crate::tree::root_opener::OpenTree;
use bytes::Bytes;
use futures_channel::mpsc;
use futures_util::future::{BoxFuture, Either, FutureExt, select};
use futures_util::stream::StreamExt;
use hither_core::error::suggest::Suggestion;
use hither_core::sync::lock;
use hither_core::{Error, ErrorKind, Part, Result, range};
use hither_formats::root::{Decompressor, Tree};
use hither_formats::{Column, FormatError};
use hither_read::Reader;
use layout::ScanLayout;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// The compressed bytes of a group: enough to keep 64 connections in slow start for several round
/// trips.
const GROUP_BYTES: u64 = 24 << 20;
/// The decoded bytes of a group.
const GROUP_DECODED_BYTES: u64 = 64 << 20;
/// The largest number of unfinished groups: one being decoded, one in flight.
const GROUPS_AHEAD: usize = 2;
/// The largest number of baskets in one decoding task: a task for each basket of a kilobyte would
/// cost as much as decoding it.
const BASKETS_PER_TASK: usize = 16;
/// The largest number of compressed bytes in one decoding task, unless one basket has more: with a
/// slow codec, the last task would otherwise keep one thread busy long after the others have ended.
const BYTES_PER_TASK: usize = 256 << 10;

/// The request of a scan.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    pub(crate) file: &'a FileOrigin,
    pub(crate) open: &'a OpenTree,
    /// Branches, each once.
    pub(crate) columns: Vec<String>,
    pub(crate) entries: Range<u64>,
    /// If results are wanted in steps: a chunk ends after every `step_entries` entries, counted
    /// from the first.
    pub(crate) step_entries: Option<NonZeroU64>,
    pub(crate) progress: &'a ScanProgress,
}

/// Counters and times of a scan.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ScanTotals {
    /// The compressed bytes of the baskets that were used.
    pub(crate) bytes_used: u64,
    pub(crate) retries: u64,
    /// Summed over threads.
    pub(crate) decode: Duration,
    /// Summed over threads.
    pub(crate) compute: Duration,
    /// The time from the start of the scan to the last byte's arrival.
    pub(crate) transfer: Duration,
}

/// A result of a decoding thread.
enum Event<T> {
    Decoded { columns: Vec<(usize, Result<Column, FormatError>)>, took: Duration },
    Evaluated { chunk: usize, result: Result<T>, took: Duration },
}

/// The next part or event of a scan.
enum Next<T> {
    Part(Option<Result<Part>>),
    Event(Option<Event<T>>),
}

impl Scan<'_> {
    /// Returns true if any basket has to be fetched.
    pub(crate) fn needs_data(&self) -> Result<bool> {
        Ok(self.layout()?.remote_bytes() > 0)
    }

    fn layout(&self) -> Result<ScanLayout> {
        ScanLayout::new(&self.open.tree, &self.columns, self.entries.clone(), self.step_entries)
            .map_err(|error| Error::from(error).context(self.file.name()))
    }

    /// Calls `evaluate` for every chunk, in parallel and in any order, and `accept` with the
    /// results in order. Requests nothing while the future of `accept` is pending.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        evaluate: impl Fn(ChunkPieces) -> Result<T> + Send + Sync + 'static,
        accept: impl FnMut(T) -> BoxFuture<'static, Result<()>>,
    ) -> Result<ScanTotals> {
        let layout = self.layout()?;
        layout.check_within(self.open.size, &self.file.name())?;
        self.progress.reading(layout.remote_bytes());
        let (events_in, events) = mpsc::unbounded();
        let running = Running {
            reader: self.file.reader(self.open.validator.clone()),
            assembly: Assembly::default(),
            chunks: Chunks::new(&layout),
            next_group: 0,
            requested_bytes: 0,
            arrived_bytes: 0,
            outstanding: OutstandingReads::default(),
            results: BTreeMap::new(),
            next_accepted: 0,
            totals: ScanTotals { bytes_used: layout.remote_bytes(), ..ScanTotals::default() },
            started: Instant::now(),
            decoders: Arc::default(),
            evaluate: Arc::new(evaluate),
            accept,
            events_in,
            layout,
            scan: &self,
        };
        running.run(events).await
    }
}

/// Decoded baskets and the chunks that wait for them.
struct Chunks {
    /// Per basket: its column while a chunk needs it, and the number of those chunks.
    baskets: Vec<(Option<Arc<Column>>, usize)>,
    /// Per chunk: the number of baskets that it waits for.
    waiting: Vec<usize>,
}

impl Chunks {
    fn new(layout: &ScanLayout) -> Self {
        let mut waiting = vec![0; layout.chunks.len()];
        let baskets = (0..layout.baskets.len())
            .map(|id| {
                let chunks = layout.chunks_of(id);
                let users = chunks.len();
                for chunk in chunks {
                    waiting[chunk] += 1;
                }
                (None, users)
            })
            .collect();
        Self { baskets, waiting }
    }
}

struct Running<'a, T, E, A> {
    scan: &'a Scan<'a>,
    layout: ScanLayout,
    reader: Reader<'a>,
    assembly: Assembly,
    chunks: Chunks,
    next_group: usize,
    requested_bytes: u64,
    arrived_bytes: u64,
    /// For the trace.
    outstanding: OutstandingReads,
    results: BTreeMap<usize, T>,
    next_accepted: usize,
    totals: ScanTotals,
    started: Instant,
    /// Idle decoders, which keep their tables.
    decoders: Arc<Mutex<Vec<Decompressor>>>,
    evaluate: Arc<E>,
    accept: A,
    events_in: mpsc::UnboundedSender<Event<T>>,
}

impl<T, E, A> Running<'_, T, E, A>
where
    T: Send + 'static,
    E: Fn(ChunkPieces) -> Result<T> + Send + Sync + 'static,
    A: FnMut(T) -> BoxFuture<'static, Result<()>>,
{
    async fn run(mut self, mut events: mpsc::UnboundedReceiver<Event<T>>) -> Result<ScanTotals> {
        self.start_empty_chunks();
        let mut reading = true;
        // To the end of the last response, which may show that its bytes are of another version.
        while reading || self.next_accepted < self.layout.chunks.len() {
            reading |= self.request_ahead();
            let next = if reading {
                // Dropping the future that is not ready loses nothing: neither holds taken values.
                match select(pin!(self.reader.next()), events.next()).await {
                    Either::Left((part, _)) => Next::Part(part),
                    Either::Right((event, _)) => Next::Event(event),
                }
            } else {
                self.check_complete()?;
                Next::Event(events.next().await)
            };
            match next {
                Next::Part(Some(part)) => self.take_parts(part)?,
                Next::Part(None) => reading = false,
                Next::Event(Some(event)) => {
                    self.take_event(event)?;
                    self.pass_on().await?;
                }
                Next::Event(None) => break,
            }
        }
        self.totals.retries = self.reader.retries();
        Ok(self.totals)
    }

    /// Requests further groups while fewer than two are unfinished. Returns true if it did.
    fn request_ahead(&mut self) -> bool {
        let before = self.next_group;
        while self.unfinished_groups() < GROUPS_AHEAD {
            let Some(group) = self.layout.groups.get(self.next_group).cloned() else { break };
            self.next_group += 1;
            let range_of = |&id: &usize| Some((id, self.layout.baskets.get(id)?.range.clone()?));
            let remote: Vec<_> = group.baskets.iter().filter_map(range_of).collect();
            let embedded = group.baskets.into_iter().filter(|&id| self.layout.is_embedded(id));
            let embedded = embedded.map(|id| (id, Bytes::new())).collect();
            self.decode(embedded);
            let ranges: Vec<_> = remote.iter().map(|(_, range)| range.clone()).collect();
            self.requested_bytes += range::total_bytes(&ranges);
            self.outstanding.add(self.scan.file, &ranges);
            self.reader.push(&ranges, usize::MAX);
            self.assembly.add(remote);
        }
        self.next_group > before
    }

    /// The number of requested groups with a chunk that was not accepted yet.
    fn unfinished_groups(&self) -> usize {
        let requested = self.layout.groups.get(..self.next_group).unwrap_or_default();
        requested.iter().rev().take_while(|group| group.chunks_end > self.next_accepted).count()
    }

    /// Takes a part, and the parts that have already arrived.
    fn take_parts(&mut self, first: Result<Part>) -> Result<()> {
        let mut baskets: Vec<(usize, Bytes)> = Vec::new();
        let mut next = Some(first);
        while let Some(part) = next.take() {
            let part = part?;
            self.reader.release(part.bytes.len() as u64);
            self.assembly.accept(&part, |id, bytes| baskets.push((id, bytes)));
            let bytes: usize = baskets.iter().map(|(_, bytes)| bytes.len()).sum();
            if baskets.len() >= BASKETS_PER_TASK || bytes >= BYTES_PER_TASK {
                break;
            }
            next = self.reader.next().now_or_never().flatten();
        }
        let bytes: u64 = baskets.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        self.arrived_bytes += bytes;
        self.outstanding.arrived(self.scan.file, bytes);
        self.scan.progress.arrived(bytes);
        if self.arrived_bytes >= self.layout.remote_bytes() {
            self.totals.transfer = self.started.elapsed();
        }
        self.decode(baskets);
        Ok(())
    }

    /// Passes baskets to the decoders, several at a time: one part may hold hundreds.
    fn decode(&self, baskets: Vec<(usize, Bytes)>) {
        let mut task = Vec::new();
        let mut task_bytes = 0_usize;
        for (id, bytes) in baskets {
            task_bytes += bytes.len();
            task.push((id, bytes));
            if task.len() >= BASKETS_PER_TASK || task_bytes >= BYTES_PER_TASK {
                self.decode_task(std::mem::take(&mut task));
                task_bytes = 0;
            }
        }
        if !task.is_empty() {
            self.decode_task(task);
        }
    }

    fn decode_task(&self, baskets: Vec<(usize, Bytes)>) {
        let work: Vec<_> = baskets
            .into_iter()
            .filter_map(|(id, bytes)| {
                let basket = self.layout.baskets.get(id)?;
                Some((id, self.layout.branches[basket.column], basket.index, bytes))
            })
            .collect();
        let tree = Arc::clone(&self.scan.open.tree);
        let spare = Arc::clone(&self.decoders);
        let done = self.events_in.clone();
        self.scan.file.context.decoders.spawn(move || {
            let started = Instant::now();
            let spares = || lock(&spare);
            let mut decoder = spares().pop().unwrap_or_default();
            let columns = work
                .into_iter()
                .map(|(id, branch, index, bytes)| {
                    (id, decode_basket(&tree, branch, index, &bytes, &mut decoder))
                })
                .collect();
            spares().push(decoder);
            // The receiver is gone if the scan has failed.
            drop(done.unbounded_send(Event::Decoded { columns, took: started.elapsed() }));
        });
    }

    fn take_event(&mut self, event: Event<T>) -> Result<()> {
        match event {
            Event::Decoded { columns, took } => {
                self.totals.decode += took;
                for (id, column) in columns {
                    let column = column
                        .map_err(|error| Error::from(error).context(self.scan.file.name()))?;
                    self.decoded(id, column);
                }
            }
            Event::Evaluated { chunk, result, took } => {
                self.totals.compute += took;
                self.results.insert(chunk, result?);
            }
        }
        Ok(())
    }

    /// Passes on the results that are next in order.
    async fn pass_on(&mut self) -> Result<()> {
        while let Some(result) = self.results.remove(&self.next_accepted) {
            let started = Instant::now();
            let accepted = (self.accept)(result);
            self.totals.compute += started.elapsed();
            accepted.await?;
            self.next_accepted += 1;
        }
        Ok(())
    }

    fn decoded(&mut self, id: usize, column: Column) {
        self.chunks.baskets[id].0 = Some(Arc::new(column));
        for chunk in self.layout.chunks_of(id) {
            self.chunks.waiting[chunk] -= 1;
            if self.chunks.waiting[chunk] == 0 {
                self.evaluate(chunk);
            }
        }
    }

    /// Evaluates chunks that need no basket, as in a tree without branches.
    fn start_empty_chunks(&mut self) {
        for chunk in 0..self.layout.chunks.len() {
            if self.chunks.waiting[chunk] == 0 {
                self.evaluate(chunk);
            }
        }
    }

    fn evaluate(&mut self, chunk: usize) {
        let entries = self.layout.chunks[chunk].clone();
        let mut columns = Vec::new();
        for column in 0..self.layout.branches.len() {
            let mut pieces = Vec::new();
            for id in self.layout.baskets_of(column, &entries) {
                let (slot, users) = &mut self.chunks.baskets[id];
                *users -= 1;
                let basket = if *users == 0 { slot.take() } else { slot.clone() };
                let start = self.layout.baskets[id].entries.start;
                pieces.extend(basket.map(|basket| Piece::within(basket, start, &entries)));
            }
            columns.push(pieces);
        }
        let pieces = ChunkPieces::new(entries, columns, &self.scan.columns)
            .map_err(|error| Error::from(error).context(self.scan.file.name()));
        let evaluate = Arc::clone(&self.evaluate);
        let done = self.events_in.clone();
        self.scan.file.context.decoders.spawn(move || {
            let started = Instant::now();
            let result = pieces.and_then(|pieces| evaluate(pieces));
            drop(done.unbounded_send(Event::Evaluated { chunk, result, took: started.elapsed() }));
        });
    }

    /// Checks that everything requested has arrived: the scan would wait forever for the rest.
    fn check_complete(&self) -> Result<()> {
        let missing = self.requested_bytes.saturating_sub(self.arrived_bytes);
        if missing == 0 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Protocol,
            format!("{}: {missing} bytes of baskets never arrived", self.scan.file.name()),
        ))
    }
}

fn decode_basket(
    tree: &Tree,
    branch: usize,
    index: usize,
    bytes: &[u8],
    decoder: &mut Decompressor,
) -> Result<Column, FormatError> {
    match tree.branches().nth(branch) {
        Some(branch) => branch.decode_basket_with(decoder, index, bytes),
        None => Err(FormatError::NotFound {
            kind: "branch",
            name: branch.to_string(),
            suggestion: Suggestion::All(Vec::new()),
        }),
    }
}
