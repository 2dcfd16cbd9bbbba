//! `hither-proxy`: see `crates/testkit/README.md`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hither_testkit::tcp_proxy::cli::main()
}
