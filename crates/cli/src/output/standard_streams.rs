//! The standard streams that the command is started without, as by `>&-` of a shell.
//!
//! The next file that is opened would take the place of a closed stream, and get what is printed.
//! Rust's runtime opens `/dev/null` there: then results are lost without an error, and an input
//! that nobody gave is an empty one. So the closed ones are remembered before that.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_getfd};
use std::io::{self, Stdin, Stdout};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

static NO_INPUT: AtomicBool = AtomicBool::new(false);
static NO_OUTPUT: AtomicBool = AtomicBool::new(false);
static NO_ERRORS: AtomicBool = AtomicBool::new(false);

/// Remembers the standard streams that are closed, and opens `/dev/null` in their places.
pub fn note_closed_streams() {
    // In the order of their numbers: what is opened gets the lowest that is free.
    note(&NO_INPUT, fcntl_getfd(io::stdin()));
    note(&NO_OUTPUT, fcntl_getfd(io::stdout()));
    note(&NO_ERRORS, fcntl_getfd(io::stderr()));
}

fn note<T>(is_closed: &AtomicBool, flags: Result<T, Errno>) {
    if flags.err() == Some(Errno::BADF) {
        is_closed.store(true, Ordering::Relaxed);
        // Until the process ends, and for the programs that it starts.
        let _ = open("/dev/null", OFlags::RDWR, Mode::empty()).map(IntoRawFd::into_raw_fd);
    }
}

/// The standard input.
///
/// # Errors
/// The command was started without one.
pub(crate) fn standard_input() -> io::Result<Stdin> {
    given(&NO_INPUT).map(|()| io::stdin())
}

/// The standard output.
///
/// # Errors
/// The command was started without one.
pub(crate) fn standard_output() -> io::Result<Stdout> {
    given(&NO_OUTPUT).map(|()| io::stdout())
}

fn given(is_closed: &AtomicBool) -> io::Result<()> {
    if is_closed.load(Ordering::Relaxed) { Err(Errno::BADF.into()) } else { Ok(()) }
}
