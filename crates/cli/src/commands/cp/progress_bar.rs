//! The progress bar of a copy, on a terminal.

use crate::progress_bar::style;
use hither::CopyProgress;
use indicatif::{ProgressBar, ProgressDrawTarget};
use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::Duration;

const BEFORE_SHOWING: Duration = Duration::from_secs(1);
const BETWEEN_UPDATES: Duration = Duration::from_millis(200);
const SIZED: &str =
    "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}, {eta} left, {msg}";

/// Runs `job` and shows its progress on the standard error, if that is a terminal.
pub(in crate::commands) fn with_progress_bar<T>(
    progress: &CopyProgress,
    quiet: bool,
    job: impl FnOnce() -> T,
) -> T {
    if quiet || !std::io::stderr().is_terminal() {
        return job();
    }
    let (done, waiting) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || show(progress, &waiting));
        let result = job();
        // The progress bar may have ended already.
        let _ = done.send(());
        result
    })
}

fn show(progress: &CopyProgress, done: &mpsc::Receiver<()>) {
    if done.recv_timeout(BEFORE_SHOWING) != Err(mpsc::RecvTimeoutError::Timeout) {
        return;
    }
    let bar = ProgressBar::hidden();
    // Bytes of an earlier attempt are not included in the rate, which is computed between two
    // positions.
    bar.set_position(progress.figures().bytes_done);
    bar.reset_eta();
    while done.recv_timeout(BETWEEN_UPDATES) == Err(mpsc::RecvTimeoutError::Timeout) {
        let figures = progress.figures();
        // While no size is known, as of a file that is being staged from tape, a spinner is shown:
        // a bar of length zero looks complete.
        let is_sized = figures.bytes_found > 0;
        bar.set_style(style(if is_sized { SIZED } else { "{spinner} {elapsed}, {msg}" }));
        bar.set_length(figures.bytes_found);
        bar.set_position(figures.bytes_done);
        bar.set_message(format!("{} of {} files", figures.files_done, figures.files_found));
        if bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.tick();
        }
    }
    bar.finish_and_clear();
}
