//! Data in pages of 4 KiB, each behind its CRC32C, and the frame that announces them.
//!
//! Pages are those of the file: the first piece of a response ends at the next multiple of 4,096,
//! and the last one where the data ends. The checksum of the frame covers the rest of the frame,
//! not the data.

use crate::wire::{
    FieldReader, RESPONSE_HEAD_BYTES, ResponseHead, StreamId, WireError, request_code, status_code,
};
use bytes::{BufMut, Bytes, BytesMut};

/// Size of a page.
pub const PAGE_BYTES: u64 = 4096;
/// Size of a page with its checksum.
pub const PAGE_UNIT_BYTES: u64 = PAGE_BYTES + 4;

/// The kind of a status frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusKind {
    /// The last frame of the response.
    Final,
    /// More frames follow.
    Partial,
    /// A progress report without data.
    Progress,
}

/// The content of a frame of status 4007.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusHead {
    /// The request, as a [`request_code`].
    pub code: u16,
    /// The kind of the frame.
    pub kind: StatusKind,
    /// Length of the data behind the frame.
    pub data_bytes: u32,
    /// Offset of the data in the file.
    pub offset: u64,
}

impl StatusHead {
    /// Size of the encoded head.
    pub const BYTES: usize = 24;

    /// Decodes and checks the payload of the frame.
    ///
    /// # Errors
    /// The checksum or stream is wrong, the kind is unknown, or a number is negative.
    pub fn decode(stream: StreamId, payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("a status frame", payload);
        let stated = fields.u32()?;
        let computed = crc32c::crc32c(fields.clone().rest());
        if stated != computed {
            return Err(WireError::Checksum { what: "a status frame", stated, computed });
        }
        let seen = fields.u16()?;
        if seen != stream.0 {
            return Err(WireError::number(
                "the stream in a status frame",
                seen,
                "that of its head",
            ));
        }
        let code = u16::from(fields.u8()?) + request_code::FIRST;
        let kind = match fields.u8()? {
            0 => StatusKind::Final,
            1 => StatusKind::Partial,
            2 => StatusKind::Progress,
            other => return Err(WireError::number("the kind of a status frame", other, "0 to 2")),
        };
        fields.take(4)?;
        let data_bytes = fields.length("the length of the data of a status frame")?;
        let offset = fields.offset("the offset in a status frame")?;
        Ok(Self { code, kind, data_bytes, offset })
    }

    /// Encodes the whole frame with its head; the data follows it.
    #[must_use]
    pub fn encode(&self, stream: StreamId) -> [u8; RESPONSE_HEAD_BYTES + Self::BYTES] {
        let mut bytes = [0; RESPONSE_HEAD_BYTES + Self::BYTES];
        let head = ResponseHead { stream, status: status_code::STATUS, length: 24 };
        bytes[..8].copy_from_slice(&head.encode());
        bytes[12..14].copy_from_slice(&stream.0.to_be_bytes());
        bytes[14] = self.code.saturating_sub(request_code::FIRST).to_be_bytes()[1];
        bytes[15] = match self.kind {
            StatusKind::Final => 0,
            StatusKind::Partial => 1,
            StatusKind::Progress => 2,
        };
        bytes[20..24].copy_from_slice(&self.data_bytes.to_be_bytes());
        bytes[24..].copy_from_slice(&self.offset.to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }
}

/// The end of the page that contains `offset`.
#[must_use]
pub fn page_end(offset: u64) -> u64 {
    offset.saturating_add(PAGE_BYTES - offset % PAGE_BYTES)
}

/// Splits data into pages with their checksums.
#[must_use]
pub fn paged(offset: u64, data: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(data.len() + data.len() / 1024 + 8);
    let mut at = offset;
    let mut rest = data;
    while !rest.is_empty() {
        let length =
            usize::try_from(page_end(at) - at).map_or(rest.len(), |most| most.min(rest.len()));
        let (page, behind) = rest.split_at(length);
        out.put_u32(crc32c::crc32c(page));
        out.put_slice(page);
        rest = behind;
        at = page_end(at);
    }
    out.freeze()
}

/// The number of data bytes in `length` bytes of pages with checksums that begin at `offset`.
///
/// # Errors
/// A checksum has no data.
pub fn unpaged_length(offset: u64, length: u64) -> Result<u64, WireError> {
    let wrong = || {
        WireError::number("the length of pages with checksums", length, "data behind each checksum")
    };
    let first = (page_end(offset) - offset + 4).min(length);
    let rest = length - first;
    let last = rest % PAGE_UNIT_BYTES;
    if (1..=4).contains(&first) || (1..=4).contains(&last) {
        return Err(wrong());
    }
    let units = u64::from(first > 0) + rest / PAGE_UNIT_BYTES + u64::from(last > 0);
    length.checked_sub(units * 4).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_are_as_long_as_computed(offset in 0..20_000_u64, length in 0..20_000_usize) {
            let data = vec![7; length];
            let sent = paged(offset, &data);
            prop_assert_eq!(unpaged_length(offset, sent.len() as u64).unwrap(), length as u64);
        }

        #[test]
        fn status_frames_come_out_as_they_went_in(
            stream: u16, code in 3000..3033_u16, kind in 0..3_u8, data_bytes in 0..=i32::MAX as u32,
            offset in 0..=i64::MAX as u64, flipped in 0..192_usize,
        ) {
            let kind = [StatusKind::Final, StatusKind::Partial, StatusKind::Progress][usize::from(kind)];
            let head = StatusHead { code, kind, data_bytes, offset };
            let mut bytes = head.encode(StreamId(stream));
            prop_assert_eq!(StatusHead::decode(StreamId(stream), &bytes[8..]).unwrap(), head);
            bytes[8 + flipped / 8] ^= 1 << (flipped % 8);
            prop_assert!(StatusHead::decode(StreamId(stream), &bytes[8..]).is_err());
        }
    }

    #[test]
    fn lengths_without_data_are_refused() {
        for length in [1, 4, 4100 + 1, 4100 + 4] {
            assert!(unpaged_length(0, length).is_err(), "{length}");
        }
        assert_eq!(unpaged_length(4095, 5), Ok(1));
        assert_eq!(unpaged_length(4095, 5 + 4100), Ok(4097));
        assert!(unpaged_length(4095, 6).is_err());
    }
}
