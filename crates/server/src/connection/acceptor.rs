//! Connections: taking them, TLS, and HTTP on them.
//!
//! No more are taken than the settings allow; others wait in the kernel's queue. Each has clocks for its handshake, its first
//! bytes, the time between requests, the body of a request and the taking of an answer, so whoever is idle or slow gives
//! place at last.

use crate::connection::peer::Peer;
use crate::connection::sendfile::{SendfileQueue, SendfileSocket};
use crate::connection::tcp_info::{SocketGuard, SocketRef};
use crate::connection::timeout_stream::TimeoutStream;
use crate::connection::tls::{self, CertificateReloader};
use crate::context::ServerContext;
use crate::monitoring::stats::ServerStats;
use crate::router;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// Requests at a time on one connection of HTTP/2.
const STREAMS: u32 = 128;
/// Bytes that may be under way to this server on one stream, and on one connection, without an answer.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
/// Bytes of answers that wait in hyper for the window of a client, for each stream.
const STREAM_SEND_BYTES: usize = 256 << 10;
/// How often a silent connection of HTTP/2 is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(30);
/// After the process has run out of files.
const BREATHER: Duration = Duration::from_millis(100);

/// What all listening sockets share.
#[derive(Debug)]
pub(crate) struct Acceptor {
    pub(crate) context: Arc<ServerContext>,
    pub(crate) tls: Option<Arc<CertificateReloader>>,
    pub(crate) connections: Arc<Semaphore>,
    /// True when the server shall stop.
    pub(crate) stop: watch::Receiver<bool>,
}

impl Acceptor {
    /// Takes connections until the server shall stop, and waits for those that are open to end.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let open = GracefulShutdown::new();
        let mut stop = self.stop.clone();
        let http = self.http();
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(&listener) => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let Some((stream, address, place)) = accepted else { continue };
            let (doors, http, watcher) = (Arc::clone(&self), http.clone(), open.watcher());
            let connected = self.context.records.meters.as_ref().map(ServerStats::connected);
            tokio::spawn(async move {
                doors.connection(stream, address, &http, watcher).await;
                drop((place, connected));
            });
        }
        drop(listener);
        // What does not end by itself is ended with the runtime.
        let most = self.context.limits().stop();
        let _ = timeout(most, open.shutdown()).await;
    }

    async fn accept(
        &self,
        listener: &TcpListener,
    ) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
        let place = Arc::clone(&self.connections).acquire_owned().await.ok()?;
        match listener.accept().await {
            Ok((stream, address)) => Some((stream, address, place)),
            Err(error) => {
                // Connections that were reset meanwhile are no reason to wait; too many open files are.
                if !matches!(
                    error.kind(),
                    std::io::ErrorKind::ConnectionAborted | std::io::ErrorKind::ConnectionReset
                ) {
                    if let Some(meters) = &self.context.records.meters {
                        meters.metrics.accept_failed.inc();
                    }
                    tokio::time::sleep(BREATHER).await;
                }
                None
            }
        }
    }

    async fn connection(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        http: &Builder<TokioExecutor>,
        watcher: hyper_util::server::graceful::Watcher,
    ) {
        // An answer is written when it is ready; a socket that is gone shows soon enough.
        let _ = stream.set_nodelay(true);
        let stall = self.context.limits().stall();
        let (socket, ended) = SocketRef::to(&stream);
        let (is_secure, certificate) = (self.tls.is_some(), None);
        let watchdog = Arc::default();
        let peer = Peer { address, is_secure, certificate, socket, watchdog, sendfile: None };
        match &self.tls {
            None => {
                let shortcut = Arc::new(SendfileQueue::new(&self.context.placeholder));
                let peer = Peer { sendfile: Some(Arc::clone(&shortcut)), ..peer };
                let stream = SendfileSocket::new(stream, shortcut);
                self.requests((stream, ended), peer, http, watcher).await;
            }
            Some(tls) => match timeout(stall, tls.acceptor().accept(stream)).await {
                Ok(Ok(stream)) => {
                    let peer = Peer { certificate: tls::subject(stream.get_ref().1), ..peer };
                    self.requests((stream, ended), peer, http, watcher).await;
                }
                Ok(Err(_)) | Err(_) => {
                    if let Some(meters) = &self.context.records.meters {
                        meters.metrics.handshakes_failed.inc();
                    }
                }
            },
        }
    }

    async fn requests<S>(
        &self,
        (stream, ended): (S, SocketGuard),
        peer: Peer,
        http: &Builder<TokioExecutor>,
        watcher: hyper_util::server::graceful::Watcher,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = self.context.limits();
        let stream = TimeoutStream::new(stream, limits.idle(), limits.stall()).until(ended);
        let stream = TokioIo::new(stream);
        let (context, held) = (Arc::clone(&self.context), Arc::clone(&peer.watchdog));
        let service = service_fn(move |request| {
            let (context, peer) = (Arc::clone(&context), peer.clone());
            async move { Ok::<_, Infallible>(router::handle(&context, request, peer).await) }
        });
        let connection = http.serve_connection(stream, service).into_owned();
        // How a connection ended, the lines of the access log say.
        tokio::select! {
            _ = watcher.watch(connection) => {}
            () = held.overdue(limits.stall()) => {}
        }
    }

    fn http(&self) -> Builder<TokioExecutor> {
        let limits = self.context.limits();
        let header_bytes = limits.header_bytes;
        let mut http = Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle())
            .max_buf_size(header_bytes.max(64 << 10));
        http.http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(STREAM_SEND_BYTES)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(limits.stall());
        http
    }
}
