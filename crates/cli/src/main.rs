//! The `hither` command: arguments, progress, output. It converts and decides nothing.

mod arguments;
mod commands;
mod configuration;
mod credentials;
mod exit;
mod picture;
mod progress;
mod proxies;
mod terminal;

use arguments::Arguments;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(error) = ctrlc::set_handler(exit::interrupted) {
        return exit::failed(&exit::Failure::local("cannot watch for Ctrl-C", error), false);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let json = arguments.common.json;
    match commands::run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit::failed(&failure, json),
    }
}
