//! What the kernel knows of a connection (`TCP_INFO`, tcp(7)), for the access log.
//!
//! The line of a request is written when its answer has ended, by whoever drops the [note](crate::monitoring::note) of it; the socket
//! lies somewhere within the connection, below TLS and HTTP. So the two share a [`SocketRef`]: the number of the socket, as long as
//! it is open. Whoever owns the socket keeps an [`SocketGuard`] that is dropped before it: from then on nothing is asked, as the
//! number may be somebody else's soon.

use hither_core::sync::lock;
use serde::Serialize;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};

/// Bytes of the kernel's answer that are looked at.
const BYTES: usize = size_of::<libc::tcp_info>();

/// The state of a connection as its sender sees it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct TcpInfo {
    /// Smoothed round-trip time, and how much it varies, in milliseconds.
    rtt_ms: f64,
    rttvar_ms: f64,
    /// Segments sent again since the connection began.
    retransmits: u32,
    /// Segments that may be under way.
    cwnd: u32,
    /// Bytes per second that arrived lately; none where the kernel does not tell (before 4.9).
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_bytes_per_s: Option<u64>,
}

impl TcpInfo {
    /// Reads what the kernel has answered, which may be less than is known here.
    fn parse(answer: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = answer.get(at..at.checked_add(4)?)?;
            bytes.try_into().ok().map(u32::from_ne_bytes)
        };
        let long = |at: usize| {
            let bytes = answer.get(at..at.checked_add(8)?)?;
            bytes.try_into().ok().map(u64::from_ne_bytes)
        };
        let milliseconds = |micros: u32| f64::from(micros) / 1e3;
        Some(Self {
            rtt_ms: milliseconds(number(offset_of!(libc::tcp_info, tcpi_rtt))?),
            rttvar_ms: milliseconds(number(offset_of!(libc::tcp_info, tcpi_rttvar))?),
            retransmits: number(offset_of!(libc::tcp_info, tcpi_total_retrans))?,
            cwnd: number(offset_of!(libc::tcp_info, tcpi_snd_cwnd))?,
            delivery_bytes_per_s: long(offset_of!(libc::tcp_info, tcpi_delivery_rate)),
        })
    }
}

/// Asks the kernel; none if that is no connection of TCP.
fn ask(socket: RawFd) -> Option<TcpInfo> {
    let mut answer = [0u8; BYTES];
    let mut length = libc::socklen_t::try_from(BYTES).ok()?;
    // SAFETY: the kernel writes at most `length` bytes to `answer`, which has as many, and then to `length` how many they
    // were; both live through the call. A number that is no socket's is refused.
    #[expect(unsafe_code, reason = "no crate in use has this option of sockets")]
    let failed = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            answer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if failed != 0 {
        return None;
    }
    TcpInfo::parse(answer.get(..usize::try_from(length).ok()?)?)
}

/// See the module above.
#[derive(Debug, Default)]
pub(crate) struct SocketRef(Mutex<Option<RawFd>>);

/// To be dropped before the socket is.
#[derive(Debug)]
pub(crate) struct SocketGuard(Arc<SocketRef>);

impl SocketRef {
    /// A link to a socket, and what its owner has to keep.
    pub(crate) fn to(socket: &impl AsRawFd) -> (Arc<Self>, SocketGuard) {
        let link = Arc::new(Self(Mutex::new(Some(socket.as_raw_fd()))));
        (Arc::clone(&link), SocketGuard(link))
    }

    /// What the kernel knows of the connection; none if it has ended.
    pub(crate) fn info(&self) -> Option<TcpInfo> {
        // Held while the kernel is asked, so that the socket is not closed meanwhile.
        let socket = lock(&self.0);
        ask((*socket)?)
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
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_told_of_until_it_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (link, ended) = SocketRef::to(&stream);
        let info = link.info().unwrap();
        assert!(info.rtt_ms > 0.0 && info.rtt_ms < 1e4 && info.cwnd > 0, "{info:?}");
        assert_eq!(info.retransmits, 0);
        drop(ended);
        assert_eq!(link.info(), None);
    }

    #[test]
    fn what_is_no_connection_is_not_told_of() {
        let (link, _ended) = SocketRef::to(&tempfile::tempfile().unwrap());
        assert_eq!(link.info(), None);
        assert_eq!(SocketRef::default().info(), None);
    }

    #[test]
    fn an_older_kernel_tells_less() {
        let whole = [0; BYTES];
        assert!(TcpInfo::parse(&whole).unwrap().delivery_bytes_per_s.is_some());
        let old = offset_of!(libc::tcp_info, tcpi_delivery_rate);
        assert_eq!(TcpInfo::parse(&whole[..old]).unwrap().delivery_bytes_per_s, None);
        assert_eq!(TcpInfo::parse(&whole[..16]), None);
    }
}
