//! The server's end of the socket to the helper.

use crate::backend::tape::command_runner::{
    HelperSetup, MAX_LINE_BYTES, Order, TapeAction, Task, TaskResult, write_line,
};
use crate::settings::Settings;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use tracing::warn;

/// The process that may run the command of `[tape]`. It ends when this is dropped.
#[derive(Debug)]
pub struct TapeHelper {
    pub(super) socket: UnixStream,
    /// Not waited for: it ends with the socket, or shortly after this process.
    pub(super) _child: Child,
}

impl TapeHelper {
    /// Starts the helper, if the settings have `[tape]`: `program`, which has to call
    /// [`run_tape_helper`](crate::run_tape_helper) when it gets `arguments`. Call this before
    /// [`confine`](crate::confine).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for invalid settings, [`ErrorKind::Local`] if it cannot be started.
    pub fn start(settings: &Settings, program: &Path, arguments: &[&str]) -> Result<Option<Self>> {
        let Some(tape) = &settings.tape else { return Ok(None) };
        tape.check()?;
        let failed = |error: io::Error| {
            let what = format!("cannot start the helper for [tape]: {error}");
            Error::new(ErrorKind::Local, what).with_source(error)
        };
        let start = || {
            let (mut socket, other) = UnixStream::pair()?;
            let child = Command::new(program)
                .args(arguments)
                .stdin(Stdio::from(OwnedFd::from(other)))
                .stdout(Stdio::null())
                // Ctrl-C is for the server, which ends the helper.
                .process_group(0)
                .spawn()?;
            let setup = HelperSetup {
                root: std::path::absolute(&settings.root)?,
                command: tape.command.clone(),
                commands: tape.commands,
                command_seconds: tape.command_seconds,
            };
            write_line(&mut socket, &setup)?;
            socket.set_nonblocking(true)?;
            Ok(Self { socket, _child: child })
        };
        start().map(Some).map_err(failed)
    }
}

/// The time that the helper may take to report a command in addition to that of the command.
const REPORT_TIMEOUT: Duration = Duration::from_secs(15);

/// The reason why a command has no result.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// It ran, and failed with this code, and this output.
    Failed(i32, String),
    /// It did not run to its end.
    Broken(String),
    /// Other commands have had all slots for this time.
    NoSlot(Duration),
}

impl CommandError {
    /// Returns true if the same command would fail again.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Failed(..))
    }
}

/// The output of a command.
pub(crate) type CommandResult = std::result::Result<String, CommandError>;

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(code, output) if output.is_empty() => {
                write!(f, "the tape system failed with code {code}")
            }
            Self::Failed(_, output) => write!(f, "the tape system says: {output}"),
            Self::Broken(why) => write!(f, "the tape command did not run: {why}"),
            Self::NoSlot(wait) => {
                write!(f, "other tape commands have had all slots for {} s", wait.as_secs())
            }
        }
    }
}

/// The tasks of the helper; none once it is gone.
type Pending = Mutex<Option<HashMap<u64, PendingTask>>>;

/// A task without a result. A command that cannot be killed keeps its slot until it has ended.
#[derive(Debug)]
struct PendingTask {
    _slot: OwnedSemaphorePermit,
    /// None once nobody waits for it.
    result: Option<oneshot::Sender<TaskResult>>,
}

/// Runs commands in the helper.
#[derive(Debug)]
pub(crate) struct HelperClient {
    /// Lines to be written: at most two for each slot.
    lines: UnboundedSender<Vec<u8>>,
    pending: Arc<Pending>,
    slots: Arc<Semaphore>,
    last: AtomicU64,
    /// The maximum time from the order to the result, and that of a wait for a slot.
    timeout: Duration,
    _child: Child,
}

impl HelperClient {
    /// Connects to the helper, which runs at most `commands` at a time, each for `limit`.
    pub(crate) fn new(helper: TapeHelper, commands: usize, limit: Duration) -> Result<Self> {
        let TapeHelper { socket, _child } = helper;
        let socket = tokio::net::UnixStream::from_std(socket).map_err(|error| {
            let what = format!("cannot use the socket of the helper for [tape]: {error}");
            Error::new(ErrorKind::Local, what).with_source(error)
        })?;
        let (answers, out) = socket.into_split();
        let pending: Arc<Pending> = Arc::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(read_results(answers, Arc::clone(&pending)));
        let slots = Arc::new(Semaphore::new(commands));
        let (lines, written) = unbounded_channel();
        tokio::spawn(write_orders(out, written));
        let timeout = limit.saturating_add(REPORT_TIMEOUT);
        Ok(Self { lines, pending, slots, last: AtomicU64::new(0), timeout, _child })
    }

    /// Runs the command on a file, as soon as there is a slot, for which it waits as long as a
    /// command may take. Returns what it printed. The command is killed if this is dropped before
    /// it ends.
    pub(crate) async fn run(&self, action: TapeAction, path: &str) -> CommandResult {
        self.run_within(self.timeout, action, path).await
    }

    /// As [`HelperClient::run`], with another limit for the wait for a slot: commands that cannot
    /// be killed may have all of them.
    pub(crate) async fn run_within(
        &self,
        wait: Duration,
        action: TapeAction,
        path: &str,
    ) -> CommandResult {
        let gone = || CommandError::Broken("the helper for [tape] has ended".to_owned());
        let slot = timeout(wait, Arc::clone(&self.slots).acquire_owned()).await;
        let slot = slot.map_err(|_| CommandError::NoSlot(wait))?.map_err(|_| gone())?;
        let id = self.last.fetch_add(1, Ordering::Relaxed);
        let (sender, result) = oneshot::channel();
        let mut line = Vec::new();
        let task = Order::Run(Task { id, action, path: path.to_owned() });
        write_line(&mut line, &task).map_err(|error| CommandError::Broken(error.to_string()))?;
        if line.len() > MAX_LINE_BYTES {
            return Err(CommandError::Broken("the path is too long".to_owned()));
        }
        let pending = PendingTask { _slot: slot, result: Some(sender) };
        lock(&self.pending).as_mut().ok_or_else(gone)?.insert(id, pending);
        let _running = RunningTask { client: self, id };
        self.lines.send(line).map_err(|_| gone())?;
        let result = timeout(self.timeout, result).await;
        let result = result
            .map_err(|_| CommandError::Broken("the helper reports no end of it".to_owned()))?;
        let TaskResult { code, output, .. } = result.map_err(|_| gone())?;
        match code {
            Some(0) => Ok(output),
            Some(code) => Err(CommandError::Failed(code, output)),
            None => Err(CommandError::Broken(output)),
        }
    }
}

/// A task that is cancelled when this is dropped before its result has arrived.
struct RunningTask<'a> {
    client: &'a HelperClient,
    id: u64,
}

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        let mut pending = lock(&self.client.pending);
        let task = pending.as_mut().and_then(|it| it.get_mut(&self.id));
        let is_running = task.is_some_and(|task| task.result.take().is_some());
        drop(pending);
        let mut line = Vec::new();
        if is_running && write_line(&mut line, &Order::Cancel(self.id)).is_ok() {
            // A helper that has ended has killed it.
            drop(self.client.lines.send(line));
        }
    }
}

/// Writes whole lines, whichever caller has gone.
async fn write_orders(mut out: OwnedWriteHalf, mut lines: UnboundedReceiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        // Without the helper, the reader of results ends all tasks.
        drop(out.write_all(&line).await);
    }
}

/// Passes results to the callers that wait for them, until the helper is gone.
async fn read_results(answers: OwnedReadHalf, pending: Arc<Pending>) {
    let mut answers = BufReader::new(answers);
    loop {
        let mut line = Vec::new();
        let read = (&mut answers).take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line).await;
        let result = match read {
            Ok(1..) => serde_json::from_slice::<TaskResult>(&line).ok(),
            _ => None,
        };
        let Some(result) = result else { break };
        let waiting = lock(&pending).as_mut().and_then(|pending| pending.remove(&result.id));
        // The caller may be gone.
        waiting.and_then(|task| task.result).map(|waiting| waiting.send(result));
    }
    warn!("the helper for [tape] has ended: no file can be staged before a restart");
    lock(&pending).take();
}
