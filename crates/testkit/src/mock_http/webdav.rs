//! A WebDAV server in memory whose treatment of changes is programmable: login pages, claims that
//! are not true, responses that are lost, files that are stored in part.

use super::connection::{read_body, read_head};
use crate::test_server::TestServer;
use hither_core::sync::lock;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The page behind a redirect to [`ChangeFault::Login`].
pub const LOGIN_PAGE: &str = "<html><title>Sign in</title><form></form></html>";

/// The treatment of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeFault {
    /// Redirects to a page of HTML with this status.
    Login(u16),
    /// Does nothing, and responds with this status, type and body.
    Claim(u16, &'static str, &'static str),
    /// Carries it out, and responds with this status, type and body.
    Done(u16, &'static str, &'static str),
    /// Redirects to the same change at another path of this server, which carries it out.
    Moved(u16),
    /// Carries out the first one and closes the connection without a response.
    Lost,
    /// Does nothing with the first one, and closes the connection without a response.
    Dropped,
    /// As [`ChangeFault::Lost`]; then another client makes a file of the name that was removed.
    LostAndMadeAgain,
    /// Stores half of a body.
    Half,
}

/// The requests to which the server tells the sizes of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SizesTold {
    /// All of them.
    #[default]
    Always,
    /// GET of a range. HEAD says 0, PROPFIND nothing.
    ByGet,
    /// None.
    Never,
}

/// A file; a directory has no bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Resource {
    bytes: Option<Vec<u8>>,
    version: usize,
}

#[derive(Debug, Default)]
struct State {
    resources: BTreeMap<String, Resource>,
    versions: usize,
    /// The fault of changes with this method.
    fault: Option<(&'static str, ChangeFault)>,
    faults_done: usize,
    sizes: SizesTold,
    log: Vec<(String, String)>,
}

/// The server.
#[derive(Debug)]
pub struct MockWebDavServer {
    running: TestServer,
    state: Arc<Mutex<State>>,
}

impl MockWebDavServer {
    /// Starts a server with the directory `/d/` on a free port of 127.0.0.1. Changes with the
    /// method of `fault` are treated by it.
    ///
    /// # Errors
    ///
    /// No socket, runtime or thread can be created.
    pub fn start(fault: Option<(&'static str, ChangeFault)>) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(State { fault, ..State::default() }));
        for directory in ["/", "/d/"] {
            lock(&state).insert(directory, None);
        }
        let shared = Arc::clone(&state);
        let running = TestServer::start("webdav", |listener| serve(listener, shared))?;
        Ok(Self { running, state })
    }

    /// The URL of a path.
    #[must_use]
    pub fn url_of(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.address())
    }

    /// Stores a file, as another client would.
    pub fn store(&self, path: &str, bytes: &[u8]) {
        self.state().insert(path, Some(bytes.to_vec()));
    }

    /// Tells sizes to these requests from now on.
    pub fn tell_sizes(&self, sizes: SizesTold) {
        self.state().sizes = sizes;
    }

    /// The paths of all files and directories but those that are always there.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let state = self.state();
        let paths = state.resources.keys().filter(|path| !matches!(&***path, "/" | "/d/"));
        paths.cloned().collect()
    }

    /// The bytes of a file.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.state().resources.get(path)?.bytes.clone()
    }

    /// The number of requests with this method that have arrived.
    #[must_use]
    pub fn count(&self, method: &str) -> usize {
        self.state().log.iter().filter(|(seen, _)| seen == method).count()
    }

    /// All requests that have arrived: methods and paths.
    #[must_use]
    pub fn log(&self) -> Vec<(String, String)> {
        self.state().log.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A request.
#[derive(Debug)]
struct Request {
    method: String,
    path: String,
    head: String,
    body: Vec<u8>,
}

impl Request {
    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    fn is_change(&self) -> bool {
        matches!(&*self.method, "PUT" | "MOVE" | "COPY" | "DELETE" | "MKCOL")
    }
}

/// A response; none closes the connection.
type Response = Option<(u16, String, Vec<u8>)>;

fn plain(status: u16) -> Response {
    Some((status, String::new(), Vec::new()))
}

impl State {
    fn insert(&mut self, path: &str, bytes: Option<Vec<u8>>) {
        self.versions += 1;
        let version = self.versions;
        self.resources.insert(path.to_owned(), Resource { bytes, version });
    }

    fn respond(&mut self, request: &Request) -> Response {
        self.log.push((request.method.clone(), request.path.clone()));
        if request.path == "/login" {
            return page(200, "text/html", LOGIN_PAGE);
        }
        let here = request.path.strip_prefix("/elsewhere").unwrap_or(&request.path).to_owned();
        let is_elsewhere = here != request.path;
        let fault = self.fault.filter(|(method, _)| *method == request.method && !is_elsewhere);
        let Some((_, fault)) = fault.filter(|_| request.is_change()) else {
            return self.carry_out(&here, request);
        };
        let is_first = self.faults_done == 0;
        self.faults_done += 1;
        let to = |status, path: &str| Some((status, format!("Location: {path}\r\n"), Vec::new()));
        match fault {
            ChangeFault::Login(status) => to(status, "/login"),
            ChangeFault::Moved(status) => to(status, &format!("/elsewhere{here}")),
            ChangeFault::Claim(status, kind, body) => page(status, kind, body),
            ChangeFault::Done(status, kind, body) => {
                self.carry_out(&here, request);
                page(status, kind, body)
            }
            ChangeFault::Half => {
                let half = request.body.get(..request.body.len() / 2).unwrap_or_default();
                self.insert(&here, Some(half.to_vec()));
                plain(201)
            }
            ChangeFault::Lost | ChangeFault::LostAndMadeAgain if is_first => {
                self.carry_out(&here, request);
                if fault == ChangeFault::LostAndMadeAgain {
                    self.insert(&here, Some(b"of another client".to_vec()));
                }
                None
            }
            ChangeFault::Dropped if is_first => None,
            _ => self.carry_out(&here, request),
        }
    }

    fn carry_out(&mut self, path: &str, request: &Request) -> Response {
        let key =
            if self.resources.contains_key(path) { path.to_owned() } else { format!("{path}/") };
        let found = self.resources.get(&key).cloned();
        match (&*request.method, found) {
            ("PROPFIND", Some(_)) => Some((
                207,
                "Content-Type: application/xml\r\n".to_owned(),
                self.multistatus(&key, request.field("depth") == Some("1")).into_bytes(),
            )),
            ("GET" | "HEAD", Some(Resource { bytes: Some(bytes), version })) => {
                let (first, last) = range(request.field("range"), bytes.len());
                let fields = format!("ETag: \"{version}\"\r\n");
                if request.method == "HEAD" && self.sizes != SizesTold::Always {
                    return Some((200, fields, Vec::new()));
                }
                if request.field("range").is_none() || bytes.is_empty() {
                    return Some((200, fields, bytes));
                }
                let total = match self.sizes {
                    SizesTold::Never => "*".to_owned(),
                    _ => bytes.len().to_string(),
                };
                let part = bytes.get(first..=last).unwrap_or_default().to_vec();
                let fields = format!("{fields}Content-Range: bytes {first}-{last}/{total}\r\n");
                Some((206, fields, part))
            }
            ("PUT", _) if request.field("content-range").is_some() => plain(501),
            ("PUT", found) => {
                self.insert(path, Some(request.body.clone()));
                plain(if found.is_some() { 204 } else { 201 })
            }
            ("MKCOL", None) => {
                self.insert(&format!("{}/", path.trim_end_matches('/')), None);
                plain(201)
            }
            ("DELETE", Some(Resource { version, .. })) => {
                if request.field("if-match").is_some_and(|tag| tag != format!("\"{version}\"")) {
                    return plain(412);
                }
                self.resources.retain(|name, _| {
                    *name != key && !(name.starts_with(&key) && key.ends_with('/'))
                });
                plain(204)
            }
            ("MOVE" | "COPY", Some(resource)) => self.transfer(&key, resource, request),
            ("MKCOL", Some(_)) => plain(405),
            (_, None) => plain(404),
            _ => plain(405),
        }
    }

    fn transfer(&mut self, from: &str, resource: Resource, request: &Request) -> Response {
        let destination = request.field("destination").unwrap_or_default();
        let to = destination.splitn(4, '/').nth(3).map(|path| format!("/{path}"));
        let to = to.unwrap_or_default();
        let is_new = !self.resources.contains_key(&to);
        if !is_new && request.field("overwrite") == Some("F") {
            return plain(412);
        }
        if request.method == "MOVE" {
            self.resources.remove(from);
        }
        self.insert(&to, resource.bytes);
        plain(if is_new { 201 } else { 204 })
    }

    fn multistatus(&self, of: &str, with_children: bool) -> String {
        let is_child = |path: &str| {
            let rest = path.strip_prefix(of).filter(|rest| !rest.is_empty());
            of.ends_with('/') && rest.is_some_and(|it| !it.trim_end_matches('/').contains('/'))
        };
        let shown = self
            .resources
            .iter()
            .filter(|(path, _)| *path == of || with_children && is_child(path));
        let responses: String = shown
            .map(|(path, Resource { bytes, version })| {
                let properties = match bytes {
                    None => "<D:resourcetype><D:collection/></D:resourcetype>".to_owned(),
                    Some(_) if self.sizes != SizesTold::Always => {
                        format!("<D:resourcetype/><D:getetag>\"{version}\"</D:getetag>")
                    }
                    Some(bytes) => format!(
                        "<D:resourcetype/><D:getcontentlength>{}</D:getcontentlength>\
                         <D:getetag>\"{version}\"</D:getetag>",
                        bytes.len()
                    ),
                };
                format!(
                    "<D:response><D:href>{path}</D:href><D:propstat><D:prop>{properties}</D:prop>\
                     <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
                )
            })
            .collect();
        format!(
            "<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\">{responses}</D:multistatus>"
        )
    }
}

fn page(status: u16, kind: &str, body: &str) -> Response {
    Some((status, format!("Content-Type: {kind}\r\n"), body.as_bytes().to_vec()))
}

/// The first and the last byte of a `Range` of `bytes=A-B` or `bytes=A-`.
fn range(text: Option<&str>, length: usize) -> (usize, usize) {
    let text = text.and_then(|text| text.strip_prefix("bytes=")).unwrap_or("0-");
    let (first, last) = text.split_once('-').unwrap_or((text, ""));
    let end = length.saturating_sub(1);
    (first.parse().unwrap_or(0), last.parse().unwrap_or(end).min(end))
}

async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        connections.spawn(async move { serve_connection(stream, &state).await });
    }
}

/// Serves a connection until it is to be closed.
async fn serve_connection(mut stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut received = Vec::new();
    loop {
        let head = read_head(&mut stream, &mut received).await.ok()??;
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut words = head.split(' ');
        let method = words.next()?.to_owned();
        let path = words.next()?.to_owned();
        let mut request = Request { method, path, head, body: Vec::new() };
        let length = request.field("content-length").and_then(|it| it.parse().ok());
        let length: usize = length.unwrap_or_default();
        if request.field("expect").is_some() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
        }
        request.body = read_body(&mut stream, &mut received, length).await.ok()??;
        let (status, fields, body) = lock(state).respond(&request)?;
        let is_bare = status == 204;
        let length = format!("Content-Length: {}\r\n", body.len());
        let length = if is_bare { "" } else { &length };
        let head = format!("HTTP/1.1 {status} Status\r\n{fields}{length}\r\n");
        stream.write_all(head.as_bytes()).await.ok()?;
        if request.method != "HEAD" && !is_bare {
            stream.write_all(&body).await.ok()?;
        }
    }
}
