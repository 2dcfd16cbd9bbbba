//! What is told about the server itself, at an address of its own: metrics, health, and a status page.
//!
//! It is another address because it is for others: who may read files is no concern of it, it asks for no token and speaks no
//! TLS, and tells names of files and how much they are read. So it should be one that only the context can reach. It also
//! answers when the server itself cannot: all its connections may be taken, or its certificate be wrong.
//!
//! | path | answer |
//! |---|---|
//! | `/metrics` | for Prometheus, text format 0.0.4 |
//! | `/healthz` | JSON, 200 or 503 |
//! | `/status` | a page for people that keeps itself up to date |
//! | `/status.json` | what it shows |

use crate::connection::tls::CertificateReloader;
use crate::context::ServerContext;
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
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

/// Connections at a time.
const CONNECTIONS: usize = 64;
/// How long one may be idle, and last in all: the page asks anew.
const IDLE: Duration = Duration::from_secs(30);
const MAX_AGE: Duration = Duration::from_secs(600);
const JSON: &str = "application/json";

/// See the module above.
#[derive(Debug)]
pub(crate) struct AdminServer {
    pub(crate) context: Arc<ServerContext>,
    pub(crate) meters: Arc<ServerStats>,
    pub(crate) tls: Option<Arc<CertificateReloader>>,
    pub(crate) stop: watch::Receiver<bool>,
    /// Where the server listens.
    pub(crate) urls: Vec<String>,
    /// How many connections it takes.
    pub(crate) connections: usize,
    pub(crate) began: Instant,
}

impl AdminServer {
    /// Answers until the runtime ends: also while the server is being stopped.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                // As long as the process is out of files.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let monitor = Arc::clone(&self);
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let monitor = Arc::clone(&monitor);
                    async move { Ok::<_, Infallible>(monitor.answer(&request).await) }
                });
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(IDLE);
                let connection = http.serve_connection(TokioIo::new(stream), service);
                // Whoever breaks off has what they wanted.
                let _ = timeout(MAX_AGE, connection).await;
                drop(place);
            });
        }
    }

    /// Samples what the status page shows.
    pub(crate) async fn sample(self: Arc<Self>) {
        let mut tick = tokio::time::interval(TICK);
        loop {
            tick.tick().await;
            let metrics = &self.meters.metrics;
            self.meters.recent.tick(WindowTotals {
                sent: metrics.sent.get(),
                received: metrics.received.get(),
                requests: metrics.requests(),
                failures: metrics.failures(),
            });
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer =
                text(StatusCode::METHOD_NOT_ALLOWED, "this address answers GET and HEAD\n");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match request.uri().path() {
            "/metrics" => {
                let text = self.meters.metrics.text(&self.levels());
                answer(StatusCode::OK, metrics::MEDIA_TYPE, text)
            }
            "/healthz" => {
                let health = self.health().await;
                let status = match health.healthy {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                answer(status, JSON, json(&health) + "\n")
            }
            "/status.json" => answer(StatusCode::OK, JSON, json(&self.status().await)),
            "/status" => {
                let page = status_page::page(&json(&self.status().await));
                let mut answer = answer(StatusCode::OK, "text/html; charset=utf-8", page);
                if let Ok(policy) = HeaderValue::from_str(&status_page::policy()) {
                    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
                }
                answer
            }
            "/" => {
                let mut answer =
                    text(StatusCode::FOUND, "/metrics /healthz /status /status.json\n");
                answer.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/status"));
                answer
            }
            _ => {
                let there = "not found: there are /metrics, /healthz, /status and /status.json\n";
                text(StatusCode::NOT_FOUND, there)
            }
        }
    }

    async fn health(&self) -> health::Health {
        let is_stopping = *self.stop.borrow();
        health::look(&self.context, self.tls.as_deref(), is_stopping).await
    }

    fn levels(&self) -> GaugeValues {
        let (memory, max_memory) = self.context.memory.in_use();
        let lots = self.context.space.lots().map(|lots| lots.totals());
        let (lots, lots_reserved, lots_used) = lots.unwrap_or_default();
        GaugeValues {
            memory,
            max_memory,
            max_connections: self.connections as u64,
            lots,
            lots_reserved,
            lots_used,
            lines_lost: self.context.records.log.lost(),
            uptime_seconds: self.began.elapsed().as_secs(),
            copies: self.context.copies.totals(),
        }
    }

    async fn status(&self) -> Status<'_> {
        let has_lots = self.context.space.lots().is_some();
        Status::new(&self.urls, &self.meters, &self.levels(), has_lots, self.health().await)
    }
}

fn json(value: &impl serde::Serialize) -> String {
    // Nothing here has keys that are no text.
    serde_json::to_string(value).unwrap_or_default()
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    answer(status, "text/plain; charset=utf-8", text.to_owned())
}

fn answer(status: StatusCode, kind: &str, text: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    let fields = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::SERVER, concat!("hither/", env!("CARGO_PKG_VERSION"))),
    ];
    for (name, value) in fields {
        if let Ok(value) = HeaderValue::from_str(value) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}
