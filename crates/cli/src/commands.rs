//! One file per verb.

mod cat;
mod checksum;
mod cp;
mod draw;
mod each;
mod explain;
mod ls;
mod mkdir;
mod mv;
mod rm;
mod stat;
mod tree;

use crate::arguments::{Arguments, Command};
use crate::configuration::{client, eprint_line};
use crate::exit::Failure;
use std::io::Write;

/// Runs what was asked for.
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { command, common } = arguments;
    let client = client(&common, &command.url())?;
    match command {
        Command::Draw(request) => draw::run(&client, &request, common.json),
        Command::Explain(request) => explain::run(&client, &request, common.json),
        Command::Tree(request) => tree::run(&client, &request, common.json),
        Command::Ls(request) => ls::run(&client, &request, common.json),
        Command::Stat(request) => stat::run(&client, &request, common.json),
        Command::Mkdir(request) => mkdir::run(&client, &request, common.json),
        Command::Rm(request) => rm::run(&client, &request, common.json),
        Command::Mv(request) => mv::run(&client, &request, common.json),
        Command::Checksum(request) => checksum::run(&client, &request, common.json),
        Command::Cp(request) => cp::run(&client, &request, common.json),
        Command::Cat { range, url } => cat::run(&client, &url, range.as_deref(), common.json),
    }
}

/// Writes to the standard output. A reader that has gone away, as `head` does, is no failure.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// What the user should know although the job went well.
pub(crate) fn tell(notices: &[String]) {
    for notice in notices {
        eprint_line(&format!("hither: {notice}"));
    }
}

/// A number of bytes for people.
pub(crate) fn human(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}
