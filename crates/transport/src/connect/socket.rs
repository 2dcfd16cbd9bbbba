//! One TCP connection, with a receive buffer that does not stall it.
//!
//! Linux starts a connection with a receive buffer of 128 KiB (`tcp_rmem`) and enlarges it as the
//! application reads. On a long path this auto-tuning falls behind: the sender's congestion window
//! doubles every round trip, but the offered window follows only after the data of a whole round
//! trip was copied out. So the sender is "rwnd limited" for seconds with most of its window unused.
//! The packets are small for the memory that they occupy in the kernel, which makes the kernel even
//! more careful.
//!
//! A large buffer that is requested before connecting settles the window scale in the handshake and
//! turns auto-tuning off. The kernel limits it to `rmem_max`. Where that is small, a fixed small
//! buffer would be worse than auto-tuning, so the socket is created again without one.

use crate::connect::source_addresses::SourceAddress;
use crate::connect::tcp_info;
use hither_core::error::{Error, ErrorKind, Failure, Result};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

/// A fixed receive buffer below this size in bytes is worse than auto-tuning, which goes to 6 MiB
/// and more.
const WORTH_FIXING_BYTES: usize = 2 << 20;

/// The interval of the kernel's probes of a connection at rest that has a source address: several
/// in the time after which it counts as dead.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Connects to `address`, one of those of `name`, from `source` if there is one. Returns the stream
/// and the duration of the handshake, which is one round trip.
///
/// The kernel has measured it. On a busy machine this process is woken some 10 ms later, and by
/// that a server nearby would look far: its files would be read in pieces over many connections.
///
/// # Errors
///
/// [`ErrorKind::Local`] if no socket can be created, [`ErrorKind::Unavailable`] if the address
/// refuses.
pub(crate) async fn connect(
    address: SocketAddr,
    name: &str,
    receive_buffer_bytes: usize,
    source: Option<&SourceAddress>,
) -> Result<(TcpStream, Duration)> {
    let socket = open_socket(address, receive_buffer_bytes, source).map_err(|error| {
        let from = source.map(|it| format!(" that connects from {it}")).unwrap_or_default();
        let what = format!("cannot create a socket{from}: {error}");
        Error::new(ErrorKind::Local, what).with_source(error)
    })?;
    let started = Instant::now();
    match socket.connect(address).await {
        Ok(stream) => {
            let took = started.elapsed();
            let round_trip = tcp_info::round_trip(&stream).map_or(took, |it| it.min(took));
            Ok((stream, round_trip))
        }
        Err(error) => {
            let what = format!("cannot connect to {name} ({address}): {error}");
            let failure = Failure::NotConnected(error.kind());
            let error = Error::new(ErrorKind::Unavailable, what).with_source(error);
            Err(error.with_failure(failure))
        }
    }
}

fn open_socket(
    address: SocketAddr,
    receive_buffer_bytes: usize,
    source: Option<&SourceAddress>,
) -> std::io::Result<TcpSocket> {
    let make = || Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP));
    let mut socket = make()?;
    if receive_buffer_bytes > 0 {
        socket.set_recv_buffer_size(receive_buffer_bytes)?;
        if socket.recv_buffer_size()? < WORTH_FIXING_BYTES.min(receive_buffer_bytes) {
            socket = make()?;
        }
    }
    match source {
        None => {}
        Some(SourceAddress::Address(source)) => socket.bind(&SocketAddr::new(*source, 0).into())?,
        Some(SourceAddress::Interface(name)) => socket.bind_device(Some(name.as_bytes()))?,
    }
    if source.is_some() {
        let every = TcpKeepalive::new().with_time(PROBE_INTERVAL).with_interval(PROBE_INTERVAL);
        socket.set_tcp_keepalive(&every)?;
    }
    socket.set_nonblocking(true)?;
    // A request is one write and must leave at once.
    socket.set_tcp_nodelay(true)?;
    Ok(TcpSocket::from_std_stream(socket.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_handshake_takes_as_long_as_the_kernel_saw() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stream, took) = connect(address, "server", 0, None).await.unwrap();
        assert_eq!(Some(took), tcp_info::round_trip(&stream));
    }
}
