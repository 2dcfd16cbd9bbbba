//! Writer of records.

use super::MAX_CONTENT_BYTES;
use super::record::{
    CONTENT, DIRECTORY, END, FAILED, FILE, HEADER_BYTES, LEFT_OUT, STORED, TreeEntry, cut, head,
    put_text,
};
use crate::vector::leb128::put;

/// Writes the records of one stream, and counts them.
#[derive(Debug, Default)]
pub struct TreeWriter {
    records: u64,
    content_bytes: u64,
}

impl TreeWriter {
    /// Writes a directory.
    pub fn directory(&mut self, entry: &TreeEntry, out: &mut Vec<u8>) {
        self.record(DIRECTORY, out, |out| entry.put(out));
    }

    /// Writes a file without its bytes.
    pub fn file(&mut self, entry: &TreeEntry, out: &mut Vec<u8>) {
        self.record(FILE, out, |out| entry.put(out));
    }

    /// Writes a file or directory that an upload has made.
    pub fn stored(&mut self, entry: &TreeEntry, out: &mut Vec<u8>) {
        self.record(STORED, out, |out| entry.put(out));
    }

    /// Writes a file with its bytes, which `read` appends. If it fails, or appends a number of
    /// bytes other than the size of the entry, nothing is written.
    ///
    /// # Errors
    /// Those of `read`; none if the number of bytes differs.
    pub fn content<E>(
        &mut self,
        entry: &TreeEntry,
        out: &mut Vec<u8>,
        read: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), Option<E>> {
        let start = out.len();
        out.resize(start + HEADER_BYTES, 0);
        entry.put(out);
        let text = out.len() - start - HEADER_BYTES;
        let done = read(out);
        let length = (out.len() - start).checked_sub(HEADER_BYTES + text);
        let fits = length.filter(|bytes| {
            *bytes as u64 == entry.size && entry.size <= u64::from(MAX_CONTENT_BYTES)
        });
        match (done, fits) {
            (Ok(()), Some(length)) => {
                self.seal(CONTENT, out, start, text, length);
                Ok(())
            }
            (done, _) => {
                out.truncate(start);
                Err(done.err())
            }
        }
    }

    /// Writes a path that failed.
    pub fn failed(&mut self, path: &str, status: u16, reason: &str, out: &mut Vec<u8>) {
        self.record(FAILED, out, |out| {
            put(out, u64::from(status));
            put_text(out, cut(reason));
            out.extend_from_slice(path.as_bytes());
        });
    }

    /// Writes a path that is skipped.
    pub fn left_out(&mut self, path: &str, reason: &str, out: &mut Vec<u8>) {
        self.record(LEFT_OUT, out, |out| {
            put_text(out, cut(reason));
            out.extend_from_slice(path.as_bytes());
        });
    }

    /// Writes the end, with the number of records and of content bytes before it.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        let Self { records, content_bytes } = *self;
        self.record(END, out, |out| {
            put(out, records);
            put(out, content_bytes);
        });
    }

    fn record(&mut self, kind: u8, out: &mut Vec<u8>, text: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.resize(start + HEADER_BYTES, 0);
        text(out);
        let length = out.len() - start - HEADER_BYTES;
        self.seal(kind, out, start, length, 0);
    }

    /// Writes the header of the record at `start`.
    fn seal(&mut self, kind: u8, out: &mut [u8], start: usize, text: usize, content: usize) {
        let head = head(kind, text, content);
        let record = out.get_mut(start..).unwrap_or_default();
        if let Some((place, rest)) = record.split_at_mut_checked(HEADER_BYTES) {
            let sum = crc32c::crc32c_append(crc32c::crc32c(&head), rest);
            for (to, from) in place.iter_mut().zip(head.into_iter().chain(sum.to_be_bytes())) {
                *to = from;
            }
        }
        self.records += 1;
        self.content_bytes += content as u64;
    }
}
