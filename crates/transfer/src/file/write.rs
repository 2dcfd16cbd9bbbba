//! Writing of batches that have arrived.
//!
//! Where writes return at once, as they do while they only reach the page cache, a batch is written
//! by the thread that has received it, while the bytes are in its cache. As soon as one takes
//! longer than [`QUICK`], the next ones are written away from the threads that drive sockets, until
//! they are quick again (decision 0050).
//!
//! Summing up goes along with writing, by the same thread, while the bytes are in its cache. A
//! block that becomes whole is noted in the journal after it was written, never before.

use crate::file::block_map::BlockChecksums;
use crate::file::partial_file;
use crate::file::piece_buffer::WriteBatch;
use crate::file::{FileCopy, Piece, Sink};
use hither_checksum::{Algorithm, Hasher};
use hither_core::sync::lock;
use hither_core::{Error, ErrorKind, Result, range};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// A thread that drives sockets may be kept from them for this long by a write. The kernel makes a
/// program that writes faster than the disk wait for longer (at least 10 ms).
pub(crate) const QUICK: Duration = Duration::from_millis(8);

impl FileCopy {
    /// Writes a batch where it belongs.
    pub(crate) async fn write(self: Arc<Self>, batch: WriteBatch) -> Result<()> {
        let bytes = batch.bytes;
        let result = self.put(batch).await;
        self.release(bytes);
        self.shared.progress.done_bytes(bytes);
        self.shared.progress.undone_bytes(self.rejected_bytes.swap(0, Ordering::Relaxed));
        result
    }

    /// Copies a piece of a file of this machine.
    pub(crate) async fn copy_piece(self: &Arc<Self>, piece: &Piece) -> Result<()> {
        let range = piece.buffer.missing();
        let bytes = range::len(&range);
        let permit = self.shared.options.control.begin_write().await;
        let copied = self.blocking(move |file| {
            let (Some(path), Sink::Part(part)) = (&file.item.local, &file.sink) else {
                return Ok(());
            };
            let clock = file.source.clock();
            let began = clock.now();
            let from = File::open(path)
                .map_err(|error| partial_file::failed("cannot open", path, error))?;
            part.copy_from(&from, range.clone(), &file.shared.group_sync)?;
            file.shared.progress.write.busy(clock.now().saturating_sub(began));
            file.account_copied(range)
        });
        let copied = copied.await;
        drop(permit);
        self.shared.note_arrived(bytes, bytes);
        self.shared.progress.done_bytes(bytes);
        copied
    }

    async fn put(self: &Arc<Self>, batch: WriteBatch) -> Result<()> {
        let clock = self.source.clock();
        let progress = &self.shared.progress;
        let waiting_since = clock.now();
        if let Some(order) = &self.order {
            order.turn(batch.offset).await?;
        }
        self.check_batch(&batch)?;
        let permit = match self.sink {
            Sink::Part(_) => Some(self.shared.options.control.begin_write().await),
            _ => None,
        };
        let began = clock.now();
        progress.write.blocked(began.saturating_sub(waiting_since));
        let mut interruptions = 0;
        let batch = match &self.sink {
            Sink::Upload(upload) => {
                let WriteBatch { offset, bytes, .. } = batch;
                let joined = batch.joined();
                let upload = upload.read().await;
                let upload = upload.as_ref().ok_or_else(over)?;
                interruptions = upload.interruptions();
                upload.write(offset, joined.clone()).await?;
                progress.write.busy(clock.now().saturating_sub(began));
                self.note_token(upload.token());
                WriteBatch { offset, pieces: vec![joined], bytes }
            }
            Sink::Part(_) | Sink::Output | Sink::Discard => batch,
        };
        let in_place = self.writes_in_place();
        let work = move |file: &Self| {
            let clock = file.source.clock();
            let progress = &file.shared.progress;
            let began = clock.now();
            match &file.sink {
                Sink::Part(part) => {
                    part.write(batch.offset, &batch.pieces, &file.shared.group_sync)?
                }
                Sink::Output => print(&batch)?,
                Sink::Upload(_) | Sink::Discard => {}
            }
            let written = clock.now();
            progress.write.busy(written.saturating_sub(began));
            file.account(&batch, interruptions)?;
            file.sum_up_prefix(batch.bytes)?;
            let ended = clock.now();
            progress.verify.busy(ended.saturating_sub(written));
            let is_quick = ended.saturating_sub(began) < QUICK;
            file.writes_are_quick.store(is_quick, Ordering::Relaxed);
            if let Some(order) = &file.order {
                // What was there before has no turn.
                let (_, end) = file.state().blocks.written_from(batch.range().end);
                order.advance(end);
            }
            Ok(())
        };
        let done = if in_place { work(self.as_ref()) } else { self.blocking(work).await };
        drop(permit);
        done
    }

    /// Goes on with the sum of what has arrived in a row, after `bytes` were written: with more
    /// than that, so that the sum keeps up.
    fn sum_up_prefix(&self, bytes: u64) -> Result<()> {
        let (Some(prefix), Sink::Part(part)) = (&self.prefix, &self.sink) else { return Ok(()) };
        if self.known_by_pieces().is_some() {
            return Ok(());
        }
        prefix.go_on(2 * bytes, |at| self.state().blocks.written_from(at), part)
    }

    /// Batches are written by the thread that has received them. Never to a small file, which has
    /// to be created first, or to a pipe, whose reader may take its time.
    pub(crate) fn writes_in_place(&self) -> bool {
        let may = matches!(self.sink, Sink::Part(_)) && !self.is_small();
        may && self.writes_are_quick.load(Ordering::Relaxed)
    }

    /// Records the token that a later attempt resumes the upload with; it may change with every
    /// block.
    fn note_token(&self, token: Option<String>) {
        let mut known = lock(&self.token);
        if *known == token {
            return;
        }
        if let Some(journal) = self.journal() {
            journal.part(&self.key, token.as_deref());
        }
        *known = token;
    }

    /// Runs `work` where it may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let file = Arc::clone(self);
        let work = move || work(&file);
        let done = if self.is_small() {
            self.shared.blocking.run(work).await
        } else {
            spawn_blocking(work).await.ok()
        };
        done.unwrap_or_else(|| Err(Error::new(ErrorKind::Local, "a writing thread panicked")))
    }

    /// Compares the pieces of a batch before it goes where it cannot be taken back from.
    fn check_batch(&self, batch: &WriteBatch) -> Result<()> {
        let is_final = self.is_exact() && !matches!(self.sink, Sink::Part(_));
        let Some(pieces) = self.pieces.as_ref().filter(|_| is_final) else { return Ok(()) };
        for (piece, expected) in pieces.within(batch.range()) {
            let mut hasher = Hasher::new(expected.algorithm());
            slices(batch, &piece).for_each(|bytes| hasher.update(bytes));
            let seen = hasher.finish();
            if seen != *expected {
                return Err(self.wrong_piece(&piece, &seen, expected));
            }
        }
        Ok(())
    }

    /// Sums up what was written, and notes the blocks that it made whole. Before it was written,
    /// this number of requests to the server had failed.
    fn account(&self, batch: &WriteBatch, interruptions: u64) -> Result<()> {
        if let Some(chain) = &self.chain {
            let mut chain = lock(chain);
            batch.pieces.iter().for_each(|piece| chain.update(piece));
        }
        let mut state = self.state();
        let ranges: Vec<_> = state.blocks.within_blocks(batch.range()).collect();
        if matches!(self.sink, Sink::Upload(_)) {
            ranges.iter().for_each(|part| state.blocks.note_interruptions(part, interruptions));
        }
        drop(state);
        for range in ranges {
            let with_adler32 = self.algorithm == Some(Algorithm::Adler32);
            let checksums = BlockChecksums::of(slices(batch, &range), with_adler32);
            self.note_written(range, checksums)?;
        }
        Ok(())
    }

    /// Notes what was copied without passing through here. It is read where a later attempt would
    /// compare it.
    pub(crate) fn account_copied(&self, range: Range<u64>) -> Result<()> {
        let ranges: Vec<_> = self.state().blocks.within_blocks(range).collect();
        for range in ranges {
            let checksums = match (&self.sink, self.journal()) {
                (Sink::Part(part), Some(_)) => part.checksums(range.clone(), false)?,
                _ => BlockChecksums::of([], false),
            };
            self.note_written(range, checksums)?;
        }
        Ok(())
    }

    fn note_written(&self, range: Range<u64>, checksums: BlockChecksums) -> Result<()> {
        let mut state = self.state();
        let Some(whole) = state.blocks.written(range, checksums) else { return Ok(()) };
        drop(state);
        if !self.check_pieces(&whole.range)? {
            return Ok(());
        }
        let mut state = self.state();
        let before = state.before.as_ref().and_then(|known| known.get(&whole.range.start));
        if before.is_some_and(|before| *before != whole.checksums.crc32c) {
            state.damaged.push(whole.range.start);
        }
        drop(state);
        if let Some(journal) = self.journal() {
            let bytes = range::len(&whole.range);
            journal.block(&self.key, whole.range.start, bytes, &whole.checksums.crc32c);
        }
        Ok(())
    }
}

/// The error of whoever writes to a file that is done with.
pub(crate) fn over() -> Error {
    Error::new(ErrorKind::Cancelled, "the upload has ended")
}

/// The parts of a batch that lie in `range`.
fn slices<'a>(batch: &'a WriteBatch, range: &Range<u64>) -> impl Iterator<Item = &'a [u8]> {
    let mut at = batch.offset;
    let range = range.clone();
    batch.pieces.iter().filter_map(move |piece| {
        let start = at;
        at += piece.len() as u64;
        let from = range.start.max(start);
        let to = range.end.min(at);
        let within = |n: u64| usize::try_from(n.checked_sub(start)?).ok();
        (from < to).then(|| piece.get(within(from)?..within(to)?)).flatten()
    })
}

fn print(batch: &WriteBatch) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = batch.pieces.iter().try_for_each(|piece| out.write_all(piece));
    written.and_then(|()| out.flush()).map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => {
            Error::new(ErrorKind::Cancelled, "the standard output was closed by its reader")
        }
        _ => partial_file::failed("cannot write", Path::new("the standard output"), error),
    })
}
