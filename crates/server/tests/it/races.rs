//! Clients that change the same names concurrently.

use crate::rig::{Served, reply};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Barrier, Mutex};

const LOTS: &str = "/.well-known/hither/lots";

fn served() -> Served {
    Served::new(|settings| {
        (settings.write, settings.durable) = (true, false);
        let text = "root = '/'\n[lots]\nbytes = 1000000000\nallocate = false";
        settings.lots = hither_server::Settings::from_toml(text).unwrap().lots;
    })
}

/// Runs `work` with its number in each of several threads that start together.
fn together(threads: usize, work: impl Fn(usize) + Sync) {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(number);
            });
        }
    });
}

#[test]
fn of_clients_that_replace_the_same_version_one_succeeds() {
    let served = served();
    for round in 0..30 {
        let name = format!("/file{round}");
        served.file(&name[1..], b"first");
        let tag = served.etag(&name);
        let matches = format!("If-Match: {tag}");
        served.file("moved", b"moved");
        let is_moved = [
            "Destination: ".to_owned() + &name,
            "Overwrite: T".to_owned(),
            format!("If: <{name}> ([{tag}])"),
        ];
        let replaced = Mutex::new(Vec::new());
        together(5, |number| {
            let body = vec![b'a' + u8::try_from(number).unwrap(); 50_000];
            let status = match number {
                0 => served.ask("DELETE", &name, &[&matches], b"").status,
                1 => served.ask("MOVE", "/moved", &is_moved.each_ref().map(|it| &**it), b"").status,
                _ => served.ask("PUT", &name, &[&matches], &body).status,
            };
            assert!(matches!(status, 204 | 404 | 412), "{status}");
            if status == 204 {
                replaced.lock().unwrap().push(number);
            }
        });
        assert_eq!(replaced.lock().unwrap().len(), 1);
    }
}

#[test]
fn of_clients_that_create_the_same_name_one_succeeds() {
    let served = served();
    for round in 0..20 {
        let name = format!("/file{round}");
        let made = Mutex::new(0);
        together(4, |number| {
            let status = match number {
                0 => served.ask("MKCOL", &name, &[], b"").status,
                _ => served.ask("PUT", &name, &["If-None-Match: *"], b"x").status,
            };
            assert!(matches!(status, 201 | 405 | 409 | 412), "{status}");
            *made.lock().unwrap() += usize::from(status == 201);
        });
        assert_eq!(*made.lock().unwrap(), 1);
    }
}

/// The disk usage of the files below a folder in blocks, and the number of all names including its
/// own.
fn on_disk(folder: &Path) -> (u64, u64) {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let below = entries.map(|entry| {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        if meta.is_dir() { on_disk(&entry.path()) } else { (meta.len().next_multiple_of(4096), 1) }
    });
    below.fold((0, 1), |all, one| (all.0 + one.0, all.1 + one.1))
}

#[test]
fn a_lot_holds_no_more_empty_files_and_directories_than_its_bytes_allow() {
    let served = served();
    let wanted = br#"{"path": "a", "bytes": 65536, "lease_seconds": 1000}"#;
    assert_eq!(served.ask("POST", LOTS, &[], wanted).status, 201);
    for (method, path, status) in [
        ("MKCOL", "/a", 201),
        ("PUT", "/a/one", 201),
        ("PUT", "/a/one", 204),
        ("MKCOL", "/a/d", 201),
        ("PUT", "/a/d/two", 201),
        ("PUT", "/a/d/three", 507),
        ("MKCOL", "/a/e", 507),
        ("PUT", "/elsewhere", 201),
        ("MOVE", "/elsewhere", 507),
        ("COPY", "/elsewhere", 507),
        ("DELETE", "/a/d", 204),
        ("MOVE", "/elsewhere", 201),
    ] {
        let told = served.ask(method, path, &["Destination: /a/moved"], b"");
        assert_eq!(told.status, status, "{method} {path}: {}", told.text());
        assert!(status != 507 || told.text().contains("4 files"), "{}", told.text());
    }
    let told = served.get(LOTS, &[]).text();
    assert!(told.contains(r#""used_bytes":0,"files":4,"used_files":3"#), "{told}");
}

#[test]
fn a_lot_counts_its_files_however_requests_race() {
    let served = served();
    for folder in ["a", "b"] {
        std::fs::create_dir(served.path().join(folder)).unwrap();
        let wanted =
            format!(r#"{{"path": "{folder}", "bytes": 400000000, "lease_seconds": 1000}}"#);
        assert_eq!(served.ask("POST", LOTS, &[], wanted.as_bytes()).status, 201);
    }
    let tree = ["/a/d", "/b/d", "/a/e"];
    together(6, |number| {
        let mut chance = number;
        for step in 0..40 {
            chance = (chance * 1_103_515_245 + 12_345) & 0x7fff_ffff;
            let (from, to) = (tree[chance / 8 % 3], tree[chance / 64 % 3]);
            let file = format!("{from}/file{}", chance / 512 % 2);
            let destination = format!("Destination: {to}");
            let within = format!("Destination: {to}/file{}", chance / 1024 % 2);
            let told = match (number + step) % 6 {
                0 => served.ask("MKCOL", from, &[], b""),
                1 | 2 => served.ask("PUT", &file, &[], &vec![1; chance / 4 % 90_000]),
                3 => served.ask("COPY", from, &[&destination], b""),
                4 if chance % 2 == 0 => served.ask("MOVE", from, &[&destination], b""),
                4 => served.ask("MOVE", &file, &[&within], b""),
                _ if chance % 3 == 0 => served.ask("DELETE", from, &[], b""),
                _ => served.ask("DELETE", &file, &[], b""),
            };
            assert!(told.status < 500, "{}", told.head);
        }
    });
    let told = served.get(LOTS, &[]).text();
    for folder in ["a", "b"] {
        let (used, names) = on_disk(&served.path().join(folder));
        let field = format!(
            r#""path":"/{folder}","bytes":400000000,"used_bytes":{used},"files":24415,"used_files":{names},"#
        );
        assert!(
            told.contains(&field),
            "{folder} uses {used} and {names} names, the lots say {told}"
        );
    }
    let hidden = std::fs::read_dir(served.path().join("a")).unwrap();
    assert!(
        hidden
            .flatten()
            .all(|entry| !entry.file_name().to_string_lossy().starts_with(".hither-put-"))
    );
}

/// The path of the partial file in the tests below.
const PART: &str = "/d/.hither-0123456789abcdef.part";

fn part(served: &Served, place: &str, body: &[u8]) -> u16 {
    served.ask("PUT", PART, &[&format!("Content-Range: bytes {place}")], body).status
}

/// Begins a PUT of the last four of eight bytes of a partial file; returns once the server has
/// opened the file.
fn begin_late_part(served: &Served, target: &str) -> TcpStream {
    let mut stream = served.connect();
    let head = format!(
        "PUT {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4\r\n\
         Content-Range: bytes 4-7/8\r\nExpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

/// The files below a folder, by path.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.to_str().unwrap().to_owned(), std::fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_late_part_reaches_no_file_under_another_name() {
    const AT_E: &str = "/e/.hither-0123456789abcdef.part";
    for changes in [
        &[("MOVE", PART, "/d/file")][..],
        &[("MOVE", PART, "/d/old")],
        &[("MOVE", "/d", "/e"), ("MOVE", AT_E, "/e/file")],
        &[("MOVE", "/d", "/e")],
        &[("DELETE", PART, "")],
        &[("DELETE", "/d", "")],
        &[("DELETE", PART, ""), ("PUT", PART, "")],
        &[("MOVE", "/d/old", PART)],
        &[("PUT", PART, "")],
        &[("COPY", "/d/old", PART)],
    ] {
        let served = Served::new(|settings| (settings.write, settings.durable) = (true, false));
        served.file("d/old", b"old");
        assert_eq!(part(&served, "0-3/8", b"good"), 204);
        let mut late = begin_late_part(&served, PART);
        for (method, path, to) in changes {
            let told = served.ask(method, path, &[&format!("Destination: {to}")], b"");
            assert!(matches!(told.status, 201 | 204), "{method} {path}: {}", told.head);
        }
        let before = files(served.path());
        late.write_all(b"late").unwrap();
        let told = reply(&mut late);
        assert_eq!(told.status, 409, "{changes:?}: {}", told.text());
        assert!(told.text().contains("moved, replaced or removed"), "{}", told.text());
        assert!(files(served.path()) == before, "{changes:?}");
    }
}

#[test]
fn a_file_is_what_its_parts_were_when_it_got_its_name() {
    let served = served();
    const SIZE: usize = 6 << 20;
    for round in 0..10 {
        served.ask("MKCOL", "/d", &[], b"");
        let stored = Mutex::new(Vec::new());
        let moved = Mutex::new(Vec::new());
        together(4, |number| {
            if number == 0 {
                let to = format!("Destination: /file{round}");
                while served.ask("MOVE", PART, &[&to], b"").status != 201 {}
                *moved.lock().unwrap() = std::fs::read(served.path().join(&to[14..])).unwrap();
                return;
            }
            let bytes = vec![b'0' + u8::try_from(number).unwrap(); SIZE / 3];
            let start = (number - 1) * bytes.len();
            let place = format!("{start}-{}/{SIZE}", start + bytes.len() - 1);
            match part(&served, &place, &bytes) {
                204 => stored.lock().unwrap().push((start, bytes)),
                status => assert_eq!(status, 409),
            }
        });
        let name = format!("file{round}");
        let left = std::fs::read(served.path().join(&PART[1..])).unwrap_or_default();
        let file = std::fs::read(served.path().join(name)).unwrap();
        assert!(file == *moved.lock().unwrap(), "it changed after it had its name");
        for (start, bytes) in stored.into_inner().unwrap() {
            let is_in = |file: &[u8]| file.get(start..start + bytes.len()) == Some(&bytes[..]);
            assert!(is_in(&file) || is_in(&left), "a part that was confirmed is in no file");
        }
        assert_eq!(served.ask("DELETE", "/d", &[], b"").status, 204);
    }
}

#[test]
fn a_partial_file_is_not_copied_while_it_is_written() {
    let served = served();
    served.file("d/old", b"old");
    assert_eq!(part(&served, "0-3/8", b"good"), 204);
    let mut late = begin_late_part(&served, PART);
    let copy = || served.ask("COPY", PART, &["Destination: /copy"], b"");
    let told = copy();
    assert_eq!(told.status, 409, "{}", told.head);
    assert!(told.text().contains("the source is being written"), "{}", told.text());
    late.write_all(b"late").unwrap();
    assert_eq!(reply(&mut late).status, 204);
    assert_eq!(copy().status, 201);
    assert_eq!(served.get("/copy", &[]).text(), "goodlate");
}

#[test]
fn a_lot_is_charged_once_for_parts_of_a_larger_file() {
    let served = served();
    std::fs::create_dir(served.path().join("d")).unwrap();
    let wanted = br#"{"path": "d", "bytes": 1000000, "lease_seconds": 1000}"#;
    assert_eq!(served.ask("POST", LOTS, &[], wanted).status, 201);
    assert_eq!(part(&served, "0-0/4096", b"x"), 204);
    for _ in 0..3 {
        assert_eq!(part(&served, "0-0/409600", b"x"), 204);
    }
    let told = served.get(LOTS, &[]).text();
    assert!(told.contains(r#""used_bytes":409600"#), "{told}");
}

#[test]
fn a_missing_source_is_not_a_missing_parent() {
    let served = served();
    served.file("d/old", b"old");
    for method in ["MOVE", "COPY"] {
        let status = |from: &str, to: &str| {
            served.ask(method, from, &[&format!("Destination: {to}")], b"").status
        };
        assert_eq!(status("/none", "/new"), 404, "{method}");
        assert_eq!(status("/d/old", "/none/new"), 409, "{method}");
    }
}
