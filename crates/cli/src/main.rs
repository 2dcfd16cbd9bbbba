//! The `hither` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(hither_cli::run(std::env::args_os()))
}
