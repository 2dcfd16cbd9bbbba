//! `hither-wan`, run as a command.

use hither_netem::Link;
use hither_wan::namespace::{Side, exists, of, within};
use hither_wan::registry::{LinkRecord, folder, save};
use hither_wan::report::Report;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Barrier};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hither-wan");

/// Returns false, with a message on stderr, where namespaces cannot be made. The runner lets these
/// tests take turns (`.config/nextest.toml`), because they count what comes in time.
fn allowed() -> bool {
    let runs = |program: &str, flag: &str| {
        Command::new(program).arg(flag).output().is_ok_and(|output| output.status.success())
    };
    let lacking = if !rustix::process::geteuid().is_root() {
        "needs root"
    } else if !std::path::Path::new("/dev/net/tun").exists() {
        "needs /dev/net/tun"
    } else if !runs("ip", "-V") {
        "needs ip (iproute2)"
    } else if !runs("ping", "-V") {
        "needs ping (iputils-ping)"
    } else if !runs("iperf3", "-v") {
        "needs iperf3"
    } else {
        return true;
    };
    let required = std::env::var_os("HITHER_REQUIRE_NETNS").is_some_and(|value| value == "1");
    assert!(!required, "HITHER_REQUIRE_NETNS=1, but this test {lacking}");
    eprintln!("SKIPPED: {lacking}");
    false
}

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

fn good(arguments: &[&str]) -> String {
    let output = run(arguments);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {words}");
    String::from_utf8(output.stdout).unwrap()
}

/// A link that is taken down with its test.
struct Up {
    name: String,
    server: String,
}

impl Up {
    fn new(test: &str, options: &[&str]) -> Self {
        let name = format!("{test}-{}", std::process::id());
        let mut arguments = vec!["up", &name, "--json"];
        arguments.extend(options);
        let printed: serde_json::Value = serde_json::from_str(&good(&arguments)).unwrap();
        let server = printed["server"]["address"].as_str().unwrap().to_owned();
        Self { name, server }
    }

    fn stats(&self, options: &[&str]) -> Report {
        let mut arguments = vec!["stats", &self.name, "--json"];
        arguments.extend(options);
        serde_json::from_str(&good(&arguments)).unwrap()
    }

    fn forwarder(&self) -> OwnedFd {
        let pid = std::fs::read_to_string(folder(&self.name).join("pid")).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        pidfd_open(pid, PidfdFlags::empty()).unwrap()
    }

    fn spaces(&self) -> [bool; 2] {
        Side::BOTH.map(|side| exists(&of(&self.name, side)))
    }

    /// A server that answers each byte with `answer` bytes, for this many connections. Its first
    /// answers leave when each of these has sent a byte, however long the client takes for that.
    fn serve(&self, connections: usize, answer: usize) -> u16 {
        let address = format!("{}:0", self.server);
        let listener =
            within(&of(&self.name, Side::Server), || Ok(TcpListener::bind(address).unwrap()))
                .unwrap();
        let port = listener.local_addr().unwrap().port();
        let all_have_sent = Arc::new(Barrier::new(connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().take(connections) {
                let mut stream = stream.unwrap();
                let all_have_sent = Arc::clone(&all_have_sent);
                std::thread::spawn(move || {
                    let mut byte = [0];
                    let mut is_first = true;
                    while stream.read(&mut byte).is_ok_and(|read| read == 1) {
                        if std::mem::take(&mut is_first) {
                            all_have_sent.wait();
                        }
                        stream.write_all(&vec![7; answer]).unwrap();
                    }
                });
            }
        });
        port
    }

    fn connect(&self, port: u16) -> TcpStream {
        let address = format!("{}:{port}", self.server);
        within(&of(&self.name, Side::Client), || Ok(TcpStream::connect(address).unwrap())).unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        run(&["down", &self.name]);
    }
}

fn ends(process: &OwnedFd) -> bool {
    let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)).unwrap() > 0
}

fn read(stream: &mut TcpStream, bytes: usize) {
    stream.read_exact(&mut vec![0; bytes]).unwrap();
}

#[test]
fn requests_in_series_are_counted_from_outside() {
    if !allowed() {
        return;
    }
    let link = Up::new("series", &["--rtt", "4ms", "--rate", "50Mbit"]);
    let port = link.serve(1, 5000);
    let mut stream = link.connect(port);
    for _ in 0..3 {
        stream.write_all(b"?").unwrap();
        read(&mut stream, 5000);
    }
    let all = link.stats(&["--port", &port.to_string()]);
    assert_eq!((all.connections, all.turns, all.round_trips, all.whole_round_trips), (1, 3, 3, 3));
    assert_eq!((all.to_server.payload_bytes, all.to_client.payload_bytes), (3, 15_000));
    assert_eq!(all.rows.len(), 1);
    // Each response is four packets of at most 1,448 bytes; headers are 52 bytes each.
    assert!(all.to_client.packets >= 13, "{:?}", all.to_client);
    assert!(all.to_client.ip_bytes >= 15_000 + 52 * 12, "{:?}", all.to_client);
    assert_eq!(all.to_client.dropped_queue + all.to_client.dropped_random, 0);
    assert_eq!(link.stats(&["--port", "1", "--reset"]).connections, 0);
    assert_eq!(link.stats(&[]).turns, 0);
}

#[test]
fn requests_in_parallel_are_one_round_trip() {
    if !allowed() {
        return;
    }
    let link = Up::new("parallel", &["--rtt", "200ms"]);
    let port = link.serve(8, 3000);
    let mut connections: Vec<TcpStream> = (0..8).map(|_| link.connect(port)).collect();
    connections.iter_mut().for_each(|connection| connection.write_all(b"?").unwrap());
    connections.iter_mut().for_each(|connection| read(connection, 3000));
    let all = link.stats(&[]);
    assert_eq!((all.connections, all.turns, all.round_trips, all.whole_round_trips), (8, 1, 1, 1));
    connections[3].write_all(b"?").unwrap();
    read(&mut connections[3], 3000);
    let all = link.stats(&[]);
    assert_eq!((all.turns, all.round_trips, all.whole_round_trips), (2, 2, 2));
}

#[test]
fn losses_are_counted_and_repaired() {
    if !allowed() {
        return;
    }
    let link = Up::new("losses", &["--rtt", "2ms", "--loss", "2%", "--seed", "7"]);
    let port = link.serve(1, 1_000_000);
    let mut stream = link.connect(port);
    stream.write_all(b"?").unwrap();
    read(&mut stream, 1_000_000);
    let all = link.stats(&[]);
    assert!(all.to_client.dropped_random > 0);
    assert!(all.to_client.repeated_segments > 0);
    assert!(all.to_client.payload_bytes >= 1_000_000);
    assert_eq!(all.round_trips, 1);
}

#[test]
fn command_keeps_its_streams_and_exit_code() {
    if !allowed() {
        return;
    }
    let link = Up::new("streams", &[]);
    let mut child = Command::new(PROGRAM)
        .args(["exec", &link.name, "server", "--", "sh", "-c", "cat; echo late >&2; exit 7"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"words").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"words"[..], &b"late\n"[..]));
    let missing = run(&["exec", &link.name, "client", "--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    let settings = "cat /proc/sys/net/ipv4/tcp_congestion_control \
                    /proc/sys/net/ipv4/tcp_no_metrics_save; cat /sys/class/net/wan0/mtu 2>&1 || true";
    let printed = good(&["exec", &link.name, "client", "--", "sh", "-c", settings]);
    assert!(printed.starts_with("cubic\n1\n"), "{printed}");
}

#[test]
fn links_have_subnets_of_their_own_and_names_are_taken_once() {
    if !allowed() {
        return;
    }
    let first = Up::new("first", &["--link", "E"]);
    let second = Up::new("second", &["--congestion", "bbr"]);
    assert_ne!(first.server, second.server);
    let again = run(&["up", &first.name]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is up already"));
    let listed = good(&["list"]);
    assert!(listed.contains(&first.name) && listed.contains("22 ms, 100 Mbit/s"), "{listed}");
    assert!(listed.contains("bbr"));
}

#[test]
fn down_leaves_nothing_and_of_nothing_is_fine() {
    if !allowed() {
        return;
    }
    let link = Up::new("down", &[]);
    let forwarder = link.forwarder();
    assert_eq!(link.spaces(), [true, true]);
    good(&["down", &link.name]);
    assert!(ends(&forwarder));
    assert_eq!(link.spaces(), [false, false]);
    assert!(!folder(&link.name).exists());
    good(&["down", &link.name]);
    assert!(!run(&["stats", &link.name]).status.success());
}

#[test]
fn link_comes_up_again_after_its_forwarder_crashed() {
    if !allowed() {
        return;
    }
    let link = Up::new("crash", &[]);
    let forwarder = link.forwarder();
    pidfd_send_signal(&forwarder, Signal::KILL).unwrap();
    assert!(ends(&forwarder));
    assert!(good(&["list"]).contains("dead"));
    let options = ["up", link.name.as_str(), "--rtt", "1ms"];
    good(&options);
    let port = link.serve(1, 1);
    let mut stream = link.connect(port);
    stream.write_all(b"?").unwrap();
    read(&mut stream, 1);
}

#[test]
fn link_goes_with_its_owner() {
    if !allowed() {
        return;
    }
    let mut owner = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let link = Up::new("owner", &["--owner", &owner.id().to_string()]);
    let forwarder = link.forwarder();
    drop(owner.stdin.take());
    owner.wait().unwrap();
    assert!(ends(&forwarder));
    assert_eq!(link.spaces(), [false, false]);
    assert!(!folder(&link.name).exists());
}

#[test]
fn interrupted_up_leaves_nothing() {
    if !allowed() {
        return;
    }
    let name = format!("interrupted-{}", std::process::id());
    // The first half of `up`, interrupted: it records the link and starts the forwarder.
    let saved = LinkRecord {
        name: name.clone(),
        link: Link::E,
        congestion: "reno".to_owned(),
        offload: false,
        subnet: 250,
        owner: None,
        token: hither_wan::clock::now(),
    };
    save(&saved).unwrap();
    let mut forwarder = Command::new(PROGRAM)
        .args(["forward", &name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(forwarder.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    assert!(exists(&of(&name, Side::Client)));
    drop(forwarder.stdin.take());
    assert!(forwarder.wait().unwrap().success());
    assert!(!exists(&of(&name, Side::Client)) && !exists(&of(&name, Side::Server)));
    assert!(!folder(&name).exists());
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_made() {
    if !allowed() {
        return;
    }
    for options in [
        &["up", "a/b"][..],
        &["up", "x", "--rtt", "5"],
        &["up", "x", "--rate", "fast"],
        &["up", "x", "--loss", "200%"],
    ] {
        assert_eq!(run(options).status.code(), Some(2), "{options:?}");
    }
    let name = format!("wrong-{}", std::process::id());
    let output = run(&["up", &name, "--congestion", "carrier-pigeon"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("carrier-pigeon"));
    assert!(!exists(&of(&name, Side::Client)));
}

/// Properties that hold on a busy machine, which makes packets late and transfers slow, never the
/// other way round. The upper limits are for `hither-wan validate` on a quiet machine.
#[test]
#[ignore = "measures seven links for a minute, by make soak"]
fn links_are_never_shorter_or_wider_than_they_claim() {
    if !allowed() {
        return;
    }
    let output = run(&["validate", "--quick"]);
    let table = String::from_utf8_lossy(&output.stdout);
    let mut links = 0;
    for line in table.lines().skip(1) {
        let words: Vec<_> = line.split_whitespace().filter(|&word| word != "/").collect();
        let [name, rtt, fastest_ping, _, _, rate, throughput, ..] = words.as_slice() else {
            continue;
        };
        let number = |text: &str| text.parse::<f64>().unwrap();
        let (rtt, fastest_ping) = (number(rtt), number(fastest_ping));
        assert!(fastest_ping >= rtt * 0.98 - 0.05, "{name}: {table}");
        assert!(number(throughput) > 0.0, "{name}: {table}");
        assert!(*rate == "-" || number(throughput) <= number(rate) * 1.05, "{name}: {table}");
        links += 1;
    }
    assert_eq!(links, 7, "{table}{}", String::from_utf8_lossy(&output.stderr));
    eprintln!("{table}");
}
