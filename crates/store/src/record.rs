//! One stored value as the bytes of one file.
//!
//! ```text
//!  0  magic    "hither\0\n"
//!  8  version  u32
//! 12  kind     u32          kind of value
//! 16  learned  u64          when, in microseconds since 1970
//! 24  key      u32          length
//! 28  record   u32          length
//! 32  payload  u64          length
//! 40  checksum u64          XXH64 of all bytes before and after it
//! 48  key, record (JSON), payload (raw bytes)
//! ```
//! Integers are little-endian. The file has exactly the length that its header states. Its name is
//! a hash of the key; the key itself is inside and is compared, so that a collision is a miss. The
//! checksum protects against torn writes and failing disks, not against forgery: only the same user
//! can write into the folder.

use bytes::Bytes;
use std::ops::Range;
use xxhash_rust::xxh64::{Xxh64, xxh64};

const MAGIC: &[u8; 8] = b"hither\0\n";
/// The format version, raised with every change of this layout or of a record's meaning. Other
/// versions read as absent.
const VERSION: u32 = 1;
const CHECKSUM: Range<usize> = 40..48;
const HEADER_BYTES: usize = 48;

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Endpoint = 1,
    Metadata = 2,
    Learned = 4,
    Tuning = 5,
}

impl RecordKind {
    /// Returns the prefix of its files' names.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint-",
            Self::Metadata => "metadata-",
            Self::Learned => "learned-",
            Self::Tuning => "tuning-",
        }
    }

    /// Returns the name of the file that holds the value of `key`.
    pub(crate) fn file_name(self, key: &[u8]) -> String {
        // Two seeds make 128 bits: two keys never replace each other by chance.
        format!("{}{:016x}{:016x}", self.prefix(), xxh64(key, 0), xxh64(key, 1))
    }
}

/// A value that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Microseconds since 1970.
    pub(crate) learned: u64,
    pub(crate) record: Bytes,
    pub(crate) payload: Bytes,
}

/// Encodes a value as the bytes of a file; `None` if a length exceeds its field.
pub(crate) fn encode(
    kind: RecordKind,
    learned: u64,
    key: &[u8],
    record: &[u8],
    payload: &[&[u8]],
) -> Option<Vec<u8>> {
    let payload_bytes: usize = payload.iter().map(|piece| piece.len()).sum();
    let mut file = Vec::with_capacity(HEADER_BYTES + key.len() + record.len() + payload_bytes);
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&VERSION.to_le_bytes());
    file.extend_from_slice(&(kind as u32).to_le_bytes());
    file.extend_from_slice(&learned.to_le_bytes());
    file.extend_from_slice(&u32::try_from(key.len()).ok()?.to_le_bytes());
    file.extend_from_slice(&u32::try_from(record.len()).ok()?.to_le_bytes());
    file.extend_from_slice(&u64::try_from(payload_bytes).ok()?.to_le_bytes());
    file.extend_from_slice(&[0; 8]);
    file.extend_from_slice(key);
    file.extend_from_slice(record);
    for piece in payload {
        file.extend_from_slice(piece);
    }
    let sum = checksum(&file)?;
    file.get_mut(CHECKSUM)?.copy_from_slice(&sum.to_le_bytes());
    Some(file)
}

/// Decodes a file into slices of it; `None` unless every byte is as [`encode`] wrote it for this
/// kind and key.
pub(crate) fn decode(file: &Bytes, kind: RecordKind, key: &[u8]) -> Option<Record> {
    let mut rest = file.get(..HEADER_BYTES)?;
    let expected = take(&mut rest)? == *MAGIC
        && u32::from_le_bytes(take(&mut rest)?) == VERSION
        && u32::from_le_bytes(take(&mut rest)?) == kind as u32;
    let learned = u64::from_le_bytes(take(&mut rest)?);
    let key_bytes = usize::try_from(u32::from_le_bytes(take(&mut rest)?)).ok()?;
    let record_bytes = usize::try_from(u32::from_le_bytes(take(&mut rest)?)).ok()?;
    let payload_bytes = usize::try_from(u64::from_le_bytes(take(&mut rest)?)).ok()?;
    let sum = u64::from_le_bytes(take(&mut rest)?);
    let record = HEADER_BYTES.checked_add(key_bytes)?;
    let payload = record.checked_add(record_bytes)?;
    let end = payload.checked_add(payload_bytes)?;
    if !expected
        || end != file.len()
        || file.get(HEADER_BYTES..record)? != key
        || checksum(file)? != sum
    {
        return None;
    }
    Some(Record { learned, record: file.slice(record..payload), payload: file.slice(payload..end) })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}

fn checksum(file: &[u8]) -> Option<u64> {
    let mut hash = Xxh64::new(0);
    hash.update(file.get(..CHECKSUM.start)?);
    hash.update(file.get(CHECKSUM.end..)?);
    Some(hash.digest())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        encode(RecordKind::Metadata, 7, b"key", b"{}", &[b"some", b"", b" bytes"]).unwrap()
    }

    fn read(file: &[u8]) -> Option<Record> {
        decode(&Bytes::copy_from_slice(file), RecordKind::Metadata, b"key")
    }

    #[test]
    fn a_written_record_is_read_back() {
        let entry = read(&sample()).unwrap();
        assert_eq!(entry.learned, 7);
        assert_eq!(entry.record, "{}");
        assert_eq!(entry.payload, "some bytes");
    }

    #[test]
    fn another_key_or_kind_reads_as_nothing() {
        let file = Bytes::from(sample());
        assert_eq!(decode(&file, RecordKind::Metadata, b"kez"), None);
        assert_eq!(decode(&file, RecordKind::Metadata, b"ke"), None);
        assert_eq!(decode(&file, RecordKind::Endpoint, b"key"), None);
    }

    #[test]
    fn another_version_reads_as_nothing_even_with_a_valid_checksum() {
        let mut file = sample();
        file[8] += 1;
        let sum = checksum(&file).unwrap();
        file[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(read(&file), None);
    }

    #[test]
    fn every_truncation_reads_as_nothing() {
        let file = sample();
        for length in 0..file.len() {
            assert_eq!(read(&file[..length]), None, "{length} bytes");
        }
        assert_eq!(read(&[&file[..], b"x"].concat()), None);
    }

    #[test]
    fn every_flipped_bit_reads_as_nothing() {
        let file = sample();
        for bit in 0..8 * file.len() {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn names_differ_by_kind_and_key() {
        let names: std::collections::BTreeSet<String> =
            [RecordKind::Endpoint, RecordKind::Metadata]
                .into_iter()
                .flat_map(|kind| ["a", "b", ""].map(|key| kind.file_name(key.as_bytes())))
                .collect();
        assert_eq!(names.len(), 6);
        assert!(names.iter().all(|name| name.len() == 9 + 32));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            lengths in any::<[u32; 4]>(),
            tail in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut file = sample();
            for (at, length) in lengths.iter().enumerate() {
                file[24 + 4 * at..28 + 4 * at].copy_from_slice(&length.to_le_bytes());
            }
            prop_assert_eq!(read(&file), None);
            file.extend(tail);
            prop_assert_eq!(read(&file[8..]), None);
        }
    }
}
