//! The client's end of a connection.

use crate::connection::monitor::ConnectionMonitor;
use crate::response::buffer_pool::ConnectionMemory;
use hither_auth::DistinguishedName;
use hither_http::server_timing::ServerTiming;
use hither_transport::SocketRef;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// The client's end of a connection, as requests on it see it.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// The number of the connection, for tracing.
    pub(crate) connection: u64,
    pub(crate) address: SocketAddr,
    pub(crate) is_secure: bool,
    /// The distinguished name of the client's certificate, if it has sent one.
    pub(crate) certificate: Option<Arc<DistinguishedName>>,
    /// The socket, for its TCP statistics.
    pub(crate) socket: Arc<SocketRef>,
    pub(crate) monitor: Arc<ConnectionMonitor>,
    /// The time of the responses so far.
    pub(crate) timing: Arc<Mutex<ServerTiming>>,
    /// The connection's part of the memory for file data.
    pub(crate) memory: Arc<ConnectionMemory>,
}
