//! Conversations, packet by packet.

use super::*;
use crate::packet::Tcp;
use proptest::prelude::*;
use std::collections::VecDeque;

const CLIENT: u32 = 1;

fn segment(
    direction: Direction,
    connection: u16,
    sequence: u32,
    payload: u32,
    opens: bool,
) -> Packet {
    let client = SocketAddrV4::new(CLIENT.into(), 5000 + connection);
    let server = SocketAddrV4::new(2.into(), 8080);
    let (source, destination) = match direction {
        Direction::ToServer => (client, server),
        Direction::ToClient => (server, client),
    };
    let tcp = Tcp { source, destination, sequence, payload, opens };
    Packet { segments: 1, ip_bytes: 40 + payload, tcp: Some(tcp) }
}

/// A conversation over a link whose packets take 10 units each way.
struct Talk {
    observer: Observer,
    under_way: VecDeque<(u64, Tag)>,
    sent: HashMap<(u16, bool), u32>,
}

impl Talk {
    fn new() -> Self {
        Self { observer: Observer::new(0), under_way: VecDeque::new(), sent: HashMap::new() }
    }

    fn open(&mut self, now: u64, connection: u16) {
        let packet = segment(Direction::ToServer, connection, 99, 0, true);
        self.put(now, Direction::ToServer, packet);
    }

    /// Delivers the packets that are due by `now`.
    fn run(&mut self, now: u64) {
        while let Some((due, tag)) = self.under_way.pop_front_if(|(due, _)| *due <= now) {
            self.observer.deliver(due, &tag);
        }
    }

    /// Puts a packet into the link.
    fn put(&mut self, now: u64, direction: Direction, packet: Packet) {
        self.run(now);
        let tag = self.observer.enter(now, direction, packet);
        self.under_way.push_back((now + 10, tag));
    }

    /// The next segment of a stream, of 100 bytes.
    fn next(&mut self, direction: Direction, connection: u16) -> Packet {
        let sequence =
            self.sent.entry((connection, direction == Direction::ToServer)).or_insert(100);
        *sequence += 100;
        segment(direction, connection, *sequence - 100, 100, false)
    }

    fn pass(&mut self, now: u64, direction: Direction, connection: u16) {
        let packet = self.next(direction, connection);
        self.put(now, direction, packet);
    }

    fn ask(&mut self, now: u64, connection: u16) {
        self.pass(now, Direction::ToServer, connection);
    }

    fn answer(&mut self, now: u64, connection: u16) {
        self.pass(now, Direction::ToClient, connection);
    }

    fn counts(&mut self) -> (u64, u64, u32, u32) {
        self.run(1000);
        let report = self.observer.report(1000, None);
        (report.connections, report.turns, report.round_trips, report.whole_round_trips)
    }
}

#[test]
fn one_request_is_one_turn_and_one_round_trip() {
    let mut talk = Talk::new();
    talk.open(0, 0);
    talk.ask(20, 0);
    talk.ask(21, 0);
    talk.answer(40, 0);
    talk.answer(41, 0);
    assert_eq!(talk.counts(), (1, 1, 1, 1));
}

#[test]
fn syn_sent_again_opens_no_second_connection_but_a_reused_port_does() {
    let mut talk = Talk::new();
    talk.open(0, 0);
    talk.open(5, 0);
    assert_eq!(talk.counts().0, 1);
    let again = segment(Direction::ToServer, 0, 12345, 0, true);
    talk.observer.enter(9, Direction::ToServer, again);
    assert_eq!(talk.counts().0, 2);
}

#[test]
fn connections_in_parallel_are_one_flight_and_connections_in_series_one_each() {
    let mut parallel = Talk::new();
    (0..8).for_each(|connection| parallel.ask(u64::from(connection), connection));
    (0..8).for_each(|connection| parallel.answer(20 + u64::from(connection), connection));
    assert_eq!(parallel.counts(), (0, 1, 1, 1));

    let mut series = Talk::new();
    for connection in 0..8 {
        series.ask(u64::from(connection) * 100, connection);
        series.answer(u64::from(connection) * 100 + 20, connection);
    }
    assert_eq!(series.counts(), (0, 8, 8, 8));
}

#[test]
fn request_during_another_response_is_a_turn_but_no_whole_round_trip() {
    let mut talk = Talk::new();
    talk.ask(0, 0);
    talk.answer(20, 0);
    talk.ask(35, 1);
    talk.answer(50, 0);
    talk.answer(60, 1);
    assert_eq!(talk.counts(), (0, 2, 2, 1));
}

#[test]
fn answer_belongs_to_the_request_that_had_reached_the_server() {
    let mut talk = Talk::new();
    talk.ask(0, 0);
    talk.answer(12, 0);
    // The second request leaves after the first response has arrived; the rest of that response was
    // sent before the request arrived.
    talk.ask(24, 0);
    talk.answer(30, 0);
    // Only round trip 1 has been delivered, so this is round trip 2 as well.
    talk.ask(45, 1);
    assert_eq!(talk.observer.report(45, None).round_trips, 2);
    // Now the response of round trip 2 arrives.
    talk.answer(46, 0);
    talk.ask(60, 2);
    assert_eq!(talk.counts().2, 3);
}

#[test]
fn repeated_segments_are_no_turns_and_keep_their_round_trip() {
    let mut talk = Talk::new();
    talk.ask(0, 0);
    talk.run(20);
    let lost = talk.next(Direction::ToClient, 0);
    let lost = talk.observer.enter(20, Direction::ToClient, lost);
    talk.observer.discard(&lost, DropReason::Random);
    talk.answer(21, 0);
    talk.ask(40, 0);
    // The lost segment is repeated after the second request arrived: it still belongs to the first
    // round trip.
    talk.put(60, Direction::ToClient, segment(Direction::ToClient, 0, 100, 100, false));
    // A repeated request is not a turn.
    talk.put(71, Direction::ToServer, segment(Direction::ToServer, 0, 100, 100, false));
    talk.ask(80, 1);
    talk.run(1000);
    let report = talk.observer.report(1000, None);
    assert_eq!(report.round_trips, 2);
    assert_eq!(report.rows[0].turns, 2);
    assert_eq!(report.to_client.dropped_random, 1);
    assert_eq!((report.to_client.repeated_segments, report.to_server.repeated_segments), (1, 1));
}

#[test]
fn request_queued_behind_another_may_depend_on_an_answer_elsewhere() {
    let mut talk = Talk::new();
    talk.ask(0, 0);
    talk.ask(0, 1);
    talk.answer(15, 0);
    talk.ask(30, 1);
    talk.run(1000);
    let report = talk.observer.report(1000, None);
    assert_eq!((report.turns, report.round_trips), (2, 2));
    assert_eq!(report.rows[1].turns, 1);
}

#[test]
fn the_first_data_round_trip_is_that_of_the_first_long_response() {
    let mut talk = Talk::new();
    talk.ask(0, 0);
    talk.answer(20, 0);
    talk.ask(40, 0);
    assert_eq!(talk.observer.report(40, None).first_data_round_trip, None);
    (0..100).for_each(|segment| talk.answer(60 + segment, 0));
    talk.ask(200, 0);
    talk.answer(220, 0);
    talk.run(1000);
    let report = talk.observer.report(1000, None);
    assert_eq!((report.round_trips, report.first_data_round_trip), (3, Some(2)));
}

#[test]
fn port_restricts_every_count() {
    let mut talk = Talk::new();
    talk.ask(0, 0);
    talk.answer(20, 0);
    talk.run(1000);
    let all = talk.observer.report(1000, None);
    let same = talk.observer.report(1000, Some(8080));
    assert_eq!(
        (all.turns, all.round_trips, all.to_client),
        (same.turns, same.round_trips, same.to_client)
    );
    let none = talk.observer.report(1000, Some(81));
    assert_eq!((none.turns, none.round_trips, none.rows.len()), (0, 0, 0));
    assert_eq!(none.to_server, Counts::default());
}

#[test]
fn reset_forgets_what_is_under_way_and_opened() {
    let mut talk = Talk::new();
    talk.open(0, 0);
    talk.ask(20, 0);
    talk.observer.reset(25);
    assert_eq!(talk.counts(), (0, 0, 0, 0));
    talk.ask(40, 0);
    talk.answer(60, 0);
    assert_eq!(talk.counts(), (0, 1, 1, 1));
    assert_eq!(talk.observer.report(99, None).to_server.packets, 1);
}

#[test]
fn sequence_numbers_wrap() {
    let mut observer = Observer::new(0);
    for (now, sequence) in [(0, u32::MAX - 49), (1, 50), (2, u32::MAX - 49)] {
        let packet = segment(Direction::ToServer, 0, sequence, 100, false);
        observer.enter(now, Direction::ToServer, packet);
    }
    let report = observer.report(9, None);
    assert_eq!((report.turns, report.to_server.repeated_segments), (1, 1));
}

proptest! {
    #[test]
    fn whole_round_trips_are_no_more_than_round_trips_and_these_than_turns(
        steps in prop::collection::vec((any::<bool>(), 0_u16..4, any::<bool>()), 0..200),
    ) {
        let mut talk = Talk::new();
        let mut now = 0;
        for (asks, connection, waits) in steps {
            now += if waits { 30 } else { 1 };
            if asks { talk.ask(now, connection) } else { talk.answer(now, connection) }
        }
        talk.run(now + 10);
        let report = talk.observer.report(now, None);
        prop_assert!(report.whole_round_trips <= report.round_trips);
        prop_assert!(u64::from(report.round_trips) <= report.turns);
        prop_assert!(report.rows.iter().all(|row| row.turns <= report.turns));
    }
}
