//! Accepts connections, and speaks TLS and HTTP on them.
//!
//! The [table](crate::connection::table) limits the number of open connections. Timeouts cover the
//! handshake, the first bytes, the time between requests, the body of a request and the reading of
//! a response, so the connection of a client that is idle or slow is closed in the end.

use crate::connection::peer::Peer;
use crate::connection::table::{ConnectionTable, OpenConnection};
use crate::connection::timeout_stream::TimeoutStream;
use crate::connection::tls::{self, CertificateReloader};
use crate::context::ServerContext;
use crate::monitoring::stats::ServerStats;
use crate::router;
use hither_transport::{SocketGuard, SocketRef};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracing::{Instrument, debug, info, info_span, warn};

/// The maximum number of concurrent requests on one HTTP/2 connection.
const MAX_STREAMS: u32 = 128;
/// Unread bytes that clients may send on one stream, and on one connection.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
/// Response bytes of each stream that hyper buffers until the client's window opens.
const STREAM_SEND_BYTES: usize = 256 << 10;
/// The time between two pings on a silent HTTP/2 connection.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// The pause after accepting failed, as it does when the process is out of file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// The state that all listening sockets share.
#[derive(Debug)]
pub(crate) struct Acceptor {
    pub(crate) context: Arc<ServerContext>,
    pub(crate) tls: Option<Arc<CertificateReloader>>,
    pub(crate) connections: Arc<ConnectionTable>,
    /// Becomes true when the server stops.
    pub(crate) stop: watch::Receiver<bool>,
}

impl Acceptor {
    /// Accepts connections until the server stops, then waits for open ones to end.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        // Each connection has a sender; when the last one has ended, nothing more is received.
        let (open, mut ended) = mpsc::channel::<Infallible>(1);
        let mut stop = self.stop.clone();
        let http = self.http();
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(&listener) => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let Some((stream, address, connection)) = accepted else { continue };
            let acceptor = Arc::clone(&self);
            let http = http.clone();
            let open = open.clone();
            let connected = self.context.records.stats.as_ref().map(ServerStats::connected);
            let number = connection.number;
            let connection = async move {
                debug!("connection accepted");
                tokio::select! {
                    () = acceptor.connection(stream, address, &connection, &http) => {
                        debug!("connection closed");
                    }
                    () = connection.monitor.evicted() => {}
                }
                drop((connection, connected, open));
            };
            tokio::spawn(connection.instrument(info_span!("connection", number, %address)));
        }
        info!("stopping: no further connections are accepted");
        drop((listener, open));
        // Connections that outlast the timeout end with the runtime.
        let done = async {
            ended.recv().await;
            self.context.backend.finish().await;
        };
        let _ = timeout(self.context.limits().stop(), done).await;
    }

    async fn accept(
        &self,
        listener: &TcpListener,
    ) -> Option<(TcpStream, SocketAddr, OpenConnection)> {
        match listener.accept().await {
            Ok((stream, address)) => {
                let connection = self.connections.admit(address.ip()).await?;
                Some((stream, address, connection))
            }
            Err(error) => {
                // A connection that was reset meanwhile needs no pause; too many open files do.
                if !matches!(
                    error.kind(),
                    std::io::ErrorKind::ConnectionAborted | std::io::ErrorKind::ConnectionReset
                ) {
                    warn!(%error, "cannot accept a connection, pausing");
                    if let Some(stats) = &self.context.records.stats {
                        stats.metrics.accept_failed.inc();
                    }
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
                None
            }
        }
    }

    async fn connection(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        connection: &OpenConnection,
        http: &Builder<TokioExecutor>,
    ) {
        // Responses are written as soon as they are ready; a closed socket fails on the next write.
        let _ = stream.set_nodelay(true);
        let stall = self.context.limits().stall();
        let (socket, guard) = SocketRef::to(&stream);
        let peer = Peer {
            connection: connection.number,
            address,
            is_secure: self.tls.is_some(),
            certificate: None,
            socket,
            monitor: Arc::clone(&connection.monitor),
            timing: Arc::default(),
            memory: Arc::clone(&connection.memory),
        };
        match &self.tls {
            None => self.requests((stream, guard), connection, peer, http).await,
            Some(tls) => match timeout(stall, tls.acceptor().accept(stream)).await {
                Ok(Ok(stream)) => {
                    let peer = Peer { certificate: tls::subject(stream.get_ref().1), ..peer };
                    self.requests((stream, guard), connection, peer, http).await;
                }
                Err(_) => {
                    debug!(?stall, "TLS handshake timed out");
                    self.handshake_failed();
                }
                Ok(Err(error)) => {
                    debug!(%error, "TLS handshake failed");
                    self.handshake_failed();
                }
            },
        }
    }

    fn handshake_failed(&self) {
        if let Some(stats) = &self.context.records.stats {
            stats.metrics.handshakes_failed.inc();
        }
    }

    async fn requests<S>(
        &self,
        (stream, guard): (S, SocketGuard),
        connection: &OpenConnection,
        peer: Peer,
        http: &Builder<TokioExecutor>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = self.context.limits();
        let stream = TimeoutStream::new(stream, limits.idle(), limits.stall());
        let stream = TokioIo::new(stream.counted(guard, connection, limits.header_bytes));
        let context = Arc::clone(&self.context);
        let service = service_fn(move |request| {
            let context = Arc::clone(&context);
            let peer = peer.clone();
            let span = router::span(&request, &peer);
            async move { Ok::<_, Infallible>(router::handle(&context, request, peer).await) }
                .instrument(span)
        });
        let mut http = pin!(http.serve_connection(stream, service));
        let monitor = &connection.monitor;
        let mut overdue = pin!(monitor.overdue(limits.stall()));
        let mut stop = self.stop.clone();
        let mut is_stopping = false;
        let mut is_idle = false;
        // The access log says how the requests of a connection ended.
        loop {
            tokio::select! {
                ended = http.as_mut() => {
                    if let Err(error) = ended {
                        debug!(%error, "connection failed");
                    }
                    return;
                }
                () = overdue.as_mut() => {
                    debug!("connection stalled: the client reads no response, or too slowly");
                    return;
                }
                _ = stop.wait_for(|stop| *stop), if !is_stopping => is_stopping = true,
                () = monitor.idle(limits.idle()) => {
                    debug!("connection idle: there is no request");
                    if is_idle {
                        return;
                    }
                    is_idle = true;
                }
            }
            // A client that begins a request meanwhile gets its response, or an error. If it then
            // does not close the connection, it is idle a second time.
            http.as_mut().graceful_shutdown();
        }
    }

    fn http(&self) -> Builder<TokioExecutor> {
        let limits = self.context.limits();
        let header_bytes = limits.header_bytes;
        let mut http = Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle())
            .max_buf_size(header_bytes);
        http.http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
            .max_concurrent_streams(MAX_STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(STREAM_SEND_BYTES)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(limits.stall());
        http
    }
}
