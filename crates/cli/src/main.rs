//! The `hither` command.

use std::process::ExitCode;

/// Runs before Rust's runtime, which opens `/dev/null` for closed standard streams.
#[cfg(target_os = "linux")]
#[used]
#[expect(unsafe_code, reason = "nothing else runs before the runtime")]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

#[cfg(target_os = "linux")]
extern "C" fn before_main() {
    hither_cli::note_closed_streams();
}

fn main() -> ExitCode {
    ExitCode::from(hither_cli::run(std::env::args_os()))
}
