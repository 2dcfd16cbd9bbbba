//! The client's end of a connection.

use crate::connection::tcp_info::SocketRef;
use crate::connection::write_stall::WriteStallWatchdog;
use std::net::SocketAddr;
use std::sync::Arc;

/// The client's end of a connection, as requests on it see it.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// The number of the connection, for tracing.
    pub(crate) connection: u64,
    pub(crate) address: SocketAddr,
    pub(crate) is_secure: bool,
    /// The distinguished name of the client's certificate, if it has sent one.
    pub(crate) certificate: Option<Arc<str>>,
    /// The socket, for its TCP statistics.
    pub(crate) socket: Arc<SocketRef>,
    /// Ends the connection when the client does not read its HTTP/2 responses.
    pub(crate) watchdog: Arc<WriteStallWatchdog>,
}
