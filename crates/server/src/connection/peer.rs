//! The client's end of a connection, as requests on it see it.

use crate::connection::sendfile::SendfileQueue;
use crate::connection::tcp_info::SocketRef;
use crate::connection::write_stall::WriteStallWatchdog;
use std::net::SocketAddr;
use std::sync::Arc;

/// The client's end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) is_secure: bool,
    /// The distinguished name of the client's certificate, if it has shown one.
    pub(crate) certificate: Option<Arc<str>>,
    /// The socket, for its TCP statistics.
    pub(crate) socket: Arc<SocketRef>,
    /// Watches responses over HTTP/2 that the client does not take.
    pub(crate) watchdog: Arc<WriteStallWatchdog>,
    /// Sends file data past this process's memory, where the connection allows it.
    pub(crate) sendfile: Option<Arc<SendfileQueue>>,
}
