//! One TCP connection, with a receive buffer that does not stall it.
//!
//! Linux starts a connection with a receive buffer of 128 KiB (`tcp_rmem`) and enlarges it as the application reads.
//! On a long path that auto-tuning falls behind: the sender's congestion window doubles every round trip, the offered
//! window follows only after a whole round trip's worth of data has been copied out, and the sender sits
//! "rwnd limited" for seconds with most of its window unused. The packets are small for the memory they occupy in the
//! kernel, which makes the kernel even more careful. Asking for a large buffer before connecting settles the window
//! scale in the handshake and takes the kernel's hand off the window. The request is capped by `rmem_max`; where that
//! cap is small, a fixed small buffer would be worse than auto-tuning, so the socket is made again without one.

use hither_core::error::{Error, ErrorKind, Result, Retry};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

/// A fixed receive buffer below this, in bytes, is worse than the kernel's auto-tuning, which goes to 6 MiB and more.
const WORTH_FIXING_BYTES: usize = 2 << 20;

/// Connects to `address`, which is that of `name`. Returns the stream and how long the handshake took: one round trip.
///
/// # Errors
///
/// [`ErrorKind::Local`] if there can be no socket, [`ErrorKind::Unavailable`] if nobody is there.
pub(crate) async fn connect(
    address: SocketAddr,
    name: &str,
    receive_buffer_bytes: usize,
) -> Result<(TcpStream, Duration)> {
    let socket = open_socket(address, receive_buffer_bytes).map_err(|error| {
        Error::new(ErrorKind::Local, format!("cannot create a socket: {error}")).with_source(error)
    })?;
    let started = Instant::now();
    match socket.connect(address).await {
        Ok(stream) => Ok((stream, started.elapsed())),
        Err(error) => {
            let what = format!("cannot connect to {name} ({address}): {error}");
            let reset = error.kind() == std::io::ErrorKind::ConnectionReset;
            let failed = Error::new(ErrorKind::Unavailable, what).with_source(error);
            // Somebody was there, and broke it off at once, as servers do that have too much to do.
            let again = Retry::SameServer { after: Duration::ZERO };
            Err(if reset { failed.with_retry(again) } else { failed })
        }
    }
}

fn open_socket(address: SocketAddr, receive_buffer_bytes: usize) -> std::io::Result<TcpSocket> {
    let make = || Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP));
    let mut socket = make()?;
    if receive_buffer_bytes > 0 {
        socket.set_recv_buffer_size(receive_buffer_bytes)?;
        if socket.recv_buffer_size()? < WORTH_FIXING_BYTES.min(receive_buffer_bytes) {
            socket = make()?;
        }
    }
    socket.set_nonblocking(true)?;
    // A request is one write and must leave at once.
    socket.set_tcp_nodelay(true)?;
    Ok(TcpSocket::from_std_stream(socket.into()))
}
