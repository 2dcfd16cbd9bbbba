//! A server over a temporary folder, and a client that sends exactly the given bytes.

use hither_server::{Authorizer, Backend, Server, Settings};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The time limit of a read: longer than any test, so that a hanging test ends.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A server that runs until this value is dropped.
pub(crate) struct Served {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) server: Option<Server>,
    /// The files of the backend, if it is not the folder.
    files: Option<Box<dyn BackendFiles>>,
}

/// Direct access to the files of a backend.
pub(crate) trait BackendFiles: Send + Sync {
    /// Writes a file.
    fn write(&self, name: &str, content: &[u8]);
    /// The sorted names in the root.
    fn names(&self) -> Vec<String>;
}

/// A response.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a header field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn settings(folder: &Path) -> Settings {
    let mut settings = Settings::new(folder);
    settings.listen = vec!["127.0.0.1:0".parse().unwrap()];
    settings.limits.stop_seconds = 1.0;
    // Tests must not depend on the free space of the disk.
    settings.limits.min_free_bytes = Some(0);
    settings
}

impl Served {
    pub(crate) fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path());
        change(&mut settings);
        let server = Some(Server::start(settings).unwrap());
        Self { folder, server, files: None }
    }

    /// A server with a backend other than the folder.
    pub(crate) fn over(
        backend: Arc<dyn Backend>,
        files: Box<dyn BackendFiles>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(Path::new(""));
        change(&mut settings);
        let server = Some(Server::start_with_backend(settings, backend).unwrap());
        Self { folder, server, files: Some(files) }
    }

    /// The sorted names in the root.
    pub(crate) fn names(&self) -> Vec<String> {
        if let Some(files) = &self.files {
            return files.names();
        }
        let entries = std::fs::read_dir(self.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A server with an authorizer other than that of its settings, which allows listings of
    /// infinite depth, and has metrics.
    pub(crate) fn with(authorizer: Arc<dyn Authorizer>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path());
        settings.limits.infinite_depth = true;
        settings.metrics = Some("127.0.0.1:0".parse().unwrap());
        let server = Server::start_with(settings, authorizer).unwrap();
        Self { folder, server: Some(server), files: None }
    }

    /// Stops the server; the folder remains.
    pub(crate) fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stopper().stop();
            server.wait();
        }
    }

    pub(crate) fn for_reading() -> Self {
        Self::new(|_| {})
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.as_ref().unwrap().addresses()[0].port()
    }

    /// Writes a file without the server, with a time so old that any change gives it another time.
    pub(crate) fn file(&self, name: &str, content: &[u8]) {
        if let Some(files) = &self.files {
            return files.write(name, content);
        }
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(100)).unwrap();
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Sends a request with these fields (`Name: value`) on a new connection.
    pub(crate) fn ask(&self, method: &str, target: &str, fields: &[&str], body: &[u8]) -> Reply {
        let mut stream = self.connect();
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        for field in fields {
            head.push_str(field);
            head.push_str("\r\n");
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // A server may respond with an error before it has read the whole body.
        let _ = stream.write_all(body);
        reply(&mut stream)
    }

    pub(crate) fn get(&self, target: &str, fields: &[&str]) -> Reply {
        self.ask("GET", target, fields, b"")
    }

    /// The version of a file.
    pub(crate) fn etag(&self, target: &str) -> String {
        self.ask("HEAD", target, &[], b"").field("etag").unwrap().to_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Writes a file that only its owner may read, as required for keys.
pub(crate) fn write_private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// Reads a response until the end of the connection.
pub(crate) fn reply(stream: &mut TcpStream) -> Reply {
    let mut all = Vec::new();
    // The connection may be reset after the response.
    let ended = stream.read_to_end(&mut all);
    let end = all.windows(4).position(|four| four == b"\r\n\r\n");
    let end =
        end.unwrap_or_else(|| panic!("no head in {:?}: {ended:?}", String::from_utf8_lossy(&all)));
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut reply = Reply { status, head, body: all[end + 4..].to_vec() };
    if reply.field("transfer-encoding") == Some("chunked") {
        reply.body = unchunked(&reply.body);
    }
    reply
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 4 + size..];
    }
}
