//! Prediction of the handle that the next file will get.
//!
//! Handles are numbers, and a server assigns the lowest one that is free on the connection. The
//! predictor knows the free numbers as long as it can follow every open and close in flight: a
//! number is in use from the open that is expected to get it until the response to its close. While
//! the lowest number that could be free belongs to a close in flight, nothing is predicted: a read
//! on it might still reach the file that had it.

use crate::client::HandleNumbering;
use crate::client::stream_ids::SubrequestId;
use crate::wire::FileHandle;
use std::collections::{HashMap, HashSet};

/// The handles of one connection.
#[derive(Debug, Default)]
pub(super) struct HandlePredictor {
    /// Handles of open files, until the response to their close.
    held: HashSet<FileHandle>,
    /// Handles whose close was sent.
    closing: HashSet<FileHandle>,
    /// Opens in flight, with the number that each will get if it is known.
    opening: HashMap<SubrequestId, Option<u32>>,
}

impl HandlePredictor {
    /// Records that an open is sent. Returns the predicted number and handle of its file; `None` if
    /// they cannot be known.
    pub(super) fn open(
        &mut self,
        id: SubrequestId,
        numbering: HandleNumbering,
    ) -> Option<(u32, FileHandle)> {
        let next = self.next(numbering);
        self.opening.insert(id, next.map(|(number, _)| number));
        next
    }

    fn next(&self, numbering: HandleNumbering) -> Option<(u32, FileHandle)> {
        if self.opening.values().any(Option::is_none) {
            return None;
        }
        let expected: HashSet<u32> = self.opening.values().copied().flatten().collect();
        for number in (0..=u32::MAX).filter(|number| !expected.contains(number)) {
            let handle = numbering.handle(number)?;
            if self.closing.contains(&handle) {
                return None;
            }
            if !self.held.contains(&handle) {
                return Some((number, handle));
            }
        }
        None
    }

    /// Records that the response to an open will come later than those of other requests.
    pub(super) fn postponed(&mut self, id: SubrequestId) {
        if let Some(number) = self.opening.get_mut(&id) {
            *number = None;
        }
    }

    /// Records that an open is no longer in flight. Returns the number that was expected for it.
    pub(super) fn answered(&mut self, id: SubrequestId) -> Option<u32> {
        self.opening.remove(&id).flatten()
    }

    /// Learns the numbering from the handle that an open with this expected number got. Returns the
    /// numbering; `None` if any would fit.
    pub(super) fn given(
        &mut self,
        expected: Option<u32>,
        handle: FileHandle,
        known: Option<HandleNumbering>,
    ) -> Option<HandleNumbering> {
        let is_new = self.held.insert(handle);
        // Zeros are the same in every byte order; a number above the expected one means another
        // scheme.
        let expected = expected.filter(|_| handle != FileHandle::default())?;
        let fits = |numbering: HandleNumbering| {
            let value = match numbering {
                HandleNumbering::BigEndian => u32::from_be_bytes(handle.0),
                _ => u32::from_le_bytes(handle.0),
            };
            is_new && value <= expected
        };
        let orders = match known {
            Some(HandleNumbering::BigEndian) => {
                [HandleNumbering::BigEndian, HandleNumbering::LittleEndian]
            }
            _ => [HandleNumbering::LittleEndian, HandleNumbering::BigEndian],
        };
        Some(orders.into_iter().find(|order| fits(*order)).unwrap_or(HandleNumbering::Other))
    }

    /// Records that the close of a file was sent.
    pub(super) fn close(&mut self, handle: FileHandle) {
        self.closing.insert(handle);
    }

    /// Records that a file is closed: its number is free.
    pub(super) fn closed(&mut self, handle: FileHandle) {
        self.closing.remove(&handle);
        self.held.remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: HandleNumbering = HandleNumbering::LittleEndian;

    fn opened(numbers: &mut HandlePredictor, id: u64) -> Option<u32> {
        let (number, handle) = numbers.open(SubrequestId(id), LITTLE)?;
        let expected = numbers.answered(SubrequestId(id));
        numbers.given(expected, handle, None);
        Some(number)
    }

    #[test]
    fn the_lowest_free_number_is_next() {
        let mut numbers = HandlePredictor::default();
        assert_eq!((opened(&mut numbers, 1), opened(&mut numbers, 2)), (Some(0), Some(1)));
        // Two opens are in flight.
        let next =
            [3, 4].map(|id| numbers.open(SubrequestId(id), LITTLE).map(|(number, _)| number));
        assert_eq!(next, [Some(2), Some(3)]);
        // The first of them fails.
        assert_eq!(numbers.answered(SubrequestId(3)), Some(2));
        assert_eq!(numbers.open(SubrequestId(5), LITTLE).map(|(number, _)| number), Some(2));
    }

    #[test]
    fn a_number_is_not_free_before_its_close_is_answered() {
        let mut numbers = HandlePredictor::default();
        opened(&mut numbers, 1);
        opened(&mut numbers, 2);
        let first = FileHandle::default();
        numbers.close(first);
        assert_eq!(numbers.open(SubrequestId(3), LITTLE), None);
        // While an open with an unknown number is in flight, no other number is known.
        numbers.closed(first);
        assert_eq!(numbers.open(SubrequestId(4), LITTLE), None);
        assert_eq!(
            (numbers.answered(SubrequestId(3)), numbers.answered(SubrequestId(4))),
            (None, None)
        );
        assert_eq!(opened(&mut numbers, 5), Some(0));
    }

    #[test]
    fn an_open_that_is_answered_later_hides_the_numbers_of_others() {
        let mut numbers = HandlePredictor::default();
        numbers.open(SubrequestId(1), LITTLE);
        numbers.postponed(SubrequestId(1));
        assert_eq!(numbers.open(SubrequestId(2), LITTLE), None);
    }

    #[test]
    fn the_order_of_bytes_is_learned_and_nonsense_too() {
        for (handle, expected, learned) in [
            ([1, 0, 0, 0], 1, Some(LITTLE)),
            ([0, 0, 0, 1], 1, Some(HandleNumbering::BigEndian)),
            // An earlier open has failed.
            ([1, 0, 0, 0], 3, Some(LITTLE)),
            ([0, 0, 0, 0], 1, None),
            ([7, 7, 7, 7], 1, Some(HandleNumbering::Other)),
            ([9, 0, 0, 0], 1, Some(HandleNumbering::Other)),
        ] {
            let mut numbers = HandlePredictor::default();
            assert_eq!(numbers.given(Some(expected), FileHandle(handle), None), learned);
        }
    }
}
