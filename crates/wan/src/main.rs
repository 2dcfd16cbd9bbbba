//! `hither-wan`: see `crates/wan/README.md`.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    hither_wan::cli::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "hither-wan: needs Linux; hither-proxy works here");
    ExitCode::FAILURE
}
