//! The experiment file: its keys, its checks, and the points that follow from it.

use super::SweepError;
use crate::target::Target;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Value;

const DEFAULT_RUNS: usize = 5;
const MAX_RUNS: usize = 1000;
const DEFAULT_TIMEOUT_SECONDS: u64 = 600;
const MAX_TIMEOUT_SECONDS: u64 = 86_400;
const MAX_ALL_RUNS: usize = 100_000;
/// Maximum number of files of a run: their names are arguments of one command.
const MAX_FILES: u64 = 1000;
/// Maximum number of connections of a file, and of files at a time.
const MAX_COUNT: i64 = 1024;
/// Placeholders in the command of a client that are not axes.
const NAMES: [&str; 7] =
    ["source", "target", "source_url", "target_url", "sources", "directory", "all_connections"];

/// A function that parses a number of bytes such as `64M`; its error says what was expected.
pub type ByteSize = fn(&str) -> Result<u64, String>;

/// The values of axes.
type Axes = BTreeMap<Axis, Vec<String>>;

/// A setting of transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Axis {
    /// `read`, from the server, or `write`.
    Direction,
    /// Bytes of a file.
    FileSize,
    /// Files that are transferred at the same time.
    FilesAtATime,
    /// Connections of each file.
    Connections,
    /// Bytes of a request to disk or network.
    BlockSize,
    /// Bytes of TCP's buffers.
    TcpBuffer,
    /// The kernel's congestion control.
    CongestionControl,
}

impl Axis {
    pub(super) const ALL: [Self; 7] = [
        Self::Direction,
        Self::FileSize,
        Self::FilesAtATime,
        Self::Connections,
        Self::BlockSize,
        Self::TcpBuffer,
        Self::CongestionControl,
    ];

    /// The name in files.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Direction => "direction",
            Self::FileSize => "file_size",
            Self::FilesAtATime => "files_at_a_time",
            Self::Connections => "connections",
            Self::BlockSize => "block_size",
            Self::TcpBuffer => "tcp_buffer",
            Self::CongestionControl => "congestion_control",
        }
    }

    /// Parses a value; sizes become bytes.
    fn setting(self, value: &Value, byte_size: ByteSize) -> Result<String, String> {
        let word = value.as_str().map(str::to_owned);
        let count = value.as_integer().filter(|it| (1..=MAX_COUNT).contains(it));
        let (found, expected) = match self {
            Self::Direction => {
                (word.filter(|it| it == "read" || it == "write"), "\"read\" or \"write\"")
            }
            Self::CongestionControl => (word.filter(|it| is_plain(it)), "a name such as \"cubic\""),
            Self::Connections | Self::FilesAtATime => {
                (count.map(|it| it.to_string()), "a number from 1 to 1024")
            }
            Self::FileSize | Self::BlockSize | Self::TcpBuffer => {
                let bytes = size(value, byte_size).map(|it| it.to_string());
                (bytes, "bytes, as in 65536 or \"64M\"")
            }
        };
        found.ok_or_else(|| format!("axes.{} has {value}, expected {expected}", self.key()))
    }
}

fn size(value: &Value, byte_size: ByteSize) -> Option<u64> {
    let number = value.as_integer().and_then(|it| u64::try_from(it).ok());
    let bytes = number.or_else(|| byte_size(value.as_str()?).ok());
    bytes.filter(|it| *it > 0)
}

/// Returns true for names that need no quotes in a journal.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || " ._/+-".contains(c))
}

/// The placeholders in a text such as `-S {connections}`.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |it: &str| it.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let parts = text.split('{').skip(1).filter_map(|part| part.split_once('}'));
    parts.map(|(name, _)| name).filter(move |it| !it.is_empty() && is_name(it))
}

/// The text with its placeholders replaced by their values.
pub(super) fn expand(text: &str, value: impl Fn(&str) -> String) -> String {
    let replace = |done: String, name| done.replace(&format!("{{{name}}}"), &value(name));
    names(text).fold(text.to_owned(), replace)
}

/// A server and its client.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub(super) name: String,
    /// The URL of a directory on the server.
    pub(super) url: String,
    /// Another URL or path of the same directory, for files that the sweep prepares and removes.
    storage: Option<String>,
    /// The command of a client; `hither cp` if empty.
    #[serde(default)]
    pub(super) client: Vec<String>,
    /// A command that runs before each run.
    #[serde(default)]
    pub(super) before: Vec<String>,
    /// The command `hither` for this server.
    #[serde(default)]
    pub(super) hither: Vec<String>,
    pid: Option<u32>,
    unit: Option<String>,
}

impl Server {
    pub(super) fn storage(&self) -> &str {
        self.storage.as_ref().unwrap_or(&self.url)
    }

    /// The processes whose CPU time is measured.
    pub(super) fn target(&self) -> Option<Target> {
        let unit = || self.unit.clone().map(Target::Unit);
        self.pid.map(Target::Process).or_else(unit)
    }

    /// The server and its client in one line, which identifies them in a journal.
    pub(super) fn definition(&self) -> String {
        let Self { name, url, client, before, .. } = self;
        format!("{name}: {url:?} {client:?} {before:?}")
    }

    /// Returns true if one command of the client transfers all files of a run.
    pub(super) fn takes_all_files(&self) -> bool {
        self.client.iter().any(|word| word == "{sources}")
    }

    /// Sets default commands where the file has none, and checks the server.
    fn complete(&mut self, hither: &Path, axes: &Axes) -> Result<(), String> {
        if !is_plain(&self.name) {
            return Err("the name of a server may have letters, digits, spaces and ._/+-".into());
        }
        if ![&*self.url, self.storage()].iter().all(|it| it.ends_with('/')) {
            return Err("`url` and `storage` have to end with /: they name directories".into());
        }
        if self.pid == Some(0) || (self.pid.is_some() && self.unit.is_some()) {
            return Err("name either a `pid` or a `unit`".into());
        }
        if self.hither.is_empty() {
            self.hither.push(hither.display().to_string());
        }
        if self.client.is_empty() {
            self.client.clone_from(&self.hither);
            let mut add = |words: &[&str]| self.client.extend(words.iter().map(|it| (*it).into()));
            add(&["cp", "--quiet", "--no-store", "--transfers", "{files_at_a_time}"]);
            if axes.contains_key(&Axis::Connections) {
                add(&["--max-connections", "{all_connections}"]);
            }
            add(&["{sources}", "{directory}"]);
        }
        self.check_names(axes)
    }

    /// Checks that the commands use all axes, and no unknown placeholder.
    fn check_names(&self, axes: &Axes) -> Result<(), String> {
        let client: BTreeSet<&str> = self.client.iter().flat_map(|it| names(it)).collect();
        let before: BTreeSet<&str> = self.before.iter().flat_map(|it| names(it)).collect();
        let is_axis = |name: &&&str| axes.keys().any(|axis| axis.key() == **name);
        let others = client.iter().filter(|it| !NAMES.contains(it));
        if let Some(name) = others.chain(&before).find(|it| !is_axis(it)) {
            return Err(format!(
                "{{{name}}} is not an axis of this file, and in `client` not one of {NAMES:?}"
            ));
        }
        let has = |names: &[&str]| names.iter().any(|it| client.contains(*it));
        let has_sources = self.takes_all_files() || has(&["source", "source_url"]);
        if !has_sources || !has(&["target", "target_url", "directory"]) {
            return Err("`client` has to name {source} and {target}, or for all files at once \
                        {sources}, as a word of its own, and {directory}"
                .into());
        }
        let is_set = |axis: &Axis| match axis {
            Axis::Direction | Axis::FileSize => true,
            Axis::FilesAtATime if !self.takes_all_files() => true,
            Axis::Connections if has(&["all_connections"]) => true,
            _ => client.contains(axis.key()) || before.contains(axis.key()),
        };
        let unset = axes.keys().find(|it| !is_set(it));
        unset.map_or(Ok(()), |axis| {
            Err(format!(
                "nothing sets {0}: neither `client` nor `before` names {{{0}}}, and `hither cp` has \
                 options for connections and files_at_a_time only",
                axis.key()
            ))
        })
    }
}

/// One combination of a server and settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Point {
    /// The index of the server.
    pub(super) server: usize,
    pub(super) settings: BTreeMap<Axis, String>,
}

impl Point {
    pub(super) fn number(&self, axis: Axis) -> u64 {
        self.settings.get(&axis).and_then(|it| it.parse().ok()).unwrap_or(1)
    }

    pub(super) fn is_write(&self) -> bool {
        self.settings.get(&Axis::Direction).is_some_and(|it| it == "write")
    }
}

/// The keys of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    bytes: Value,
    runs: Option<usize>,
    timeout: Option<u64>,
    scratch: Option<PathBuf>,
    axes: BTreeMap<Axis, Vec<Value>>,
    server: Vec<Server>,
}

/// A checked experiment.
#[derive(Debug)]
pub(super) struct Experiment {
    pub(super) path: PathBuf,
    pub(super) runs: usize,
    /// Minimum bytes that a run transfers.
    pub(super) bytes: u64,
    pub(super) timeout: Duration,
    pub(super) journal: PathBuf,
    /// The local directory for files.
    pub(super) scratch: PathBuf,
    pub(super) servers: Vec<Server>,
    pub(super) points: Vec<Point>,
}

/// The position and kind of a TOML error. Values and lines may contain secrets, so only keys are
/// quoted.
fn invalid(text: &str, error: &toml::de::Error) -> String {
    let span = error.span().unwrap_or_default();
    let line = text.get(..span.start).unwrap_or_default().matches('\n').count() + 1;
    let after = text.get(span.end..).unwrap_or_default();
    let is_key = after.trim_start_matches([' ', '\t']).starts_with('=');
    let message = error.message();
    let shown = match message.rsplit_once(", expected ") {
        Some((_, expected)) if !is_key => format!("expected {expected}"),
        _ => message.to_owned(),
    };
    format!("line {line}: {}", shown.trim_end())
}

impl Experiment {
    /// Reads a file; `hither` is the program that copies for servers without a client in the file.
    pub(super) fn read(
        path: &Path,
        hither: &Path,
        byte_size: ByteSize,
    ) -> Result<Self, SweepError> {
        let text = std::fs::read_to_string(path).map_err(SweepError::io("read", path))?;
        Self::parse(path, &text, hither, byte_size)
            .map_err(|what| SweepError::Refused(path.to_owned(), what))
    }

    fn parse(path: &Path, text: &str, hither: &Path, byte_size: ByteSize) -> Result<Self, String> {
        let file: ExperimentFile = toml::from_str(text).map_err(|error| invalid(text, &error))?;
        let bytes = size(&file.bytes, byte_size);
        let bytes = bytes.ok_or("`bytes` has to be the bytes of a run, as in \"1G\"")?;
        let runs = file.runs.unwrap_or(DEFAULT_RUNS);
        let timeout = file.timeout.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        if !(1..=MAX_RUNS).contains(&runs) || !(1..=MAX_TIMEOUT_SECONDS).contains(&timeout) {
            return Err(format!(
                "`runs` has to be 1 to {MAX_RUNS}, and `timeout` 1 to {MAX_TIMEOUT_SECONDS} seconds"
            ));
        }
        let axes = axes(&file.axes, bytes, byte_size)?;
        let mut servers = file.server;
        for server in &mut servers {
            let done = server.complete(hither, &axes);
            done.map_err(|what| format!("server {:?}: {what}", server.name))?;
        }
        let distinct: BTreeSet<_> = servers.iter().map(|it| &it.name).collect();
        if servers.is_empty() || distinct.len() < servers.len() {
            return Err("[[server]] is needed, each with a `name` of its own".into());
        }
        let all = axes.values().map(Vec::len).fold(servers.len() * runs, usize::saturating_mul);
        if all > MAX_ALL_RUNS {
            return Err(format!("these are {all} runs: set fewer, {MAX_ALL_RUNS} at most"));
        }
        let points = points(servers.len(), &axes);
        // Paths are relative to the directory of the file.
        let beside = |it: PathBuf| path.parent().map(|parent| parent.join(&it)).unwrap_or(it);
        let scratch = beside(file.scratch.unwrap_or_else(|| ".".into()));
        let journal = path.with_extension("journal.csv");
        let timeout = Duration::from_secs(timeout);
        let path = path.to_owned();
        Ok(Self { path, runs, bytes, timeout, journal, scratch, servers, points })
    }

    /// The number of files that a run of a point transfers, and their total bytes.
    pub(super) fn files(&self, point: &Point) -> (u64, u64) {
        let size = point.number(Axis::FileSize);
        let files = self.bytes.div_ceil(size);
        (files, files.saturating_mul(size))
    }

    /// All runs in order. Each round has every point once and starts with a different one, so that
    /// changes over time affect all points.
    pub(super) fn order(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let points = self.points.len();
        let step = (points / self.runs).max(1);
        let round = move |round| (0..points).map(move |at| (round, (at + round * step) % points));
        (0..self.runs).flat_map(round)
    }
}

/// The settings of all axes.
fn axes(
    file: &BTreeMap<Axis, Vec<Value>>,
    bytes: u64,
    byte_size: ByteSize,
) -> Result<Axes, String> {
    let mut axes = BTreeMap::from([
        (Axis::Direction, vec!["read".to_owned()]),
        (Axis::FilesAtATime, vec!["1".to_owned()]),
    ]);
    for (axis, values) in file {
        let settings = values.iter().map(|it| axis.setting(it, byte_size));
        let settings: Vec<_> = settings.collect::<Result<_, _>>()?;
        let distinct: BTreeSet<_> = settings.iter().collect();
        if settings.is_empty() || distinct.len() < settings.len() {
            return Err(format!("axes.{} has to list each of its values once", axis.key()));
        }
        axes.insert(*axis, settings);
    }
    let numbers = |axis| axes.get(&axis).into_iter().flatten().flat_map(|it| it.parse::<u64>());
    let files = |it: u64| bytes.div_ceil(it);
    let fewest = numbers(Axis::FileSize).map(files).min().ok_or("axes.file_size is needed")?;
    if numbers(Axis::FileSize).map(files).max() > Some(MAX_FILES) {
        return Err(format!("`bytes` are more than {MAX_FILES} files of one axes.file_size"));
    }
    if numbers(Axis::FilesAtATime).max() > Some(fewest) {
        return Err(format!(
            "`bytes` are {fewest} files of the largest axes.file_size, fewer than the largest \
             axes.files_at_a_time"
        ));
    }
    Ok(axes)
}

/// Every combination of a server and settings.
fn points(servers: usize, axes: &Axes) -> Vec<Point> {
    let alone = |server| Point { server, settings: BTreeMap::new() };
    let mut points: Vec<Point> = (0..servers).map(alone).collect();
    for (axis, settings) in axes {
        let with = |point: Point| {
            settings.iter().map(move |setting| {
                let mut point = point.clone();
                point.settings.insert(*axis, setting.clone());
                point
            })
        };
        points = points.into_iter().flat_map(with).collect();
    }
    points
}
