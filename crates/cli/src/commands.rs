//! The commands: one file per verb.

mod cat;
mod checksum;
mod completions;
mod cp;
mod draw;
mod explain;
mod lots;
mod namespace;
mod profile;
mod root_setup;
mod serve;
mod stage;
mod sync;
mod trace;
mod tree;
mod xrootd;

use crate::arguments::{Arguments, Command, Explain, ExplainedJob, GlobalArgs, Trace, parser};
use crate::environment::{client, trace_path};
use crate::exit::CommandError;
use crate::output::{print, print_notices};
use hither::Client;
use namespace::{du, find, ls, mkdir, mv, rm, stat};
use std::path::PathBuf;
use sync::check;
use xrootd::{chmod, locate};

/// Runs the command with these arguments.
pub(crate) fn run(arguments: Arguments) -> Result<(), CommandError> {
    let Arguments { command, common } = arguments;
    // A command must not overwrite the trace that it reads.
    match &command {
        Command::Trace(Trace::Replay(request)) => {
            let same = |path: PathBuf| path.canonicalize().ok() == request.file.canonicalize().ok();
            if request.file.exists() && trace_path(&common)?.is_some_and(same) {
                return Err(CommandError::usage(
                    "a trace cannot be read and written at the same time",
                ));
            }
        }
        Command::Trace(Trace::Show(request)) => return trace::show(request, common.json),
        Command::Trace(Trace::Import(request)) => return trace::import(request, common.json),
        Command::Serve(request) => return serve::run(request, &common),
        Command::Federate(request) => return serve::federate::run(request, &common),
        Command::Explain(Explain { job: ExplainedJob::Serve { log } }) => {
            return explain::serve(log, common.json);
        }
        Command::Profile(request) => return profile::run(request, &common),
        Command::Tune(request) => return profile::sweep::run(request, common.json),
        Command::RootSetup(request) => return root_setup::run(request, common.json),
        Command::Simulate(request) => return trace::simulate(request, &common),
        Command::Completions { shell } => return completions::run(*shell),
        Command::Man { directory } => return completions::man(directory),
        Command::Cp(request) if request.cluster.is_some() => {
            return Err(cp::cluster::run(request, &common));
        }
        Command::TapeHelper => return serve::run_tape_helper(),
        Command::Options => return print_options(),
        _ => {}
    }
    let client = client(&common, &command.url())?;
    if !common.client.options.replicas.is_empty() {
        check_replicas(&client, &command)?;
    }
    let done = run_with(&client, command, &common);
    if let Err(error) = client.flush_trace() {
        print_notices(&[error.to_string()]);
    }
    done
}

/// Fails unless the command reads one source on a server: only that has replicas.
fn check_replicas(client: &Client, command: &Command) -> Result<(), CommandError> {
    let several = match command {
        Command::Cat(request) => request.urls.len() > 1,
        Command::Cp(request) => request.names.len() > 2,
        Command::Explain(Explain { job: ExplainedJob::Cat(job) }) => job.request.urls.len() > 1,
        Command::Explain(Explain { job: ExplainedJob::Cp(job) }) => job.request.names.len() > 2,
        _ => false,
    };
    let url = command.url();
    let is_local = client.storage_path(&url).is_ok_and(|named| named.is_local());
    let found = client.block_on(client.matching_urls(&url));
    let is_one = found.is_ok_and(|found| found.urls == [url]);
    if several || is_local || !is_one {
        let what = "--replica names replicas of one source on a server: copy or read several one by one, or write [[mirror]] rules";
        return Err(CommandError::usage(what));
    }
    Ok(())
}

fn run_with(client: &Client, command: Command, common: &GlobalArgs) -> Result<(), CommandError> {
    let json = common.json;
    match command {
        Command::Draw(request) => draw::run(client, &request, json),
        Command::Explain(request) => explain::run(client, &request, json),
        Command::Tree(request) => tree::run(client, &request, json),
        Command::Ls(request) => ls::run(client, &request, json),
        Command::Find(request) => find::run(client, &request, json),
        Command::Du(request) => du::run(client, &request, json),
        Command::Stat(request) => stat::run(client, &request, json),
        Command::Mkdir(request) => mkdir::run(client, &request, json),
        Command::Rm(request) => rm::run(client, &request, json),
        Command::Mv(request) => mv::run(client, &request, json),
        Command::Checksum(request) => checksum::run(client, &request, json),
        Command::Locate(request) => locate::run(client, &request, json),
        Command::Stage(request) => stage::run(client, &request, json),
        Command::Chmod(request) => chmod::run(client, &request, json),
        Command::Cp(request) => cp::run(client, &request, json),
        Command::Lots(request) => lots::run(client, &request, json),
        Command::Sync(request) => sync::run(client, &request, json),
        Command::Check(request) => check::run(client, &request, json),
        Command::Trace(Trace::Replay(request)) => trace::replay(client, &request, json),
        Command::Trace(Trace::Show(request)) => trace::show(&request, json),
        Command::Trace(Trace::Import(request)) => trace::import(&request, json),
        Command::Cat(request) => cat::run(client, &request, json),
        Command::Serve(request) => {
            serve::run(&request, &GlobalArgs { json, ..GlobalArgs::default() })
        }
        Command::Federate(request) => serve::federate::run(&request, common),
        Command::Profile(request) => profile::run(&request, common),
        Command::Tune(request) => profile::sweep::run(&request, json),
        Command::RootSetup(request) => root_setup::run(&request, json),
        Command::Simulate(request) => trace::simulate(&request, common),
        Command::Completions { shell } => completions::run(shell),
        Command::Man { directory } => completions::man(&directory),
        Command::Mover(request) => cp::mover::run(client, &request),
        Command::TapeHelper => serve::run_tape_helper(),
        Command::Options => print_options(),
    }
}

/// Prints the common options.
fn print_options() -> Result<(), CommandError> {
    let mut parser = parser();
    let options = parser.find_subcommand_mut("options").map(clap::Command::render_help);
    Ok(print(&options.unwrap_or_default().to_string())?)
}
