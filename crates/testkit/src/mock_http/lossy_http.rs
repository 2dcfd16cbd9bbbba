//! An HTTP server that loses connections: in the middle of a request, after it, or in the middle of
//! the response; or that never responds. It records the requests that have arrived completely,
//! which a real server would have executed.

use crate::mock_http::connection::{read_body, read_head};
use crate::test_server::TestServer;
use hither_core::sync::lock;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The reaction of the server to a request.
#[derive(Debug, Clone, Copy)]
pub enum LossyAct {
    /// Closes the connection when an eighth of the body has arrived. The buffers of both sides hold
    /// tens of megabytes, so half of the body may be sent although it is not read.
    HalfRead,
    /// Reads the whole request and closes the connection.
    Read,
    /// Reads the whole request, and neither responds nor closes the connection.
    Silence,
    /// Closes the connection in the middle of the response.
    HalfAnswered,
    /// Responds with this status, these header lines, and this body.
    Respond(u16, &'static str, &'static str),
}

/// Decides on a request by its method, its target, and the number of earlier requests with the same
/// method.
type Decide = dyn Fn(&str, &str, usize) -> LossyAct + Send + Sync;

/// The server.
#[derive(Debug)]
pub struct LossyHttpServer {
    running: TestServer,
    /// The number of requests that have arrived, by method.
    arrived: Arc<Mutex<HashMap<String, usize>>>,
}

impl LossyHttpServer {
    /// Starts the server on a free port of 127.0.0.1. `decide` gets the method of each request, its
    /// target, and the number of earlier requests with the same method.
    ///
    /// # Errors
    ///
    /// No socket, runtime or thread can be created.
    pub fn start(
        decide: impl Fn(&str, &str, usize) -> LossyAct + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let arrived = Arc::new(Mutex::new(HashMap::new()));
        let seen = Arc::clone(&arrived);
        let decide: Arc<Decide> = Arc::new(decide);
        let running = TestServer::start("lossy", |listener| serve(listener, seen, decide))?;
        Ok(Self { running, arrived })
    }

    /// The URL of a path.
    #[must_use]
    pub fn url_of(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.address())
    }

    /// The number of requests with this method that have arrived.
    #[must_use]
    pub fn count(&self, method: &str) -> usize {
        lock(&self.arrived).get(method).copied().unwrap_or_default()
    }
}

async fn serve(
    listener: TcpListener,
    arrived: Arc<Mutex<HashMap<String, usize>>>,
    decide: Arc<Decide>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let arrived = Arc::clone(&arrived);
        let decide = Arc::clone(&decide);
        connections.spawn(async move { serve_connection(stream, &arrived, &*decide).await });
    }
}

/// Serves a connection until it has to be closed.
async fn serve_connection(
    mut stream: TcpStream,
    arrived: &Mutex<HashMap<String, usize>>,
    decide: &Decide,
) -> Option<()> {
    let mut received = Vec::new();
    loop {
        let head = read_head(&mut stream, &mut received).await.ok()??;
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut words = head.split(' ');
        let method = words.next()?;
        let target = words.next()?;
        let nth = {
            let mut arrived = lock(arrived);
            let count = arrived.entry(method.to_owned()).or_default();
            *count += 1;
            *count - 1
        };
        let act = decide(method, target, nth);
        let lower = head.to_ascii_lowercase();
        let field = |name: &str| lower.lines().find_map(|line| line.strip_prefix(name));
        let length = field("content-length: ").and_then(|it| it.trim().parse().ok());
        let length: usize = length.unwrap_or_default();
        if field("expect: ").is_some() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
        }
        let wanted = if matches!(act, LossyAct::HalfRead) { length / 8 } else { length };
        read_body(&mut stream, &mut received, wanted).await.ok()??;
        let response = match act {
            LossyAct::HalfRead | LossyAct::Read => return None,
            LossyAct::Silence => std::future::pending().await,
            LossyAct::HalfAnswered => {
                "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nhalf".to_owned()
            }
            LossyAct::Respond(status, fields, body) => {
                let length = body.len();
                format!("HTTP/1.1 {status} OK\r\n{fields}Content-Length: {length}\r\n\r\n{body}")
            }
        };
        stream.write_all(response.as_bytes()).await.ok()?;
        if matches!(act, LossyAct::HalfAnswered) {
            return None;
        }
    }
}
