//! The kernel's statistics of a connection (`TCP_INFO`, tcp(7)), for the access log of a server and
//! for profiles of a path.
//!
//! The code that needs them does not have the socket, which is inside the connection, below TLS and
//! HTTP. So both share a [`SocketRef`]: the file descriptor, as long as it is open. The owner of
//! the socket keeps a [`SocketGuard`] and drops it before the socket. From then on the kernel is
//! not queried, because the descriptor may be reused.

use hither_core::sync::lock;
use serde::Serialize;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Most bytes of the kernel's response that are read.
const BYTES: usize = 256;
/// `tcpi_rcv_wnd`, which the C library musl does not know yet, follows `tcpi_snd_wnd`.
const WINDOW: usize = offset_of!(libc::tcp_info, tcpi_snd_wnd) + 4;

/// The state of a connection at this end. The access log contains the values about sending.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TcpInfo {
    /// The smoothed round-trip time, in milliseconds.
    pub rtt_ms: f64,
    /// Its variation, in milliseconds.
    rttvar_ms: f64,
    /// Segments sent again since the connection began.
    pub retransmits: u32,
    /// Segments that may be in flight.
    cwnd: u32,
    /// Recent delivery rate; none where the kernel does not report it (before 4.9).
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_bytes_per_s: Option<u64>,
    /// Segments sent since the connection began.
    #[serde(skip)]
    pub segments_sent: u32,
    /// Segments with data that were received.
    #[serde(skip)]
    pub segments_received: u32,
    /// Received segments that came before an earlier one.
    #[serde(skip)]
    pub out_of_order: u32,
    /// The round-trip time that the receiver of data measures, including queues on the path, in
    /// milliseconds; 0 if it received little.
    #[serde(skip)]
    pub receive_rtt_ms: f64,
    /// The shortest round-trip time in milliseconds, if there was one.
    #[serde(skip)]
    pub min_rtt_ms: Option<f64>,
    /// Time since data was received last, in milliseconds.
    #[serde(skip)]
    pub idle_ms: u32,
    /// Time since data was sent last, in milliseconds.
    #[serde(skip)]
    pub idle_sending_ms: u32,
    /// Bytes that the owner has written and the other end has not confirmed; before Linux 4.19
    /// those that are not sent yet.
    #[serde(skip)]
    pub unconfirmed_bytes: u64,
    /// Time since an acknowledgement was received last, in milliseconds.
    #[serde(skip)]
    last_ack_ms: u32,
    /// Retransmissions and probes since then.
    #[serde(skip)]
    pub(crate) unanswered: u32,
    /// The window that the other end offers, in bytes; none before Linux 5.4.
    #[serde(skip)]
    pub peer_window: Option<u32>,
    /// The window that this end offers, in bytes; none before Linux 6.2.
    #[serde(skip)]
    pub window: Option<u32>,
}

impl TcpInfo {
    /// Time since anything was received, in milliseconds.
    pub(crate) fn silent_ms(&self) -> u32 {
        self.idle_ms.min(self.last_ack_ms)
    }

    /// Reads the kernel's response, which older kernels make shorter.
    fn parse(info: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = info.get(at..at.checked_add(4)?)?;
            bytes.try_into().ok().map(u32::from_ne_bytes)
        };
        let long = |at: usize| {
            let bytes = info.get(at..at.checked_add(8)?)?;
            bytes.try_into().ok().map(u64::from_ne_bytes)
        };
        let count = |at: usize| info.get(at).copied().map_or(0, u32::from);
        let later = |at: usize| number(at).unwrap_or_default();
        let total = |at: usize| long(at).unwrap_or_default();
        let milliseconds = |micros: u32| f64::from(micros) / 1e3;
        Some(Self {
            rtt_ms: milliseconds(number(offset_of!(libc::tcp_info, tcpi_rtt))?),
            rttvar_ms: milliseconds(number(offset_of!(libc::tcp_info, tcpi_rttvar))?),
            retransmits: number(offset_of!(libc::tcp_info, tcpi_total_retrans))?,
            cwnd: number(offset_of!(libc::tcp_info, tcpi_snd_cwnd))?,
            delivery_bytes_per_s: long(offset_of!(libc::tcp_info, tcpi_delivery_rate)),
            segments_sent: later(offset_of!(libc::tcp_info, tcpi_segs_out)),
            segments_received: later(offset_of!(libc::tcp_info, tcpi_data_segs_in)),
            out_of_order: later(offset_of!(libc::tcp_info, tcpi_rcv_ooopack)),
            receive_rtt_ms: milliseconds(later(offset_of!(libc::tcp_info, tcpi_rcv_rtt))),
            min_rtt_ms: number(offset_of!(libc::tcp_info, tcpi_min_rtt))
                .filter(|micros| (1..u32::MAX).contains(micros))
                .map(milliseconds),
            idle_ms: later(offset_of!(libc::tcp_info, tcpi_last_data_recv)),
            idle_sending_ms: later(offset_of!(libc::tcp_info, tcpi_last_data_sent)),
            unconfirmed_bytes: u64::from(later(offset_of!(libc::tcp_info, tcpi_notsent_bytes)))
                + total(offset_of!(libc::tcp_info, tcpi_bytes_sent))
                    .saturating_sub(total(offset_of!(libc::tcp_info, tcpi_bytes_retrans)))
                    .saturating_sub(total(offset_of!(libc::tcp_info, tcpi_bytes_acked))),
            last_ack_ms: later(offset_of!(libc::tcp_info, tcpi_last_ack_recv)),
            unanswered: count(offset_of!(libc::tcp_info, tcpi_retransmits))
                + count(offset_of!(libc::tcp_info, tcpi_probes)),
            peer_window: number(offset_of!(libc::tcp_info, tcpi_snd_wnd)),
            window: number(WINDOW),
        })
    }
}

/// Queries the kernel; none if `socket` is not a TCP connection.
fn query(socket: RawFd) -> Option<TcpInfo> {
    let mut info = [0u8; BYTES];
    let mut length = libc::socklen_t::try_from(BYTES).ok()?;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which has that many, and then
    // their number to `length`; both outlive the call. A descriptor of no socket is an error.
    #[expect(unsafe_code, reason = "no crate in use has this option of sockets")]
    let failed = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if failed != 0 {
        return None;
    }
    TcpInfo::parse(info.get(..usize::try_from(length).ok()?)?)
}

/// The smoothed round-trip time of a connection; none if nothing was measured.
pub(crate) fn round_trip(socket: &impl AsRawFd) -> Option<Duration> {
    let info = query(socket.as_raw_fd())?;
    (info.rtt_ms > 0.0).then(|| Duration::from_secs_f64(info.rtt_ms / 1e3))
}

/// The file descriptor of a socket, as long as it is open.
#[derive(Debug, Default)]
pub struct SocketRef(Mutex<Option<RawFd>>);

/// The owner's part of a [`SocketRef`], to be dropped before the socket.
#[derive(Debug)]
pub struct SocketGuard(Arc<SocketRef>);

impl SocketRef {
    /// Returns a reference to a socket, and the guard that its owner keeps.
    pub fn to(socket: &impl AsRawFd) -> (Arc<Self>, SocketGuard) {
        let link = Arc::new(Self(Mutex::new(Some(socket.as_raw_fd()))));
        (Arc::clone(&link), SocketGuard(link))
    }

    /// Returns the kernel's statistics; none after the connection has ended.
    #[must_use]
    pub fn info(&self) -> Option<TcpInfo> {
        // Locked during the query, so that the socket is not closed meanwhile.
        let socket = lock(&self.0);
        query((*socket)?)
    }

    /// Shuts the connection down in both directions, as if the other end had, so that its owner
    /// notices.
    pub(crate) fn shut_down(&self) {
        // Locked, so that the socket is not closed meanwhile.
        let socket = lock(&self.0);
        if let Some(socket) = *socket {
            // SAFETY: the descriptor is open, and the call takes no memory.
            #[expect(unsafe_code, reason = "the owner of the stream is another task")]
            // A connection that is closed already needs nothing.
            let _ended = unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
        }
    }
}

impl Drop for SocketGuard {
    fn drop(&mut self) {
        *lock(&self.0.0) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_testkit::waiting::wait_until;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn an_open_connection_has_statistics() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (link, guard) = SocketRef::to(&stream);
        let info = link.info().unwrap();
        assert!(info.rtt_ms > 0.0 && info.rtt_ms < 1e4 && info.cwnd > 0, "{info:?}");
        assert_eq!(info.retransmits, 0);
        drop(guard);
        assert_eq!(link.info(), None);
    }

    #[test]
    fn bytes_that_the_other_end_does_not_take_are_unconfirmed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let (link, _guard) = SocketRef::to(&stream);
        stream.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(bytes) = stream.write(&[0; 1 << 16]) {
            written += bytes as u64;
        }
        let held = link.info().unwrap().unconfirmed_bytes;
        assert!(0 < held && held < written, "{held} of {written}");
        std::io::copy(&mut Read::by_ref(&mut peer).take(written), &mut std::io::sink()).unwrap();
        // All bytes that were read are acknowledged, except those of the last segments; on a busy
        // machine the acknowledgements arrive after the bytes were read.
        let held = || link.info().unwrap().unconfirmed_bytes;
        assert!(wait_until(|| held() < written / 10), "{} of {written}", held());
    }

    #[test]
    fn only_tcp_connections_have_statistics() {
        let (link, _guard) = SocketRef::to(&tempfile::tempfile().unwrap());
        assert_eq!(link.info(), None);
        assert_eq!(SocketRef::default().info(), None);
    }

    #[test]
    fn an_older_kernel_reports_fewer_fields() {
        let whole = [0; BYTES];
        assert!(TcpInfo::parse(&whole).unwrap().delivery_bytes_per_s.is_some());
        let old = offset_of!(libc::tcp_info, tcpi_delivery_rate);
        assert_eq!(TcpInfo::parse(&whole[..old]).unwrap().delivery_bytes_per_s, None);
        assert_eq!(TcpInfo::parse(&whole[..16]), None);
    }
}
