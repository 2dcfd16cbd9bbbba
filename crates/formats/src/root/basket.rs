//! Decoding a basket: from its bytes to the values of one column.
//!
//! A basket holds the values of consecutive entries, big-endian, without gaps. If entries differ in
//! size, a table of the position of each entry follows. Positions count from the start of the
//! basket's key. The key also states where the data ends and the table begins.

use super::codec::Decompressor;
use super::cursor::Cursor;
use super::key::KeyHead;
use crate::error::{FormatError, Result};
use crate::root::interpretation::entry_reader;
use crate::root::interpretation::number_encoding::NumberEncoding;
use crate::root::interpretation::streamed_type::{StreamedColumn, StreamedType};
use crate::{Column, Values};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// I/O bit of a basket whose table of positions was omitted, or stores sizes.
const GENERATED_OFFSETS: u8 = 1;

/// The decoding of a column from the baskets of its branch.
#[derive(Debug, Clone)]
pub(super) enum ColumnDecoding {
    /// Numbers at fixed positions that their leaves state.
    Numbers(Placement),
    /// One column of a streamed type.
    Shaped { shape: Arc<StreamedType>, leaf: Arc<StreamedColumn> },
}

/// The layout of a column's numbers in the baskets of its branch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placement {
    pub(super) packed: NumberEncoding,
    /// Values per item.
    pub(super) item_len: usize,
    pub(super) jagged: bool,
    /// Marker bytes before the values of each entry.
    pub(super) marker: usize,
    /// Bytes of one entry of the branch: of all its leaves, if it has several.
    pub(super) record: usize,
    /// Offset of this column in the entry.
    pub(super) offset: usize,
}

/// A basket inside the tree's object; never compressed.
#[derive(Debug, Clone)]
pub(crate) struct EmbeddedBasket {
    head: BasketHead,
    /// Data, beginning with the first entry.
    data: Bytes,
    /// Positions of the entries, big-endian, if the basket has them.
    table: Option<Bytes>,
}

/// The header between the key of a basket and its data.
#[derive(Debug, Clone, Copy)]
struct BasketHead {
    key: KeyHead,
    entries: usize,
    /// Bytes of data, without key and table.
    border: usize,
    generated_offsets: bool,
    flag: u8,
}

impl BasketHead {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let key = KeyHead::read(cursor)?;
        for _ in 0..3 {
            cursor.text()?;
        }
        let _version = cursor.u16()?;
        let _buffer_bytes = cursor.i32()?;
        let bits = if cursor.i32()? < 0 { cursor.u8()? } else { 0 };
        let entries = cursor.count()?;
        let last = cursor.count()?;
        let flag = cursor.u8()?;
        let border = last.saturating_sub(usize::from(key.keylen));
        let generated_offsets = bits & GENERATED_OFFSETS != 0;
        Ok(Self { key, entries, border, generated_offsets, flag })
    }
}

impl EmbeddedBasket {
    /// Reads the basket at `at` in the tree's object.
    pub(super) fn read(object: &Bytes, at: usize) -> Result<Self> {
        let mut cursor = Cursor::new(object, "embedded basket").at(at);
        let head = BasketHead::read(&mut cursor)?;
        let generated = head.flag >= 80;
        let flag = if generated { head.flag - 80 } else { head.flag };
        let slice = |cursor: &mut Cursor<'_>, length: usize| -> Result<Bytes> {
            let start = cursor.position();
            cursor.skip(length)?;
            Ok(object.slice(start..start + length))
        };
        let mut table = None;
        if !generated && flag != 0 && flag % 10 != 2 {
            if head.entries > 0 {
                let count = cursor.count()?;
                table = Some(slice(&mut cursor, count.saturating_mul(4))?);
            }
            if flag > 40 {
                let displacements = cursor.count()?;
                cursor.skip(displacements.saturating_mul(4))?;
            }
        }
        let mut data = Bytes::new();
        if flag == 1 || flag > 10 {
            // The buffer as in memory, which begins with the key.
            let keylen = usize::from(head.key.keylen);
            cursor.skip(keylen)?;
            data = slice(&mut cursor, head.border)?;
        }
        Ok(Self { head, data, table })
    }

    pub(super) fn decode(&self, plan: &ColumnDecoding, entries: usize) -> Result<Column> {
        let table = self.table.as_deref();
        decode(&self.head, &self.data, table, plan, entries)
    }
}

/// Decodes a basket of `entries` entries from its bytes in the file.
pub(super) fn decode_stored(
    stored: &[u8],
    decoder: &mut Decompressor,
    plan: &ColumnDecoding,
    entries: usize,
) -> Result<Column> {
    let head = BasketHead::read(&mut Cursor::new(stored, "basket"))?;
    let keylen = usize::from(head.key.keylen);
    let nbytes = head.key.nbytes as usize;
    if nbytes > stored.len() {
        return Err(FormatError::Truncated {
            what: "basket".to_owned(),
            needed: nbytes as u64,
            available: stored.len() as u64,
        });
    }
    let payload = stored
        .get(keylen..nbytes)
        .ok_or_else(|| corrupt(format!("key of {keylen} bytes in a basket of {nbytes}")))?;
    decoder.unpacked(payload, head.key.objlen as usize, |bytes| {
        let (data, rest) = bytes.split_at_checked(head.border).ok_or_else(|| {
            corrupt(format!("{} bytes of data in an object of {}", head.border, bytes.len()))
        })?;
        let mut cursor = Cursor::new(rest, "basket's table of entries");
        let table = if rest.is_empty() {
            None
        } else {
            let count = cursor.count()?;
            Some(cursor.take(count.saturating_mul(4))?)
        };
        decode(&head, data, table, plan, entries)
    })
}

fn corrupt(why: impl Into<String>) -> FormatError {
    FormatError::corrupt("basket", why)
}

fn decode(
    head: &BasketHead,
    data: &[u8],
    table: Option<&[u8]>,
    plan: &ColumnDecoding,
    entries: usize,
) -> Result<Column> {
    if head.entries != entries {
        return Err(corrupt(format!("has {} entries, {entries} expected", head.entries)));
    }
    match plan {
        ColumnDecoding::Numbers(placement) if placement.jagged => {
            decode_jagged(head, data, table, placement)
        }
        ColumnDecoding::Numbers(placement) => decode_flat(data, placement, entries),
        ColumnDecoding::Shaped { shape, leaf } => {
            let ranges = ranges(head, data, table, shape)?;
            entry_reader::read(data, ranges.as_deref(), entries, shape, leaf)
        }
    }
}

/// The byte range of each entry of a streamed type; `None` if only reading the entries in order
/// shows it.
fn ranges(
    head: &BasketHead,
    data: &[u8],
    table: Option<&[u8]>,
    shape: &StreamedType,
) -> Result<Option<Vec<Range<usize>>>> {
    if table.is_none() && !shape.runs_to_the_end() {
        if head.generated_offsets || head.entries == 0 {
            return Ok(None);
        }
        // Without a table, all entries have the same size.
        let size = data.len() / head.entries;
        if size * head.entries != data.len() {
            return Ok(None);
        }
        return Ok(Some((0..head.entries).map(|at| at * size..(at + 1) * size).collect()));
    }
    let mut starts = positions(head, table)?;
    let mut ranges = Vec::new();
    let mut start = starts.next().unwrap_or(Ok(data.len()))?;
    for _ in 0..head.entries {
        let end = starts.next().unwrap_or(Ok(data.len()))?;
        if end < start || end > data.len() {
            return Err(corrupt(format!("entry from byte {start} to {end}")));
        }
        ranges.push(start..end);
        start = end;
    }
    Ok(Some(ranges))
}

fn decode_flat(data: &[u8], placement: &Placement, entries: usize) -> Result<Column> {
    if data.len() != entries.saturating_mul(placement.record) {
        return Err(corrupt(format!(
            "{} bytes for {entries} entries of {} bytes each",
            data.len(),
            placement.record
        )));
    }
    let packed = placement.packed;
    let mut values = Values::with_capacity(packed.element(), entries * placement.item_len);
    let size = placement.item_len * packed.size();
    if size == placement.record {
        packed.append(&mut values, data);
    } else {
        for record in data.chunks_exact(placement.record) {
            let part = record.get(placement.offset..placement.offset + size);
            packed.append(&mut values, part.unwrap_or(&[]));
        }
    }
    Ok(Column { entries, offsets: None, item_shape: Vec::new(), values })
}

fn decode_jagged(
    head: &BasketHead,
    data: &[u8],
    table: Option<&[u8]>,
    placement: &Placement,
) -> Result<Column> {
    match decode_plain_lists(head, data, table, placement) {
        Some(column) => Ok(column),
        None => decode_any_lists(head, data, table, placement),
    }
}

fn decode_any_lists(
    head: &BasketHead,
    data: &[u8],
    table: Option<&[u8]>,
    placement: &Placement,
) -> Result<Column> {
    let item = placement.record;
    let packed = placement.packed;
    let mut values = Values::with_capacity(packed.element(), data.len() / packed.size());
    let mut starts = positions(head, table)?;
    let mut offsets = Vec::with_capacity(head.entries + 1);
    offsets.push(0);
    let mut items = 0_usize;
    let mut start = starts.next().unwrap_or(Ok(data.len()))?;
    let first = start;
    for _ in 0..head.entries {
        let end = starts.next().unwrap_or(Ok(data.len()))?;
        let length = end.checked_sub(start).filter(|_| end <= data.len());
        let length = length.ok_or_else(|| corrupt(format!("entry from byte {start} to {end}")))?;
        // An empty entry may lack its marker.
        let body = length.saturating_sub(placement.marker);
        if body % item != 0 {
            return Err(corrupt(format!("entry of {body} bytes, items have {item}")));
        }
        if placement.marker > 0 {
            packed.append(&mut values, data.get(end - body..end).unwrap_or(&[]));
        }
        items += body / item;
        offsets.push(i64::try_from(items).map_err(|_| corrupt("too many items"))?);
        start = end;
    }
    if placement.marker == 0 {
        packed.append(&mut values, data.get(first..start).unwrap_or(&[]));
    }
    Ok(Column { entries: head.entries, offsets: Some(offsets), item_shape: Vec::new(), values })
}

/// Fast path of [`decode_jagged`] for nearly all baskets: whole items whose size is a power of two,
/// without markers, with an ascending table. Returns `None` for all others, valid or not.
///
/// Entries are short, so that a division and a branch per entry would take longer than
/// decompression. This function first checks everything and then computes, in loops that compilers
/// vectorize.
fn decode_plain_lists(
    head: &BasketHead,
    data: &[u8],
    table: Option<&[u8]>,
    placement: &Placement,
) -> Option<Column> {
    let item = placement.record;
    let entries = head.entries;
    if placement.marker > 0 || head.generated_offsets || entries == 0 || !item.is_power_of_two() {
        return None;
    }
    let (table, _) = table?.as_chunks::<4>();
    let starts = table.get(..entries)?;
    let at = |raw: &[u8; 4]| u32::from_be_bytes(*raw);
    let first = at(starts.first()?);
    let last = at(starts.last()?);
    let keylen = u32::from(head.key.keylen);
    let end = keylen.checked_add(u32::try_from(data.len()).ok()?)?;
    let pairs = || starts.iter().zip(starts.iter().skip(1));
    let ascends = pairs().fold(true, |so_far, (one, next)| so_far & (at(one) <= at(next)));
    let parts = starts.iter().fold(end.wrapping_sub(first), |parts, raw| {
        // A remainder of any entry shows in the lowest bits.
        parts | at(raw).wrapping_sub(first)
    });
    let whole = usize::try_from(parts).ok()? & (item - 1) == 0;
    if !ascends || !whole || first < keylen || last > end {
        return None;
    }
    let shift = item.trailing_zeros();
    let mut offsets = Vec::with_capacity(entries + 1);
    offsets.extend(starts.iter().map(|raw| i64::from((at(raw) - first) >> shift)));
    offsets.push(i64::from((end - first) >> shift));
    let used = data.get(usize::try_from(first - keylen).ok()?..)?;
    let mut values =
        Values::with_capacity(placement.packed.element(), used.len() / placement.packed.size());
    placement.packed.append(&mut values, used);
    Some(Column { entries, offsets: Some(offsets), item_shape: Vec::new(), values })
}

/// The position of each entry in the data.
fn positions<'a>(
    head: &BasketHead,
    table: Option<&'a [u8]>,
) -> Result<impl Iterator<Item = Result<usize>> + use<'a>> {
    let entries = head.entries;
    let key = usize::from(head.key.keylen);
    let table = match table {
        Some(table) => table,
        None if entries == 0 => &[],
        None if head.generated_offsets => {
            let what = "a basket that leaves out the positions of its entries \
                        (written with the I/O feature `kGenerateOffsetMap`)";
            return Err(FormatError::UnsupportedFeature { what: what.to_owned() });
        }
        None => return Err(corrupt(format!("no positions of its {entries} entries"))),
    };
    let (table, _) = table.as_chunks::<4>();
    if table.len() < entries {
        return Err(corrupt(format!("positions of {} entries, has {entries}", table.len())));
    }
    let sizes = head.generated_offsets;
    let mut sum = 0_usize;
    Ok(table.iter().take(entries).enumerate().map(move |(index, raw)| {
        let value = u32::from_be_bytes(*raw) as usize;
        if sizes {
            // The first value is the size of the key, each further one the size of the previous
            // entry.
            sum = if index == 0 { 0 } else { sum.saturating_add(value) };
            return Ok(sum);
        }
        value
            .checked_sub(key)
            .ok_or_else(|| corrupt(format!("entry at byte {value}, inside its key")))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType;
    use proptest::prelude::*;

    const KEYLEN: u16 = 70;

    fn both(table: &[u32], data: &[u8], item: usize) -> (Option<Column>, Result<Column>) {
        let head = BasketHead {
            key: KeyHead { nbytes: 0, objlen: 0, keylen: KEYLEN, cycle: 1, seek: 0 },
            entries: table.len(),
            border: data.len(),
            generated_offsets: false,
            flag: 0,
        };
        let packed = NumberEncoding::Plain(ElementType::U16);
        let item_len = item / packed.size();
        let placement =
            Placement { packed, item_len, jagged: true, marker: 0, record: item, offset: 0 };
        let table: Vec<u8> = table.iter().flat_map(|at| at.to_be_bytes()).collect();
        let plain = decode_plain_lists(&head, data, Some(&table), &placement);
        (plain, decode_any_lists(&head, data, Some(&table), &placement))
    }

    proptest! {
        #[test]
        fn fast_and_slow_decoding_of_lists_agree(
            counts in prop::collection::vec(0_usize..5, 1..40),
            item in prop::sample::select(vec![2_usize, 4, 6, 8]),
            damage in prop::option::of((0_usize..40, 0_u32..200)),
        ) {
            let mut at = usize::from(KEYLEN);
            let mut table = Vec::new();
            for count in counts {
                table.push(u32::try_from(at).unwrap());
                at += count * item;
            }
            let data: Vec<u8> = (0..=255).cycle().take(at - usize::from(KEYLEN)).collect();
            if let Some((place, value)) = damage {
                let place = place % table.len();
                table[place] = value;
            }
            match both(&table, &data, item) {
                (Some(plain), any) => prop_assert_eq!(plain, any.unwrap()),
                (None, any) => prop_assert!(item == 6 || any.is_err(), "left to the slow way: {any:?}"),
            }
        }
    }
}
