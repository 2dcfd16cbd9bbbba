//! Encodes ranges from a backend that supplies pieces ([`FileRanges::Stream`]) as a response.
//!
//! Bytes that the backend has in memory are sent as they are. A region of a local file is read on a
//! thread that may block. Frames are filled to the block size, so that the length of the response
//! is known before its first byte.
//!
//! [`FileRanges::Stream`]: crate::backend::FileRanges::Stream

use crate::backend::blocking;
use crate::backend::{BackendError, RangeData};
use crate::response::body::{ChunkStream, ResponseBody};
use crate::response::buffer_pool::{BufferQuota, ConnectionMemory, PooledBuffer};
use crate::response::range_encoder::RangeFormat;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use hither_http::vector::frames;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Ranges to be sent.
pub(crate) struct StreamedRanges {
    pub(crate) pieces: BoxStream<'static, Result<RangeData, BackendError>>,
    pub(crate) format: RangeFormat,
    pub(crate) ranges: Vec<Range<u64>>,
    /// Bytes read or framed at a time.
    pub(crate) block: u64,
    pub(crate) memory: Arc<ConnectionMemory>,
}

struct Sending {
    job: StreamedRanges,
    quota: BufferQuota,
    /// The range being sent, and its next offset.
    index: usize,
    at: u64,
    /// The rest of the last piece.
    rest: Option<RangeData>,
    /// Chunks that are ready to be sent.
    ready: VecDeque<Bytes>,
    is_over: bool,
}

impl StreamedRanges {
    /// The body of the response.
    pub(crate) fn into_body(self) -> ResponseBody {
        let length = self.format.total_bytes(&self.ranges, self.block);
        let mut sending = Sending {
            quota: Arc::new(Semaphore::new(2)),
            index: 0,
            at: self.ranges.first().map_or(0, |range| range.start),
            rest: None,
            ready: VecDeque::new(),
            is_over: false,
            job: self,
        };
        if let RangeFormat::Frames { size } = sending.job.format {
            sending.text(frames::preamble(size).to_vec());
        }
        let chunks = stream::unfold(sending, async |mut sending| {
            while sending.ready.is_empty() && !sending.is_over {
                if let Err(error) = sending.step().await {
                    sending.is_over = true;
                    return Some((Err(error), sending));
                }
            }
            Some((Ok(sending.ready.pop_front()?), sending))
        });
        ResponseBody::Stream(ChunkStream::new(Box::pin(chunks), Some(length)))
    }
}

impl Sending {
    fn text(&mut self, text: Vec<u8>) {
        self.ready.push_back(Bytes::from(text));
    }

    /// Makes the next chunks, or ends the body.
    async fn step(&mut self) -> io::Result<()> {
        let Some(range) = self.job.ranges.get(self.index).cloned() else {
            self.is_over = true;
            if let RangeFormat::Parts(parts) = &self.job.format {
                let end = parts.end().into_bytes();
                self.text(end);
            }
            return Ok(());
        };
        match &self.job.format {
            RangeFormat::Parts(parts) if self.at == range.start => {
                let head = parts.head(&range).into_bytes();
                self.text(head);
                self.plain(range.end).await?;
            }
            RangeFormat::Parts(_) | RangeFormat::Plain => self.plain(range.end).await?,
            RangeFormat::Frames { .. } => self.frame(range.end).await?,
        }
        if self.at >= range.end {
            self.index += 1;
            self.at = self.job.ranges.get(self.index).map_or(0, |range| range.start);
        }
        Ok(())
    }

    /// Makes a plain chunk of the next piece.
    async fn plain(&mut self, end: u64) -> io::Result<()> {
        let max = usize::try_from(self.job.block).unwrap_or(usize::MAX);
        let max = self.job.memory.block_bytes(max) as u64;
        let piece = self.piece((end - self.at).min(max)).await?;
        self.at = self.at.saturating_add(length(&piece));
        let chunk = match piece {
            RangeData::Bytes(bytes) => bytes,
            RangeData::Region { file, range } => self.read(file, range).await?,
        };
        self.ready.push_back(chunk);
        Ok(())
    }

    /// Makes a frame, filled from as many pieces as needed.
    async fn frame(&mut self, end: u64) -> io::Result<()> {
        let mut left = self.job.block.min(end - self.at);
        let size = usize::try_from(left).map_err(io::Error::other)?;
        let mut buffer = self.borrow(frames::HEADER_BYTES + size).await?;
        let offset = self.at;
        let out = buffer.buffer();
        out.clear();
        out.resize(frames::HEADER_BYTES, 0);
        while left > 0 {
            let piece = self.piece(left).await?;
            let bytes = length(&piece);
            match piece {
                RangeData::Bytes(bytes) => buffer.buffer().extend_from_slice(&bytes),
                RangeData::Region { file, range } => {
                    let bytes = read_region(file, range, Vec::new()).await?;
                    buffer.buffer().extend_from_slice(&bytes);
                }
            }
            left -= bytes;
            self.at = self.at.saturating_add(bytes);
        }
        let out = buffer.buffer();
        let filled = out.len();
        if let Some((head, data)) = out.split_at_mut_checked(frames::HEADER_BYTES) {
            let length = u32::try_from(data.len()).map_err(io::Error::other)?;
            head.copy_from_slice(&frames::header(offset, length, data));
        }
        self.ready.push_back(buffer.freeze(filled));
        Ok(())
    }

    /// Returns the next piece, at most `max` bytes of it.
    async fn piece(&mut self, max: u64) -> io::Result<RangeData> {
        let piece = match self.rest.take() {
            Some(rest) => rest,
            None => match self.job.pieces.next().await {
                Some(piece) => piece.map_err(io::Error::other)?,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            },
        };
        if length(&piece) == 0 {
            return Err(io::Error::other("the backend supplied an empty piece"));
        }
        let (piece, rest) = split(piece, max);
        self.rest = rest;
        Ok(piece)
    }

    async fn borrow(&mut self, bytes: usize) -> io::Result<PooledBuffer> {
        let buffer = Arc::clone(&self.job.memory).borrow(bytes, Arc::clone(&self.quota)).await;
        buffer.ok_or_else(|| io::Error::other("the server is shutting down"))
    }

    /// Reads a region into a pooled buffer.
    async fn read(&mut self, file: Arc<File>, range: Range<u64>) -> io::Result<Bytes> {
        let size = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let mut buffer = self.borrow(size).await?;
        let storage = std::mem::take(buffer.buffer());
        *buffer.buffer() = read_region(file, range, storage).await?;
        Ok(buffer.freeze(size))
    }
}

async fn read_region(
    file: Arc<File>,
    range: Range<u64>,
    mut buffer: Vec<u8>,
) -> io::Result<Vec<u8>> {
    let size = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    blocking::spawn(move |_| {
        buffer.resize(size, 0);
        file.read_exact_at(&mut buffer, range.start)?;
        Ok(buffer)
    })
    .await?
}

fn length(piece: &RangeData) -> u64 {
    match piece {
        RangeData::Bytes(bytes) => bytes.len() as u64,
        RangeData::Region { range, .. } => range.end - range.start,
    }
}

/// Splits a piece after `max` bytes.
fn split(piece: RangeData, max: u64) -> (RangeData, Option<RangeData>) {
    if length(&piece) <= max {
        return (piece, None);
    }
    match piece {
        RangeData::Bytes(mut bytes) => {
            let first = bytes.split_to(usize::try_from(max).unwrap_or(usize::MAX).min(bytes.len()));
            (RangeData::Bytes(first), Some(RangeData::Bytes(bytes)))
        }
        RangeData::Region { file, range } => {
            let middle = range.start + max;
            let rest = RangeData::Region { file: Arc::clone(&file), range: middle..range.end };
            (RangeData::Region { file, range: range.start..middle }, Some(rest))
        }
    }
}
