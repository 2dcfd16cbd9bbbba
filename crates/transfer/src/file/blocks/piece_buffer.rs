//! The buffer of one piece, between the connection that delivers its bytes and the thread that
//! writes them.

use bytes::Bytes;
use hither_core::Part;
use hither_core::sync::lock;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// Bytes of a piece that have arrived, in order.
#[derive(Debug)]
pub(crate) struct PieceBuffer {
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    start: u64,
    /// The position that comes next.
    next: u64,
    end: u64,
    /// The end was moved forward: another worker fetches the bytes behind it.
    shortened: bool,
    waiting: Vec<Bytes>,
    waiting_bytes: u64,
}

/// Bytes in a row.
#[derive(Debug)]
pub(crate) struct WriteBatch {
    pub(crate) offset: u64,
    pub(crate) pieces: Vec<Bytes>,
    pub(crate) bytes: u64,
}

impl WriteBatch {
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes
    }

    /// The parts of the batch that lie in `range`.
    pub(crate) fn slices(&self, range: &Range<u64>) -> impl Iterator<Item = &[u8]> {
        let mut at = self.offset;
        let range = range.clone();
        self.pieces.iter().filter_map(move |piece| {
            let start = at;
            at += piece.len() as u64;
            let from = range.start.max(start);
            let to = range.end.min(at);
            let within = |n: u64| usize::try_from(n.checked_sub(start)?).ok();
            (from < to).then(|| piece.get(within(from)?..within(to)?)).flatten()
        })
    }

    /// All of it in one piece.
    pub(crate) fn joined(&self) -> Bytes {
        match self.pieces.as_slice() {
            [one] => one.clone(),
            many => many.concat().into(),
        }
    }
}

impl PieceBuffer {
    pub(crate) fn new(piece: Range<u64>) -> Self {
        let inside = Inside {
            start: piece.start,
            next: piece.start,
            end: piece.end,
            shortened: false,
            waiting: Vec::new(),
            waiting_bytes: 0,
        };
        Self { inside: Mutex::new(inside) }
    }

    /// Takes the new bytes of `part`. Bytes beyond the end, bytes that came before, and bytes
    /// behind a gap are ignored. Returns the number of bytes that were taken. They wait to be
    /// written if they are to be kept (`keep`).
    pub(crate) fn accept(&self, part: &Part, keep: bool) -> u64 {
        let mut inside = self.inside();
        let end = part.offset.saturating_add(part.bytes.len() as u64);
        if part.offset > inside.next || end <= inside.next || inside.next >= inside.end {
            return 0;
        }
        let from = inside.next - part.offset;
        let to = end.min(inside.end) - part.offset;
        let (Ok(from), Ok(to)) = (usize::try_from(from), usize::try_from(to)) else { return 0 };
        let taken = (to - from) as u64;
        inside.next += taken;
        if keep {
            inside.waiting_bytes += taken;
            inside.waiting.push(part.bytes.slice(from..to));
        }
        taken
    }

    /// Takes the waiting bytes if they are at least `min_bytes`, or everything has arrived. What
    /// follows `min_bytes` stays if `exactly`.
    pub(crate) fn take(&self, min_bytes: u64, exactly: bool) -> Option<WriteBatch> {
        let mut inside = self.inside();
        let all_there = inside.next >= inside.end;
        if inside.waiting_bytes == 0 || (inside.waiting_bytes < min_bytes && !all_there) {
            return None;
        }
        let offset = inside.next - inside.waiting_bytes;
        let mut bytes = inside.waiting_bytes;
        let mut pieces = std::mem::take(&mut inside.waiting);
        if exactly && bytes > min_bytes {
            let (head, tail) = split(pieces, min_bytes);
            pieces = head;
            inside.waiting = tail;
            bytes = min_bytes;
        }
        inside.waiting_bytes -= bytes;
        Some(WriteBatch { offset, pieces, bytes })
    }

    /// The range that has not arrived yet.
    pub(crate) fn missing(&self) -> Range<u64> {
        let inside = self.inside();
        inside.next..inside.end.max(inside.next)
    }

    /// The range that has arrived.
    pub(crate) fn arrived(&self) -> Range<u64> {
        let inside = self.inside();
        inside.start..inside.next
    }

    /// Bytes that have come, and that are still to come.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let inside = self.inside();
        (inside.next - inside.start, inside.end.saturating_sub(inside.next))
    }

    /// Gives away the later part of the missing bytes, and keeps this share of them.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an estimate; a float cast saturates, which is what is meant"
    )]
    pub(crate) fn give(&self, kept_share: f64) -> Range<u64> {
        let mut inside = self.inside();
        let missing = inside.end.saturating_sub(inside.next);
        let kept = ((missing as f64 * kept_share).ceil() as u64).min(missing);
        let given = inside.next + kept..inside.end.max(inside.next + kept);
        inside.end = given.start;
        inside.shortened = true;
        given
    }

    /// Everything that is left to this piece has come, but its request asks for more.
    pub(crate) fn may_be_cut_off(&self) -> bool {
        let inside = self.inside();
        inside.shortened && inside.next >= inside.end
    }

    /// Bytes that have arrived and were not taken to be written.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.inside().waiting_bytes
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        lock(&self.inside)
    }
}

/// Cuts `pieces` after `bytes` bytes.
fn split(pieces: Vec<Bytes>, bytes: u64) -> (Vec<Bytes>, Vec<Bytes>) {
    let mut head = Vec::new();
    let mut tail = Vec::new();
    let mut room = usize::try_from(bytes).unwrap_or(usize::MAX);
    for mut piece in pieces {
        let rest = piece.split_off(room.min(piece.len()));
        room -= piece.len();
        if !piece.is_empty() {
            head.push(piece);
        }
        if !rest.is_empty() {
            tail.push(rest);
        }
    }
    (head, tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(offset: u64, bytes: &'static [u8]) -> Part {
        Part { offset, bytes: Bytes::from_static(bytes) }
    }

    #[test]
    fn only_new_bytes_of_the_piece_are_buffered() {
        let buffer = PieceBuffer::new(2..8);
        assert_eq!(buffer.accept(&part(0, b"01"), true), 0);
        assert_eq!(buffer.accept(&part(0, b"0123"), true), 2);
        assert_eq!(buffer.accept(&part(5, b"5"), true), 0, "a gap");
        assert_eq!(buffer.accept(&part(3, b"3456789"), true), 4);
        assert_eq!(buffer.missing(), 8..8);
        let batch = buffer.take(100, false).unwrap();
        assert_eq!((batch.offset, batch.joined()), (2, Bytes::from_static(b"234567")));
        assert!(buffer.take(1, false).is_none());
    }

    #[test]
    fn batches_of_an_exact_size_keep_the_rest_buffered() {
        let buffer = PieceBuffer::new(0..9);
        buffer.accept(&part(0, b"012"), true);
        assert!(buffer.take(4, true).is_none());
        buffer.accept(&part(3, b"3456"), true);
        let batch = buffer.take(4, true).unwrap();
        assert_eq!((batch.range(), batch.joined()), (0..4, Bytes::from_static(b"0123")));
        buffer.accept(&part(7, b"78"), true);
        assert_eq!(buffer.take(4, true).unwrap().joined(), Bytes::from_static(b"4567"));
        assert_eq!(buffer.take(4, true).unwrap().range(), 8..9);
    }

    #[test]
    fn a_split_piece_ends_early() {
        let buffer = PieceBuffer::new(0..10);
        buffer.accept(&part(0, b"01"), true);
        assert_eq!(buffer.give(0.5), 6..10);
        buffer.accept(&part(2, b"2345"), true);
        assert!(buffer.may_be_cut_off());
        assert_eq!(buffer.accept(&part(6, b"67"), true), 0);
        assert_eq!(buffer.give(0.5), 6..6);
    }
}
