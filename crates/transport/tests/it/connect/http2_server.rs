//! An HTTP/2 server over TLS that sends one range per request and misbehaves on demand.

use crate::connect::tls::{Authority, authority, params, signed};
use crate::fixture::content;
use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The fault of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// It supports only HTTP/1.1.
    Old,
    /// It sends GOAWAY after this number of requests on a connection, and responds to these.
    GoAway(usize),
    /// It closes a connection with all its streams at the nth request.
    Break(usize),
    /// It resets every nth stream instead of responding.
    Reset(usize),
    /// It resets every nth stream in the middle of its response.
    ResetBody(usize),
    /// It refuses streams with `REFUSED_STREAM` while this number of requests is in progress.
    Refuse(usize),
    /// It responds with 429 while this number of requests is in progress.
    Busy(usize),
    /// It never responds to the nth request.
    Stall(usize),
}

/// Counters of its clients.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicUsize,
    /// HTTP/2 connections.
    pub(crate) multiplexed: AtomicUsize,
    pub(crate) requests: AtomicUsize,
    /// Refused requests.
    pub(crate) refused: AtomicUsize,
    /// Requests in progress: current number.
    under_way: AtomicUsize,
    pub(crate) most: AtomicUsize,
    /// Notified when a client cancels a request.
    pub(crate) given_up: Notify,
}

pub(crate) struct Multiplexer {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    pub(crate) authority: Authority,
}

struct Site {
    content: Vec<u8>,
    flaw: Flaw,
    seen: Arc<Seen>,
}

/// The number of requests of a connection, and its end.
#[derive(Default)]
struct Line {
    requests: AtomicUsize,
    over: Notify,
}

impl Multiplexer {
    pub(crate) async fn start(size: usize, streams: u32, flaw: Flaw) -> Self {
        let authority = authority("the authority");
        let (chain, key) = signed(params(&["localhost"]), &authority);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if flaw != Flaw::Old {
            config.alpn_protocols.insert(0, b"h2".to_vec());
        }
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let site = Arc::new(Site { content: content(size), flaw, seen: Arc::clone(&seen) });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, site) = (acceptor.clone(), Arc::clone(&site));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    site.seen.connections.fetch_add(1, Ordering::SeqCst);
                    serve(site, stream, streams).await;
                });
            }
        });
        Self { address, seen, authority }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}/x", self.address.port())
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn multiplexed(&self) -> usize {
        self.seen.multiplexed.load(Ordering::SeqCst)
    }
}

async fn serve(site: Arc<Site>, stream: TlsStream<TcpStream>, streams: u32) {
    let several = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let line = Arc::new(Line::default());
    let service = service_fn(|request| answer(Arc::clone(&site), Arc::clone(&line), request));
    let io = TokioIo::new(stream);
    if !several {
        let one = hyper::server::conn::http1::Builder::new();
        return drop(one.serve_connection(io, service).await);
    }
    site.seen.multiplexed.fetch_add(1, Ordering::SeqCst);
    let mut many = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let connection = many.max_concurrent_streams(streams).serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // Any result is accepted.
        _ = connection.as_mut() => return,
        () = line.over.notified() => {}
    }
    if matches!(site.flaw, Flaw::GoAway(_)) {
        connection.as_mut().graceful_shutdown();
        drop(connection.await);
    }
}

/// Counts a request as in progress.
struct UnderWay<'a>(&'a Seen, bool);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        if !self.1 {
            self.0.given_up.notify_one();
        }
    }
}

async fn answer(
    site: Arc<Site>,
    line: Arc<Line>,
    request: Request<Incoming>,
) -> Result<Response<Body>, h2::Error> {
    let seen = &*site.seen;
    let under_way = 1 + seen.under_way.fetch_add(1, Ordering::SeqCst);
    let mut guard = UnderWay(seen, false);
    seen.most.fetch_max(under_way, Ordering::SeqCst);
    let nth = seen.requests.fetch_add(1, Ordering::SeqCst);
    let nth_here = line.requests.fetch_add(1, Ordering::SeqCst);
    // Other requests can arrive in the meantime.
    tokio::task::yield_now().await;
    let mut broken = false;
    match site.flaw {
        Flaw::GoAway(n) if nth_here == n => line.over.notify_one(),
        Flaw::Break(n) if nth_here == n => {
            line.over.notify_one();
            std::future::pending::<()>().await;
        }
        Flaw::Reset(n) if nth % n == n - 1 => return Err(Reason::INTERNAL_ERROR.into()),
        Flaw::ResetBody(n) => broken = nth % n == n - 1,
        Flaw::Refuse(most) if under_way > most => {
            seen.refused.fetch_add(1, Ordering::SeqCst);
            return Err(Reason::REFUSED_STREAM.into());
        }
        Flaw::Busy(most) if under_way > most => {
            seen.refused.fetch_add(1, Ordering::SeqCst);
            return Ok(status(StatusCode::TOO_MANY_REQUESTS));
        }
        Flaw::Stall(n) if nth == n => std::future::pending::<()>().await,
        _ => {}
    }
    guard.1 = true;
    Ok(ranged(&site.content, request.headers(), broken))
}

fn status(status: StatusCode) -> Response<Body> {
    let empty = Full::new(Bytes::new()).map_err(|never| match never {});
    Response::builder().status(status).body(Body::new(empty)).unwrap()
}

/// A response with one range, or with the whole content.
fn ranged(content: &[u8], asked: &HeaderMap, broken: bool) -> Response<Body> {
    let size = content.len();
    let range = asked.get(header::RANGE).and_then(|it| it.to_str().ok()?.strip_prefix("bytes="));
    let range = range.and_then(|range| {
        let (first, last) = range.split_once('-')?;
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        Some(first..(last + 1).min(size))
    });
    let whole = range.is_none();
    let range = range.unwrap_or(0..size);
    let mut response = Response::builder().header(header::ETAG, "\"one\"");
    response = if whole {
        response.status(StatusCode::OK)
    } else {
        response.status(StatusCode::PARTIAL_CONTENT).header(
            header::CONTENT_RANGE,
            format!("bytes {}-{}/{size}", range.start, range.end - 1),
        )
    };
    let bytes = Bytes::copy_from_slice(&content[range]);
    let body = if broken {
        let half = bytes.slice(..bytes.len() / 2);
        let parts = [Ok(Frame::data(half)), Err(io::Error::other("broken"))];
        Body::new(BodyExt::boxed_unsync(StreamBody::new(futures_util::stream::iter(parts))))
    } else {
        Body::new(Full::new(bytes).map_err(|never| match never {}))
    };
    response.body(body).unwrap()
}

/// A store for a single server.
#[derive(Debug)]
pub(crate) struct Remembers(pub(crate) Mutex<hither_core::Endpoint>);

impl hither_core::EndpointStore for Remembers {
    fn get(&self, _: &str) -> Option<hither_core::Endpoint> {
        Some(self.0.lock().unwrap().clone())
    }

    fn put(&self, _: &str, endpoint: &hither_core::Endpoint) {
        *self.0.lock().unwrap() = endpoint.clone();
    }

    fn claim_slot(&self, _: &str, _: usize) -> hither_core::SlotClaim {
        hither_core::SlotClaim::Granted(Box::new(()))
    }
}
