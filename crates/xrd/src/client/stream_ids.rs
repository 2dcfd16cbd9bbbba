//! The stream ids in use. An id is free again when its last response has arrived, even if the
//! request was cancelled: a late response must not be taken for the response to another request.

use crate::wire::StreamId;
use std::collections::{HashMap, VecDeque};

/// Freed ids are reused only when this many are free, or all others are in use: late reuse makes
/// recordings easier to read.
const RESTING: usize = 64;

/// The receiver of a response: a part, or a step of the login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SubrequestId(pub(super) u64);

/// The stream ids of a connection.
#[derive(Debug, Default)]
pub(super) struct StreamIds {
    /// The receiver of the response; `None` if the request was cancelled.
    used: HashMap<StreamId, Option<SubrequestId>>,
    /// Freed ids, the longest free first.
    free: VecDeque<StreamId>,
    /// The highest id used so far. 0 is reserved for the server.
    highest: u16,
}

impl StreamIds {
    /// Allocates an id for a request of this part, unless all 65,535 are in use.
    pub(super) fn allocate(&mut self, part: SubrequestId) -> Option<StreamId> {
        let stream = match self.highest.checked_add(1) {
            Some(next) if self.free.len() < RESTING => {
                self.highest = next;
                StreamId(next)
            }
            _ => self.free.pop_front()?,
        };
        self.used.insert(stream, Some(part));
        Some(stream)
    }

    /// The receiver of responses on the stream: `Some(None)` if it was removed, `None` if the
    /// stream is not in use.
    pub(super) fn owner(&self, stream: StreamId) -> Option<Option<SubrequestId>> {
        self.used.get(&stream).copied()
    }

    /// Removes the receiver of this stream's responses.
    pub(super) fn abandon(&mut self, stream: StreamId) {
        if let Some(owner) = self.used.get_mut(&stream) {
            *owner = None;
        }
    }

    /// Frees the id: its last response has arrived.
    pub(super) fn release(&mut self, stream: StreamId) {
        if self.used.remove(&stream).is_some() {
            self.free.push_back(stream);
        }
    }

    /// Number of ids without a receiver.
    pub(super) fn abandoned(&self) -> usize {
        self.used.values().filter(|owner| owner.is_none()).count()
    }

    /// Number of ids in use.
    pub(super) fn in_use(&self) -> usize {
        self.used.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn all_ids_but_zero_can_be_in_use_and_none_twice() {
        let mut streams = StreamIds::default();
        let all: HashSet<_> = std::iter::from_fn(|| streams.allocate(SubrequestId(1)))
            .map(|stream| stream.0)
            .collect();
        assert_eq!(all.len(), 65_535);
        assert!(!all.contains(&0));
        streams.release(StreamId(7));
        assert_eq!(streams.allocate(SubrequestId(2)), Some(StreamId(7)));
    }

    #[test]
    fn an_abandoned_id_rests_until_its_last_answer() {
        let mut streams = StreamIds::default();
        let stream = streams.allocate(SubrequestId(1)).unwrap();
        streams.abandon(stream);
        assert_eq!((streams.owner(stream), streams.abandoned()), (Some(None), 1));
        for _ in 0..1000 {
            let other = streams.allocate(SubrequestId(2)).unwrap();
            assert_ne!(other, stream);
            streams.release(other);
        }
        streams.release(stream);
        assert_eq!((streams.owner(stream), streams.abandoned()), (None, 0));
    }
}
