//! Checks that hold for any bytes from a client: used by the fuzz target and its seeds.

use crate::rig::Served;
use std::io::{Read, Write};
use std::net::Shutdown;

/// The content of a file outside the tree, which no client may read.
const SECRET: &[u8] = b"nobody may see this";
const LENGTH: usize = 4_000;

/// A server with all features, with a secret file next to its tree.
pub(crate) fn served() -> Served {
    Served::new(|settings| {
        let folder = settings.root.clone();
        std::fs::write(folder.join("secret"), SECRET).unwrap();
        settings.root = folder.join("tree");
        std::fs::create_dir_all(settings.root.join("d/e")).unwrap();
        std::fs::write(settings.root.join("file"), [b'x'; LENGTH]).unwrap();
        std::fs::write(settings.root.join("d/file"), "inside").unwrap();
        std::os::unix::fs::symlink("../secret", settings.root.join("out")).unwrap();
        std::os::unix::fs::symlink("..", settings.root.join("d/up")).unwrap();
        (settings.write, settings.durable) = (true, false);
        settings.lots = Some(lots());
        settings.limits.document_bytes = 4 << 10;
        settings.limits.file_bytes = Some(1 << 20);
    })
}

fn lots() -> hither_server::LotSettings {
    let text = "root = '/'\n[lots]\nbytes = 1000000\ncount = 5\nallocate = false";
    hither_server::Settings::from_toml(text).unwrap().lots.unwrap()
}

/// Sends bytes over a connection, and checks that the connection ends, that no response is a server
/// error or contains the secret, and that the server still works.
pub(crate) fn requests(served: &Served, data: &[u8]) {
    let mut stream = served.connect();
    // The server may refuse a request before it has read all of it.
    let _ = stream.write_all(data).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut came = Vec::new();
    if let Err(error) = stream.read_to_end(&mut came) {
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "the connection does not end");
    }
    // A message may quote the client, and a fuzzer can find the secret.
    let tells = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET);
    assert!(tells(data) || !tells(&came));
    let mut at = 0;
    while let Some(found) =
        came.get(at..).and_then(|rest| rest.windows(9).position(|w| w == b"HTTP/1.1 "))
    {
        at += found + 9;
        let status = came.get(at..at + 3).unwrap_or_default();
        let fine =
            status.first() != Some(&b'5') || matches!(status, b"501" | b"502" | b"505" | b"507");
        assert!(fine, "{}", String::from_utf8_lossy(&came[at..]));
    }
    assert_eq!(served.ask("OPTIONS", "/", &[], b"").status, 200);
}
