//! Reader of records.
//!
//! A record is returned when it is complete and its checksum is correct: at most one is incomplete,
//! with its content as slices of the pieces that were fed.

use super::record::{
    CONTENT, DIRECTORY, END, FAILED, FILE, HEADER_BYTES, LEFT_OUT, MAX_REASON_BYTES, STORED,
    TreeEntry, TreeRecord, lengths, path, take_text,
};
use crate::vector::leb128;
use bytes::Bytes;

/// A body that is not a valid stream of records. The reader returns the same error again if it is
/// fed more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// Bytes were damaged.
    #[error("record {record} of the tree has the crc32c {computed:08x}, expected {stated:08x}")]
    Damaged {
        /// The record, counted from 0.
        record: u64,
        /// The stated checksum.
        stated: u32,
        /// The computed checksum.
        computed: u32,
    },
    /// A record is too large.
    #[error("record {record} of the tree is larger than a record may be")]
    TooLarge {
        /// The record, counted from 0.
        record: u64,
    },
    /// A record does not have the form of its kind, or its path leaves the directory.
    #[error("record {record} of the tree is not valid, or names no path below the directory")]
    Invalid {
        /// The record, counted from 0.
        record: u64,
    },
    /// The body ended before its last record.
    #[error("the tree ended after {record} records, without the record that ends it")]
    Truncated {
        /// The number of records that came.
        record: u64,
    },
    /// The last record states another number of records or bytes.
    #[error("the tree has {records} records and {bytes} bytes of files, and states other numbers")]
    Miscounted {
        /// The number of records that came.
        records: u64,
        /// The number of content bytes that came.
        bytes: u64,
    },
    /// Bytes follow the last record.
    #[error("the tree goes on after its end")]
    AfterEnd,
}

/// A record that has not arrived completely.
#[derive(Debug)]
struct OpenRecord {
    kind: u8,
    stated: u32,
    computed: u32,
    missing_text: usize,
    missing_content: usize,
    content: Vec<Bytes>,
}

/// The reader of one stream.
#[derive(Debug, Default)]
pub struct TreeReader {
    records: u64,
    content_bytes: u64,
    /// The bytes of a header or text that arrived in an earlier piece.
    text: Vec<u8>,
    record: Option<OpenRecord>,
    is_over: bool,
    failed: Option<TreeError>,
}

impl TreeReader {
    /// Takes the next record off the front of `piece`; `None` when the piece is used up.
    ///
    /// Call it until it returns `None`, then with the next piece, in the order of arrival.
    ///
    /// # Errors
    /// The body is not a valid stream, or is damaged. Records returned before remain valid.
    pub fn next(&mut self, piece: &mut Bytes) -> Result<Option<TreeRecord>, TreeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let record = self.advance(piece);
        if let Err(error) = &record {
            self.failed = Some(error.clone());
        }
        record
    }

    /// Checks that the body was complete, after the last piece.
    ///
    /// # Errors
    /// [`TreeError::Truncated`], or the error that reading ended with.
    pub fn finish(&self) -> Result<(), TreeError> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.is_over => Ok(()),
            None => Err(TreeError::Truncated { record: self.records }),
        }
    }

    /// Returns true if the last record has been read.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn advance(&mut self, piece: &mut Bytes) -> Result<Option<TreeRecord>, TreeError> {
        while !piece.is_empty() {
            if self.is_over {
                return Err(TreeError::AfterEnd);
            }
            let Some(mut record) = self.record.take() else {
                self.begin(piece)?;
                continue;
            };
            let text = piece.split_to(record.missing_text.min(piece.len()));
            record.missing_text -= text.len();
            record.computed = crc32c::crc32c_append(record.computed, &text);
            self.text.extend_from_slice(&text);
            let content = piece.split_to(record.missing_content.min(piece.len()));
            if !content.is_empty() {
                record.missing_content -= content.len();
                record.computed = crc32c::crc32c_append(record.computed, &content);
                record.content.push(content);
            }
            if record.missing_text + record.missing_content > 0 {
                self.record = Some(record);
            } else if let Some(record) = self.complete(record)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Reads a header, once it is complete.
    fn begin(&mut self, piece: &mut Bytes) -> Result<(), TreeError> {
        let taken = piece.split_to((HEADER_BYTES - self.text.len()).min(piece.len()));
        self.text.extend_from_slice(&taken);
        let Some((head, rest)) = self.text.split_first_chunk::<8>() else { return Ok(()) };
        let Some((sum, _)) = rest.split_first_chunk::<4>() else { return Ok(()) };
        let Some((kind, text, content)) = lengths(*head) else {
            return Err(TreeError::TooLarge { record: self.records });
        };
        // Every kind has a text, so a record is never complete with its header.
        if text == 0 || content > 0 && kind != CONTENT {
            return Err(TreeError::Invalid { record: self.records });
        }
        self.record = Some(OpenRecord {
            kind,
            stated: u32::from_be_bytes(*sum),
            computed: crc32c::crc32c(head),
            missing_text: text,
            missing_content: content,
            content: Vec::new(),
        });
        self.text.clear();
        Ok(())
    }

    fn complete(&mut self, open: OpenRecord) -> Result<Option<TreeRecord>, TreeError> {
        let record = self.records;
        let OpenRecord { kind, stated, computed, content, .. } = open;
        if stated != computed {
            return Err(TreeError::Damaged { record, stated, computed });
        }
        let bytes: u64 = content.iter().map(|piece| piece.len() as u64).sum();
        let text = std::mem::take(&mut self.text);
        if kind == END {
            let mut rest = text.as_slice();
            let counts = (leb128::take(&mut rest), leb128::take(&mut rest));
            if counts != (Ok(record), Ok(self.content_bytes)) {
                return Err(TreeError::Miscounted { records: record, bytes: self.content_bytes });
            }
            self.is_over = true;
            return Ok(None);
        }
        let parsed = parse(kind, &text, content, bytes).ok_or(TreeError::Invalid { record })?;
        self.records += 1;
        self.content_bytes = self.content_bytes.saturating_add(bytes);
        Ok(Some(parsed))
    }
}

fn parse(kind: u8, mut text: &[u8], content: Vec<Bytes>, bytes: u64) -> Option<TreeRecord> {
    match kind {
        DIRECTORY => TreeEntry::take(text).map(TreeRecord::Directory),
        FILE => TreeEntry::take(text).map(TreeRecord::File),
        STORED => TreeEntry::take(text).map(TreeRecord::Stored),
        CONTENT => {
            let entry = TreeEntry::take(text).filter(|entry| entry.size == bytes)?;
            Some(TreeRecord::Content(entry, content))
        }
        FAILED => {
            let status = u16::try_from(leb128::take(&mut text).ok()?).ok()?;
            let reason = take_text(&mut text, MAX_REASON_BYTES)?;
            Some(TreeRecord::Failed { path: path(text)?, status, reason })
        }
        LEFT_OUT => {
            let reason = take_text(&mut text, MAX_REASON_BYTES)?;
            Some(TreeRecord::LeftOut { path: path(text)?, reason })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
