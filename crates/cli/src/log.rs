//! The event log, to find out why a transfer is slow or fails. Off by default.
//!
//! A line that cannot be written is lost. With `log_internal_errors` the subscriber would report
//! the error with `eprintln!`, which panics for the same reason, during a transfer.

use crate::environment::variable;
use crate::exit::CommandError;
use hither_core::text::escape_controls;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::OptionalWriter;

/// The filter of events that are shown by default: waits for a server that is busy or stages a
/// file, and assumptions about a server.
const WAITS: &str = "hither_wait=info";
/// Minimum time between two of these lines: thousands of files may be on tape.
const BETWEEN_WAITS: Duration = Duration::from_secs(10);

/// Starts the log on the standard error: `-v` logs the crates of hither at level debug, `-vv` at
/// level trace; without either, `HITHER_LOG` is a filter as in `hither_transport=debug,info`.
pub(crate) fn start(verbose: u8) -> Result<(), CommandError> {
    let filter = match (verbose, variable("HITHER_LOG")) {
        (0, None) => {
            show_waits();
            return Ok(());
        }
        (0, Some(filter)) => filter,
        (1, _) => hither_crates("debug"),
        _ => hither_crates("trace"),
    };
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        CommandError::usage(format!("HITHER_LOG is not a valid filter: {error}"))
    })?;
    // A second command in the same process keeps the log of the first.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| EscapedLines)
        .with_ansi(false)
        .log_internal_errors(false)
        .try_init();
    Ok(())
}

fn show_waits() {
    let _ = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(WAITS))
        .with_writer(WaitLines::default())
        .without_time()
        .with_level(false)
        .with_target(false)
        .with_ansi(false)
        .log_internal_errors(false)
        .try_init();
}

/// A writer of events to the standard error, each a line with its control characters escaped.
struct EscapedLines;

impl Write for EscapedLines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = escape_controls(text.trim_end_matches('\n'));
        io::stderr().write_all(format!("{line}\n").as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A writer to the standard error that drops lines within [`BETWEEN_WAITS`] of the last one.
#[derive(Default)]
struct WaitLines(Mutex<Option<Instant>>);

impl<'a> MakeWriter<'a> for WaitLines {
    type Writer = OptionalWriter<EscapedLines>;

    #[expect(clippy::disallowed_methods, reason = "the pace at which a person reads")]
    fn make_writer(&'a self) -> Self::Writer {
        let now = Instant::now();
        let mut last = hither_core::sync::lock(&self.0);
        if last.is_some_and(|last| now.duration_since(last) < BETWEEN_WAITS) {
            return OptionalWriter::none();
        }
        *last = Some(now);
        let mut stderr = io::stderr();
        if stderr.is_terminal() {
            // Erases the progress bar, which is drawn again.
            let _ = stderr.write_all(b"\r\x1b[2K");
        }
        let _ = stderr.write_all(b"hither: ");
        OptionalWriter::some(EscapedLines)
    }
}

/// A filter that selects the crates of hither.
fn hither_crates(level: &str) -> String {
    // A target matches by its prefix: `hither` includes `hither_transport` and the others.
    format!("warn,hither={level}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_of_the_options_are_valid() {
        assert!(EnvFilter::try_new(WAITS).is_ok());
        for level in ["debug", "trace"] {
            let filter = EnvFilter::try_new(hither_crates(level)).unwrap();
            assert_eq!(filter.max_level_hint().map(|it| it.to_string()).as_deref(), Some(level));
        }
    }
}
