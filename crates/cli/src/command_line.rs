//! The command as a function from arguments to an exit code.

use crate::arguments::{Arguments, parser};
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
    let matches = parser().try_get_matches_from(&words);
    let arguments = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error, &words),
    };
    let json = arguments.common.json;
    match log::start(arguments.common.verbose).and_then(|()| commands::run(arguments)) {
        Ok(()) => 0,
        Err(failure) => exit::failed(&failure, json),
    }
}
