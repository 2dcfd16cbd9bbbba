//! Leases as a mover finds them in its folder, of nodes that come late, too.

use super::MoverFolder;
use super::lease::LeaseResult;
use crate::{Algorithm, Client, ClientConfig, ErrorKind};
use hither_checksum::Hasher;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const BLOCK: u64 = 4 << 20;
const SIZE: u64 = 2 * BLOCK + 7;

/// A tree to copy, its destination, and a mover's folder.
struct Rig {
    folder: tempfile::TempDir,
    client: Client,
    content: Vec<u8>,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for path in ["from/sub", "to/aside", "mover/inbox"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let content: Vec<u8> = (0..SIZE).map(|n| u8::try_from(n % 251).unwrap()).collect();
        fs::write(folder.path().join("from/sub/large"), &content).unwrap();
        fs::write(folder.path().join("from/small"), b"small").unwrap();
        Self { folder, client: Client::new(ClientConfig::default()).unwrap(), content }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn listed(&self, path: &str) -> Value {
        let named = self.path("from").join(path);
        let named = self.client.storage_path(named.to_str().unwrap()).unwrap();
        let entry = self.client.block_on(named.storage.stat(&named.path)).unwrap();
        let modified = entry.modified.unwrap().duration_since(UNIX_EPOCH).unwrap();
        let modified = u64::try_from(modified.as_nanos()).unwrap();
        let validator = entry.validator;
        json!({ "path": path, "size": entry.size, "modified": modified, "validator": validator })
    }

    fn large(&self, token: &str) -> Value {
        let aside = self.path("to/aside/file-1");
        json!({ "file": self.listed("sub/large"), "aside": aside, "token": token })
    }

    fn fence(&self, name: &str) {
        fs::create_dir(self.path("to/aside").join(name)).unwrap();
    }

    /// Has a mover carry out a lease; returns its result.
    fn carry_out(&self, name: &str, work: &Value) -> Value {
        let (source, target) = (self.path("from"), self.path("to"));
        let fence = self.path("to/aside").join(name);
        let lease = json!({
            "source": source, "target": target, "fence": fence, "third_party": null, "work": work,
        });
        let mover = self.path("mover");
        fs::write(mover.join("share.json"), r#"{"connections": 2, "bandwidth": null}"#).unwrap();
        fs::write(mover.join(format!("inbox/{name}.json")), lease.to_string()).unwrap();
        self.client.block_on(self.client.run_mover(&mover, Duration::ZERO)).unwrap();
        let result = fs::read(mover.join(format!("results/{name}.json"))).unwrap();
        serde_json::from_slice(&result).unwrap()
    }

    /// Begins the upload of the large file and copies its ranges; returns its token, and the work
    /// to finish it.
    fn copied(&self, epoch: u64, is_shared: bool) -> (String, Value) {
        self.fence("1.1");
        let begun = self.carry_out("1.1", &json!({ "kind": "begin", "part": self.large("") }));
        let token = begun["token"].as_str().unwrap().to_owned();
        let mut ranges = Vec::new();
        for (name, start, end) in [("2.1", 0, BLOCK), ("3.1", BLOCK, SIZE)] {
            self.fence(name);
            let part = self.large(&token);
            let work = json!({ "kind": "range", "part": part, "start": start, "end": end });
            let done = self.carry_out(name, &work);
            assert_eq!(done["error"], Value::Null, "{done}");
            let (crc32c, adler32) = (&done["crc32c"], &done["adler32"]);
            ranges.push(json!({ "bytes": end - start, "crc32c": crc32c, "adler32": adler32 }));
        }
        let part = self.large(&token);
        let finish = json!({
            "kind": "finish", "part": part, "epoch": epoch, "ranges": ranges,
            "is_shared": is_shared,
        });
        (token, finish)
    }

    fn is_copied(&self) -> bool {
        fs::read(self.path("to/sub/large")).is_ok_and(|bytes| bytes == self.content)
    }
}

fn kind(result: &Value) -> &str {
    result["error"][0].as_str().unwrap_or_default()
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    names.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn files_get_their_names_out_of_the_fence() {
    let rig = Rig::new();
    rig.fence("7.1");
    let files = [rig.listed("small"), rig.listed("sub/large")];
    let work = json!({ "kind": "files", "files": files, "directories": ["empty/deep"] });
    let done = rig.carry_out("7.1", &work);
    assert_eq!((&done["error"], &done["failures"]), (&Value::Null, &json!([])));
    assert_eq!(fs::read(rig.path("to/small")).unwrap(), b"small");
    assert!(rig.is_copied() && rig.path("to/empty/deep").is_dir());
    let when = |path| fs::metadata(rig.path(path)).unwrap().modified().unwrap();
    assert_eq!(when("to/small"), when("from/small"));
}

#[test]
fn a_lease_without_its_fence_or_with_a_claimed_one_changes_nothing() {
    let rig = Rig::new();
    let work = json!({ "kind": "files", "files": [rig.listed("small")], "directories": [] });
    assert_eq!(kind(&rig.carry_out("7.1", &work)), "NotFound");
    rig.fence("7.2");
    fs::create_dir(rig.path("to/aside/7.2/.hither-claim")).unwrap();
    assert_eq!(kind(&rig.carry_out("7.2", &work)), "AlreadyExists");
    assert_eq!(names(&rig.path("to")), ["aside"]);
}

#[test]
fn a_name_that_is_taken_at_the_target_fails_alone() {
    let rig = Rig::new();
    fs::write(rig.path("from/other"), b"other").unwrap();
    fs::create_dir(rig.path("from/file")).unwrap();
    fs::write(rig.path("from/file/in"), b"in").unwrap();
    // A directory in place of a file, and files in place of directories.
    fs::create_dir_all(rig.path("to/small/in-the-way")).unwrap();
    for name in ["file", "empty"] {
        fs::write(rig.path("to").join(name), b"in the way").unwrap();
    }
    rig.fence("7.1");
    let files = ["small", "file/in", "other", "sub/large"].map(|path| rig.listed(path));
    let work = json!({ "kind": "files", "files": files, "directories": ["empty/deep", "good"] });
    let done = rig.carry_out("7.1", &work);
    assert_eq!(done["error"], Value::Null, "{done}");
    let failures = done["failures"].as_array().unwrap();
    let mut failed: Vec<_> = failures.iter().map(|it| it[0].as_str().unwrap()).collect();
    failed.sort_unstable();
    assert_eq!(failed, ["empty/deep", "file/in", "small"], "{done}");
    assert_eq!(fs::read(rig.path("to/other")).unwrap(), b"other");
    assert!(rig.is_copied() && rig.path("to/good").is_dir());
    assert!(rig.path("to/small/in-the-way").is_dir());
    assert_eq!(fs::read(rig.path("to/file")).unwrap(), b"in the way");
}

#[test]
fn ranges_become_a_file_when_all_are_there() {
    let rig = Rig::new();
    let (_, finish) = rig.copied(1, false);
    assert!(!rig.path("to/sub").exists());
    rig.fence("4.1");
    let done = rig.carry_out("4.1", &finish);
    assert_eq!(done["error"], Value::Null, "{done}");
    assert_eq!(done["crc32c"], Hasher::of(Algorithm::Crc32c, &rig.content).hex());
    assert!(rig.is_copied());
    assert_eq!(names(&rig.path("to/sub")), ["large"]);
    // The node died before it could say so; the next one finds the work done.
    rig.fence("4.2");
    let again = rig.carry_out("4.2", &finish);
    assert_eq!(again["error"], Value::Null, "{again}");
}

#[test]
fn what_is_written_late_does_not_reach_a_file_that_has_its_name() {
    let rig = Rig::new();
    let (token, finish) = rig.copied(1, true);
    let late = fs::File::options().write(true).open(rig.path("to/aside").join(token)).unwrap();
    rig.fence("4.1");
    let done = rig.carry_out("4.1", &finish);
    assert_eq!(done["error"], Value::Null, "{done}");
    late.write_all_at(b"late", 5).unwrap();
    assert!(rig.is_copied());
}

#[test]
fn what_was_written_wrong_gets_no_name() {
    let rig = Rig::new();
    let (token, finish) = rig.copied(1, true);
    let late = fs::File::options().write(true).open(rig.path("to/aside").join(token)).unwrap();
    late.write_all_at(b"late", 5).unwrap();
    rig.fence("4.1");
    assert_eq!(kind(&rig.carry_out("4.1", &finish)), "Corrupt");
    assert_eq!(names(&rig.path("to/sub")), [""; 0]);
}

#[test]
fn a_file_that_a_node_had_in_hand_is_taken_over_and_lost_to_that_node() {
    for is_shared in [false, true] {
        let rig = Rig::new();
        let (_, mut finish) = rig.copied(1, is_shared);
        // The first node is stopped before the final name; here its last step fails.
        fs::create_dir_all(rig.path("to/sub/large/in-the-way")).unwrap();
        rig.fence("4.1");
        assert_ne!(rig.carry_out("4.1", &finish)["error"], Value::Null);
        fs::remove_dir_all(rig.path("to/sub/large")).unwrap();
        finish["epoch"] = json!(2);
        rig.fence("4.2");
        let done = rig.carry_out("4.2", &finish);
        assert_eq!(done["error"], Value::Null, "{done}");
        assert!(rig.is_copied());
        assert_eq!(names(&rig.path("to/sub")), ["large"]);
        // A later file of the same name is not touched by the first node when it continues.
        let other = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        fs::write(rig.path("to/sub/large"), vec![1; rig.content.len()]).unwrap();
        let file = fs::File::options().write(true).open(rig.path("to/sub/large")).unwrap();
        file.set_modified(other).unwrap();
        finish["epoch"] = json!(1);
        fs::create_dir(rig.path("to/aside/4.3")).unwrap();
        assert_eq!(kind(&rig.carry_out("4.3", &finish)), "NotFound");
        assert!(!rig.is_copied());
    }
}

#[test]
fn leases_of_a_mover_that_was_killed_end_as_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let killed = MoverFolder::open(folder.path()).unwrap().unwrap();
    fs::write(folder.path().join("inbox/7.1.json"), "{").unwrap();
    assert!(MoverFolder::open(folder.path()).unwrap().is_none(), "it is locked");
    assert_eq!(killed.waiting(1).unwrap(), ["7.1"]);
    assert_eq!(killed.begin("7.1").unwrap_err().kind(), ErrorKind::Invalid);
    drop(killed);
    drop(MoverFolder::open(folder.path()).unwrap().unwrap());
    let text = fs::read_to_string(folder.path().join("results/7.1.json")).unwrap();
    assert!(text.contains("\"Cancelled\"") && text.contains("killed"), "{text}");
    assert!(!folder.path().join("running/7.1.json").exists());
}

#[test]
fn a_mover_continues_where_the_files_of_its_job_are_removed_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let mover = MoverFolder::open(folder.path()).unwrap().unwrap();
    fs::write(folder.path().join("inbox/7.1.json"), b"{}").unwrap();
    assert_eq!(mover.waiting(1).unwrap(), ["7.1"]);
    fs::remove_file(folder.path().join("running/7.1.json")).unwrap();
    mover.end("7.1", &LeaseResult::default()).unwrap();
    assert!(folder.path().join("results/7.1.json").exists());
}

#[test]
fn a_folder_in_which_others_can_put_leases_is_refused() {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    for part in ["", "inbox", "results"] {
        let rig = Rig::new();
        let mover = rig.path("mover");
        let run = || rig.client.block_on(rig.client.run_mover(&mover, Duration::ZERO));
        run().unwrap();
        let folder = mover.join(part).components().as_path().to_owned();
        let refused = |why: &str| {
            let error = run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Local);
            assert!(error.to_string().contains(why), "{error}");
        };
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        refused("others can write to it");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        // Only root can make a file of another user.
        if chown(&folder, Some(65_534), None).is_ok() {
            refused("belongs to user 65534");
            chown(&folder, Some(rustix::process::geteuid().as_raw()), None).unwrap();
        }
        let aside = rig.path("elsewhere");
        fs::rename(&folder, &aside).unwrap();
        symlink(&aside, &folder).unwrap();
        refused("links are refused");
    }
}
