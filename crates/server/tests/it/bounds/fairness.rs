//! Many greedy connections, and a well-behaved client at the same time.

use super::slow_reader;
use crate::hostile::{frame, requesting};
use crate::rig::{Served, TIMEOUT};
use crate::running::metric;
use hither_server::Settings;
use hither_testkit::waiting::wait_until;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

fn scarce(settings: &mut Settings) {
    settings.limits.memory_bytes = 16 << 20;
    settings.metrics = Some("127.0.0.1:0".parse().unwrap());
}

/// Checks that a well-behaved client gets a large response, also in parts and in frames.
fn is_served(served: &Served) {
    for _ in 0..3 {
        let whole = served.get("/large", &["Range: bytes=0-1999999"]);
        assert!(whole.body.len() == 2_000_000 && whole.body.iter().all(|byte| *byte == 7));
        let parts = served.get("/large", &["Range: bytes=0-999999,2000000-2999999"]);
        assert!(parts.status == 206 && parts.body.len() > 2_000_000);
    }
}

#[test]
fn connections_that_read_nothing_delay_no_others() {
    let served = Served::new(scarce);
    served.file("large", &vec![7; 16 << 20]);
    // Without shares, 32 of them would use all of the memory.
    let mut greedy: Vec<_> = (0..100).map(|_| served.connect()).collect();
    for stream in &mut greedy {
        let head =
            b"GET /large HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-9999999,10000001-\r\n\r\n";
        stream.write_all(head).unwrap();
    }
    for stream in &mut greedy {
        stream.read_exact(&mut [0; 12]).unwrap();
    }
    is_served(&served);
}

#[test]
fn streams_with_a_window_of_one_byte_delay_no_others() {
    let served = Served::new(scarce);
    served.file("large", &vec![7; 16 << 20]);
    let mut greedy: Vec<_> = (0..4).map(|_| served.connect()).collect();
    for stream in &mut greedy {
        stream.write_all(&requesting(b"/large", 100, 1)).unwrap();
    }
    for stream in &mut greedy {
        stream.read_exact(&mut [0; 2000]).unwrap();
    }
    is_served(&served);
    assert!(metric(&served, "hither_memory_bytes") < f64::from(12 << 20));
}

#[test]
fn heads_that_do_not_end_take_a_share_of_the_memory_at_most() {
    let served = Served::new(|settings| {
        scarce(settings);
        settings.limits.idle_seconds = 30.0;
    });
    served.file("large", b"small");
    // An eighth of the memory is enough for 36 of them.
    let field = format!("GET /large HTTP/1.1\r\nHost: localhost\r\nX: {}", "a".repeat(63_000));
    let mut heads: Vec<_> = (0..60).map(|_| served.connect()).collect();
    for stream in &mut heads {
        let _ = stream.write_all(field.as_bytes());
    }
    assert_eq!(served.get("/large", &[]).text(), "small");
    let refused = || metric(&served, "hither_heads_refused_total");
    assert!(wait_until(|| refused() >= 10.0), "{}", refused());
    assert!(metric(&served, "hither_memory_bytes") <= f64::from(2 << 20));
    drop(heads);
}

#[test]
fn an_idle_http_2_connection_is_closed_though_it_answers_pings() {
    let served = Served::new(|settings| {
        settings.limits.idle_seconds = 0.3;
        settings.limits.connections = 1;
    });
    served.file("large", &vec![7; 64 << 20]);
    // The server is full until this connection ends: the other one has begun before its time runs.
    let busy = slow_reader(&served);
    let mut stream = served.connect();
    let ping = frame(6, 0, 0, &[7; 8]);
    stream.write_all(&[requesting(b"", 0, 1), ping.clone()].concat()).unwrap();
    drop(busy);
    // A ping for each reply, so that no reply is held back in the server.
    let mut pings = 0;
    let mut head = [0; 9];
    loop {
        stream.read_exact(&mut head).expect("a GOAWAY comes before the end");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).unwrap();
        match (head[3], head[4]) {
            (6, 1) => {
                pings += 1;
                // The server may have closed the connection.
                let _ = stream.write_all(&ping);
            }
            (7, _) => break,
            _ => {}
        }
    }
    assert!(pings > 0);
    let ended = stream.read_to_end(&mut Vec::new());
    assert!(ended.is_ok() || is_reset(&ended), "{ended:?}");
}

/// Returns true if the other end has reset the connection.
fn is_reset<T>(ended: &std::io::Result<T>) -> bool {
    ended.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

#[test]
fn an_idle_connection_leaves_a_full_server_for_a_new_one() {
    let served = Served::new(|settings| {
        settings.limits.connections = 2;
        settings.metrics = Some("127.0.0.1:0".parse().unwrap());
    });
    served.file("large", b"small");
    let mut idle: Vec<_> = (0..2).map(|_| served.connect()).collect();
    for stream in &mut idle {
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
    }
    assert_eq!(served.get("/large", &[]).text(), "small");
    let evicted = || metric(&served, "hither_connections_evicted_total");
    assert!(wait_until(|| evicted() >= 1.0), "{}", evicted());
    let (ended, one) = std::sync::mpsc::channel();
    for mut stream in idle {
        let ended = ended.clone();
        std::thread::spawn(move || ended.send(stream.read_to_end(&mut Vec::new()).is_ok()));
    }
    assert_eq!(one.recv_timeout(TIMEOUT), Ok(true), "one of them has ended");
}

#[test]
fn an_address_gets_no_more_connections_than_its_limit() {
    let served = Served::new(|settings| {
        settings.limits.connections_per_address = 2;
        settings.metrics = Some("127.0.0.1:0".parse().unwrap());
    });
    served.file("large", &vec![7; 16 << 20]);
    let mut held: Vec<_> = (0..2).map(|_| served.connect()).collect();
    for stream in &mut held {
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
    }
    let refused = served.connect().read_to_end(&mut Vec::new());
    assert!(matches!(refused, Ok(0) | Err(_)));
    let count = || metric(&served, "hither_connections_refused_total");
    assert!(wait_until(|| count() == 1.0), "{}", count());
    drop(held);
}

#[test]
fn streams_without_a_window_end_their_connection_though_it_answers_pings() {
    let served = Served::new(|settings| settings.limits.stall_seconds = 0.3);
    served.file("large", &vec![7; 1 << 20]);
    let mut greedy = served.connect();
    // At once, before the server waits for a window.
    greedy.write_all(&requesting(b"/large", 100, 0)).unwrap();
    let mut frames = [0; 4096];
    let ended = loop {
        match greedy.read(&mut frames) {
            Ok(0) => break Ok(()),
            Ok(_) => drop(greedy.write_all(&frame(6, 0, 0, &[0; 8]))),
            Err(error) => break Err(error),
        }
    };
    assert!(ended.is_ok() || is_reset(&ended), "{ended:?}");
}

#[test]
fn bytes_of_uploads_that_are_not_written_yet_count_as_memory_and_are_bounded() {
    const BODY: usize = 500_000;
    let served = Served::new(|settings| {
        scarce(settings);
        settings.write = true;
    });
    let mut uploads: Vec<_> = (0..30).map(|_| served.connect()).collect();
    for (nth, stream) in uploads.iter_mut().enumerate() {
        let head =
            format!("PUT /{nth} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {BODY}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![7; BODY - 1]).unwrap();
    }
    // Waits until enough of it has arrived.
    let mut most = 0.0;
    assert!(wait_until(|| {
        most = metric(&served, "hither_memory_bytes");
        most >= 1e6
    }));
    assert!(most <= f64::from(4 << 20), "{most} bytes of 15 MB");
    for (nth, mut stream) in uploads.into_iter().enumerate() {
        stream.write_all(&[7]).unwrap();
        assert_eq!(reply_before_end(&mut stream), 201);
        assert_eq!(served.get(&format!("/{nth}"), &[]).body, vec![7; BODY]);
    }
    let left = || metric(&served, "hither_memory_bytes");
    assert!(wait_until(|| left() < f64::from(64 << 10)), "{}", left());
}

/// The status of a response without a body on a connection that stays open.
fn reply_before_end(stream: &mut TcpStream) -> u16 {
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    std::str::from_utf8(&head[9..]).unwrap().parse().unwrap()
}
