//! Invalid experiment files, the order of runs, and journals of interrupted sweeps.

use super::experiment::{Experiment, expand};
use super::journal::{Journal, Record, Run};
use super::{Sweep, SweepError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const FILE: &str = r#"
bytes = "20M"
runs = 3
[axes]
file_size = ["5M", 10000000]
connections = [1, 2]
[[server]]
name = "near"
url = "http://h/d/"
[[server]]
name = "far"
url = "root://h//d/"
client = ["xrdcp", "-S", "{connections}", "{source}", "{target}"]
"#;

fn megabytes(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('M').and_then(|it| it.parse::<u64>().ok());
    number.map(|it| it * 1_000_000).ok_or_else(|| "not a size".to_owned())
}

/// Writes an experiment file, and reads it.
fn experiment(folder: &Path, text: &str) -> Result<Experiment, SweepError> {
    let path = folder.join("e.toml");
    std::fs::write(&path, text).unwrap();
    Experiment::read(&path, "/bin/hither".as_ref(), megabytes)
}

#[test]
fn errors_name_the_defect_of_an_experiment() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, expected) in [
        ("runs = 3", "rums = 3", "unknown field `rums`, expected one of `bytes`"),
        ("connections =", "streams =", "unknown variant `streams`, expected one of `direction`"),
        ("name = \"near\"", "name = \"near\"\nport = 1", "unknown field `port`"),
        ("\"20M\"", "\"20X\"", "`bytes` has to be the bytes of a run"),
        ("runs = 3", "runs = 0", "`runs` has to be 1 to 1000"),
        ("[1, 2]", "[1, 1]", "axes.connections has to list each of its values once"),
        ("[1, 2]", "[]", "axes.connections has to list"),
        ("[1, 2]", "[\"many\"]", "axes.connections has \"many\", expected a number from 1 to 1024"),
        ("file_size = [\"5M\", 10000000]", "", "axes.file_size is needed"),
        ("\"5M\"", "1000", "`bytes` are more than 1000 files"),
        ("\"5M\"", "-5", "axes.file_size has -5, expected bytes"),
        ("[1, 2]", "[1, 2]\ndirection = [\"up\"]", "expected \"read\" or \"write\""),
        ("[1, 2]", "[1, 2]\nfiles_at_a_time = [4]", "are 2 files of the largest axes.file_size"),
        (
            "[1, 2]",
            "[1, 2]\ntcp_buffer = [65536]",
            "nothing sets tcp_buffer: neither `client` nor `before`",
        ),
        ("\"-S\", \"{connections}\"", "\"-f\"", "nothing sets connections: neither `client`"),
        ("{source}", "{tcp_buffer}", "{tcp_buffer} is not an axis of this file"),
        ("{target}", "/tmp", "`client` has to name {source} and {target}"),
        ("//d/", "//d", "have to end with /"),
        ("\"far\"", "\"near\"", "each with a `name` of its own"),
        ("\"far\"", "\"far,\"", "the name of a server may have letters"),
        ("name = \"far\"", "name = \"far\"\npid = 1\nunit = \"x\"", "either a `pid` or a `unit`"),
    ] {
        assert_eq!(FILE.matches(from).count(), 1, "{from}");
        let error = experiment(folder.path(), &FILE.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
        assert!(error.contains("e.toml"), "{error}");
    }
}

#[test]
fn only_names_in_braces_are_replaced() {
    let text = "{a}-{{b_c}} {} {D} {e f} {";
    assert_eq!(expand(text, |name| format!("<{name}>")), "<a>-{<b_c>} {} {D} {e f} {");
}

#[test]
fn a_command_before_each_run_may_set_what_a_client_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let text = FILE
        .replace("[1, 2]", "[1, 2]\ntcp_buffer = [65536]")
        .replace("[[server]]", "[[server]]\nbefore = [\"set\", \"{tcp_buffer}\"]");
    assert_eq!(experiment(folder.path(), &text).unwrap().points.len(), 8);
}

#[test]
fn every_round_has_every_point_once_and_begins_with_another() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = experiment(folder.path(), FILE).unwrap();
    assert_eq!((experiment.points.len(), experiment.order().count()), (8, 24));
    let order: Vec<_> = experiment.order().collect();
    for (round, runs) in order.chunks(8).enumerate() {
        assert!(runs.iter().all(|it| it.0 == round));
        assert_eq!(runs.iter().map(|it| it.1).collect::<BTreeSet<_>>().len(), 8);
    }
    let first: BTreeSet<_> = order.chunks(8).map(|it| it[0].1).collect();
    assert_eq!(first.len(), 3);
}

/// Creates the journal of a sweep with two completed runs.
fn begun(folder: &Path) -> (Experiment, PathBuf) {
    let experiment = experiment(folder, FILE).unwrap();
    let mut journal = Journal::open(&experiment).unwrap();
    for (round, point) in experiment.order().take(2) {
        let run = Run { round, point, bytes: 20_000_000, seconds: 0.5, cpu_seconds: Some(0.25) };
        journal.add(&experiment, run).unwrap();
    }
    let locked = Journal::open(&experiment).unwrap_err().to_string();
    assert!(locked.contains("another sweep writes"), "{locked}");
    let path = experiment.journal.clone();
    (experiment, path)
}

#[test]
fn a_killed_sweep_goes_on_after_its_last_whole_line() {
    let folder = tempfile::tempdir().unwrap();
    let (experiment, path) = begun(folder.path());
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{whole}near,read,50000")).unwrap();
    let journal = Journal::open(&experiment).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    assert_eq!(journal.record.id.len(), 8);
    let left = experiment.order().filter(|it| !journal.record.done.contains(it));
    assert_eq!(left.collect::<Vec<_>>(), experiment.order().skip(2).collect::<Vec<_>>());

    let report = Sweep { experiment, record: journal.record }.report();
    assert_eq!((report.runs_done, report.runs_left, report.seconds_left), (2, 22, 11.0));
    let first = &report.points[0];
    assert_eq!(first.bytes_per_second.map(|it| it.median), Some(4e7));
    assert_eq!(first.load_percent.map(|it| it.high), Some(50.0));
    assert_eq!(first.cpu_seconds_per_gb.map(|it| it.low), Some(12.5));
    assert_eq!(report.points[7].bytes_per_second, None);
    assert!(
        report.to_csv().starts_with("server,direction,file_size,")
            && report.to_csv().lines().count() == 9
    );
    assert!(report.to_html().contains("<h2>connections</h2>\n<svg"), "{}", report.to_html());
}

#[test]
fn a_changed_experiment_keeps_the_runs_of_its_points_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    begun(folder.path());
    let more = experiment(folder.path(), &FILE.replace("[1, 2]", "[2, 3]")).unwrap();
    assert_eq!(Record::read(&more).unwrap().runs.len(), 1);
    let larger = experiment(folder.path(), &FILE.replace("20M", "40M")).unwrap();
    assert_eq!(Record::read(&larger).unwrap().runs, []);
    let another = experiment(folder.path(), &FILE.replace("-S", "-s")).unwrap();
    let error = Record::read(&another).unwrap_err().to_string();
    assert!(error.contains("server \"far\" here had another `url`"), "{error}");
}

#[test]
fn other_files_are_no_journals() {
    let folder = tempfile::tempdir().unwrap();
    let (experiment, path) = begun(folder.path());
    let whole = std::fs::read_to_string(&path).unwrap();
    for (text, expected) in [
        ("# notes\n", "line 1 is not a run"),
        (
            "server,direction,file_size,files_at_a_time,connections,block_size,tcp_buffer,congestion_control,round,bytes,seconds,cpu_seconds\n",
            "not the journal of a sweep",
        ),
        (&format!("{whole}near,read,5000000,1,1,,,,0,1,-1,\n"), "line 7 is not a run"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Journal::open(&experiment).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
