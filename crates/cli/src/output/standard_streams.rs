//! Standard streams that were closed when the command started, as by `>&-` in a shell.
//!
//! The next opened file would get the descriptor of a closed stream, and the output printed to it.
//! Rust's runtime opens `/dev/null` there: then results are lost without an error, and a missing
//! input reads as empty. So the closed streams are recorded before that.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_getfd};
use std::io::{self, Stdin, Stdout};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

static NO_INPUT: AtomicBool = AtomicBool::new(false);
static NO_OUTPUT: AtomicBool = AtomicBool::new(false);
static NO_ERRORS: AtomicBool = AtomicBool::new(false);

/// Records the closed standard streams, and opens `/dev/null` in their places.
pub fn note_closed_streams() {
    // In ascending order: an opened file gets the lowest free descriptor.
    note(&NO_INPUT, fcntl_getfd(io::stdin()));
    note(&NO_OUTPUT, fcntl_getfd(io::stdout()));
    note(&NO_ERRORS, fcntl_getfd(io::stderr()));
}

fn note<T>(is_closed: &AtomicBool, flags: Result<T, Errno>) {
    if flags.err() == Some(Errno::BADF) {
        is_closed.store(true, Ordering::Relaxed);
        // The descriptor stays open until the process ends, and child processes inherit it.
        let _ = open("/dev/null", OFlags::RDWR, Mode::empty()).map(IntoRawFd::into_raw_fd);
    }
}

/// The standard input.
///
/// # Errors
/// The command was started without a standard input.
pub(crate) fn standard_input() -> io::Result<Stdin> {
    given(&NO_INPUT).map(|()| io::stdin())
}

/// The standard output.
///
/// # Errors
/// The command was started without a standard output.
pub(crate) fn standard_output() -> io::Result<Stdout> {
    given(&NO_OUTPUT).map(|()| io::stdout())
}

fn given(is_closed: &AtomicBool) -> io::Result<()> {
    if is_closed.load(Ordering::Relaxed) { Err(Errno::BADF.into()) } else { Ok(()) }
}
