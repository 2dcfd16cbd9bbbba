//! A progress bar on a terminal, for jobs that take longer than a second.

use hither::{ScanPhase, ScanProgress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::Duration;

const BEFORE_SHOWING: Duration = Duration::from_secs(1);
const BETWEEN_UPDATES: Duration = Duration::from_millis(100);

/// Runs `job` and shows its progress on the standard error, if that is a terminal.
pub(crate) fn with_progress_bar<T>(job: impl FnOnce(&ScanProgress) -> T) -> T {
    let progress = ScanProgress::default();
    if !std::io::stderr().is_terminal() {
        return job(&progress);
    }
    let (done, waiting) = mpsc::channel::<()>();
    let progress = &progress;
    std::thread::scope(|scope| {
        scope.spawn(move || show(progress, &waiting));
        let result = job(progress);
        // The progress bar may have ended already.
        let _ = done.send(());
        result
    })
}

fn show(progress: &ScanProgress, done: &mpsc::Receiver<()>) {
    if done.recv_timeout(BEFORE_SHOWING) != Err(mpsc::RecvTimeoutError::Timeout) {
        return;
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    loop {
        let (bytes, total) = progress.bytes();
        match progress.phase() {
            ScanPhase::Opening => bar.set_style(style("{spinner} opening, {elapsed}")),
            ScanPhase::Reading => {
                bar.set_length(total);
                bar.set_position(bytes);
                bar.set_style(style(
                    "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}, {eta} left",
                ));
            }
            ScanPhase::Done => break,
        }
        bar.tick();
        if done.recv_timeout(BETWEEN_UPDATES) != Err(mpsc::RecvTimeoutError::Timeout) {
            break;
        }
    }
    bar.finish_and_clear();
}

pub(crate) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
