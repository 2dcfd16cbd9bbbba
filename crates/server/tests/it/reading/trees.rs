//! Trees as streams of records: walks, and several files in one request.

use crate::memory::on_each_backend;
use crate::replicas::Discreet;
use crate::rig::{Reply, Served};
use bytes::Bytes;
use hither_core::storage::partial_name;
use hither_http::date::http_date;
use hither_http::tree::{QUERY_TYPE, TREE_TYPE, TreeQuery, TreeReader, TreeRecord};
use hither_server::Settings;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::sync::Arc;

/// The response to a query.
pub(crate) fn asked(served: &Served, directory: &str, query: &TreeQuery) -> Reply {
    let kind = format!("Content-Type: {QUERY_TYPE}");
    served.ask("QUERY", directory, &[&kind], &query.encode())
}

/// The records of a response.
pub(crate) fn records(reply: &Reply) -> Vec<TreeRecord> {
    assert_eq!(reply.field("content-type"), Some(TREE_TYPE), "{}", reply.text());
    let mut reader = TreeReader::default();
    let mut body = Bytes::from(reply.body.clone());
    let mut records = Vec::new();
    while let Some(record) = reader.next(&mut body).unwrap() {
        records.push(record);
    }
    reader.finish().unwrap();
    records
}

/// The path of a record, with a trailing slash for a directory.
pub(crate) fn path(record: &TreeRecord) -> String {
    match record {
        TreeRecord::Directory(entry) => format!("{}/", entry.path),
        TreeRecord::File(entry) | TreeRecord::Stored(entry) | TreeRecord::Content(entry, _) => {
            entry.path.clone()
        }
        TreeRecord::Failed { path, .. } | TreeRecord::LeftOut { path, .. } => path.clone(),
    }
}

fn walked(served: &Served, directory: &str, after: &str) -> Vec<String> {
    let query = TreeQuery::Walk { after: after.to_owned() };
    records(&asked(served, directory, &query)).iter().map(path).collect()
}

fn contents(paths: &[&str]) -> TreeQuery {
    TreeQuery::Content(paths.iter().map(|path| (*path).to_owned()).collect())
}

#[test]
fn a_walk_names_everything_and_continues_anywhere() {
    for served in on_each_backend(|_| {}) {
        for name in ["b", "a/two", "a/one", "a/sub/deep", "c/x", &partial_name(7)] {
            served.file(name, b"1");
        }
        let all = ["b", "a/", "a/one", "a/two", "a/sub/", "a/sub/deep", "c/", "c/x"];
        assert_eq!(walked(&served, "/", ""), all);
        for (index, position) in all.iter().enumerate() {
            assert_eq!(walked(&served, "/", position), all[index + 1..], "after {position}");
        }
        assert_eq!(walked(&served, "/", "a/ones"), all[3..], "a name that is gone");
        assert_eq!(walked(&served, "/a/", "one"), ["two", "sub/", "sub/deep"]);
        assert_eq!(asked(&served, "/b", &contents(&["x"])).status, 409);
        assert_eq!(asked(&served, "/none/", &contents(&["x"])).status, 404);
    }
}

#[test]
fn names_that_no_request_can_have_fail_in_a_walk_before_the_others() {
    let served = Served::for_reading();
    served.file("d/file", b"1");
    for name in [&b"d/a\nb"[..], b"d/run\xe9"] {
        std::fs::write(served.path().join(OsStr::from_bytes(name)), b"1").unwrap();
    }
    let found = records(&asked(&served, "/", &TreeQuery::Walk { after: String::new() }));
    let mut failed = Vec::new();
    for record in &found {
        if let TreeRecord::Failed { path, status: 403, reason } = record {
            assert!(reason.contains("rename it"), "{reason}");
            failed.push(path.as_str());
        }
    }
    failed.sort_unstable();
    assert_eq!(failed, ["d/a%0Ab", "d/run%E9"]);
    assert_eq!(path(found.last().unwrap()), "d/file");
    assert!(walked(&served, "/", "d/file").is_empty(), "the client has them");
}

#[test]
fn a_walk_has_as_many_files_as_there_are_however_many() {
    let served = Served::for_reading();
    for number in 0..3000 {
        served.file(&format!("d{}/{number}", number % 3), b"");
    }
    let names = walked(&served, "/", "");
    assert_eq!(names.len(), 3003);
    let after = names[1500].clone();
    assert_eq!(walked(&served, "/", &after), names[1501..]);
}

#[test]
fn each_file_of_a_stream_is_as_a_request_for_it_alone() {
    let settings = Settings::from_toml("links = true\n[auth]\nanonymous = ['/public']").unwrap();
    let with_auth = |links: Option<bool>| {
        Served::new(|it| (it.auth, it.links) = (settings.auth.clone(), links))
    };
    for links in [None, Some(true)] {
        let served = with_auth(links);
        let large = vec![7; (1 << 20) + 1];
        let one = vec![8; 1 << 20];
        served.file("public/large", &large);
        served.file("public/one", &one);
        served.file("private/file", b"secret");
        let hidden = partial_name(1);
        for (name, content) in
            [("file", &b"content"[..]), ("empty", b""), ("folder/inner", b"in"), (&hidden, b"part")]
        {
            served.file(&format!("public/{name}"), content);
        }
        for (target, link) in
            [("file", "near"), ("../private/file", "far"), ("../../etc", "out"), ("none", "broken")]
        {
            symlink(target, served.path().join("public").join(link)).unwrap();
        }
        let paths = [
            "file",
            "empty",
            "one",
            "large",
            "folder/inner",
            "none",
            "file/below",
            "near",
            "far",
            "out",
            "broken",
            &hidden,
            ".hither-put-1",
            "line\nbreak",
        ];
        let records = records(&asked(&served, "/public/", &contents(&paths)));
        assert_eq!(records.iter().map(path).collect::<Vec<_>>(), paths);
        for (record, path) in records.iter().zip(paths) {
            let alone = served.get(&format!("/public/{}", path.replace('\n', "%0A")), &[]);
            match record {
                TreeRecord::Content(entry, pieces) => {
                    assert_eq!((200, &pieces.concat()), (alone.status, &alone.body), "{path}");
                    assert_eq!(Some(&*entry.etag), alone.field("etag"), "{path}");
                    let date = http_date(entry.modified.unwrap()).unwrap();
                    assert_eq!(Some(&*date), alone.field("last-modified"), "{path}");
                }
                TreeRecord::File(entry) => {
                    assert_eq!((200, path), (alone.status, "large"));
                    assert_eq!(entry.size, large.len() as u64);
                }
                TreeRecord::Failed { status, reason, .. } => {
                    let said = format!("{reason}\n");
                    assert_eq!((*status, &said), (alone.status, &alone.text()), "{path}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn what_a_client_may_not_read_is_in_no_walk_and_fails_alone() {
    let served = Served::with(Arc::new(Discreet));
    for name in ["d/open", "d/secret", "d/secrets/below", "d/e/open2"] {
        served.file(name, b"1");
    }
    assert_eq!(walked(&served, "/d/", ""), ["open", "e/", "e/open2"]);
    let found = records(&asked(&served, "/d/", &contents(&["open", "secret", "e/open2"])));
    assert!(matches!(&found[0], TreeRecord::Content(..)), "{found:?}");
    let denied = TreeRecord::Failed {
        path: "secret".to_owned(),
        status: 403,
        reason: "that is secret".to_owned(),
    };
    assert_eq!(found[1], denied);
    assert!(matches!(&found[2], TreeRecord::Content(..)), "{found:?}");
    assert_eq!(asked(&served, "/d/secrets/", &contents(&["below"])).status, 403);
}

#[test]
fn links_that_lead_to_nothing_fail_alone_in_a_walk() {
    let served = Served::new(|settings| settings.links = Some(true));
    served.file("a/file", b"1");
    symlink("none", served.path().join("a/a broken one")).unwrap();
    let found = records(&asked(&served, "/", &TreeQuery::Walk { after: String::new() }));
    assert_eq!(found.iter().map(path).collect::<Vec<_>>(), ["a/", "a/a broken one", "a/file"]);
    assert!(matches!(&found[1], TreeRecord::Failed { status: 403, .. }), "{found:?}");
}

#[test]
fn links_to_directories_are_left_out_of_a_walk() {
    let served = Served::new(|settings| settings.links = Some(true));
    served.file("a/file", b"1");
    symlink("..", served.path().join("a/up")).unwrap();
    symlink("file", served.path().join("a/link")).unwrap();
    let found = records(&asked(&served, "/", &TreeQuery::Walk { after: String::new() }));
    assert_eq!(found.iter().map(path).collect::<Vec<_>>(), ["a/", "a/file", "a/link", "a/up"]);
    assert!(matches!(&found[3], TreeRecord::LeftOut { .. }), "{found:?}");
}

#[test]
fn many_files_come_in_bounded_memory_in_the_order_of_the_query() {
    for served in on_each_backend(|settings| settings.limits.memory_bytes = 4 << 20) {
        let names: Vec<_> = (0..400).map(|number| format!("f{number}")).collect();
        for (number, name) in names.iter().enumerate() {
            let size = if number % 50 == 0 { 1 << 20 } else { number * 10 };
            served.file(name, &vec![u8::try_from(number % 251).unwrap(); size]);
        }
        let found = records(&asked(&served, "/", &TreeQuery::Content(names.clone())));
        assert_eq!(found.iter().map(path).collect::<Vec<_>>(), names);
        for (number, record) in found.iter().enumerate() {
            let TreeRecord::Content(entry, pieces) = record else { panic!("{record:?}") };
            let byte = u8::try_from(number % 251).unwrap();
            let bytes = pieces.concat();
            assert!(entry.size == bytes.len() as u64 && bytes.iter().all(|it| *it == byte));
        }
    }
}

#[test]
fn queries_that_are_not_valid_are_refused_as_a_whole() {
    let served = Served::for_reading();
    served.file("file", b"1");
    for path in ["../file", "/etc/passwd", "a/../../x", "a//b", "."] {
        assert_eq!(asked(&served, "/", &contents(&[path])).status, 400, "{path}");
    }
    assert_eq!(asked(&served, "/", &contents(&["file", "file"])).status, 400);
    let many: Vec<_> = (0..4097).map(|number| number.to_string()).collect();
    assert_eq!(asked(&served, "/", &TreeQuery::Content(many)).status, 413);
    let offer = served.ask("PROPFIND", "/", &["Depth: 0"], b"");
    assert_eq!(offer.field("accept-query"), Some(&*format!("\"{QUERY_TYPE}\"")));
}
