//! Kernel options for sending: congestion control, pacing, and the limit of unsent bytes.
//!
//! A client that reads nothing lets the kernel's buffer for its connection grow to megabytes
//! (`net.ipv4.tcp_wmem`). A thousand of them take all memory that the kernel has for TCP
//! (`tcp_mem`), whereupon it drops packets of all connections. Only bytes that are sent and not yet
//! acknowledged have to be in that buffer, and [`MAX_UNSENT_BYTES`] more.
//!
//! They are set on listening sockets, and accepted connections inherit them.

use hither_core::error::{Error, ErrorKind, Result};
use rustix::net::sockopt::set_tcp_congestion;
use serde::Deserialize;
use socket2::SockRef;
use std::io;
use std::os::fd::AsRawFd;

/// The sending options of connections; the system's defaults apply to those not set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NetworkSettings {
    /// The congestion control (`TCP_CONGESTION`), one of those in
    /// `net.ipv4.tcp_allowed_congestion_control`.
    pub congestion: Option<String>,
    /// The maximum rate of one connection (`SO_MAX_PACING_RATE`): packets leave evenly, instead of
    /// in bursts that a switch on the way drops.
    pub pacing_bytes_per_second: Option<u64>,
}

/// Bytes that wait in the kernel for their first sending on a connection. Fewer would wake the
/// server more often than a fast client needs.
const MAX_UNSENT_BYTES: u32 = 256 << 10;

impl NetworkSettings {
    /// # Errors
    /// [`ErrorKind::Invalid`] for a rate of 0.
    pub(crate) fn check(&self) -> Result<()> {
        match self.pacing_bytes_per_second {
            Some(0) => {
                let what = "network.pacing_bytes_per_second is 0, expected at least 1";
                Err(Error::new(ErrorKind::Invalid, what))
            }
            _ => Ok(()),
        }
    }

    /// Sets the options of a socket and of all connections that it accepts afterwards.
    ///
    /// # Errors
    /// [`ErrorKind::Local`] if the system does not know or does not allow one.
    pub(crate) fn apply(&self, socket: &(impl AsRawFd + rustix::fd::AsFd)) -> Result<()> {
        if let Some(name) = &self.congestion {
            set_tcp_congestion(socket, name).map_err(|error| {
                let what = format!(
                    "cannot use network.congestion {name:?}: it is not in \
                     net.ipv4.tcp_allowed_congestion_control"
                );
                Error::new(ErrorKind::Local, what).with_source(io::Error::from(error))
            })?;
        }
        SockRef::from(socket).set_tcp_notsent_lowat(MAX_UNSENT_BYTES).map_err(|error| {
            Error::new(ErrorKind::Local, "cannot set TCP_NOTSENT_LOWAT").with_source(error)
        })?;
        let Some(rate) = self.pacing_bytes_per_second else { return Ok(()) };
        pace(socket, rate).map_err(|error| {
            let what = "cannot set network.pacing_bytes_per_second";
            Error::new(ErrorKind::Local, what).with_source(error)
        })
    }
}

fn pace(socket: &impl AsRawFd, rate: u64) -> io::Result<()> {
    let rate: libc::c_ulong = rate;
    let length = libc::socklen_t::try_from(size_of_val(&rate)).map_err(io::Error::other)?;
    // SAFETY: the kernel reads `length` bytes from `rate`, which has that many and outlives the
    // call.
    #[expect(unsafe_code, reason = "no crate in use has this option of sockets")]
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            length,
        )
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::tcp_congestion;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connections_inherit_the_options_of_the_listening_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let network = NetworkSettings {
            congestion: Some("reno".to_owned()),
            pacing_bytes_per_second: Some(1_000_000),
        };
        network.apply(&listener).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(tcp_congestion(&accepted).unwrap(), "reno");
        assert_eq!(rate(&accepted), 1_000_000);
        assert_eq!(SockRef::from(&accepted).tcp_notsent_lowat().unwrap(), MAX_UNSENT_BYTES);
    }

    #[test]
    fn an_error_names_the_option() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let network = NetworkSettings { congestion: Some("none".to_owned()), ..Default::default() };
        assert!(network.apply(&listener).unwrap_err().to_string().contains("\"none\""));
        let network = NetworkSettings { pacing_bytes_per_second: Some(0), ..Default::default() };
        assert!(network.check().unwrap_err().to_string().contains("pacing_bytes_per_second"));
    }

    fn rate(socket: &TcpStream) -> u64 {
        let mut rate: libc::c_ulong = 0;
        let mut length = libc::socklen_t::try_from(size_of_val(&rate)).unwrap();
        // SAFETY: the kernel writes at most `length` bytes to `rate`, which has that many.
        #[expect(unsafe_code, reason = "no crate in use has this option of sockets")]
        let failed = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MAX_PACING_RATE,
                (&raw mut rate).cast(),
                &raw mut length,
            )
        };
        assert_eq!(failed, 0);
        rate
    }
}
