use super::*;
use crate::{TraceReader, TracedRead};
use hither_transport::redact_url;
use proptest::prelude::*;
use std::time::Duration;

/// The reads in an import of `text`, each with the name of its file, and the summary.
fn imported(
    format: ImportFormat,
    text: &str,
) -> Result<(Vec<(String, TracedRead)>, ImportSummary)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let summary = import(format, text.as_bytes(), "", &path, redact_url)?;
    let mut reader = TraceReader::new(File::open(&path).unwrap()).unwrap();
    let reads: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    let named = |read: TracedRead| (reader.names()[read.file as usize].clone(), read);
    Ok((reads.into_iter().map(named).collect(), summary))
}

/// File, thread and ranges of each read.
fn imported_ranges(format: ImportFormat, text: &str) -> Vec<(String, u32, Vec<Range<u64>>)> {
    let (reads, _) = imported(format, text).unwrap();
    reads.into_iter().map(|(name, read)| (name, read.thread, read.ranges)).collect()
}

fn at(file: &str, thread: u32, ranges: &[Range<u64>]) -> (String, u32, Vec<Range<u64>>) {
    (file.to_owned(), thread, ranges.to_vec())
}

/// In the format of XRootD 5.5.
const QUOTED: &str = r#""948","Open","1795287595.500000000","root://me:hush@host:1094//data/f.root?authz=hush;16;0;0","1795287595.600000000","[SUCCESS]",""
"948","Stat","1795287595.600000000","false;0","1795287595.700000000","[SUCCESS]","1000;0;1;1;1;0644;a;b;"
"948","Read","1795287595.700000000","10;20;0","1795287595.950000000","[SUCCESS]","20"
"948","Read","1795287596.000000000","990;20;0","1795287596.100000000","[SUCCESS]","10"
"948","Read","1795287596.000000000","2000;20;0","1795287596.100000000","[SUCCESS]","0"
"948","PgRead","1795287596.200000000","0;4096;0","1795287596.300000000","[SUCCESS]","1000;0"
"948","VectorRead","1795287596.400000000","0;10;100;20;15","1795287596.500000000","[SUCCESS]","30;0;10;100;20"
"948","VectorRead","1795287596.400000000","0;10;100;20;15","1795287596.500000000","[ERROR] Server responded with an error: [3005] no, not now",""
"948","Close","1795287596.600000000","0","1795287596.700000000","[SUCCESS]",""
"948","Read","1795287596.700000000","10;20;0","1795287596.950000000","[SUCCESS]","20"
"#;

#[test]
fn records_of_the_xrootd_client_are_imported() {
    let (reads, summary) = imported(ImportFormat::Xrdrecord, QUOTED).unwrap();
    let name = "root://host:1094//data/f.root";
    let expected = [vec![10..30], vec![990..1000], vec![0..1000], vec![0..10, 100..120]];
    let found: Vec<_> = reads.iter().map(|(_, read)| read.ranges.clone()).collect();
    assert_eq!(found, expected);
    assert!(reads.iter().all(|(file, _)| file == name));
    let times = reads[0].1.times;
    assert!((times.submitted.as_secs_f64() - 1_795_287_595.7).abs() < 1e-6);
    assert!(((times.completed - times.submitted).as_secs_f64() - 0.25).abs() < 1e-6);
    // the read after the close
    assert_eq!(summary, ImportSummary { reads: 4, files: 1, lines: 10, lines_skipped: 1 });
}

#[test]
fn records_without_quotes_are_imported() {
    let bare = QUOTED.replace('"', "");
    assert_eq!(
        imported_ranges(ImportFormat::Xrdrecord, &bare),
        imported_ranges(ImportFormat::Xrdrecord, QUOTED)
    );
    let comma = bare.replace("f.root", "a,b;c.root");
    let name = "root://host:1094//data/a,b;c.root";
    assert_eq!(imported_ranges(ImportFormat::Xrdrecord, &comma)[0], at(name, 0, &[10..30]));
}

/// In the format of strace 6.1.
const STRACE: &str = r#"812 1795288196.100000 execve("/bin/job", ["job"], 0x7ffd /* 3 vars */) = 0 <0.000300>
812 1795288196.200000 openat(AT_FDCWD, "/data/a.bin", O_RDONLY|O_CLOEXEC) = 3 <0.000011>
812 1795288196.300000 openat(AT_FDCWD, "/none", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000005>
812 1795288196.400000 pread64(3, "\216\177) = 99 <0.1>"..., 100, 1000) = 100 <0.000010>
812 1795288196.500000 read(3, "v\4F"..., 50)       = 50 <0.000008>
812 1795288196.600000 lseek(3, 200, SEEK_SET) = 200 <0.000007>
812 1795288196.700000 read(3, "\353", 10) = 10 <0.000008>
812 1795288196.710000 fcntl(3, F_DUPFD_CLOEXEC, 0) = 4 <0.000004>
812 1795288196.720000 close(3) = 0 <0.000004>
812 1795288196.800000 read(4, "\257", 7) = 7 <0.000008>
812 1795288196.900000 readv(4, [{iov_base=":g\305", iov_len=3}, {iov_base="s\3>6", iov_len=4}], 2) = 7 <0.000008>
812 1795288197.000000 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD, child_tid=0x7} => {parent_tid=[813]}, 88) = 813 <0.000061>
813 1795288197.100000 read(4,  <unfinished ...>
812 1795288197.200000 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD <unfinished ...>
813 1795288197.300000 <... read resumed>"\0\35", 11) = 11 <0.200000>
812 1795288197.310000 <... clone resumed>, child_tidptr=0x7) = 814 <0.000900>
814 1795288197.400000 openat(AT_FDCWD, "/d/\303\251\"x", O_RDWR|O_CREAT, 0777) = 5 <0.000275>
814 1795288197.500000 pread64(5, "", 1, 1) = 0 <0.000007>
814 1795288197.600000 pread64(5, "a", 1, 0) = 1 <0.000007>
814 1795288197.610000 close(4) = 0 <0.000004>
812 1795288197.700000 read(4, "x", 1) = 1 <0.000007>
812 1795288197.800000 read(5, "?", 1) = 1 <0.000007>
814 1795288197.900000 +++ exited with 0 +++
812 1795288198.000000 --- SIGCHLD {si_signo=SIGCHLD} ---
812 1795288198.100000 preadv2(4, [{iov_base="", iov_len=9}], 1, 4990, 0) = 9 <0.000007>
812 1795288198.200000 read(9, <unfinished ...>) = ?
"#;

#[test]
fn output_of_strace_is_imported() {
    let (reads, summary) = imported(ImportFormat::Strace, STRACE).unwrap();
    let found: Vec<_> =
        reads.iter().map(|(name, read)| (name.clone(), read.thread, read.ranges.clone())).collect();
    let a = "/data/a.bin";
    let expected = [
        at(a, 812, &[1000..1100]),
        at(a, 812, &[0..50]),
        at(a, 812, &[200..210]),
        at(a, 812, &[210..217]),
        at(a, 812, &[217..224]),
        at(a, 813, &[224..235]),
        at("/d/é\"x", 814, &[0..1]),
        at(a, 812, &[235..236]),
        at(a, 812, &[4990..4999]),
    ];
    assert_eq!(found, expected);
    let waited = reads[5].1.times;
    assert_eq!(waited.completed - waited.submitted, Duration::from_millis(200));
    // a descriptor of another process
    assert_eq!((summary.files, summary.lines_skipped), (2, 1));
}

#[test]
fn output_of_strace_without_options_is_imported() {
    let text = "openat(AT_FDCWD, \"a\", O_RDONLY) = 3\nread(3, \"\", 5) = 5\n\
                [pid  7] 12:00:01.5 read(3, \"\", 5) = 5\n\
                8 12:00:02 pread64(11</data/b>, \"\", 5, 6) = 5 <0.5>\n";
    let expected = [at("a", 0, &[0..5]), at("a", 7, &[5..10]), at("/data/b", 8, &[6..11])];
    assert_eq!(imported_ranges(ImportFormat::Strace, text), expected);
}

#[test]
fn only_files_with_the_text_in_their_names_are_imported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let summary =
        import(ImportFormat::Strace, STRACE.as_bytes(), "a.bin", &path, redact_url).unwrap();
    assert_eq!((summary.reads, summary.files), (8, 1));
}

#[test]
fn a_link_that_another_user_has_put_beside_the_trace_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("other"), "kept").unwrap();
    std::os::unix::fs::symlink(at("other"), at("trace.part")).unwrap();
    import(ImportFormat::Strace, STRACE.as_bytes(), "", &at("trace"), redact_url).unwrap();
    assert_eq!(std::fs::read(at("other")).unwrap(), b"kept");
    assert!(at("trace").symlink_metadata().unwrap().is_file());
}

#[test]
fn a_file_that_is_not_a_record_is_an_error_and_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    for format in [ImportFormat::Xrdrecord, ImportFormat::Strace, ImportFormat::Darshan] {
        let error =
            import(format, &b"\xff\xfe hello\n\0\n"[..], "", &path, redact_url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_record_of_too_many_processes_is_an_error() {
    let mut text: String = (0..2000).map(|fd| format!("1 openat(0, \"f\", 0) = {fd}\n")).collect();
    text.extend((0..2000).map(|pid| format!("1 fork() = {}\n", pid + 2)));
    assert_eq!(imported(ImportFormat::Strace, &text).unwrap_err().kind(), ErrorKind::Unsupported);
}

proptest! {
    #[test]
    fn damaged_records_do_not_panic(
        format in prop::sample::select(
            &[ImportFormat::Xrdrecord, ImportFormat::Strace, ImportFormat::Darshan][..]
        ),
        imported_ranges in prop::collection::vec((any::<prop::sample::Index>(), any::<char>()), 0..30),
        cut in any::<prop::sample::Index>(),
    ) {
        let text = match format {
            ImportFormat::Xrdrecord => QUOTED,
            ImportFormat::Strace => STRACE,
            ImportFormat::Darshan => DXT,
        };
        let mut letters: Vec<char> = text.chars().collect();
        for (place, letter) in imported_ranges {
            let place = place.index(letters.len());
            letters[place] = letter;
        }
        letters.truncate(cut.index(letters.len()) + 1);
        let text: String = letters.into_iter().collect();
        // offsets that are too large for a file have no effect
        drop(imported(format, &text));
    }
}

/// In the format of `darshan-dxt-parser` 3.4.
const DXT: &str = "# darshan log version: 3.41
# DXT, file_id: 17855743881390289785, file_name: /data/my file.root
# DXT, rank: 0, hostname: node7
# DXT, write_count: 1, read_count: 3
# DXT, mnt_pt: /data, fs_type: lustre
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
 X_POSIX       0  write        0               0           10      0.1000      0.1001
 X_POSIX       0   read        0             100           20      0.2000      0.2500
 X_POSIX       0   read        1             120            0      0.3000      0.3001
 X_POSIX       1   read        0             500           50      0.1000      0.0900  [OST: 3]
 X_MPIIO       1   read        0             500           50      0.1000      0.2000
 X_POSIX       1   read        x             500           fifty   0.1000      0.2000

# DXT, file_id: 1, file_name: /data/other
 X_POSIX       0   read        0               0           30      0.4000      0.5000
";

#[test]
fn threads_of_a_rank_are_distinguished() {
    // In the format of Darshan 3.5.
    let text = "# DXT, file_id: 1, file_name: /data/f
 X_POSIX       0   read        0               0              10      0.1000      0.2000   140637148894720
 X_POSIX       0   read        1              10              10      0.1000      0.2000   140637148890000  [OST: 3]
 X_POSIX       1   read        0              20              10      0.3000      0.4000   140637148894720
 X_POSIX       0   read        2              30              10      0.5000      0.6000   140637148894720
";
    let (reads, _) = imported(ImportFormat::Darshan, text).unwrap();
    let threads: Vec<_> = reads.iter().map(|(_, it)| it.thread).collect();
    assert_eq!(threads, [0, 1, 2, 0]);
}

#[test]
fn extended_traces_of_darshan_are_imported() {
    let (reads, summary) = imported(ImportFormat::Darshan, DXT).unwrap();
    let found: Vec<_> = reads.iter().map(|(name, it)| at(name, it.thread, &it.ranges)).collect();
    let expected = [
        at("/data/my file.root", 0, &[100..120]),
        at("/data/my file.root", 1, &[500..550]),
        at("/data/other", 0, &[0..30]),
    ];
    assert_eq!(found, expected);
    let times = reads[0].1.times;
    assert_eq!((times.submitted.as_millis(), times.consumed.as_millis()), (200, 250));
    // An end before the start is an error of the clock.
    assert_eq!(reads[1].1.times.consumed, reads[1].1.times.submitted);
    assert_eq!(summary, ImportSummary { reads: 3, files: 2, lines: 15, lines_skipped: 1 });
}
