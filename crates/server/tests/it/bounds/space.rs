//! Disk space of uploads: only received bytes, above a minimum of free space, and a bounded number
//! of partial files.

use crate::memory::{HELD, MemoryBackend};
use crate::reading::trees::records;
use crate::rig::{Served, reply};
use crate::writing::trees::{file, posted, stream};
use hither_http::tree::TreeRecord;
use hither_testkit::waiting::wait_until;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::Arc;

fn name(number: u32) -> String {
    format!("/.hither-{number:016x}.part")
}

fn part(served: &Served, name: &str, place: &str, body: &[u8]) -> u16 {
    served.ask("PUT", name, &[&format!("Content-Range: bytes {place}")], body).status
}

/// The bytes of the file system. Other tests change how many of them are free.
fn total(served: &Served) -> u64 {
    let fs = rustix::fs::statvfs(served.path()).unwrap();
    fs.f_blocks * fs.f_frsize
}

/// The free bytes of the file system.
fn free(served: &Served) -> u64 {
    let fs = rustix::fs::statvfs(served.path()).unwrap();
    fs.f_bavail * fs.f_frsize
}

#[test]
fn one_byte_of_a_large_file_takes_one_block() {
    let served = Served::new(|settings| settings.write = true);
    let total = free(&served) / 2;
    assert_eq!(part(&served, &name(1), &format!("0-0/{total}"), b"x"), 204);
    let last = format!("{0}-{0}/{total}", total - 1);
    assert_eq!(part(&served, &name(1), &last, b"x"), 204);
    let meta = std::fs::metadata(served.path().join(&name(1)[1..])).unwrap();
    assert_eq!(meta.len(), total);
    assert!(meta.blocks() * 512 <= 64 << 10, "{} blocks", meta.blocks());
}

#[test]
fn a_large_length_takes_no_space_before_its_data() {
    let served = Served::new(|settings| settings.write = true);
    let before = free(&served);
    // More than other programs can allocate on the disk meanwhile.
    let length = before / 2;
    let _stream = begun(&served, "/file", length);
    assert!(free(&served) > before - length / 2, "{} of {before} bytes free", free(&served));
}

#[test]
fn what_cannot_fit_is_refused_at_once_and_leaves_nothing() {
    for floor in [None, Some(u64::MAX)] {
        let served = Served::new(|settings| {
            settings.write = true;
            settings.limits.min_free_bytes = floor;
        });
        let size = if floor.is_some() { 10 } else { total(&served) + 1 };
        let mut stream = served.connect();
        let head = format!(
            "PUT /file HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {size}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let told = reply(&mut stream);
        assert_eq!(told.status, 507, "{}", told.head);
        assert!(told.text().contains("bytes are free for uploads"), "{}", told.text());
        assert_eq!(part(&served, &name(1), &format!("0-0/{size}"), b"x"), 507);
        assert_eq!(served.names(), [""; 0]);
        if floor.is_some() {
            let mut stream = served.connect();
            let head = "PUT /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked";
            stream.write_all(format!("{head}\r\n\r\n1\r\nx\r\n0\r\n\r\n").as_bytes()).unwrap();
            assert_eq!(reply(&mut stream).status, 507);
            assert_eq!(served.ask("PUT", "/empty", &[], b"").status, 201);
            served.file("file", b"0123456789");
            assert_eq!(served.ask("COPY", "/file", &["Destination: /copy"], b"").status, 507);
        }
    }
}

#[test]
fn unfinished_parts_are_bounded_for_each_client() {
    let served = Served::new(|settings| {
        settings.write = true;
        settings.limits.unfinished_files = 2;
        settings.limits.unfinished_bytes = Some(10);
    });
    let begin = |number| part(&served, &name(number), "0-0/3", b"x");
    assert_eq!((begin(1), begin(2), begin(3)), (204, 204, 507));
    assert_eq!(begin(1), 204, "a part that is counted goes on");
    assert_eq!(part(&served, &name(4), "0-0/11", b"x"), 507);
    assert_eq!(served.ask("MOVE", &name(1), &["Destination: /file"], b"").status, 201);
    assert_eq!((begin(3), begin(4)), (204, 507));
    assert_eq!(served.ask("DELETE", &name(2), &[], b"").status, 204);
    assert_eq!((begin(4), begin(5)), (204, 507));
    // Files removed outside the server: detected when the limit is reached.
    std::fs::remove_file(served.path().join(&name(3)[1..])).unwrap();
    assert_eq!((begin(5), begin(6)), (204, 507));
}

#[test]
fn unfinished_bytes_are_counted_as_they_become_known() {
    let served = Served::new(|settings| {
        settings.write = true;
        settings.limits.unfinished_bytes = Some(10);
    });
    let chunked = |number, bytes: usize| {
        let (mut stream, path, body) = (served.connect(), name(number), "x".repeat(bytes));
        let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let body = format!("Transfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n{body}\r\n0\r\n\r\n");
        stream.write_all((head + &body).as_bytes()).unwrap();
        reply(&mut stream).status
    };
    assert_eq!((chunked(1, 11), chunked(2, 6), chunked(3, 5)), (507, 201, 507));
    assert_eq!((chunked(2, 6), chunked(3, 4)), (204, 201), "what was refused takes nothing");
    assert_eq!(part(&served, &name(4), "0-0/1", b"x"), 507);
    assert_eq!(served.ask("DELETE", &name(3), &[], b"").status, 204);
    let size = |size| part(&served, &name(4), &format!("0-0/{size}"), b"x");
    assert_eq!((size(1), size(4), size(5), size(4)), (204, 204, 507, 204));
    assert_eq!((chunked(2, 7), chunked(2, 6)), (507, 204));
}

/// Begins a PUT of a file of this length, and waits until the server wants its bytes.
fn begun(served: &Served, name: &str, length: u64) -> TcpStream {
    let mut stream = served.connect();
    let head = format!(
        "PUT {name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[test]
fn unfinished_bytes_of_bodies_that_are_arriving_are_counted() {
    let served = Served::new(|settings| {
        settings.write = true;
        settings.limits.unfinished_bytes = Some(10);
    });
    let put = |number, bytes: &[u8]| served.ask("PUT", &name(number), &[], bytes).status;
    let mut one = begun(&served, &name(1), 6);
    let other = begun(&served, &name(2), 4);
    // Neither has a name yet.
    assert_eq!(put(3, b"x"), 507);
    one.write_all(b"123456").unwrap();
    assert_eq!((reply(&mut one).status, put(3, b"x")), (201, 507));
    drop(other);
    assert!(wait_until(|| put(3, b"1234") == 201), "what was broken off takes nothing");
    assert_eq!(put(4, b"x"), 507);
}

#[test]
fn a_copy_to_the_name_of_a_partial_file_is_counted_while_it_runs() {
    let memory = MemoryBackend::default();
    let served = Served::over(Arc::new(memory.clone()), Box::new(memory.clone()), |settings| {
        settings.write = true;
        settings.limits.unfinished_files = 1;
    });
    served.file(HELD, b"1");
    let put = || served.ask("PUT", &name(2), &[], b"1").status;
    let to = format!("Destination: {}", name(1));
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| served.ask("COPY", &format!("/{HELD}"), &[&to], b"").status);
        let has_begun = wait_until(|| memory.held_copies() == 1);
        let refused = put();
        memory.release_copy();
        let copied = copying.join().unwrap();
        assert_eq!((has_begun, refused, copied), (true, 507, 201));
    });
    assert_eq!(put(), 507);
}

#[test]
fn partial_files_of_all_kinds_are_counted() {
    let served = Served::new(|settings| {
        settings.write = true;
        settings.limits.unfinished_files = 4;
    });
    for name in ["file", "other", "more", "folder/file"] {
        served.file(name, b"1");
    }
    let put = |number| served.ask("PUT", &name(number), &[], b"1").status;
    let from = |method: &str, from: &str, number| {
        let to = format!("Destination: {}", name(number));
        served.ask(method, from, &[&to], b"").status
    };
    let tree = |number| {
        let path = name(number);
        let reply = posted(&served, "/", &stream(&[file(&path[1..], b"1")]));
        match records(&reply).first() {
            Some(TreeRecord::Failed { status, .. }) => *status,
            _ => reply.status,
        }
    };
    assert_eq!((put(1), tree(2)), (201, 200));
    assert_eq!((from("COPY", "/file", 3), from("MOVE", "/other", 4)), (201, 201));
    assert_eq!((put(5), tree(5), part(&served, &name(5), "0-0/3", b"x")), (507, 507, 507));
    assert_eq!((from("COPY", "/file", 5), from("MOVE", "/more", 5)), (507, 507));
    // It stays one.
    assert_eq!((from("MOVE", &name(1), 5), put(1)), (201, 507));
    assert_eq!(served.ask("MOVE", &name(5), &["Destination: /done"], b"").status, 201);
    assert_eq!((put(1), put(6)), (201, 507));
    // Files below such a name would be hidden and not counted.
    assert_eq!(served.ask("MKCOL", &name(7), &[], b"").status, 403);
    assert_eq!((from("COPY", "/folder", 7), from("MOVE", "/folder", 7)), (403, 403));
}

#[test]
fn pipes_and_sockets_are_not_replaced() {
    let served = Served::new(|settings| settings.write = true);
    let pipe = served.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let socket = served.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    served.file("file", b"1");
    for target in ["/pipe", "/socket"] {
        assert_eq!(served.ask("PUT", target, &[], b"x").status, 409, "{target}");
        for method in ["COPY", "MOVE"] {
            let to = format!("Destination: {target}");
            assert_eq!(served.ask(method, "/file", &[&to], b"").status, 409, "{method} {target}");
        }
    }
    assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo());
    assert!(socket.symlink_metadata().unwrap().file_type().is_socket());
    assert_eq!(served.get("/file", &[]).text(), "1");
}

#[test]
fn a_tree_that_moves_made_deep_is_removed() {
    let served = Served::new(|settings| settings.write = true);
    let deep = |name: &str| std::fs::create_dir_all(served.path().join(name)).unwrap();
    deep(&format!("a{}", "/x".repeat(100)));
    deep(&format!("b{}", "/y".repeat(100)));
    let to = format!("Destination: /a{}/b", "/x".repeat(100));
    assert_eq!(served.ask("MOVE", "/b", &[&to], b"").status, 201);
    assert_eq!(served.ask("DELETE", "/a", &[], b"").status, 204);
    assert_eq!(served.names(), [""; 0]);
}
