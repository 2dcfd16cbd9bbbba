//! The kernel's statistics of TCP connections (`TCP_INFO`) of other processes, by sock_diag(7).
//!
//! A netlink socket responds to one request with all connections of a network namespace; the inode
//! numbers of their sockets identify those of the profiled processes. Connections are read every
//! few seconds, so that those that end are known, too.

use crate::target::numbers;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto,
    socket_with,
};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const MAX_SOCKETS: usize = 65_536;
const MAX_CONNECTIONS: usize = 4096;
/// Maximum number of reported connections, those with the most bytes.
const MAX_REPORTED: usize = 100;
/// Size of the receive buffer, larger than any netlink message.
const MESSAGE_BYTES: usize = 64 << 10;

// include/uapi/linux: netlink.h, sock_diag.h, inet_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x301;
const MESSAGE_DONE: u16 = 3;
const HEADER_BYTES: usize = 16;
const DIAG_BYTES: usize = 72;
const INFO: u16 = 2;
const CONGESTION: u16 = 4;
/// All states but TIME_WAIT, SYN_RECV and LISTEN.
const STATES: u32 = 0xfff & !(1 << 6 | 1 << 3 | 1 << 10);

/// A TCP connection with the statistics of this end.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Connection {
    /// Address at this end.
    pub local: SocketAddr,
    /// Address at the other end.
    pub peer: SocketAddr,
    /// Congestion control.
    pub congestion: String,
    /// Smoothed round-trip time.
    pub rtt_ms: f64,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Retransmitted segments.
    pub retransmits: u32,
    /// Bytes that the peer has acknowledged.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Recent rate of delivered data.
    pub delivery_bytes_per_s: u64,
    /// The time in which there was data to send.
    pub busy_seconds: f64,
    /// The share of it in percent in which the peer's window was full.
    pub receive_window_limited: f64,
    /// The share of it in percent in which the send buffer was too small.
    pub send_buffer_limited: f64,
}

/// The connections seen so far.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    by_inode: HashMap<u32, Connection>,
}

impl Connections {
    /// Reads the connections of these processes; all connections if `processes` is empty.
    pub(crate) fn look(&mut self, processes: &[u32]) {
        let wanted: BTreeSet<u32> =
            processes.iter().flat_map(|it| socket_inodes(*it)).take(MAX_SOCKETS).collect();
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            let add = |inode: u32, connection: Connection| {
                let is_known = self.by_inode.contains_key(&inode);
                if (processes.is_empty() || wanted.contains(&inode))
                    && (is_known || self.by_inode.len() < MAX_CONNECTIONS)
                {
                    self.by_inode.insert(inode, connection);
                }
            };
            // If this fails, no connections of the family are reported.
            let _ = dump(family, add);
        }
    }

    /// The connections, those with the most bytes first.
    pub(crate) fn result(self) -> Vec<Connection> {
        let mut all: Vec<Connection> = self.by_inode.into_values().collect();
        all.sort_by_key(|it| std::cmp::Reverse(it.sent.max(it.received)));
        all.truncate(MAX_REPORTED);
        all
    }
}

fn socket_inodes(process: u32) -> Vec<u32> {
    let folder = format!("/proc/{process}/fd");
    let inode = |descriptor: u32| -> Option<u32> {
        let target = fs::read_link(format!("{folder}/{descriptor}")).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    numbers(&folder).take(MAX_SOCKETS).filter_map(inode).collect()
}

/// Requests all connections of a family.
fn dump(family: AddressFamily, mut found: impl FnMut(u32, Connection)) -> rustix::io::Result<()> {
    let kind = SocketType::DGRAM;
    let diag = Some(netlink::SOCK_DIAG);
    let socket = socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, diag)?;
    let mut request = Vec::with_capacity(HEADER_BYTES + 56);
    request.extend(72_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST_DUMP.to_ne_bytes());
    request.extend([0; 8]);
    let extensions = 1 << (INFO - 1) | 1 << (CONGESTION - 1);
    request.extend([family.as_raw().to_ne_bytes()[0], 6, extensions, 0]);
    request.extend(STATES.to_ne_bytes());
    request.resize(72, 0);
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut buffer = vec![0; MESSAGE_BYTES];
    loop {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let Some(answer) = buffer.get(..length).filter(|it| !it.is_empty()) else { return Ok(()) };
        if !messages(answer, &mut found) {
            return Ok(());
        }
    }
}

/// Parses the messages of a response; returns true if more will follow.
fn messages(mut bytes: &[u8], found: &mut impl FnMut(u32, Connection)) -> bool {
    while !bytes.is_empty() {
        let Some((message, rest)) = split(bytes, u32_at(bytes, 0), HEADER_BYTES) else {
            return false;
        };
        match u16_at(message, 4) {
            Some(SOCK_DIAG_BY_FAMILY) => {
                if let Some((inode, connection)) = connection(&message[HEADER_BYTES..]) {
                    found(inode, connection);
                }
            }
            // The end of the response, or an error.
            Some(0..=MESSAGE_DONE) | None => return false,
            Some(_) => {}
        }
        bytes = rest;
    }
    true
}

/// Splits off the first `length` bytes, padded to a multiple of four. None if they are incomplete
/// or fewer than `least`.
fn split(bytes: &[u8], length: Option<u32>, least: usize) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(length?).ok().filter(|it| *it >= least && *it <= bytes.len())?;
    let next = length.next_multiple_of(4).min(bytes.len());
    Some((&bytes[..length], &bytes[next..]))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

/// Parses `struct inet_diag_msg` and its attributes; also returns the inode.
fn connection(bytes: &[u8]) -> Option<(u32, Connection)> {
    let diag = bytes.get(..DIAG_BYTES)?;
    let address = |port: usize, at: usize| -> Option<SocketAddr> {
        let port = u16::from_be_bytes(diag.get(port..port + 2)?.try_into().ok()?);
        let address: [u8; 16] = diag.get(at..at + 16)?.try_into().ok()?;
        let [a, b, c, d, ..] = address;
        let is_v6 = u16::from(diag[0]) == AddressFamily::INET6.as_raw();
        let v4 = IpAddr::from(Ipv4Addr::new(a, b, c, d));
        let ip = if is_v6 { Ipv6Addr::from(address).to_canonical() } else { v4 };
        Some(SocketAddr::new(ip, port))
    };
    let mut info: &[u8] = &[];
    let mut congestion = String::new();
    let mut rest = &bytes[DIAG_BYTES..];
    while let Some((attribute, next)) = split(rest, u16_at(rest, 0).map(u32::from), 4) {
        match u16_at(attribute, 2)? {
            INFO => info = &attribute[4..],
            CONGESTION => {
                let name = attribute[4..].split(|byte| *byte == 0).next().unwrap_or_default();
                congestion = name.escape_ascii().to_string();
            }
            _ => {}
        }
        rest = next;
    }
    // Older kernels return fewer fields.
    let long = |at: usize| u64_at(info, at).unwrap_or_default();
    let busy = long(offset_of!(libc::tcp_info, tcpi_busy_time));
    let share = |at: usize| match busy {
        0 => 0.0,
        busy => 100.0 * long(at) as f64 / busy as f64,
    };
    let connection = Connection {
        local: address(4, 8)?,
        peer: address(6, 24)?,
        congestion,
        rtt_ms: f64::from(u32_at(info, offset_of!(libc::tcp_info, tcpi_rtt))?) / 1e3,
        cwnd: u32_at(info, offset_of!(libc::tcp_info, tcpi_snd_cwnd))?,
        retransmits: u32_at(info, offset_of!(libc::tcp_info, tcpi_total_retrans))?,
        sent: long(offset_of!(libc::tcp_info, tcpi_bytes_acked)),
        received: long(offset_of!(libc::tcp_info, tcpi_bytes_received)),
        delivery_bytes_per_s: long(offset_of!(libc::tcp_info, tcpi_delivery_rate)),
        busy_seconds: busy as f64 / 1e6,
        receive_window_limited: share(offset_of!(libc::tcp_info, tcpi_rwnd_limited)),
        send_buffer_limited: share(offset_of!(libc::tcp_info, tcpi_sndbuf_limited)),
    };
    Some((u32_at(diag, 68)?, connection))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connections_of_this_process_are_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        stream.write_all(&[7; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
        let mut connections = Connections::default();
        connections.look(&[std::process::id()]);
        let found = connections.result();
        let local = stream.local_addr().unwrap();
        let mine = found.iter().find(|it| it.local == local).unwrap();
        assert_eq!(mine.peer, stream.peer_addr().unwrap());
        assert!(!mine.congestion.is_empty() && mine.cwnd > 0, "{mine:?}");
        let other = found.iter().find(|it| it.peer == local).unwrap();
        assert_eq!(other.received, 1000);
    }

    proptest! {
        #[test]
        fn any_answer_is_parsed(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
            length in 0_u32..400,
        ) {
            let mut count = 0;
            messages(&bytes, &mut |_, _| count += 1);
            for (at, byte) in [length.to_ne_bytes(), 20_u32.to_ne_bytes()].concat().iter().enumerate() {
                if let Some(place) = bytes.get_mut(at) {
                    *place = *byte;
                }
            }
            messages(&bytes, &mut |_, _| count += 1);
            prop_assert!(count <= 20);
        }
    }
}
