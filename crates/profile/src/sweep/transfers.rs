//! Files at both ends, and the transfers between them.
//!
//! On this machine they lie in a scratch directory, at a server in a directory `hither-sweep-ID`,
//! whose id is in the journal. `hither` creates and removes that directory and checks the copied
//! files, whichever client is measured.

use super::SweepError;
use super::commands::Limits;
use super::experiment::{Axis, Experiment, Point, Server, expand};
use super::journal::Run;
use crate::counters::TICKS_PER_SECOND;
use crate::storage::scratch::{Scratch, remove_left_over};
use crate::target::Processes;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// All users may write, and only owners remove: servers run as different users.
const SHARED: u32 = 0o1777;

/// Both ends of all transfers.
#[derive(Debug)]
pub(super) struct Transfers<'a> {
    experiment: &'a Experiment,
    /// The name of the directory at servers, with a slash.
    directory: String,
    scratch: Scratch,
    output: PathBuf,
    stop: &'a AtomicBool,
}

impl<'a> Transfers<'a> {
    /// Creates the scratch directory, and removes those that killed sweeps have left.
    pub(super) fn new(
        experiment: &'a Experiment,
        id: &str,
        stop: &'a AtomicBool,
    ) -> Result<Self, SweepError> {
        let parent = fs::canonicalize(&experiment.scratch);
        let scratch = parent.and_then(|parent| {
            remove_left_over(&parent)?;
            let scratch = Scratch::create(&parent)?;
            fs::create_dir(scratch.path().join("sources"))?;
            fs::create_dir(scratch.path().join("targets"))?;
            Ok(scratch)
        });
        let scratch =
            scratch.map_err(SweepError::io("make a directory in", &experiment.scratch))?;
        let output = scratch.path().join("output");
        Ok(Self { experiment, directory: format!("hither-sweep-{id}/"), scratch, output, stop })
    }

    fn limits(&self) -> Limits<'_> {
        Limits { timeout: self.experiment.timeout, stop: self.stop, output: &self.output }
    }

    /// A directory of this machine, with a slash.
    fn local(&self, directory: &str) -> String {
        format!("{}/{directory}/", self.scratch.path().display())
    }

    fn server(&self, point: &Point) -> &Server {
        &self.experiment.servers[point.server]
    }

    /// The names of the files of a point's runs.
    fn names(&self, point: &Point) -> impl Iterator<Item = String> + use<> {
        let direction = if point.is_write() { "write" } else { "read" };
        let size = point.number(Axis::FileSize);
        (0..self.experiment.files(point).0)
            .map(move |number| format!("{direction}-{size}-{number}"))
    }

    /// The directories at servers, each by its URL or path, with a server that reaches it.
    fn directories(&self) -> BTreeMap<String, &Server> {
        let servers = self.experiment.servers.iter();
        servers.map(|it| (format!("{}{}", it.storage(), self.directory), it)).collect()
    }

    /// Creates all source files of transfers.
    pub(super) fn prepare(&self) -> Result<(), SweepError> {
        let mut files = BTreeMap::new();
        for point in &self.experiment.points {
            for name in self.names(point) {
                files.insert(name, point.number(Axis::FileSize));
            }
        }
        let sources = PathBuf::from(self.local("sources"));
        let make = |(name, size): (&String, &u64)| {
            // Files of one size share their content, so it needs disk space only once.
            let content = sources.join(size.to_string());
            if !content.exists() {
                let random = File::open("/dev/urandom")?;
                io::copy(&mut random.take(*size), &mut File::create(&content)?)?;
            }
            fs::hard_link(content, sources.join(name))
        };
        files.iter().try_for_each(make).map_err(SweepError::io("make files in", &sources))?;
        let read: Vec<_> = files.keys().filter(|it| it.starts_with("read")).collect();
        for (directory, server) in self.directories() {
            if directory.starts_with('/') {
                let made = fs::create_dir_all(&directory);
                let made = made
                    .and_then(|()| fs::set_permissions(&directory, Permissions::from_mode(SHARED)));
                made.map_err(SweepError::io("make", Path::new(&directory)))?;
            } else {
                self.limits().run(hither(server, &["mkdir", "--parents", &directory], []))?;
            }
            if !read.is_empty() {
                let names = read.iter().map(|it| sources.join(it).display().to_string());
                let names = names.chain([directory]);
                self.limits().run(hither(server, &["cp", "--quiet"], names))?;
            }
        }
        Ok(())
    }

    /// Removes the directories at all servers, also those of earlier starts. Ctrl-C does not
    /// interrupt this.
    pub(super) fn remove(&self) -> Result<(), SweepError> {
        let never = AtomicBool::new(false);
        let limits = Limits { stop: &never, ..self.limits() };
        for (directory, server) in self.directories() {
            limits.run(hither(server, &["rm", "--recursive", "--force", &directory], []))?;
        }
        Ok(())
    }

    /// The commands of the client of a point.
    fn commands(&self, point: &Point) -> Vec<Vec<String>> {
        let server = self.server(point);
        let remote = format!("{}{}", server.url, self.directory);
        let (from, to) = if point.is_write() {
            (self.local("sources"), remote)
        } else {
            (remote, self.local("targets"))
        };
        let url = |it: String| if it.starts_with('/') { format!("file://{it}") } else { it };
        let names: Vec<String> = self.names(point).collect();
        let command = |file: &str| -> Vec<String> {
            let value = |name: &str| match name {
                "source" => format!("{from}{file}"),
                "target" => format!("{to}{file}"),
                "source_url" => url(format!("{from}{file}")),
                "target_url" => url(format!("{to}{file}")),
                "directory" => to.clone(),
                _ => setting(point, name),
            };
            let words = |word: &String| match &**word {
                "{sources}" => names.iter().map(|it| format!("{from}{it}")).collect(),
                word => vec![expand(word, value)],
            };
            server.client.iter().flat_map(words).collect()
        };
        if server.takes_all_files() {
            return vec![command("")];
        }
        names.iter().map(|it| command(it)).collect()
    }

    /// Transfers the files of a point once, then checks and removes the copies.
    pub(super) fn run(&self, round: usize, index: usize) -> Result<Run, SweepError> {
        let point = &self.experiment.points[index];
        let server = self.server(point);
        if !server.before.is_empty() {
            let words = server.before.iter().map(|word| expand(word, |name| setting(point, name)));
            self.limits().run(words.collect())?;
        }
        let commands = self.commands(point);
        let files = usize::try_from(point.number(Axis::FilesAtATime)).unwrap_or(usize::MAX);
        let cpu_before = self.cpu_ticks(server)?;
        let seconds = self.limits().run_all(&commands, files)?;
        let cpu_after = self.cpu_ticks(server)?;
        let size = point.number(Axis::FileSize);
        let names: Vec<String> = self.names(point).collect();
        let sizes = if point.is_write() {
            self.take_written(server, &names)?
        } else {
            let take = |name| take_local(&PathBuf::from(self.local("targets")).join(name));
            names.iter().map(take).collect()
        };
        if sizes != vec![Some(size); names.len()] {
            let arrived = sizes.iter().filter(|it| **it == Some(size)).count();
            let what =
                format!("only {arrived} of {} files have {size} bytes after it", names.len());
            return Err(SweepError::Failed(commands[0].join(" "), what));
        }
        // If a worker of the server has ended, its CPU time is lost.
        let difference =
            |(after, before): (u64, u64)| after.saturating_sub(before) as f64 / TICKS_PER_SECOND;
        let cpu_seconds = cpu_after.zip(cpu_before).map(difference);
        let (_, bytes) = self.experiment.files(point);
        Ok(Run { round, point: index, bytes, seconds, cpu_seconds })
    }

    /// Removes files at a server; returns their sizes.
    fn take_written(
        &self,
        server: &Server,
        names: &[String],
    ) -> Result<Vec<Option<u64>>, SweepError> {
        let path = |name: &String| format!("{}{}{name}", server.storage(), self.directory);
        let printed = self.limits().run(hither(server, &["du"], names.iter().map(path)))?;
        self.limits().run(hither(server, &["rm", "--force"], names.iter().map(path)))?;
        let lines = printed.lines().filter_map(|line| line.split_once('\t'));
        Ok(lines.map(|(size, _)| size.parse().ok()).collect())
    }

    /// CPU time of a server since its start; none if it is not measured.
    fn cpu_ticks(&self, server: &Server) -> Result<Option<u64>, SweepError> {
        let Some(target) = server.target() else { return Ok(None) };
        let ticks = Processes::new(target).cpu_ticks();
        let what = || format!("server {:?}: no process of its `pid` or `unit` runs", server.name);
        let refused = || SweepError::Refused(self.experiment.path.clone(), what());
        ticks.ok_or_else(refused).map(Some)
    }
}

/// A command of hither for a server, independent of earlier commands (`--no-store`).
fn hither(server: &Server, verb: &[&str], names: impl IntoIterator<Item = String>) -> Vec<String> {
    let verb = verb.iter().chain(&["--no-store"]).map(|it| (*it).to_owned());
    server.hither.iter().cloned().chain(verb).chain(names).collect()
}

/// The value of a placeholder.
fn setting(point: &Point, name: &str) -> String {
    if name == "all_connections" {
        let all = point.number(Axis::Connections) * point.number(Axis::FilesAtATime);
        return all.to_string();
    }
    let found = point.settings.iter().find(|(axis, _)| axis.key() == name);
    found.map(|(_, setting)| setting.to_string()).unwrap_or_default()
}

/// Removes a local file; returns its size.
fn take_local(path: &Path) -> Option<u64> {
    let size = fs::metadata(path).ok()?.len();
    fs::remove_file(path).ok()?;
    Some(size)
}
