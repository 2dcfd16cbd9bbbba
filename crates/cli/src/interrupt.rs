//! Handling of Ctrl-C.
//!
//! A thread waits for SIGINT for the rest of the process. The first SIGINT runs the handler of the
//! command, if it has set one, and the command then ends by itself; otherwise the process ends with
//! exit code 130. Files are written under temporary names, so no partial file is left under its
//! final name.

use crate::output::eprint_line;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// Advice that is printed with the message of an interruption.
static ADVICE: OnceLock<&str> = OnceLock::new();
/// The report that is printed before that message.
static REPORT: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();
static HANDLER: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();
static LISTENS: AtomicBool = AtomicBool::new(false);
static HANDLED: AtomicBool = AtomicBool::new(false);

/// Starts to wait for Ctrl-C.
///
/// # Errors
///
/// The error of starting the thread or registering the signal handler.
pub(crate) fn listen() -> std::io::Result<()> {
    if LISTENS.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut interrupts = {
        let _context = runtime.enter();
        signal(SignalKind::interrupt())?
    };
    let wait = async move {
        while interrupts.recv().await.is_some() {
            interrupted();
        }
    };
    let thread = std::thread::Builder::new().name("hither-interrupt".to_owned());
    thread.spawn(move || runtime.block_on(wait)).map(drop)
}

/// Prints `advice` if the command is interrupted.
pub(crate) fn advise(advice: &'static str) {
    // A process runs only one command.
    let _ = ADVICE.set(advice);
}

/// Runs `report` before the message of an interruption is printed.
pub(crate) fn report(report: impl Fn() + Send + Sync + 'static) {
    // A process runs only one command.
    let _ = REPORT.set(Box::new(report));
}

/// Runs `handler` at the first Ctrl-C, instead of ending the process.
pub(crate) fn handle(handler: impl Fn() + Send + Sync + 'static) {
    // A process runs only one command.
    let _ = HANDLER.set(Box::new(handler));
}

/// Runs `work`. The first Ctrl-C drops it, runs `clean_up`, and ends the process; the second ends
/// the process immediately.
pub(crate) async fn droppable<T>(
    work: impl Future<Output = T>,
    clean_up: impl Future<Output = ()>,
) -> T {
    let stop = Arc::new(Notify::new());
    handle({
        let stop = Arc::clone(&stop);
        move || stop.notify_one()
    });
    // Both futures are dropped before the code below runs.
    let finished = tokio::select! {
        result = work => Some(result),
        () = stop.notified() => None,
    };
    match finished {
        Some(result) => result,
        None => {
            clean_up.await;
            end()
        }
    }
}

fn interrupted() {
    if let Some(handler) = HANDLER.get()
        && !HANDLED.swap(true, Ordering::Relaxed)
    {
        return handler();
    }
    end()
}

fn end() -> ! {
    if let Some(report) = REPORT.get() {
        eprint_line("");
        report();
    }
    let advice = ADVICE.get().map(|advice| format!(": {advice}")).unwrap_or_default();
    eprint_line("");
    eprint_line(&format!("hither: interrupted{advice}"));
    std::process::exit(130);
}
