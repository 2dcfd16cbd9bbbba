//! The command as a function from arguments to an exit code.

use crate::arguments::{Arguments, parser, refuse_unused};
use crate::output::standard_streams::note_closed_streams;
use crate::{commands, exit, interrupt, log};
use clap::FromArgMatches;
use std::ffi::OsString;

/// Runs the command with these arguments, the first of which is its name, and returns its exit
/// code. Handles Ctrl-C for the rest of the process.
pub fn run(words: impl IntoIterator<Item = OsString>) -> u8 {
    // Python does not open `/dev/null` for closed streams.
    note_closed_streams();
    if let Err(error) = interrupt::listen() {
        return exit::failed(&exit::CommandError::local("cannot wait for Ctrl-C", error), false);
    }
    hither_server::raise_open_files();
    let words: Vec<_> = words.into_iter().collect();
    let parsed = parser().try_get_matches_from(&words).and_then(|matches| {
        let arguments = Arguments::from_arg_matches(&matches)?;
        let usable = refuse_unused(&matches, &arguments.common.client.given);
        Ok((arguments, usable))
    });
    let (arguments, usable) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return exit::usage(&error, &words),
    };
    let json = arguments.common.json;
    let started = usable.and_then(|()| log::start(arguments.common.verbose));
    match started.and_then(|()| commands::run(arguments)) {
        Ok(()) => 0,
        Err(failure) => exit::failed(&failure, json),
    }
}
