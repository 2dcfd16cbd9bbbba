//! Writer of a body of type `multipart/byteranges` (RFC 9110 section 14.6): the text around the
//! data, and its length, so that the length of the response is known before any data is read.

use std::fmt::Write as _;
use std::ops::Range;

/// The fields that all parts of one response share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultipartWriter {
    boundary: String,
    content_type: String,
    size: u64,
}

impl MultipartWriter {
    /// Creates a writer for a file of `size` bytes. `boundary` must not occur in the data; a random
    /// one practically never does. Readers that use `Content-Range` do not depend on that.
    #[must_use]
    pub fn new(boundary: u64, content_type: &str, size: u64) -> Self {
        Self { boundary: format!("{boundary:016x}"), content_type: content_type.to_owned(), size }
    }

    /// The `Content-Type` of the response.
    #[must_use]
    pub fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// The text before the data of a part, including the line end after the part before.
    #[must_use]
    pub fn head(&self, range: &Range<u64>) -> String {
        let mut head = String::with_capacity(self.head_bytes(range));
        let Self { boundary, content_type, size } = self;
        let last = range.end.saturating_sub(1);
        // Writing to a String cannot fail.
        let _ = write!(
            head,
            "\r\n--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: bytes {}-{last}/{size}\r\n\r\n",
            range.start
        );
        head
    }

    /// The length of that text.
    #[must_use]
    pub fn head_bytes(&self, range: &Range<u64>) -> usize {
        const FIXED: usize = "\r\n--\r\nContent-Type: \r\nContent-Range: bytes -/\r\n\r\n".len();
        let numbers = digits(range.start) + digits(range.end.saturating_sub(1)) + digits(self.size);
        FIXED + self.boundary.len() + self.content_type.len() + numbers
    }

    /// The text after the last part.
    #[must_use]
    pub fn end(&self) -> String {
        format!("\r\n--{}--\r\n", self.boundary)
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MultipartEvent, MultipartReader, RangeResponse, classify};
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode, header};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_are_read_as_they_were_written(
            boundary in any::<u64>(),
            starts in prop::collection::vec(0..u64::MAX / 2, 1..10),
        ) {
            let writer = MultipartWriter::new(boundary, "text/plain", u64::MAX);
            let mut body = Vec::new();
            for start in &starts {
                let head = writer.head(&(*start..start + 3));
                prop_assert_eq!(head.len(), writer.head_bytes(&(*start..start + 3)));
                body.extend_from_slice(head.as_bytes());
                body.extend_from_slice(b"abc");
            }
            body.extend_from_slice(writer.end().as_bytes());
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, writer.content_type().parse().unwrap())]);
            let answer = classify(StatusCode::PARTIAL_CONTENT, &headers, starts.len()).unwrap();
            let RangeResponse::Multipart { boundary } = answer else { panic!("{answer:?}") };
            let mut parts = MultipartReader::new(&boundary).unwrap();
            let mut body = Bytes::from(body);
            let mut found = Vec::new();
            while let Some(event) = parts.next(&mut body).unwrap() {
                if let MultipartEvent::Data { offset, bytes } = event {
                    prop_assert_eq!(&bytes[..], b"abc");
                    found.push(offset);
                }
            }
            parts.finish().unwrap();
            prop_assert_eq!(found, starts);
        }
    }
}
