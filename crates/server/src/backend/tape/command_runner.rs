//! The helper: a separate process that may run the command of `[tape]`, and nothing else.
//!
//! Its standard input is a socket to the server. The first line is a [`HelperSetup`], each further
//! one an [`Order`]; it answers each task with a [`TaskResult`], in any order. It ends, and kills
//! running commands, when the server is gone.

use hither_core::sync::lock;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum length of a line: a path of 4096 bytes, each of them escaped.
pub(super) const MAX_LINE_BYTES: usize = 32 << 10;
/// The maximum of output that is passed on.
const MAX_OUTPUT_BYTES: u64 = 1024;
/// The interval at which a running command is polled.
const TICK: Duration = Duration::from_millis(5);
/// The time for the last output of a command that has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// An action of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TapeAction {
    Stage,
    State,
    Release,
}

impl TapeAction {
    fn name(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::State => "state",
            Self::Release => "release",
        }
    }
}

/// The rights of the helper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HelperSetup {
    pub(super) root: PathBuf,
    pub(super) command: Vec<String>,
    pub(super) commands: usize,
    pub(super) command_seconds: u64,
}

/// A line from the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    Run(Task),
    /// Nobody waits for the task of this id any more: its command is killed.
    Cancel(u64),
}

/// One run of the command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) id: u64,
    pub(super) action: TapeAction,
    /// Relative to the root.
    pub(super) path: String,
}

/// The end of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TaskResult {
    pub(super) id: u64,
    /// The exit code; none if it did not run to its end.
    pub(super) code: Option<i32>,
    /// The text that it printed, or why it did not run.
    pub(super) output: String,
}

/// Runs the helper until the server is gone.
///
/// # Errors
/// The server sent a line that violates the protocol.
pub fn run_tape_helper() -> io::Result<()> {
    let socket = UnixStream::from(rustix::io::dup(io::stdin())?);
    let answers = Arc::new(Mutex::new(socket.try_clone()?));
    let mut lines = BufReader::new(socket);
    let Some(setup) = read_line::<HelperSetup>(&mut lines)? else { return Ok(()) };
    let runner = Arc::new(Runner { tasks: Mutex::new(Some(HashMap::new())), setup });
    // A full queue leaves further tasks in the socket.
    let (tasks, queue) = sync_channel::<Task>(runner.setup.commands);
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..runner.setup.commands {
        let runner = Arc::clone(&runner);
        let queue = Arc::clone(&queue);
        let answers = Arc::clone(&answers);
        thread::spawn(move || {
            while let Some(task) = next(&queue) {
                let result = runner.run(&task);
                // A server that is gone ends the helper.
                drop(write_line(&mut *lock(&answers), &result));
            }
        });
    }
    let read = loop {
        match read_line::<Order>(&mut lines) {
            Ok(Some(Order::Run(task))) => {
                if let Some(known) = &mut *lock(&runner.tasks) {
                    known.insert(task.id, None);
                }
                drop(tasks.send(task));
            }
            Ok(Some(Order::Cancel(id))) => runner.cancel(id),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // No further command starts.
    let left = lock(&runner.tasks).take();
    left.into_iter().flatten().filter_map(|(_, group)| group).for_each(kill);
    read
}

fn kill(group: Pid) {
    // It may have ended meanwhile.
    let _gone = kill_process_group(group, Signal::KILL);
}

fn next(queue: &Mutex<Receiver<Task>>) -> Option<Task> {
    lock(queue).recv().ok()
}

struct Runner {
    setup: HelperSetup,
    /// The tasks that wait or run, and the process groups of their commands; none once the server
    /// is gone.
    tasks: Mutex<Option<HashMap<u64, Option<Pid>>>>,
}

impl Runner {
    fn run(&self, task: &Task) -> TaskResult {
        let output = self.path(&task.path).map(|path| self.output(task, &path));
        if let Some(known) = &mut *lock(&self.tasks) {
            known.remove(&task.id);
        }
        let (code, output) = match output {
            None => (None, format!("{:?} is not a path below the root", task.path)),
            Some(Err(error)) => (None, format!("cannot run the command: {error}")),
            Some(Ok((Some(status), output))) => (status.code(), output),
            Some(Ok((None, _))) => (None, format!("killed after {} s", self.setup.command_seconds)),
        };
        TaskResult { id: task.id, code, output }
    }

    /// Starts the command of a task, unless that was cancelled.
    fn start(&self, id: u64, command: &mut Command) -> io::Result<(Child, Pid)> {
        // Until its group is known, no other thread looks for it.
        let mut tasks = lock(&self.tasks);
        let known = tasks.as_mut().and_then(|tasks| tasks.get_mut(&id));
        let known = known.ok_or_else(|| io::Error::other("nobody waits for it"))?;
        let child = command.spawn()?;
        let group = Pid::from_child(&child);
        *known = Some(group);
        Ok((child, group))
    }

    /// Kills the command of a task, or forgets the task before it starts.
    fn cancel(&self, id: u64) {
        let task = lock(&self.tasks).as_mut().and_then(|tasks| tasks.remove(&id));
        task.flatten().into_iter().for_each(kill);
    }

    /// The path on this machine; none if it leads out of the folder.
    fn path(&self, relative: &str) -> Option<PathBuf> {
        let mut components = Path::new(relative).components();
        let is_below = components.all(|it| matches!(it, Component::Normal(_)));
        (is_below && !relative.contains('\0')).then(|| self.setup.root.join(relative))
    }

    /// Runs the command. Returns no status if it had to be killed.
    #[expect(clippy::disallowed_methods, reason = "a thread of a process without a runtime")]
    fn output(&self, task: &Task, path: &Path) -> io::Result<(Option<ExitStatus>, String)> {
        let Some((program, arguments)) = self.setup.command.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut command = Command::new(program);
        command.args(arguments).arg(task.action.name()).arg(path);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let (mut child, group) = self.start(task.id, &mut command)?;
        let (sender, output) = sync_channel(1);
        let stdout = child.stdout.take();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(stdout) = stdout {
                drop(stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes));
            }
            drop(sender.send(bytes));
        });
        let end = Instant::now() + Duration::from_secs(self.setup.command_seconds);
        let status = loop {
            match child.try_wait()? {
                Some(status) => break Some(status),
                None if Instant::now() >= end => {
                    kill(group);
                    child.wait()?;
                    break None;
                }
                None => thread::sleep(TICK),
            }
        };
        // A process that it has left behind may hold the other end.
        let bytes = output.recv_timeout(OUTPUT_TIMEOUT).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        Ok((status, text.trim().replace(|letter: char| letter.is_control(), " ")))
    }
}

/// Reads one line; none at the end.
fn read_line<T: DeserializeOwned>(lines: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    lines.take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}

/// Writes one line.
pub(super) fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)
}
