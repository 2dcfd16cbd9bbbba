//! One TCP connection as the link sees it.

use super::{Burst, Direction};
use crate::report::Counts;
use hither_netem::turns::Turns;
use std::net::SocketAddrV4;

/// Maximum number of bursts kept of one connection: 64 bytes each.
const MAX_BURSTS: usize = 1 << 18;

/// A position in a byte stream that does not wrap around.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    /// The sequence number of `end`; `None` before the first payload.
    sequence: Option<u32>,
    /// End of the bytes sent so far, counted from the first payload seen.
    end: u64,
}

impl Stream {
    /// Locates a segment: its start, and whether any of it is new.
    fn place(&mut self, sequence: u32, payload: u32) -> (u64, bool) {
        let known = *self.sequence.get_or_insert(sequence);
        // Signed distance from the end: negative for bytes that were sent before.
        let ahead = i64::from(sequence.wrapping_sub(known).cast_signed());
        let start = self.end.saturating_add_signed(ahead);
        let end = start + u64::from(payload);
        let fresh = end > self.end;
        if fresh {
            self.end = end;
            self.sequence = Some(sequence.wrapping_add(payload));
        }
        (start, fresh)
    }
}

/// One TCP connection as the link sees it.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub(super) client: SocketAddrV4,
    pub(super) server: SocketAddrV4,
    /// The sequence number of the SYN that opened it; `None` if it was opened before the counters
    /// were reset.
    pub(super) opened_at_sequence: Option<u32>,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) turns: Turns,
    pub(super) to_server: Counts,
    pub(super) to_client: Counts,
    bursts: Vec<Burst>,
    client_stream: Stream,
    server_stream: Stream,
    /// The latest burst of which payload was delivered to the server.
    at_server: Option<u32>,
    /// Number of deliveries to the client on any connection before the client's last payload on
    /// this one.
    deliveries_before: Option<u64>,
    /// Start of the latest segment of the server, in the server's stream.
    segment_start: u64,
}

impl Connection {
    pub(super) fn new(
        client: SocketAddrV4,
        server: SocketAddrV4,
        opened_at_sequence: Option<u32>,
        now: u64,
    ) -> Self {
        Self {
            client,
            server,
            opened_at_sequence,
            first: now,
            last: now,
            turns: Turns::default(),
            to_server: Counts::default(),
            to_client: Counts::default(),
            bursts: Vec::new(),
            client_stream: Stream::default(),
            server_stream: Stream::default(),
            at_server: None,
            deliveries_before: None,
            segment_start: 0,
        }
    }

    pub(super) fn counts(&mut self, direction: Direction) -> &mut Counts {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    pub(super) fn bursts(&self) -> &[Burst] {
        &self.bursts
    }

    /// Returns true if the maximum number of bursts is reached, so that later ones are not kept.
    pub(super) fn truncated(&self) -> bool {
        self.bursts.len() >= MAX_BURSTS
    }

    /// Records a segment with payload; returns true if any of it is new.
    pub(super) fn advance(&mut self, direction: Direction, sequence: u32, payload: u32) -> bool {
        match direction {
            Direction::ToServer => self.client_stream.place(sequence, payload).1,
            Direction::ToClient => {
                let (start, fresh) = self.server_stream.place(sequence, payload);
                self.segment_start = start;
                fresh
            }
        }
    }

    /// Records new payload of the client; `deliveries` is the current number of deliveries to the
    /// client on any connection.
    pub(super) fn client_sends(&mut self, now: u64, deliveries: u64) {
        self.turns.sends();
        let same = self.deliveries_before.replace(deliveries) == Some(deliveries);
        if !same && self.bursts.len() < MAX_BURSTS {
            self.bursts.push(Burst {
                sent: now,
                first_answer: None,
                last_answer: None,
                answer_from: None,
                answer_bytes: 0,
            });
        }
    }

    pub(super) fn latest_burst(&self) -> Option<u32> {
        u32::try_from(self.bursts.len()).ok()?.checked_sub(1)
    }

    /// The burst to which a segment of the server responds; [`Self::advance`] must have recorded
    /// it.
    pub(super) fn answered_burst(&mut self, fresh: bool) -> Option<u32> {
        let start = self.segment_start;
        if fresh {
            let burst = self.bursts.get_mut(self.at_server? as usize)?;
            burst.answer_from.get_or_insert(start);
            return self.at_server;
        }
        let at = self
            .bursts
            .iter()
            .rposition(|burst| burst.answer_from.is_some_and(|answer_from| answer_from <= start))?;
        u32::try_from(at).ok()
    }

    pub(super) fn reaches_server(&mut self, burst: Option<u32>) {
        self.at_server = self.at_server.max(burst);
    }

    pub(super) fn reaches_client(&mut self, now: u64, burst: Option<u32>, payload: u32) {
        self.turns.receives();
        if let Some(burst) = burst.and_then(|at| self.bursts.get_mut(at as usize)) {
            burst.first_answer.get_or_insert(now);
            burst.last_answer = Some(now);
            burst.answer_bytes += u64::from(payload);
        }
    }
}
