//! The commands: one file per verb.

mod cat;
mod checksum;
mod completions;
mod cp;
mod draw;
mod explain;
mod namespace;
mod serve;
mod trace;
mod tree;
mod xrootd;

use crate::arguments::{Arguments, Command, GlobalArgs, Trace, parser};
use crate::environment::{client, trace_path};
use crate::exit::CommandError;
use crate::output::{print, print_notices};
use hither::Client;
use namespace::{ls, mkdir, mv, rm, stat};
use std::path::PathBuf;
use xrootd::{chmod, locate, prepare};

/// Runs the command of these arguments.
pub(crate) fn run(arguments: Arguments) -> Result<(), CommandError> {
    let Arguments { command, common } = arguments;
    // No command may overwrite the trace that it reads.
    match &command {
        Command::Trace(Trace::Replay(request)) => {
            let same = |path: PathBuf| path.canonicalize().ok() == request.file.canonicalize().ok();
            if request.file.exists() && trace_path(&common).is_some_and(same) {
                return Err(CommandError::usage(
                    "a trace cannot be read and written at the same time",
                ));
            }
        }
        Command::Trace(Trace::Show(request)) => return trace::show(request, common.json),
        Command::Trace(Trace::Import(request)) => return trace::import(request, common.json),
        Command::Serve(request) => return serve::run(request, &common),
        Command::Completions { shell } => return completions::run(*shell),
        Command::Man { directory } => return completions::man(directory),
        Command::Options => return print_options(),
        _ => {}
    }
    let reads_replicas = matches!(
        command,
        Command::Draw(_)
            | Command::Explain(_)
            | Command::Tree(_)
            | Command::Cat { .. }
            | Command::Trace(_)
    );
    if !common.replica.is_empty() && !reads_replicas {
        return Err(CommandError::usage(
            "--replica is for draw, explain, tree, cat and trace replay: this command uses only the server that its URL names",
        ));
    }
    let client = client(&common, &command.url())?;
    let done = run_with(&client, command, common.json);
    if let Err(error) = client.flush_trace() {
        print_notices(&[error.to_string()]);
    }
    done
}

fn run_with(client: &Client, command: Command, json: bool) -> Result<(), CommandError> {
    match command {
        Command::Draw(request) => draw::run(client, &request, json),
        Command::Explain(request) => explain::run(client, &request, json),
        Command::Tree(request) => tree::run(client, &request, json),
        Command::Ls(request) => ls::run(client, &request, json),
        Command::Stat(request) => stat::run(client, &request, json),
        Command::Mkdir(request) => mkdir::run(client, &request, json),
        Command::Rm(request) => rm::run(client, &request, json),
        Command::Mv(request) => mv::run(client, &request, json),
        Command::Checksum(request) => checksum::run(client, &request, json),
        Command::Locate(request) => locate::run(client, &request, json),
        Command::Prepare(request) => prepare::run(client, &request, json),
        Command::Chmod(request) => chmod::run(client, &request, json),
        Command::Cp(request) => cp::run(client, &request, json),
        Command::Trace(Trace::Replay(request)) => trace::replay(client, &request, json),
        Command::Trace(Trace::Show(request)) => trace::show(&request, json),
        Command::Trace(Trace::Import(request)) => trace::import(&request, json),
        Command::Cat { range, url } => cat::run(client, &url, range.as_deref(), json),
        Command::Serve(request) => {
            serve::run(&request, &GlobalArgs { json, ..GlobalArgs::default() })
        }
        Command::Completions { shell } => completions::run(shell),
        Command::Man { directory } => completions::man(&directory),
        Command::Options => print_options(),
    }
}

/// Prints the options that all commands share.
fn print_options() -> Result<(), CommandError> {
    let mut parser = parser();
    let options = parser.find_subcommand_mut("options").map(clap::Command::render_help);
    Ok(print(&options.unwrap_or_default().to_string())?)
}
