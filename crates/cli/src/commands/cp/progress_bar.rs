//! The progress bar of a copy, on a terminal.

use hither::CopyProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::Duration;

const BEFORE_SHOWING: Duration = Duration::from_secs(1);
const BETWEEN_UPDATES: Duration = Duration::from_millis(200);

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
        // The progress bar may have ended by itself.
        let _ = done.send(());
        result
    })
}

fn show(progress: &CopyProgress, done: &mpsc::Receiver<()>) {
    if done.recv_timeout(BEFORE_SHOWING) != Err(mpsc::RecvTimeoutError::Timeout) {
        return;
    }
    let bar = ProgressBar::hidden();
    let style =
        "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}, {eta} left, {msg}";
    bar.set_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    // Bytes of an earlier attempt do not count for the rate, which takes two positions.
    bar.set_position(progress.figures().bytes_done);
    bar.reset_eta();
    while done.recv_timeout(BETWEEN_UPDATES) == Err(mpsc::RecvTimeoutError::Timeout) {
        let figures = progress.figures();
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
