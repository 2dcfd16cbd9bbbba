//! One direction of a link: rate, queue, loss and delay. Pure; the time is passed in.
//!
//! A packet that enters waits until the bits of those before it have left, and leaves at the other
//! end one one-way delay later; its own bits occupy the link for the packets behind it. So a lone
//! packet takes exactly the one-way delay, whatever its size, and `ping` reports the link's
//! round-trip time. There is no simulation in steps: the time at which the link becomes free is one
//! number, and the queue is the bits between now and that time. A packet that would make the queue
//! longer than its maximum is dropped (drop-tail). A lost packet is dropped before it queues, as by
//! a noisy cable in front of the router. Delay and order are constant, so a plain queue holds the
//! packets in flight.
//!
//! A connection may have its own rate. Its packets first wait in their own queue, spaced by that
//! rate, and then enter the shared queue.
//!
//! Without a rate a packet leaves immediately: a burst that enters leaves as the same burst. With a
//! rate, packets leave spaced by their serialisation time, as measurements of dispersion expect.

use hither_netem::link::Link;
use hither_netem::random::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// The outcome of a packet that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketOutcome {
    /// It is in flight.
    Accepted,
    /// Dropped because the queue was full.
    QueueFull,
    /// Dropped by chance.
    Lost,
}

/// A rate limiter: packets wait until it is free, up to a maximum queue.
#[derive(Debug, Clone, Copy)]
struct Gate {
    /// Bits per second.
    rate: u64,
    queue: u64,
}

impl Gate {
    /// The time at which a packet of `size` that arrives at `now` passes; `None` if the queue is
    /// full.
    fn pass(self, free_at: &mut u64, now: u64, size: u64) -> Option<u64> {
        let start = (*free_at).max(now);
        let waiting = u128::from(start - now) * u128::from(self.rate) / 8_000_000_000;
        if waiting + u128::from(size) > u128::from(self.queue) {
            return None;
        }
        *free_at = start.saturating_add(size * 8_000_000_000 / self.rate);
        Some(start)
    }
}

/// A packet that waits for the rate of its connection.
#[derive(Debug)]
struct Waiting<T> {
    size: u64,
    frame: Vec<u8>,
    tag: T,
}

#[derive(Debug)]
struct UnderWay<T> {
    /// The time at which it leaves the link, in nanoseconds.
    due: u64,
    /// Bytes on the wire.
    size: u64,
    frame: Vec<u8>,
    tag: T,
}

/// One direction of a link; `T` travels with each packet.
#[derive(Debug)]
pub struct Shaper<T> {
    delay: u64,
    shared: Option<Gate>,
    /// The limiter of each connection.
    own: Option<Gate>,
    /// Maximum bytes in `line` without a rate.
    queue: u64,
    loss: f64,
    random: Random,
    /// The time at which the bits of all accepted packets have been sent, in nanoseconds.
    free_at: u64,
    /// The same for each connection.
    own_free_at: HashMap<u32, u64>,
    /// The times at which packets reach the shared link, in nanoseconds, and their numbers.
    coming: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: HashMap<u64, Waiting<T>>,
    last_number: u64,
    /// Packets in flight with the times at which they leave the link, ascending.
    line: VecDeque<UnderWay<T>>,
    /// Bytes in `line`.
    held: u64,
}

impl<T> Shaper<T> {
    /// Creates a direction of `link`; `salt` makes the losses of the two directions different.
    #[must_use]
    pub fn new(link: &Link, salt: u64) -> Self {
        let own_queue = link.own_queue_bytes();
        Self {
            delay: u64::try_from(link.one_way().as_nanos()).unwrap_or(u64::MAX),
            shared: link.bandwidth.map(|rate| Gate { rate, queue: link.queue_bytes() }),
            own: link.each.map(|rate| Gate { rate, queue: own_queue }),
            queue: link.queue_bytes(),
            loss: link.loss,
            random: Random::new(link.seed.wrapping_mul(2).wrapping_add(salt)),
            free_at: 0,
            own_free_at: HashMap::new(),
            coming: BinaryHeap::new(),
            waiting: HashMap::new(),
            last_number: 0,
            line: VecDeque::new(),
            held: 0,
        }
    }

    /// Offers a packet of `wire_bytes` at `now` (nanoseconds), with its connection if it has one.
    /// `frame` is copied only if the packet is accepted.
    pub fn offer(
        &mut self,
        now: u64,
        frame: &[u8],
        wire_bytes: u32,
        connection: Option<u32>,
        tag: T,
    ) -> PacketOutcome {
        if self.loss > 0.0 && self.random.chance(self.loss) {
            return PacketOutcome::Lost;
        }
        let size = u64::from(wire_bytes);
        let (Some(gate), Some(connection)) = (self.own, connection) else {
            return match self.goes_out(now, size) {
                Some(due) => {
                    self.line.push_back(UnderWay { due, size, frame: frame.to_vec(), tag });
                    PacketOutcome::Accepted
                }
                None => PacketOutcome::QueueFull,
            };
        };
        let free_at = self.own_free_at.entry(connection).or_default();
        let Some(comes) = gate.pass(free_at, now, size) else { return PacketOutcome::QueueFull };
        self.last_number += 1;
        self.coming.push(Reverse((comes, self.last_number)));
        self.waiting.insert(self.last_number, Waiting { size, frame: frame.to_vec(), tag });
        PacketOutcome::Accepted
    }

    /// Moves packets that have passed the rate of their connection by `now` to the shared link.
    /// Calls `dropped` for those that find its queue full.
    pub fn advance(&mut self, now: u64, mut dropped: impl FnMut(&T)) {
        while let Some(&Reverse((comes, number))) = self.coming.peek().filter(|it| it.0.0 <= now) {
            self.coming.pop();
            let Some(Waiting { size, frame, tag }) = self.waiting.remove(&number) else { continue };
            match self.goes_out(comes, size) {
                Some(due) => self.line.push_back(UnderWay { due, size, frame, tag }),
                None => dropped(&tag),
            }
        }
    }

    /// The time at which a packet that reaches the shared link at `now` leaves it; `None` if the
    /// queue is full.
    fn goes_out(&mut self, now: u64, size: u64) -> Option<u64> {
        let leaves = match self.shared {
            None => (self.held.saturating_add(size) <= self.queue).then_some(now)?,
            Some(gate) => gate.pass(&mut self.free_at, now, size)?,
        };
        self.held = self.held.saturating_add(size);
        Some(leaves.saturating_add(self.delay))
    }

    /// The time of the next event, in nanoseconds: a packet leaves, or reaches the shared link.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        let out = self.line.front().map(|packet| packet.due);
        let comes = self.coming.peek().map(|next| next.0.0);
        out.into_iter().chain(comes).min()
    }

    /// The next packet that has left by `now`, and its due time.
    pub fn take(&mut self, now: u64) -> Option<(u64, Vec<u8>, T)> {
        let packet = self.line.pop_front_if(|packet| packet.due <= now)?;
        self.held = self.held.saturating_sub(packet.size);
        Some((packet.due, packet.frame, packet.tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn drain(shaper: &mut Shaper<u32>) -> Vec<(u64, u32)> {
        let mut out = Vec::new();
        while let Some(due) = shaper.next_due() {
            shaper.advance(due, |_| ());
            out.extend(shaper.take(due).map(|(_, _, tag)| (due, tag)));
        }
        out
    }

    #[test]
    fn burst_without_rate_comes_out_as_a_burst() {
        let mut shaper = Shaper::new(&Link::G, 0);
        for tag in 0..10 {
            assert_eq!(shaper.offer(5, &[0; 1500], 1500, Some(1), tag), PacketOutcome::Accepted);
        }
        assert!(shaper.take(120 * MS + 4).is_none());
        assert!(drain(&mut shaper).iter().all(|(due, _)| *due == 120 * MS + 5));
    }

    #[test]
    fn burst_at_a_rate_comes_out_spaced_by_serialisation() {
        let mut shaper = Shaper::new(&Link::E, 0);
        for tag in 0..10 {
            shaper.offer(0, &[0; 1500], 1500, Some(1), tag);
        }
        let dues: Vec<u64> = drain(&mut shaper).into_iter().map(|(due, _)| due).collect();
        assert_eq!(dues[0], 11 * MS);
        assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == 120_000));
    }

    #[test]
    fn queue_drops_the_newest_and_recovers() {
        let link = Link { queue: Some(4500), ..Link::E };
        let mut shaper = Shaper::new(&link, 0);
        let outcomes: Vec<PacketOutcome> =
            (0..5).map(|tag| shaper.offer(0, &[], 1500, Some(1), tag)).collect();
        assert_eq!(outcomes[..3], [PacketOutcome::Accepted; 3]);
        assert_eq!(outcomes[3..], [PacketOutcome::QueueFull; 2]);
        assert_eq!(shaper.offer(120_000, &[], 1500, Some(1), 9), PacketOutcome::Accepted);
        assert_eq!(drain(&mut shaper).len(), 4);
    }

    #[test]
    fn losses_repeat_with_the_seed_and_differ_by_direction() {
        let link = Link { loss: 0.1, seed: 3, ..Link::G };
        let outcomes = |salt| -> Vec<PacketOutcome> {
            let mut shaper = Shaper::new(&link, salt);
            (0..500).map(|tag| shaper.offer(0, &[], 100, None, tag)).collect()
        };
        assert_eq!(outcomes(0), outcomes(0));
        assert_ne!(outcomes(0), outcomes(1));
        let lost = outcomes(0).iter().filter(|outcome| **outcome == PacketOutcome::Lost).count();
        assert!((30..80).contains(&lost), "{lost}");
    }

    #[test]
    fn a_connection_has_a_rate_of_its_own_and_its_own_queue() {
        // 100 Mbit/s in total, 25 Mbit/s each: 1,500 bytes every 0.48 ms.
        let link = Link { each: Some(25_000_000), ..Link::E };
        let mut shaper = Shaper::new(&link, 0);
        for tag in 0..30 {
            assert_eq!(shaper.offer(0, &[], 1500, Some(tag / 10), tag), PacketOutcome::Accepted);
        }
        let out = drain(&mut shaper);
        for connection in 0..3 {
            let dues: Vec<u64> =
                out.iter().filter(|(_, tag)| tag / 10 == connection).map(|(due, _)| *due).collect();
            assert_eq!(dues.len(), 10);
            assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == 480_000), "{dues:?}");
        }
        let outcomes: Vec<PacketOutcome> =
            (0..50).map(|tag| shaper.offer(9, &[], 1500, Some(7), tag)).collect();
        let accepted =
            outcomes.iter().filter(|outcome| **outcome == PacketOutcome::Accepted).count();
        assert_eq!(accepted as u64, link.own_queue_bytes() / 1500);
    }

    #[test]
    fn what_all_connections_let_through_is_dropped_where_the_line_is_full() {
        let link = Link { each: Some(25_000_000), queue: Some(4500), ..Link::E };
        let mut shaper = Shaper::new(&link, 0);
        for connection in 0..10 {
            assert_eq!(
                shaper.offer(0, &[], 1500, Some(connection), connection),
                PacketOutcome::Accepted
            );
        }
        let mut dropped = 0;
        shaper.advance(0, |_| dropped += 1);
        assert_eq!((dropped, drain(&mut shaper).len()), (7, 3));
    }

    proptest! {
        #[test]
        fn order_is_kept_and_rate_never_exceeded(
            gaps in prop::collection::vec((0_u64..2_000_000, 40_u32..1500), 1..100),
            rate in 1_000_000_u64..1_000_000_000,
        ) {
            let link = Link::new(Duration::from_millis(1), Some(rate));
            let mut shaper = Shaper::new(&link, 0);
            let mut now = 0;
            for (tag, (gap, size)) in gaps.iter().enumerate() {
                now += gap;
                shaper.offer(now, &[], *size, None, u32::try_from(tag).unwrap());
            }
            let out = drain(&mut shaper);
            prop_assert!(out.windows(2).all(|pair| pair[0].1 < pair[1].1));
            for pair in out.windows(2) {
                let size = u64::from(gaps[pair[0].1 as usize].1);
                prop_assert!(pair[1].0 - pair[0].0 >= size * 8_000_000_000 / rate);
            }
        }
    }
}
