//! The counters of a link, for people and programs.

use crate::observer::DropReason;
use crate::packet::Packet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::net::SocketAddrV4;

/// Counters of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Packets delivered.
    pub packets: u64,
    /// Bytes delivered, including IP and TCP headers.
    pub ip_bytes: u64,
    /// TCP payload bytes delivered, including repeated ones.
    pub payload_bytes: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// Packets lost by chance.
    pub dropped_random: u64,
    /// Segments with payload that had already entered the link.
    pub repeated_segments: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, packet: &Packet) {
        self.packets += u64::from(packet.segments);
        self.ip_bytes += u64::from(packet.ip_bytes);
        self.payload_bytes += packet.tcp.map_or(0, |tcp| u64::from(tcp.payload));
    }

    pub(crate) fn discard(&mut self, segments: u64, why: DropReason) {
        match why {
            DropReason::Queue => self.dropped_queue += segments,
            DropReason::Random => self.dropped_random += segments,
        }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, it| Self {
            packets: sum.packets + it.packets,
            ip_bytes: sum.ip_bytes + it.ip_bytes,
            payload_bytes: sum.payload_bytes + it.payload_bytes,
            dropped_queue: sum.dropped_queue + it.dropped_queue,
            dropped_random: sum.dropped_random + it.dropped_random,
            repeated_segments: sum.repeated_segments + it.repeated_segments,
        })
    }
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionReport {
    /// The client's address.
    pub client: SocketAddrV4,
    /// The server's address.
    pub server: SocketAddrV4,
    /// True if its SYN was seen since counting began.
    pub opened: bool,
    /// The time of its first packet, in seconds since counting began.
    pub first: f64,
    /// The time when its last packet was delivered, in seconds since counting began.
    pub last: f64,
    /// Turns: the number of times that the client sent after it had received on this connection;
    /// the first time counts.
    pub turns: u64,
    /// From client to server.
    pub to_server: Counts,
    /// From server to client.
    pub to_client: Counts,
}

/// All counters of a link since it came up or was last reset. [`crate::observer`] defines turns and
/// round trips.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Seconds since counting began.
    pub seconds: f64,
    /// The port of the server to which the counters are limited, if any.
    pub port: Option<u16>,
    /// From client to server.
    pub to_server: Counts,
    /// From server to client.
    pub to_client: Counts,
    /// TCP connections opened by the client.
    pub connections: u64,
    /// Turns over all connections: the number of times that the client sent payload after it had
    /// received some.
    pub turns: u64,
    /// Longest chain of requests of which each could depend on a response that had begun before.
    pub round_trips: u32,
    /// Longest chain of requests of which each could depend on a response that was complete before.
    pub whole_round_trips: u32,
    /// The round trip that requested the first response of more than 8 KiB; `None` if there was
    /// none.
    pub first_data_round_trip: Option<u32>,
    /// True if the observer's limits were exceeded: turns, round trips or rows are too low.
    pub truncated: bool,
    /// Mean delay of packets after their due time, in seconds, over all ports.
    pub late_mean: f64,
    /// Maximum delay of a packet after its due time, in seconds. Above some milliseconds the
    /// machine was too busy for a correct emulation.
    pub max_late: f64,
    /// The connections in the order of their first packet.
    pub rows: Vec<ConnectionReport>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.port.map_or(String::new(), |port| format!(" to port {port}"));
        writeln!(
            f,
            "{:.3} s: {} connections{of}, {} turns, {} round trips ({} on whole responses)",
            self.seconds, self.connections, self.turns, self.round_trips, self.whole_round_trips
        )?;
        let mean = self.late_mean * 1e6;
        let most = self.max_late * 1e6;
        writeln!(f, "packets came out {mean:.0} us late on average, {most:.0} us at most")?;
        if self.truncated {
            writeln!(
                f,
                "too much was seen to keep all of it: turns, round trips or rows are too low"
            )?;
        }
        writeln!(
            f,
            "{:<46} {:>6} {:>10} {:>13} {:>13} {:>7} {:>7} {:>8}",
            "", "turns", "packets", "IP bytes", "payload", "queue-", "lost", "repeated"
        )?;
        let line = |f: &mut fmt::Formatter<'_>, what: &str, turns: &str, it: &Counts| {
            writeln!(
                f,
                "{what:<46} {turns:>6} {:>10} {:>13} {:>13} {:>7} {:>7} {:>8}",
                it.packets,
                it.ip_bytes,
                it.payload_bytes,
                it.dropped_queue,
                it.dropped_random,
                it.repeated_segments
            )
        };
        line(f, "all, to server", &self.turns.to_string(), &self.to_server)?;
        line(f, "all, to client", "", &self.to_client)?;
        for row in &self.rows {
            let up = format!("{} > {}", row.client, row.server);
            line(f, &up, &row.turns.to_string(), &row.to_server)?;
            line(f, &format!("{} < {}", row.client, row.server), "", &row.to_client)?;
        }
        Ok(())
    }
}
