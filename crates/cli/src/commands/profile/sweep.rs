//! `hither tune sweep`: measures the rate of transfers by their settings.

use super::{progress_line, show, write};
use crate::arguments::Tune;
use crate::exit::CommandError;
use crate::interrupt;
use crate::output::print;
use hither::{Error, ErrorKind, byte_size};
use hither_profile::sweep::{self, SweepError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(in super::super) fn run(request: &Tune, json: bool) -> Result<(), CommandError> {
    let Tune::Sweep(request) = request;
    // Within Python, the current program is the interpreter.
    let own = std::env::current_exe().ok().filter(|it| it.ends_with("hither"));
    let hither = own.unwrap_or_else(|| "hither".into());
    let mut sweep = sweep::Sweep::read(&request.file, &hither, byte_size).map_err(failed)?;
    if !request.dry_run {
        let stop = Arc::new(AtomicBool::new(false));
        interrupt::handle({
            let stop = Arc::clone(&stop);
            move || stop.store(true, Ordering::Relaxed)
        });
        let bar = progress_line();
        let done = sweep.run(&stop, &mut |elapsed, now| {
            let all = now.runs_done + now.runs_left;
            let minutes = now.seconds_left / 60.0;
            let how_far = || {
                format!(
                    "sweep: {} of {all} runs, about {minutes:.0} min left; Ctrl-C stops, and the \
                     same command goes on",
                    now.runs_done
                )
            };
            show(&bar, elapsed, how_far);
        });
        bar.finish_and_clear();
        done.map_err(failed)?;
    }
    let report = sweep.report();
    write(request.html.as_deref(), || report.to_html())?;
    write(request.csv.as_deref(), || report.to_csv())?;
    let object = || serde_json::to_string(&report).map_err(std::io::Error::from);
    Ok(print(&if json { object()? + "\n" } else { report.to_text() })?)
}

fn failed(error: SweepError) -> Error {
    let kind = match &error {
        SweepError::Refused(..) => ErrorKind::Invalid,
        SweepError::Failed(..) => ErrorKind::Unavailable,
        SweepError::Interrupted => ErrorKind::Cancelled,
        _ => ErrorKind::Local,
    };
    Error::new(kind, error.to_string())
}
