//! The log of events, for finding out why a transfer is slow or fails. Off by default.

use crate::environment::variable;
use crate::exit::CommandError;
use tracing_subscriber::EnvFilter;

/// Starts the log on the standard error: `-v` logs the crates of hither at level debug, `-vv` at
/// level trace; without either, `HITHER_LOG` is a filter as in `hither_transport=debug,info`.
pub(crate) fn start(verbose: u8) -> Result<(), CommandError> {
    let filter = match (verbose, variable("HITHER_LOG")) {
        (0, None) => return Ok(()),
        (0, Some(filter)) => filter,
        (1, _) => hither_crates("debug"),
        _ => hither_crates("trace"),
    };
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        CommandError::usage(format!("HITHER_LOG is not a valid filter: {error}"))
    })?;
    // A second command in one process keeps the log of the first.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .try_init();
    Ok(())
}

/// A filter that selects the crates of hither.
fn hither_crates(level: &str) -> String {
    // A target matches by its beginning: `hither` covers `hither_transport` and the others.
    format!("warn,hither={level}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_of_the_options_are_valid() {
        for level in ["debug", "trace"] {
            let filter = EnvFilter::try_new(hither_crates(level)).unwrap();
            assert_eq!(filter.max_level_hint().map(|it| it.to_string()).as_deref(), Some(level));
        }
    }
}
