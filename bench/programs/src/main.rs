//! `hither-bench PROGRAM ARGUMENTS`: programs that benches and tests run, each in the module of its
//! name. For no user, and in no package.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what they are for")]

mod dump_columns;
mod flips;
mod known_work;
mod many_readers;
mod read_ranges;
mod workload;

use std::process::ExitCode;

pub(crate) type ProgramResult = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let words = words.collect();
    let outcome = match name.as_str() {
        "dump-columns" => dump_columns::run(words),
        "flips" => on_a_runtime(flips::run(words)),
        "known-work" => known_work::run(words),
        "many-readers" => many_readers::run(words),
        "read-ranges" => read_ranges::run(words),
        "workload" => workload::run(words),
        other => {
            Err(format!("no program {other:?} in hither-bench: see bench/programs/src/main.rs")
                .into())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hither-bench {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn on_a_runtime(program: impl Future<Output = ProgramResult>) -> ProgramResult {
    tokio::runtime::Runtime::new()?.block_on(program)
}
