//! Parts of files on disk: what was written is read, or nothing is; whatever dies, lies, or writes
//! at the same time.

use hither_store::{DiskCache, DiskCacheFile, DiskCacheKey, MetadataKey};
use proptest::prelude::*;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SIZE: u64 = 1 << 20;
/// Tells [`another_process`] where to write; unset in a run of all tests.
const DIRECTORY: &str = "HITHER_BLOCKS_TEST_DIRECTORY";

fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000 + second)
}

fn key(url: &str) -> DiskCacheKey {
    let file = MetadataKey { url: url.to_owned(), identity: String::new() };
    DiskCacheKey { file, size: SIZE, validator: "\"v\"".to_owned() }
}

/// The bytes of the file in a range.
fn content(range: Range<u64>) -> Vec<u8> {
    range.map(|at| (at * 7 + at / 251 * 3).to_le_bytes()[0]).collect()
}

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

fn write(blocks: &DiskCacheFile, range: Range<u64>) {
    blocks.write(range.start, &content(range), at(0));
}

/// The bytes found, which are asserted to be right; none twice.
fn found(blocks: &DiskCacheFile, range: Range<u64>) -> u64 {
    let mut end = range.start;
    let mut sum = 0;
    for (offset, bytes) in blocks.read(std::slice::from_ref(&range)) {
        let piece = offset..offset + bytes.len() as u64;
        assert!(end <= piece.start && piece.end <= range.end, "{piece:?} of {range:?}");
        assert_eq!(bytes, content(piece.clone()), "{piece:?}");
        end = piece.end;
        sum += bytes.len() as u64;
    }
    sum
}

fn store(directory: &Path) -> DiskCache {
    DiskCache::open(directory, 100 << 20).unwrap()
}

fn open(directory: &Path) -> DiskCacheFile {
    store(directory).file(&key("http://h/f"), at(0)).unwrap()
}

fn logs(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).collect()
}

#[test]
fn written_blocks_are_read_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("blocks");
    write(&open(&directory), 1_000..201_000);
    let blocks = open(&directory);
    assert_eq!(found(&blocks, 0..SIZE), 200_000);
    assert_eq!(found(&blocks, 70_000..70_001), 1);
    write(&blocks, 0..300_000);
    assert_eq!(found(&open(&directory), 0..SIZE), 300_000);
    // The second time only what was missing was added.
    assert!(store(&directory).usage() < 301_000);
    for path in logs(&directory) {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn blocks_belong_to_one_version_and_identity() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path().join("b").as_path());
    write(&store.file(&key("http://h/f"), at(0)).unwrap(), 0..100);
    let mut others =
        vec![key("http://h/g"), key("http://h/f"), key("http://h/f"), key("http://h/f")];
    others[1].validator = "\"w\"".to_owned();
    others[2].size += 1;
    others[3].file.identity = "somebody".to_owned();
    for other in others {
        assert_eq!(store.file(&other, at(0)).unwrap().read(&[0..100]), [], "{other:?}");
    }
}

#[test]
fn a_truncated_log_is_read_up_to_its_end_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("b");
    for nth in 0..4_u64 {
        write(&open(&directory), nth * 100..nth * 100 + 50);
    }
    let [path] = logs(&directory).try_into().unwrap();
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let blocks = open(&directory);
        let before = found(&blocks, 0..400);
        assert!(before < 200 && before.is_multiple_of(50), "{length}");
        write(&blocks, 600..650);
        assert_eq!(found(&open(&directory), 0..SIZE), before + 50, "{length}");
    }
}

#[test]
fn a_flipped_bit_is_never_served() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("b");
    for nth in 0..3_u64 {
        write(&open(&directory), nth * 100..nth * 100 + 40);
    }
    let [path] = logs(&directory).try_into().unwrap();
    let whole = fs::read(&path).unwrap();
    for bit in 0..8 * whole.len() {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &flipped).unwrap();
        let blocks = open(&directory);
        assert!(found(&blocks, 0..SIZE) < 120, "bit {bit}");
        write(&blocks, 0..300);
        assert_eq!(found(&blocks, 0..SIZE), 300, "bit {bit}");
        assert_eq!(found(&open(&directory), 0..SIZE), 300, "bit {bit}");
    }
}

#[test]
fn the_limit_is_kept_and_recently_used_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("b");
    let store = DiskCache::open(&directory, 1 << 20).unwrap();
    for nth in 0..60 {
        let blocks = store.file(&key(&format!("http://h/{nth}")), at(1_000 * nth)).unwrap();
        blocks.write(0, &content(0..100_000), at(1_000 * nth));
        assert!(store.usage() <= (1 << 20) + (1 << 16) + 101_000, "{nth}: {}", store.usage());
    }
    let kept = |nth: u64| {
        let blocks = store.file(&key(&format!("http://h/{nth}")), at(60_000)).unwrap();
        found(&blocks, 0..SIZE)
    };
    assert_eq!((kept(59), kept(0)), (100_000, 0));
    let large = store.file(&key("http://h/large"), at(70_000)).unwrap();
    write(&large, 0..SIZE);
    assert!(found(&large, 0..SIZE) <= 1 << 19);
}

#[test]
fn a_log_that_was_removed_is_still_read() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("b");
    let blocks = open(&directory);
    write(&blocks, 0..100);
    logs(&directory).iter().for_each(|path| fs::remove_file(path).unwrap());
    write(&blocks, 100..200);
    assert_eq!(found(&blocks, 0..SIZE), 100);
    assert_eq!(found(&open(&directory), 0..SIZE), 0);
}

/// Writes for ever; a child process of [`a_process_killed_at_any_time_leaves_only_valid_blocks`].
#[test]
fn another_process() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    // While one begins the log, nothing is kept for the other.
    let open = || store(Path::new(&directory)).file(&key("http://h/f"), at(0));
    let mut ready = false;
    for round in 0_u64.. {
        let start = round * 37_003 % (SIZE - 200_000);
        let (Some(written), Some(read)) = (open(), open()) else { continue };
        write(&written, start..start + 1_000 + round % 7 * 20_000);
        let all = found(&read, 0..SIZE);
        if !ready {
            println!("\nready {all}");
            ready = true;
        }
    }
}

#[test]
fn a_process_killed_at_any_time_leaves_only_valid_blocks() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("b");
    for round in 0..10 {
        let child = || {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "blocks::another_process", "--nocapture"])
                .env(DIRECTORY, &directory)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        let mut children = [child(), child()];
        for child in &mut children {
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            assert!(lines.map_while(Result::ok).any(|line| line.starts_with("ready")));
        }
        // Meanwhile everything that is read is right, which `found` asserts.
        (0..round).for_each(|_| _ = found(&open(&directory), 0..SIZE));
        for mut child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let before = found(&open(&directory), 0..SIZE);
        assert!(before > 0);
        write(&open(&directory), 0..SIZE);
        assert_eq!(found(&open(&directory), 0..SIZE), SIZE);
        logs(&directory).iter().for_each(|path| fs::remove_file(path).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn only_written_blocks_are_read(
        writes in prop::collection::vec((0..SIZE, 1..150_000_u64, any::<bool>()), 1..12),
        read in (0..SIZE, 1..200_000_u64),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("b");
        let mut blocks = open(&directory);
        let mut there = vec![false; index(SIZE)];
        for (start, length, anew) in writes {
            let range = start..(start + length).min(SIZE);
            write(&blocks, range.clone());
            there[index(range.start)..index(range.end)].fill(true);
            if anew {
                blocks = open(&directory);
            }
        }
        let read = read.0..(read.0 + read.1).min(SIZE);
        let expected = there[index(read.start)..index(read.end)].iter().filter(|it| **it).count();
        prop_assert_eq!(found(&blocks, read), expected as u64);
    }
}
