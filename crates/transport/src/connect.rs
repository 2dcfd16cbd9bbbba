//! One TCP connection, with a receive buffer that does not stall it.
//!
//! Linux starts a connection with a receive buffer of 128 KiB (`tcp_rmem`) and enlarges it as the application reads.
//! On a long path that auto-tuning falls behind: the sender's congestion window doubles every round trip, the offered
//! window follows only after a whole round trip's worth of data has been copied out, and the sender sits
//! "rwnd limited" for seconds with most of its window unused. The packets are small for the memory they occupy in the
//! kernel, which makes the kernel even more careful. Asking for a large buffer before connecting settles the window
//! scale in the handshake and takes the kernel's hand off the window. The request is capped by `rmem_max`; where that
//! cap is small, a fixed small buffer would be worse than auto-tuning, so the socket is made again without one.

use crate::config::TransportConfig;
use crate::location::Location;
use hither_core::error::{Error, ErrorKind, Result};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

/// A fixed receive buffer below this, in bytes, is worse than the kernel's auto-tuning, which goes to 6 MiB and more.
const WORTH_FIXING_BYTES: usize = 2 << 20;

/// Connects to the first address of `location` that answers. Returns the stream and how long the handshake took: one
/// round trip.
pub(crate) async fn connect(
    location: &Location,
    config: &TransportConfig,
) -> Result<(TcpStream, Duration)> {
    let addresses = resolve(location).await?;
    let mut last = None;
    for address in addresses {
        match connect_to(address, location, config).await {
            Ok(connected) => return Ok(connected),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| {
        Error::new(ErrorKind::Unavailable, format!("{} has no address", location.host()))
    }))
}

async fn resolve(location: &Location) -> Result<Vec<SocketAddr>> {
    let host = location.host();
    let found = tokio::net::lookup_host((host, location.port())).await.map_err(|error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("host {host:?} does not resolve: check the name and the network"),
        )
        .with_source(error)
    })?;
    Ok(found.collect())
}

async fn connect_to(
    address: SocketAddr,
    location: &Location,
    config: &TransportConfig,
) -> Result<(TcpStream, Duration)> {
    let local = |error: std::io::Error| {
        Error::new(ErrorKind::Local, format!("cannot make a socket: {error}")).with_source(error)
    };
    let socket = open_socket(address, config.receive_buffer_bytes).map_err(local)?;
    let started = Instant::now();
    let origin = location.origin();
    match tokio::time::timeout(config.connect_timeout, socket.connect(address)).await {
        Ok(Ok(stream)) => Ok((stream, started.elapsed())),
        Ok(Err(error)) => Err(Error::new(
            ErrorKind::Unavailable,
            format!("cannot connect to {origin} ({address}): {error}"),
        )
        .with_source(error)),
        Err(_) => Err(Error::new(
            ErrorKind::Timeout,
            format!(
                "no connection to {origin} ({address}) within {} s: it is down, or a firewall drops packets",
                config.connect_timeout.as_secs_f64()
            ),
        )),
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
