//! Observer of the packets that cross a link: an independent count of round trips.
//!
//! The observer watches the client's end of the link. It sees a packet when it *enters* the link
//! and again when it is *delivered*. Per connection it keeps a list of *bursts*: a burst is the
//! payload that a client sends on a connection without having received any in between, on any
//! connection, together with the response to it.
//!
//! **turns**: the number of times that the client sends new payload after payload was delivered to
//! it since it last sent any; the first sending counts. Counted per connection, and over all
//! connections of a set, where "sends" and "delivered" mean on any of them. A request that leaves
//! while a response on another connection is arriving counts as a turn, although it did not wait:
//! turns are an upper bound.
//!
//! **round_trips**: the length of the longest chain of bursts of which each could depend on the
//! response to the previous one.
//! - the round trip of a burst sent at `t` is 1 + the highest round trip of any response of which
//!   payload was delivered to the client before `t`, on any connection of the set;
//! - the round trip of server payload is that of the latest burst on its connection of which
//!   payload had been delivered to the server when it was sent (a repeated segment keeps that of
//!   the original);
//! - `round_trips` is the highest of all.
//!
//! A client that requests everything in parallel has one round trip over any number of connections,
//! unless a response on one arrives before the request on another has left. On a short link that
//! happens by chance: 64 requests take longer to write than the first response takes to arrive.
//! **`whole_round_trips`** has the same definition with "of which *all* payload was delivered": it
//! counts only dependence on complete responses (a response ends where the next request on its
//! connection has reached the server). A program that needs n whole responses one after the other
//! has at least n of both.
//!
//! **`first_data_round_trip`** is the lowest round trip of a burst whose response held more than 8
//! KiB. If the client reads more than that, its earlier requests were greetings, logins and opens.
//! So this is the number of round trips, without that of the TCP handshake, until the first data
//! arrive, independent of later requests.
//!
//! None of these counts distinguishes dependence from coincidence: a work queue that sends the next
//! request whenever a response is complete looks like a chain. TCP handshakes carry no payload and
//! do not count; TLS handshakes do. A segment behind a hole counts as delivered although the client
//! cannot read it yet, which can only raise the counts.

mod burst;
mod connection;

use burst::Burst;

use crate::packet::Packet;
use crate::report::{ConnectionReport, Counts, Report};
use connection::Connection;
use hither_netem::dependency_chain::{self, longest_chain};
use hither_netem::turns::Turns;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddrV4;

/// A larger response contains data: certificates, greetings and similar responses are shorter.
const WORDS_BYTES: u64 = 8 << 10;

/// Maximum number of connections with their own row; later ones count only in the totals.
const MAX_CONNECTIONS: usize = 1 << 20;

/// Direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From client to server.
    ToServer,
    /// From server to client.
    ToClient,
}

/// Reason why a packet was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The queue was full.
    Queue,
    /// Lost by chance.
    Random,
}

/// The observer's record of a packet in flight.
#[derive(Debug, Clone, Copy)]
pub struct Tag {
    packet: Packet,
    direction: Direction,
    /// Generation of the counters; packets in flight at a reset are not counted afterwards.
    epoch: u32,
    connection: Option<u32>,
    burst: Option<u32>,
}

/// The observed connections and counters, from which a [`Report`] is made.
#[derive(Debug, Clone, Default)]
pub struct Observer {
    epoch: u32,
    started: u64,
    to_server: Counts,
    to_client: Counts,
    connections: Vec<Connection>,
    /// By client and server address.
    index: HashMap<(SocketAddrV4, SocketAddrV4), u32>,
    /// Packets with payload delivered to the client.
    deliveries: u64,
    turns: Turns,
    turns_of_port: BTreeMap<u16, Turns>,
    unreported: u64,
    late: Late,
}

/// Lateness of the forwarder, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Late {
    packets: u64,
    sum: u64,
    most: u64,
}

impl Observer {
    /// Creates an observer that starts at `now` (nanoseconds).
    #[must_use]
    pub fn new(now: u64) -> Self {
        Self { started: now, ..Self::default() }
    }

    /// Resets all counters; connections that stay open are counted from here, but not as opened.
    pub fn reset(&mut self, now: u64) {
        *self = Self { epoch: self.epoch.wrapping_add(1), ..Self::new(now) };
    }

    /// Records that a packet enters the link.
    pub fn enter(&mut self, now: u64, direction: Direction, packet: Packet) -> Tag {
        let connection = self.connection_of(now, direction, &packet);
        let mut tag = Tag { packet, direction, epoch: self.epoch, connection, burst: None };
        let Some(tcp) = packet.tcp.filter(|tcp| tcp.payload > 0) else {
            return tag;
        };
        let Some(connection) = connection.and_then(|at| self.connections.get_mut(at as usize))
        else {
            return tag;
        };
        let fresh = connection.advance(direction, tcp.sequence, tcp.payload);
        if !fresh {
            let counts = match direction {
                Direction::ToServer => &mut self.to_server,
                Direction::ToClient => &mut self.to_client,
            };
            counts.repeated_segments += u64::from(packet.segments);
            connection.counts(direction).repeated_segments += u64::from(packet.segments);
        }
        match direction {
            Direction::ToServer => {
                if fresh {
                    connection.client_sends(now, self.deliveries);
                    self.turns.sends();
                    let port = connection.server.port();
                    self.turns_of_port.entry(port).or_default().sends();
                }
                tag.burst = connection.latest_burst();
            }
            Direction::ToClient => {
                tag.burst = connection.answered_burst(fresh);
            }
        }
        tag
    }

    /// Records that a packet leaves the link.
    pub fn deliver(&mut self, now: u64, tag: &Tag) {
        if tag.epoch != self.epoch {
            return;
        }
        match tag.direction {
            Direction::ToServer => self.to_server.add(&tag.packet),
            Direction::ToClient => self.to_client.add(&tag.packet),
        }
        let Some(connection) = tag.connection.and_then(|at| self.connections.get_mut(at as usize))
        else {
            return;
        };
        connection.counts(tag.direction).add(&tag.packet);
        connection.last = now;
        if tag.packet.tcp.is_none_or(|tcp| tcp.payload == 0) {
            return;
        }
        match tag.direction {
            Direction::ToServer => connection.reaches_server(tag.burst),
            Direction::ToClient => {
                let payload = tag.packet.tcp.map_or(0, |tcp| tcp.payload);
                connection.reaches_client(now, tag.burst, payload);
                self.deliveries += 1;
                self.turns.receives();
                self.turns_of_port.entry(connection.server.port()).or_default().receives();
            }
        }
    }

    /// Records that a packet left this many nanoseconds after it was due.
    pub fn late(&mut self, nanos: u64) {
        self.late.packets += 1;
        self.late.sum += nanos;
        self.late.most = self.late.most.max(nanos);
    }

    /// Records that a packet was dropped.
    pub fn discard(&mut self, tag: &Tag, why: DropReason) {
        if tag.epoch != self.epoch {
            return;
        }
        let segments = u64::from(tag.packet.segments);
        let total = match tag.direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        };
        total.discard(segments, why);
        if let Some(connection) =
            tag.connection.and_then(|at| self.connections.get_mut(at as usize))
        {
            connection.counts(tag.direction).discard(segments, why);
        }
    }

    /// Finds the connection of a packet, or adds it.
    fn connection_of(&mut self, now: u64, direction: Direction, packet: &Packet) -> Option<u32> {
        let tcp = packet.tcp?;
        let (client, server) = match direction {
            Direction::ToServer => (tcp.source, tcp.destination),
            Direction::ToClient => (tcp.destination, tcp.source),
        };
        let opens = direction == Direction::ToServer && tcp.opens;
        if let Some(at) = self.index.get(&(client, server)) {
            let known = self.connections.get(*at as usize)?;
            if !opens || known.opened_at_sequence == Some(tcp.sequence) {
                return Some(*at);
            }
        }
        if self.connections.len() >= MAX_CONNECTIONS {
            self.unreported += u64::from(opens);
            return None;
        }
        let at = u32::try_from(self.connections.len()).ok()?;
        let sequence = opens.then_some(tcp.sequence);
        self.connections.push(Connection::new(client, server, sequence, now));
        self.index.insert((client, server), at);
        Some(at)
    }

    /// The counters, only of connections to `port` if given.
    #[must_use]
    pub fn report(&self, now: u64, port: Option<u16>) -> Report {
        let chosen: Vec<&Connection> = self
            .connections
            .iter()
            .filter(|connection| port.is_none_or(|port| connection.server.port() == port))
            .collect();
        let (to_server, to_client, turns) = match port {
            None => (self.to_server, self.to_client, self.turns),
            Some(port) => (
                chosen.iter().map(|connection| connection.to_server).sum(),
                chosen.iter().map(|connection| connection.to_client).sum(),
                self.turns_of_port.get(&port).copied().unwrap_or_default(),
            ),
        };
        let all: Vec<&Burst> = chosen.iter().flat_map(|connection| connection.bursts()).collect();
        let opened = chosen.iter().filter(|it| it.opened_at_sequence.is_some()).count();
        Report {
            seconds: seconds(self.started, now),
            port,
            to_server,
            to_client,
            connections: opened as u64 + if port.is_none() { self.unreported } else { 0 },
            turns: turns.count,
            round_trips: longest_chain(all.iter().map(|burst| (burst.sent, burst.first_answer))),
            whole_round_trips: longest_chain(
                all.iter().map(|burst| (burst.sent, burst.last_answer)),
            ),
            first_data_round_trip: first_data_round_trip(&all),
            truncated: self.unreported > 0
                || chosen.iter().any(|connection| connection.truncated()),
            late_mean: seconds(0, self.late.sum.checked_div(self.late.packets).unwrap_or_default()),
            max_late: seconds(0, self.late.most),
            rows: chosen
                .iter()
                .map(|connection| ConnectionReport {
                    client: connection.client,
                    server: connection.server,
                    opened: connection.opened_at_sequence.is_some(),
                    first: seconds(self.started, connection.first),
                    last: seconds(self.started, connection.last),
                    turns: connection.turns.count,
                    to_server: connection.to_server,
                    to_client: connection.to_client,
                })
                .collect(),
        }
    }
}

/// The lowest round trip of a burst whose response held more than [`WORDS_BYTES`].
fn first_data_round_trip(bursts: &[&Burst]) -> Option<u32> {
    let round_trips = dependency_chain::chain_lengths(
        bursts.iter().map(|burst| (burst.sent, burst.first_answer)),
    );
    let data = bursts.iter().zip(round_trips).filter(|(burst, _)| burst.answer_bytes > WORDS_BYTES);
    data.map(|(_, round_trip)| round_trip).min()
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run fit")]
fn seconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}

#[cfg(test)]
mod tests;
