//! Uploads of many files in one request, compared with individual requests.

use crate::memory::on_each_backend;
use crate::reading::trees::{path, records};
use crate::rig::{Reply, Served, reply};
use hither_core::storage::partial_name;
use hither_http::tree::{
    MAX_CONTENT_BYTES, MAX_PATHS, TREE_TYPE, TreeEntry, TreeRecord, TreeWriter,
};
use hither_server::{AccessRequest, Action, Authorizer, Decision, PrepareFuture, Settings};
use http::{HeaderMap, StatusCode};
use std::convert::Infallible;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Refuses paths by their names: `secret` to all clients, `stranger` to anonymous ones, and changes
/// of existing files below `append`.
#[derive(Debug)]
struct ByName;

impl Authorizer for ByName {
    fn decide(&self, asking: &AccessRequest<'_>) -> Decision {
        let refused = |status, challenge| Decision::Refused {
            status,
            reason: format!("{:?} is not allowed here", asking.action),
            challenge,
        };
        match asking.path {
            path if path.contains("stranger") => {
                refused(StatusCode::UNAUTHORIZED, Some("Bearer".to_owned()))
            }
            path if path.contains("secret") => refused(StatusCode::FORBIDDEN, None),
            path if path.starts_with("append") && asking.action == Action::Modify => {
                refused(StatusCode::FORBIDDEN, None)
            }
            _ => Decision::Allowed,
        }
    }

    fn writes(&self) -> bool {
        true
    }

    fn hides(&self) -> bool {
        true
    }

    fn name(&self, _: &AccessRequest<'_>) -> Result<String, Decision> {
        Ok("anybody".to_owned())
    }

    fn prepare(&self, _: &HeaderMap) -> Option<PrepareFuture> {
        None
    }
}

/// A file to write; without content, a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Upload<'a> {
    path: &'a str,
    content: Option<&'a [u8]>,
    only_new: bool,
    etag: &'a str,
}

pub(crate) fn file<'a>(path: &'a str, content: &'a [u8]) -> Upload<'a> {
    Upload { path, content: Some(content), only_new: false, etag: "" }
}

fn directory(path: &str) -> Upload<'_> {
    Upload { path, content: None, only_new: false, etag: "" }
}

pub(crate) fn stream(uploads: &[Upload<'_>]) -> Vec<u8> {
    let mut writer = TreeWriter::default();
    let mut out = Vec::new();
    for Upload { path, content, only_new, etag } in uploads {
        let size = content.map_or(0, |content| content.len() as u64);
        let (path, etag) = ((*path).to_owned(), (*etag).to_owned());
        let entry = TreeEntry { path, size, only_new: *only_new, etag, ..TreeEntry::default() };
        let Some(content) = content else {
            writer.directory(&entry, &mut out);
            continue;
        };
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(content);
            Ok::<_, Infallible>(())
        };
        writer.content(&entry, &mut out, write).unwrap();
    }
    writer.end(&mut out);
    out
}

pub(crate) fn posted(served: &Served, directory: &str, body: &[u8]) -> Reply {
    served.ask("POST", directory, &[&format!("Content-Type: {TREE_TYPE}")], body)
}

/// Sends the upload as an individual request.
fn alone(served: &Served, below: &str, upload: Upload<'_>) -> Reply {
    let target = format!("{below}{}", upload.path.replace('\n', "%0A"));
    let mut fields = Vec::new();
    if upload.only_new {
        fields.push("If-None-Match: *".to_owned());
    }
    if !upload.etag.is_empty() {
        fields.push(format!("If-Match: {}", upload.etag));
    }
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    match upload.content {
        Some(content) => served.ask("PUT", &target, &fields, content),
        None => served.ask("MKCOL", &target, &fields, b""),
    }
}

/// The status and reason of a result; for a success, the status of a PUT or MKCOL.
fn outcome(record: &TreeRecord, upload: Upload<'_>) -> (u16, String) {
    match record {
        TreeRecord::Stored(entry) if entry.replaced => (204, String::new()),
        TreeRecord::Stored(entry) => {
            assert_eq!(entry.size, upload.content.map_or(0, |content| content.len() as u64));
            (201, String::new())
        }
        TreeRecord::Failed { status, reason, .. } => (*status, format!("{reason}\n")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_and_directories_are_written_in_one_request() {
    let large = vec![7; MAX_CONTENT_BYTES as usize];
    let uploads = [
        directory("new"),
        directory("new/sub"),
        file("new/sub/file", b"hello"),
        file("new/empty", b""),
        file("large", &large),
        file("old", b"newer"),
    ];
    for served in on_each_backend(|settings| settings.write = true) {
        served.file("d/old", b"old");
        let reply = posted(&served, "/d/", &stream(&uploads));
        assert_eq!(reply.status, 200);
        let results = records(&reply);
        let paths: Vec<_> = results.iter().map(path).collect();
        assert_eq!(paths, uploads.map(|upload| upload.path));
        for (record, upload) in results.iter().zip(uploads) {
            let TreeRecord::Stored(entry) = record else { panic!("{record:?}") };
            assert_eq!(entry.replaced, upload.path == "old");
            let Some(content) = upload.content else { continue };
            let got = served.get(&format!("/d/{}", upload.path), &[]);
            assert_eq!((got.status, &*got.body), (200, content), "{}", upload.path);
            assert_eq!(got.field("etag").unwrap().trim_start_matches("W/"), entry.etag);
        }
        let head = served.ask("HEAD", "/d/new/sub/file", &["Want-Digest: adler32"], b"");
        assert_eq!(head.field("digest"), Some("adler32=062c0215"));
        // Sent again: nothing is new, and existing directories are not an error.
        let results = records(&posted(&served, "/d", &stream(&uploads)));
        assert!(results.iter().all(|it| matches!(it, TreeRecord::Stored(it) if it.replaced)));
    }
}

#[test]
fn times_and_the_right_to_execute_are_kept() {
    let served = Served::new(|settings| settings.write = true);
    let modified = UNIX_EPOCH + Duration::new(1_500_000_000, 123_456_789);
    for (name, mode, executable) in [("plain", 0o4666, false), ("script", 0o700, true)] {
        let (path, modified) = (name.to_owned(), Some(modified));
        let entry = TreeEntry { path, modified, mode: Some(mode), ..TreeEntry::default() };
        let (mut writer, mut out) = (TreeWriter::default(), Vec::new());
        writer.content(&entry, &mut out, |_| Ok::<_, Infallible>(())).unwrap();
        writer.end(&mut out);
        let results = records(&posted(&served, "/", &out));
        let TreeRecord::Stored(stored) = &results[0] else { panic!("{results:?}") };
        assert_eq!(stored.modified, modified);
        let metadata = fs::metadata(served.path().join(name)).unwrap();
        assert_eq!(metadata.modified().ok(), modified);
        let mode = metadata.permissions().mode();
        assert_eq!((mode & 0o100 != 0, mode & 0o7000), (executable, 0), "{mode:o}");
    }
}

/// A server with files, directories, links and a pipe, in the root and in `d`.
fn prepared() -> Served {
    let served = Served::with(Arc::new(ByName));
    for name in ["there", "folder/inner", "secret/inner", "append/there", "elsewhere/inner"] {
        served.file(&format!("d/{name}"), b"old");
        served.file(name, b"old");
    }
    for root in ["", "d"] {
        let root = served.path().join(root);
        symlink("there", root.join("link")).unwrap();
        symlink("folder", root.join("link-to-folder")).unwrap();
        symlink("/etc", root.join("link-out")).unwrap();
        let pipe = root.join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    served
}

#[test]
fn each_path_of_an_upload_is_decided_about_as_alone() {
    let hidden = partial_name(1);
    let deep = "d/".repeat(200);
    let long = "x".repeat(300);
    let only_new = |path| Upload { only_new: true, ..file(path, b"new") };
    let version = |path, etag| Upload { etag, ..file(path, b"new") };
    let uploads = [
        file("file", b"new"),
        file("there", b"new"),
        only_new("there"),
        only_new("fresh"),
        version("there", "\"other\""),
        version("none", "\"other\""),
        version("none", "\"damaged\u{1}\""),
        file("folder", b"new"),
        file("none/file", b"new"),
        file("there/below", b"new"),
        file("secret", b"new"),
        file("stranger", b"new"),
        file("append/fresh", b"new"),
        file("append/there", b"new"),
        file("pipe", b"new"),
        file("link", b"new"),
        file("link-to-folder/file", b"new"),
        file("link-out/file", b"new"),
        file("line\nbreak", b"new"),
        file(&long, b"new"),
        file(&hidden, b"new"),
        file(".hither-put-1", b"new"),
        directory("made"),
        directory("made/below"),
        directory("there"),
        directory("none/made"),
        directory("secret/made"),
        directory("stranger/made"),
        directory("link-to-folder/made"),
        directory("link-to-folder"),
        directory("append/made"),
        directory("line\nbreak"),
        directory(&long),
    ];
    for below in ["/", "/d/"] {
        let (together, one_by_one) = (prepared(), prepared());
        let results = records(&posted(&together, below, &stream(&uploads)));
        assert_eq!(results.len(), uploads.len());
        for (record, upload) in results.iter().zip(uploads) {
            assert_eq!(path(record), upload.path);
            if upload.etag.contains('\u{1}') {
                // A header field cannot contain this.
                assert_eq!(outcome(record, upload).0, 400);
                continue;
            }
            let told = alone(&one_by_one, below, upload);
            let said = if told.status < 300 { String::new() } else { told.text() };
            assert_eq!(outcome(record, upload), (told.status, said), "{upload:?}");
        }
        assert_eq!(listed(&together), listed(&one_by_one));
        // An existing directory needs no permission to create it.
        let results = records(&posted(&together, below, &stream(&[directory("folder")])));
        assert!(matches!(&results[0], TreeRecord::Stored(entry) if entry.replaced));
        let results = records(&posted(
            &together,
            below,
            &stream(&[directory("pipe"), file(&deep[..399], b"")]),
        ));
        assert!(matches!(&results[0], TreeRecord::Failed { status: 405, .. }), "{results:?}");
    }
}

/// All paths below the root, except for the database of lots, with the content of files.
fn listed(served: &Served) -> Vec<(String, Option<Vec<u8>>)> {
    let mut waiting = vec![served.path().to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if entry.file_name() == ".hither-put-lots" {
                continue;
            }
            if kind.is_dir() {
                waiting.push(entry.path());
            }
            let content = kind.is_file().then(|| fs::read(entry.path()).unwrap());
            let path = entry.path().strip_prefix(served.path()).unwrap().to_owned();
            found.push((path.to_str().unwrap().to_owned(), content));
        }
    }
    found.sort();
    found
}

#[test]
fn limits_hold_for_each_file_of_an_upload() {
    let content = [1; 5000];
    let uploads = [
        file("a/one", &content),
        directory("a/d"),
        file("a/two", &content),
        file("a/empty", b""),
        file("b", b"1"),
    ];
    let lots: fn(&mut Settings) = |settings| {
        settings.write = true;
        let text = "root = '/'\n[lots]\nbytes = 1000000000\nallocate = false";
        settings.lots = Settings::from_toml(text).unwrap().lots;
    };
    let small: fn(&mut Settings) = |settings| {
        settings.write = true;
        settings.limits.file_bytes = Some(4999);
    };
    let floor: fn(&mut Settings) = |settings| {
        settings.write = true;
        settings.limits.min_free_bytes = Some(u64::MAX);
    };
    for (limit, refused) in [(lots, 507), (small, 413), (floor, 507)] {
        let [together, one_by_one] = [(); 2].map(|()| {
            let served = Served::new(limit);
            let wanted = br#"{"path": "a", "bytes": 49152, "lease_seconds": 1000}"#;
            let made = served.ask("POST", "/.well-known/hither/lots", &[], wanted).status;
            assert!([201, 404, 405, 415].contains(&made), "{made}");
            fs::create_dir_all(served.path().join("a")).unwrap();
            served
        });
        let results = records(&posted(&together, "/", &stream(&uploads)));
        let outcomes: Vec<_> =
            results.iter().zip(uploads).map(|(record, upload)| outcome(record, upload)).collect();
        for (outcome, upload) in outcomes.iter().zip(uploads) {
            let told = alone(&one_by_one, "/", upload);
            assert_eq!(outcome.0, told.status, "{upload:?}: {}", told.text());
        }
        assert!(outcomes.iter().any(|(status, _)| *status == refused), "{outcomes:?}");
        assert_eq!(listed(&together), listed(&one_by_one));
    }
}

#[test]
fn a_client_that_is_unknown_for_every_path_gets_a_challenge() {
    let served = Served::with(Arc::new(ByName));
    let strangers = [file("stranger", b"1"), directory("strangers")];
    let reply = posted(&served, "/", &stream(&strangers));
    assert_eq!((reply.status, reply.field("www-authenticate")), (401, Some("Bearer")));
    let some = [file("stranger", b"1"), file("known", b"1")];
    let reply = posted(&served, "/", &stream(&some));
    assert_eq!(reply.status, 200);
    assert!(matches!(records(&reply)[0], TreeRecord::Failed { status: 401, .. }));
    assert_eq!(served.names(), ["known"]);
}

#[test]
fn what_came_before_the_end_of_a_broken_stream_is_done() {
    let uploads = [directory("d"), file("d/one", b"1"), file("d/two", b"22")];
    let whole = stream(&uploads);
    let mut flipped = whole.clone();
    let last = flipped.len() - 20;
    flipped[last] ^= 1;
    let many: Vec<String> = (0..=MAX_PATHS).map(|number| number.to_string()).collect();
    let many: Vec<_> = many.iter().map(|name| directory(name)).collect();
    let mut other = whole.clone();
    other.truncate(whole.len() - 17);
    TreeWriter::default().failed("x", 404, "none", &mut other);
    for served in on_each_backend(|it| (it.write, it.durable) = (true, false)) {
        for (body, status, done) in [
            (&whole[..whole.len() - 1], 400, 3),
            (&whole[..whole.len() - 30], 400, 2),
            (&flipped[..], 400, 2),
            (&[&whole[..], b"more"].concat(), 400, 3),
            (&stream(&many), 413, MAX_PATHS),
            (&other, 400, 2),
        ] {
            let reply = posted(&served, "/", body);
            assert_eq!((reply.status, records(&reply).len()), (status, done));
        }
        assert_eq!(posted(&served, "/", b"nothing of that kind").status, 400);
        assert_eq!(posted(&served, "/", b"").status, 400);
        assert_eq!(served.ask("POST", "/", &[], b"").status, 415);
        assert!(served.names().len() > 4000);
    }
}

#[test]
fn an_upload_that_stalls_ends_with_what_came() {
    let served = Served::new(|settings| {
        settings.write = true;
        settings.limits.stall_seconds = 0.3;
    });
    let body = stream(&[file("one", b"1"), file("two", b"2")]);
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: {TREE_TYPE}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let begin = |bytes: usize| {
        let mut stream = served.connect();
        stream.write_all(&[head.as_bytes(), &body[..bytes]].concat()).unwrap();
        stream
    };
    let stalled = reply(&mut begin(body.len() - 20));
    assert_eq!((stalled.status, records(&stalled).len()), (408, 1));
    // A client that disconnects gets no response, and leaves no hidden files.
    let mut gone = begin(10);
    gone.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = gone.read_to_end(&mut Vec::new());
    assert_eq!(served.names(), ["one"]);
}

#[test]
fn uploads_are_announced_by_servers_that_write() {
    for write in [false, true] {
        let served = Served::new(|settings| settings.write = write);
        let expected = write.then_some(TREE_TYPE);
        let name = "accept-post";
        assert_eq!(served.ask("OPTIONS", "/", &[], b"").field(name), expected);
        assert_eq!(served.ask("PROPFIND", "/", &["Depth: 0"], b"").field(name), expected);
        assert_eq!(served.ask("MKCOL", "/new", &[], b"").field(name), expected);
        let refused = posted(&served, "/", &stream(&[file("one", b"1")])).status;
        assert_eq!(refused, if write { 200 } else { 405 });
    }
}

#[test]
fn an_upload_needs_no_more_memory_than_there_is() {
    let served = Served::new(|settings| {
        settings.write = true;
        settings.limits.memory_bytes = 8 << 20;
    });
    let content = vec![3; MAX_CONTENT_BYTES as usize];
    let names: Vec<String> = (0..20).map(|number| format!("f{number}")).collect();
    let uploads: Vec<_> = names.iter().map(|name| file(name, &content)).collect();
    let body = stream(&uploads);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(records(&posted(&served, "/", &body)).len(), 20));
        }
    });
    assert_eq!(served.names().len(), 20);
}
