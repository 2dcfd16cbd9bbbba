//! `hither-proxy`: see `crates/testkit/README.md`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hither_testkit::proxy::cli::main()
}
