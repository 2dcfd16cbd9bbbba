//! Clients that change the same names at the same time.

use crate::rig::Served;
use std::path::Path;
use std::sync::Barrier;

const LOTS: &str = "/.well-known/hither/lots";

fn served() -> Served {
    Served::new(|settings| {
        (settings.write, settings.durable) = (true, false);
        let text = "root = '/'\n[lots]\nbytes = 1000000000\nallocate = false";
        settings.lots = hither_server::Settings::from_toml(text).unwrap().lots;
    })
}

/// Runs `work` with its number in each of several threads that begin together.
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
        let replaced = std::sync::Mutex::new(Vec::new());
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
        let made = std::sync::Mutex::new(0);
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

/// The bytes of the files below a folder in blocks, and the number of all names with its own.
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
