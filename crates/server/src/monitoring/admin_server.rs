//! The admin endpoint: metrics, health and a status page of the server, at an address of its own.
//!
//! Its clients are not those of the server: it requires no token, speaks no TLS, and shows names of
//! files and how much they are read. So only the operator should be able to reach its address. It
//! also responds when the server cannot, because all connections are in use or the certificate is
//! invalid.
//!
//! | path | response |
//! |---|---|
//! | `/metrics` | for Prometheus, text format 0.0.4 |
//! | `/healthz` | JSON, 200 or 503 |
//! | `/status` | a page for people that refreshes itself |
//! | `/status.json` | the data of that page |

use crate::connection::host;
use crate::connection::table::ConnectionTable;
use crate::connection::tls::CertificateReloader;
use crate::context::ServerContext;
use crate::monitoring::backend_servers;
use crate::monitoring::health;
use crate::monitoring::metrics::{self, GaugeValues};
use crate::monitoring::sliding_window::{TICK, WindowTotals};
use crate::monitoring::stats::ServerStats;
use crate::monitoring::status_page::{self, Status};
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

/// The maximum number of open connections.
const MAX_CONNECTIONS: usize = 64;
/// The maximum time that a connection may be idle, and that it may last; the page opens a new one.
const MAX_IDLE: Duration = Duration::from_secs(30);
const MAX_AGE: Duration = Duration::from_secs(600);
const JSON: &str = "application/json";

/// The admin endpoint of a server.
#[derive(Debug)]
pub(crate) struct AdminServer {
    pub(crate) context: Arc<ServerContext>,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) tls: Option<Arc<CertificateReloader>>,
    pub(crate) stop: watch::Receiver<bool>,
    /// The addresses on which the server listens.
    pub(crate) urls: Vec<String>,
    /// The connections to the server.
    pub(crate) connections: Arc<ConnectionTable>,
    pub(crate) began: Instant,
}

impl AdminServer {
    /// Serves until the runtime ends, also while the server is being stopped.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let Ok((stream, peer)) = listener.accept().await else {
                // The process is out of file descriptors.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let admin = Arc::clone(&self);
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let admin = Arc::clone(&admin);
                    async move { Ok::<_, Infallible>(admin.handle(request, peer).await) }
                });
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(MAX_IDLE);
                let connection = http.serve_connection(TokioIo::new(stream), service);
                // An error is the client's: it left early.
                let _ = timeout(MAX_AGE, connection).await;
                drop(permit);
            });
        }
    }

    /// Samples the totals for the status page.
    pub(crate) async fn sample(self: Arc<Self>) {
        let mut tick = tokio::time::interval(TICK);
        loop {
            tick.tick().await;
            let metrics = &self.stats.metrics;
            self.stats.recent.tick(WindowTotals {
                sent: metrics.sent.get(),
                received: metrics.received.get(),
                requests: metrics.requests(),
                failures: metrics.failures(),
            });
        }
    }

    async fn handle(&self, request: Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        let (request, _) = request.into_parts();
        let names = &self.context.settings().names;
        let checked = host::addressed(&request, false)
            .and_then(|host| host::check_local(host.as_ref(), peer, names));
        if let Err(error) = checked {
            return text(error.status, &format!("{}\n", error.what));
        }
        if !matches!(request.method, Method::GET | Method::HEAD) {
            let what = "this address supports GET and HEAD\n";
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, what);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match request.uri.path() {
            "/metrics" => {
                let mut text = self.stats.metrics.text(&self.levels());
                text.push_str(&backend_servers::text(&self.context.backend.servers()));
                response(StatusCode::OK, metrics::MEDIA_TYPE, text)
            }
            "/healthz" => {
                let health = self.health().await;
                let status =
                    if health.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                response(status, JSON, json(&health) + "\n")
            }
            "/status.json" => response(StatusCode::OK, JSON, json(&self.status().await)),
            "/status" => {
                let page = status_page::page(&json(&self.status().await));
                let mut response = response(StatusCode::OK, "text/html; charset=utf-8", page);
                if let Ok(policy) = HeaderValue::from_str(&status_page::policy()) {
                    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
                }
                response
            }
            "/" => {
                let mut response =
                    text(StatusCode::FOUND, "/metrics /healthz /status /status.json\n");
                let location = HeaderValue::from_static("/status");
                response.headers_mut().insert(header::LOCATION, location);
                response
            }
            _ => {
                let what = "not found: there are /metrics, /healthz, /status and /status.json\n";
                text(StatusCode::NOT_FOUND, what)
            }
        }
    }

    async fn health(&self) -> health::Health {
        let is_stopping = *self.stop.borrow();
        health::check_all(&self.context, self.tls.as_deref(), is_stopping).await
    }

    fn levels(&self) -> GaugeValues {
        let (memory, max_memory) = self.context.memory.in_use();
        let lots = self.context.lots.as_ref().map(|lots| lots.totals());
        let (lots, lots_reserved, lots_used) = lots.unwrap_or_default();
        GaugeValues {
            memory,
            max_memory,
            max_connections: self.connections.limit() as u64,
            connections_evicted: self.connections.evicted(),
            connections_refused: self.connections.refused(),
            heads_refused: self.context.memory.heads_refused(),
            lots,
            lots_reserved,
            lots_used,
            lines_lost: self.context.records.log.lost(),
            uptime_seconds: self.began.elapsed().as_secs(),
            copies: self.context.copies.totals(),
        }
    }

    async fn status(&self) -> Status<'_> {
        let has_lots = self.context.lots.is_some();
        let servers = self.context.backend.servers();
        Status::new(&self.urls, &self.stats, &self.levels(), has_lots, self.health().await)
            .with_servers(servers)
    }
}

fn json(value: &impl serde::Serialize) -> String {
    // All keys are text, so this cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", text.to_owned())
}

fn response(status: StatusCode, kind: &str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let fields = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::SERVER, concat!("hither/", env!("CARGO_PKG_VERSION"))),
    ];
    for (name, value) in fields {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
