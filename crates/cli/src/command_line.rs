//! From words to an exit code.

use crate::arguments::Arguments;
use crate::{commands, exit};
use clap::Parser;
use std::ffi::OsString;

/// Runs the command with these words, of which the first is its name, and returns its exit code. Takes over Ctrl-C for the
/// rest of the process.
pub fn run(words: impl IntoIterator<Item = OsString>) -> u8 {
    if let Err(error) = ctrlc::set_handler(exit::interrupted) {
        return exit::failed(&exit::CommandError::local("cannot watch for Ctrl-C", error), false);
    }
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let json = arguments.common.json;
    match commands::run(arguments) {
        Ok(()) => 0,
        Err(failure) => exit::failed(&failure, json),
    }
}
