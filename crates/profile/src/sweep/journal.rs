//! The journal from which an interrupted sweep continues: a CSV file with a line for each run.
//!
//! A line is on disk before the next run starts. A kill may leave a partial line, which the next
//! start removes. Lines with `#` have the id in the names of the directories at servers, and the
//! definition of each server.

use super::SweepError;
use super::experiment::{Axis, Experiment, Point};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

const TITLE: &str = "# hither tune sweep 1 ";

/// A completed run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run {
    pub(super) round: usize,
    /// The index of the point.
    pub(super) point: usize,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// CPU time of the server; none if it was not measured.
    pub(super) cpu_seconds: Option<f64>,
}

/// The content of a journal.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Empty for a new journal.
    pub(super) id: String,
    pub(super) runs: Vec<Run>,
    /// Rounds and points of the runs.
    pub(super) done: BTreeSet<(usize, usize)>,
    definitions: BTreeSet<String>,
}

impl Record {
    /// Reads the journal of an experiment, if there is one.
    pub(super) fn read(experiment: &Experiment) -> Result<Self, SweepError> {
        let path = &experiment.journal;
        match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            text => Self::parse(&text.map_err(SweepError::io("read", path))?, experiment)
                .map_err(|what| SweepError::Refused(path.clone(), what)),
        }
    }

    fn parse(text: &str, experiment: &Experiment) -> Result<Self, String> {
        let mut record = Self::default();
        let points = experiment.points.iter().enumerate();
        let points = points.map(|(at, point)| {
            let (_, bytes) = experiment.files(point);
            (key(experiment, point), (at, bytes))
        });
        let points = points.collect();
        // Text after the last line break is a partial line.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for (number, line) in whole.lines().enumerate() {
            if let Some(id) = line.strip_prefix(TITLE).filter(|_| number == 0) {
                record.id = id.to_owned();
            } else if let Some(definition) = line.strip_prefix("# server ") {
                record.definitions.insert(definition.to_owned());
            } else if line != header() {
                let run = run(line, &points);
                let run =
                    run.ok_or_else(|| format!("line {} is not a run of a sweep", number + 1))?;
                let is_new = |it: &Run| record.done.insert((it.round, it.point));
                record.runs.extend(run.filter(is_new));
            }
        }
        if record.id.is_empty() && !whole.is_empty() {
            return Err("this is not the journal of a sweep: move it away".into());
        }
        for server in &experiment.servers {
            let definition = server.definition();
            let name = format!("{}: ", server.name);
            let mut others = record.definitions.iter().filter(|it| it.starts_with(&name));
            if others.any(|it| *it != definition) {
                return Err(format!(
                    "the runs of server {:?} here had another `url`, `client` or `before`: change \
                     its name, or move the journal away",
                    server.name
                ));
            }
        }
        Ok(record)
    }
}

/// The text that identifies a point.
fn key(experiment: &Experiment, point: &Point) -> String {
    let server = experiment.servers.get(point.server).map_or("", |it| &it.name);
    let settings = Axis::ALL.iter().map(|axis| point.settings.get(axis));
    let settings = settings.map(|it| it.map(ToString::to_string).unwrap_or_default());
    std::iter::once(server.to_owned()).chain(settings).collect::<Vec<_>>().join(",")
}

fn header() -> String {
    let axes: Vec<_> = Axis::ALL.iter().map(|it| it.key()).collect();
    format!("server,{},round,bytes,seconds,cpu_seconds", axes.join(","))
}

/// Parses the line of a run. The inner option is none if no point with the same number of bytes
/// matches, because the experiment file has changed.
fn run(line: &str, points: &BTreeMap<String, (usize, u64)>) -> Option<Option<Run>> {
    let mut fields = line.rsplitn(5, ',');
    let cpu_seconds = match fields.next()? {
        "" => None,
        text => Some(text.parse().ok()?),
    };
    let seconds = fields.next()?.parse().ok().filter(|it| *it > 0.0)?;
    let bytes = fields.next()?.parse().ok()?;
    let round = fields.next()?.parse().ok()?;
    let point = points.get(fields.next()?).filter(|it| it.1 == bytes);
    Some(point.map(|&(point, _)| Run { round, point, bytes, seconds, cpu_seconds }))
}

/// A journal that is open for writing, by one sweep at a time.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    pub(super) record: Record,
}

impl Journal {
    /// Opens the journal of an experiment, and creates it if it does not exist.
    pub(super) fn open(experiment: &Experiment) -> Result<Self, SweepError> {
        let path = experiment.journal.clone();
        let failed = || SweepError::io("write", &path);
        let mut open = OpenOptions::new();
        let mut file = open.read(true).append(true).create(true).open(&path).map_err(failed())?;
        if file.try_lock().is_err() {
            return Err(SweepError::Refused(path, "another sweep writes this journal".into()));
        }
        let record = Record::read(experiment)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed())?;
        let whole = bytes.iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
        file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed())?;
        let mut journal = Self { file, path, record };
        if journal.record.id.is_empty() {
            let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
            let uuid =
                uuid.map_err(SweepError::io("read", "/proc/sys/kernel/random/uuid".as_ref()))?;
            journal.record.id = uuid.split('-').next().unwrap_or_default().to_owned();
            journal.write(&format!("{TITLE}{}\n{}", journal.record.id, header()))?;
        }
        for definition in experiment.servers.iter().map(super::experiment::Server::definition) {
            if journal.record.definitions.insert(definition.clone()) {
                journal.write(&format!("# server {definition}"))?;
            }
        }
        Ok(journal)
    }

    /// Adds a run.
    pub(super) fn add(&mut self, experiment: &Experiment, run: Run) -> Result<(), SweepError> {
        let Run { round, bytes, seconds, cpu_seconds, .. } = run;
        let point = experiment.points.get(run.point).map(|it| key(experiment, it));
        let point = point.unwrap_or_default();
        let cpu = cpu_seconds.map(|it| it.to_string()).unwrap_or_default();
        self.write(&format!("{point},{round},{bytes},{seconds},{cpu}"))?;
        self.record.done.insert((round, run.point));
        self.record.runs.push(run);
        Ok(())
    }

    fn write(&mut self, line: &str) -> Result<(), SweepError> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        let written = written.and_then(|()| self.file.sync_data());
        written.map_err(SweepError::io("write", &self.path))
    }
}
