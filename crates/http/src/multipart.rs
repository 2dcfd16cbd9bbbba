//! Reader of a body of type `multipart/byteranges` (RFC 9110 section 14.6, RFC 2046 section 5.1).
//!
//! The body is fed in pieces of any size, as they arrive. The events carry the bytes of the file
//! with their offsets, as slices of those pieces. Nothing of the file is copied or kept: the state
//! is one line of text and a few numbers, whatever the size of the body.
//!
//! **The length of a part comes from its `Content-Range`.** The bytes of a part are not searched
//! for the boundary: it may occur in them (XrdHttp's is always `123456`), and examining every byte
//! would cost more than all other work. In return the delimiter must follow the part directly,
//! after exactly one line end of the kind that ended the part's fields: with a laxer rule a part
//! that lacks its last byte would take the CR for it. If it does not, server and client disagree
//! about the length, no later byte can be trusted, and the body is an error. This also detects a
//! server that fails in the middle of a response: XrdHttp 5.5 writes a second `HTTP/1.1 500 …` into
//! the body when more than 1,024 ranges are requested.
//!
//! **Parts may come in any form.** A server may merge ranges, reorder, repeat or omit them (RFC
//! 9110 section 15.3.7.2). Every part is reported as it is; matching it with the request is the
//! caller's task.
//!
//! **Accepted from real servers**: lines that all end in LF alone (EOS), a line end before the
//! first delimiter (most) or none (Go), field names in any case and order (Apache:
//! `Content-range`), fields with an empty value (Go: `Content-Type: `), blanks after a delimiter,
//! text before the first delimiter and after the last.
//!
//! ```text
//! Preamble ─delimiter─> Fields ─empty line─> Body ─all bytes─> Separator ─line end─> Delimiter
//!                          ^                                                          │   │
//!                          ╰─────────────────────────delimiter────────────────────────╯  "--"
//!                                                              Epilogue <── Closed <──────╯
//! ```

mod error;
pub mod writer;

pub use error::MultipartError;

use crate::content_range::ContentRange;
use crate::text::{excerpt, trim};
use bytes::Bytes;
use std::ops::Range;

/// Maximum size of the text between the data of two parts (delimiter and fields), and before the
/// first part.
pub const MAX_HEADER_BYTES: usize = 8 * 1024;
/// Maximum length of a boundary. RFC 2046 allows 70; Go writes 60.
pub const MAX_BOUNDARY_BYTES: usize = 200;

/// An event of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultipartEvent {
    /// A part begins.
    PartStart {
        /// The range of the file in the part.
        range: Range<u64>,
        /// The size of the whole file in bytes, as this part states it.
        total: Option<u64>,
    },
    /// Bytes of the part, which its end has to confirm; never empty, in ascending order.
    Data {
        /// Their offset in the file.
        offset: u64,
        /// A slice of the piece that was fed.
        bytes: Bytes,
    },
    /// The part is complete: the delimiter follows it directly.
    PartEnd,
    /// The closing delimiter: the message is complete. Later bytes are ignored.
    End,
}

/// The range of a part, and the size of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PartRange {
    range: Range<u64>,
    total: Option<u64>,
}

#[derive(Debug)]
enum State {
    /// Before the first delimiter.
    Preamble,
    /// Among the fields of a part.
    Fields { part: Option<PartRange> },
    /// In the data of a part: the next offset, the end of the part, and the line end of its fields.
    Body { offset: u64, end: u64, line_end: LineEnd },
    /// After the data of a part that ended at `end`, before the line end that is not part of it.
    Separator { end: u64, line_end: LineEnd },
    /// After that line end.
    Delimiter { end: u64 },
    /// After the closing delimiter, which has ended a part.
    Closed,
    /// After the closing delimiter.
    Epilogue,
    /// After an error.
    Failed(MultipartError),
}

/// The kind of a line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Crlf,
    Lf,
}

/// The reader of one body. See the [module](self).
#[derive(Debug)]
pub struct MultipartReader {
    /// `--` and the boundary.
    delimiter: Vec<u8>,
    state: State,
    /// The incomplete line from earlier pieces. Invariant: no longer than [`MAX_HEADER_BYTES`].
    line: Vec<u8>,
    /// Bytes of text since the last data.
    header_bytes: usize,
    /// Parts that arrived completely.
    complete: u64,
}

impl MultipartReader {
    /// Creates a reader for a body with this boundary, which [`classify`](crate::classify) takes
    /// from `Content-Type`.
    ///
    /// # Errors
    /// [`MultipartError::Boundary`] if it is empty or longer than [`MAX_BOUNDARY_BYTES`].
    pub fn new(boundary: &[u8]) -> Result<Self, MultipartError> {
        if boundary.is_empty() || boundary.len() > MAX_BOUNDARY_BYTES {
            return Err(MultipartError::Boundary { length: boundary.len() });
        }
        Ok(Self {
            delimiter: [b"--", boundary].concat(),
            state: State::Preamble,
            line: Vec::new(),
            header_bytes: 0,
            complete: 0,
        })
    }

    /// Takes the next event off the front of `piece`; `None` when the piece is used up.
    ///
    /// Call it until it returns `None`, then with the next piece, in the order of arrival.
    ///
    /// # Errors
    /// The body is not a valid multipart message. Events returned before remain valid.
    pub fn next(&mut self, piece: &mut Bytes) -> Result<Option<MultipartEvent>, MultipartError> {
        let event = self.advance(piece);
        if let Err(error) = &event {
            self.state = State::Failed(error.clone());
        }
        event
    }

    /// Checks that the message is complete, after the last piece.
    ///
    /// # Errors
    /// [`MultipartError::Truncated`] if the closing delimiter never came. Events returned before
    /// remain valid: a caller that has every byte it requested may ignore this. Or the error that
    /// reading ended with.
    pub fn finish(&self) -> Result<(), MultipartError> {
        let missing = match &self.state {
            State::Closed | State::Epilogue => return Ok(()),
            State::Failed(error) => return Err(error.clone()),
            State::Body { offset, end, .. } => Some(*offset..*end),
            State::Preamble
            | State::Fields { .. }
            | State::Separator { .. }
            | State::Delimiter { .. } => None,
        };
        Err(MultipartError::Truncated { complete: self.complete, missing })
    }

    /// The number of bytes at the start of `data` that are certainly no delimiter, not even a part
    /// of one; `None` if a delimiter is in it, so that none of it is certain. `data` are the bytes
    /// of a part whose end has not come.
    #[must_use]
    pub fn before_delimiter(&self, data: &[u8]) -> Option<usize> {
        let line = [b"\n", self.delimiter.as_slice()].concat();
        let is_delimiter = |bytes: &[u8]| bytes == line;
        if data.starts_with(&self.delimiter) || data.windows(line.len()).any(is_delimiter) {
            return None;
        }
        let is_end =
            |length: &usize| line.get(..*length).is_some_and(|begun| data.ends_with(begun));
        let begun = (1..line.len()).rev().find(is_end).unwrap_or_default();
        let before = data.get(..data.len() - begun)?;
        Some(before.strip_suffix(b"\r").unwrap_or(before).len())
    }

    fn advance(&mut self, piece: &mut Bytes) -> Result<Option<MultipartEvent>, MultipartError> {
        loop {
            if let State::Body { offset, end, line_end } = &mut self.state {
                if offset == end {
                    self.state = State::Separator { end: *end, line_end: *line_end };
                    self.header_bytes = 0;
                    continue;
                }
                let wanted = usize::try_from(*end - *offset).unwrap_or(usize::MAX);
                let bytes = piece.split_to(wanted.min(piece.len()));
                if bytes.is_empty() {
                    return Ok(None);
                }
                let at = *offset;
                *offset += bytes.len() as u64;
                return Ok(Some(MultipartEvent::Data { offset: at, bytes }));
            }
            match &self.state {
                State::Failed(error) => return Err(error.clone()),
                State::Closed => return Ok(Some(self.end(piece))),
                State::Epilogue => {
                    piece.clear();
                    return Ok(None);
                }
                _ => {}
            }
            let Some((line, line_end)) = self.line(piece)? else {
                // The closing delimiter may end the body without a line end.
                return Ok(self.ends_unterminated().then(|| self.end(piece)));
            };
            let event = match self.state {
                State::Fields { .. } => self.field(&line, line_end)?,
                State::Separator { end, line_end: expected } => {
                    if !line.is_empty() || line_end != expected {
                        return Err(not_a_delimiter(end, &line));
                    }
                    self.state = State::Delimiter { end };
                    None
                }
                _ => self.delimiter(&line)?,
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// The next line of text without its line end, or `None` if `piece` ends before the line does.
    fn line(&mut self, piece: &mut Bytes) -> Result<Option<(Bytes, LineEnd)>, MultipartError> {
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = piece.split_to(end.map_or(piece.len(), |end| end + 1));
        self.header_bytes = self.header_bytes.saturating_add(taken.len());
        if self.header_bytes > MAX_HEADER_BYTES {
            return Err(MultipartError::HeaderTooLarge);
        }
        if end.is_none() {
            self.line.extend_from_slice(&taken);
            return Ok(None);
        }
        let mut line = if self.line.is_empty() {
            taken
        } else {
            self.line.extend_from_slice(&taken);
            Bytes::from(std::mem::take(&mut self.line))
        };
        line.truncate(line.len() - 1);
        if line.ends_with(b"\r") {
            line.truncate(line.len() - 1);
            return Ok(Some((line, LineEnd::Crlf)));
        }
        Ok(Some((line, LineEnd::Lf)))
    }

    /// Returns true if the line so far is the closing delimiter, at a position where a delimiter
    /// may be.
    fn ends_unterminated(&self) -> bool {
        matches!(self.state, State::Preamble | State::Delimiter { .. })
            && self.mark(&self.line) == Some(Mark::Closing)
    }

    fn mark(&self, line: &[u8]) -> Option<Mark> {
        let rest = line.strip_prefix(self.delimiter.as_slice())?;
        if rest.starts_with(b"--") {
            // The decision is made before the line ends, so that the rest of the line does not
            // matter.
            return Some(Mark::Closing);
        }
        trim(rest).is_empty().then_some(Mark::Opening)
    }

    fn delimiter(&mut self, line: &Bytes) -> Result<Option<MultipartEvent>, MultipartError> {
        match (self.mark(line), &self.state) {
            (Some(Mark::Opening), State::Delimiter { .. }) => {
                self.state = State::Fields { part: None };
                self.complete += 1;
                return Ok(Some(MultipartEvent::PartEnd));
            }
            (Some(Mark::Opening), _) => self.state = State::Fields { part: None },
            (Some(Mark::Closing), _) => return Ok(Some(self.end(&mut Bytes::new()))),
            (None, State::Delimiter { end }) => return Err(not_a_delimiter(*end, line)),
            // A line of the preamble.
            (None, _) => refuse_status_line(line)?,
        }
        Ok(None)
    }

    /// The next event after the closing delimiter: the end of its part, or of the message.
    fn end(&mut self, piece: &mut Bytes) -> MultipartEvent {
        piece.clear();
        self.line = Vec::new();
        if matches!(self.state, State::Delimiter { .. }) {
            self.state = State::Closed;
            self.complete += 1;
            return MultipartEvent::PartEnd;
        }
        self.state = State::Epilogue;
        MultipartEvent::End
    }

    fn field(
        &mut self,
        line: &Bytes,
        line_end: LineEnd,
    ) -> Result<Option<MultipartEvent>, MultipartError> {
        let State::Fields { part } = &mut self.state else {
            return Ok(None);
        };
        if line.is_empty() {
            let PartRange { range, total } = part.take().ok_or(MultipartError::NoContentRange)?;
            self.state = State::Body { offset: range.start, end: range.end, line_end };
            return Ok(Some(MultipartEvent::PartStart { range, total }));
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            // The rest of a folded line (RFC 9112 section 5.2); Content-Range never needs one.
            return Ok(None);
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            refuse_status_line(line)?;
            return Err(MultipartError::Field { seen: excerpt(line) });
        };
        let name = line.slice(..colon);
        let value = line.slice(colon + 1..);
        if !trim(&name).eq_ignore_ascii_case(b"content-range") {
            return Ok(None);
        }
        let found = match ContentRange::parse(&value)? {
            ContentRange::Satisfied { range, total } => PartRange { range, total },
            ContentRange::Unsatisfied { total } => {
                return Err(MultipartError::UnsatisfiedPart { total });
            }
        };
        if part.as_ref().is_some_and(|part| *part != found) {
            return Err(MultipartError::TwoContentRanges { seen: excerpt(&value) });
        }
        *part = Some(found);
        Ok(None)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Opening,
    Closing,
}

fn refuse_status_line(line: &[u8]) -> Result<(), MultipartError> {
    if line.starts_with(b"HTTP/1.") {
        return Err(MultipartError::ServerFailed { seen: excerpt(line) });
    }
    Ok(())
}

fn not_a_delimiter(end: u64, line: &[u8]) -> MultipartError {
    refuse_status_line(line)
        .err()
        .unwrap_or_else(|| MultipartError::Delimiter { end, seen: excerpt(line) })
}
