//! How the command ends: exit codes and error messages.

use crate::output::{eprint_line, print};
use hither::{Error, ErrorKind};
use std::error::Error as _;
use std::fmt::Display;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why the command failed.
#[derive(Debug)]
pub(crate) struct CommandError {
    code: u8,
    kind: &'static str,
    message: String,
    causes: Vec<String>,
    /// Printed as an object already.
    is_told: bool,
}

impl CommandError {
    /// Wrong usage.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self {
            code: 2,
            kind: "usage",
            message: message.to_string(),
            causes: Vec::new(),
            is_told: false,
        }
    }

    /// As an object.
    pub(crate) fn object(&self) -> serde_json::Value {
        serde_json::json!({
            "kind": self.kind, "message": self.message, "causes": self.causes, "exit_code": self.code,
        })
    }

    /// The same, which need not be printed as an object any more.
    pub(crate) fn told(self) -> Self {
        Self { is_told: true, ..self }
    }

    /// The same, with the exit code of what failed before.
    pub(crate) fn after(self, first: &Self) -> Self {
        Self { code: first.code, ..self }
    }

    /// This machine is at fault.
    pub(crate) fn local(what: impl Display, error: impl Display) -> Self {
        Self {
            code: 1,
            kind: "local",
            message: what.to_string(),
            causes: vec![error.to_string()],
            is_told: false,
        }
    }
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        let (code, kind) = match error.kind() {
            ErrorKind::Invalid => (2, "invalid"),
            ErrorKind::NotFound => (3, "not_found"),
            ErrorKind::Unauthenticated => (4, "unauthenticated"),
            ErrorKind::PermissionDenied => (4, "permission_denied"),
            ErrorKind::AlreadyExists => (10, "already_exists"),
            ErrorKind::NoSpace => (11, "no_space"),
            ErrorKind::Unavailable => (5, "unavailable"),
            ErrorKind::Protocol => (5, "protocol"),
            ErrorKind::TooLarge => (5, "too_large"),
            ErrorKind::Timeout => (6, "timeout"),
            ErrorKind::Corrupt => (7, "corrupt"),
            ErrorKind::Unsupported => (8, "unsupported"),
            ErrorKind::Changed => (9, "changed"),
            ErrorKind::Cancelled => (130, "cancelled"),
            ErrorKind::Local => (1, "local"),
            _ => (1, "internal"),
        };
        let mut causes = Vec::new();
        let mut cause = error.source();
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        Self { code, kind, message: error.to_string(), causes, is_told: false }
    }
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        Self::local("cannot write the output", error)
    }
}

/// Tells what failed, as text.
pub(crate) fn print_error(failure: &CommandError) {
    eprint_line(&format!("hither: {}", failure.message));
    for cause in failure.causes.iter().filter(|cause| !failure.message.contains(cause.as_str())) {
        eprint_line(&format!("  because: {cause}"));
    }
}

/// Tells what failed, as text, or with `json` as an object on the standard output as well.
pub(crate) fn failed(failure: &CommandError, json: bool) -> u8 {
    print_error(failure);
    if json && !failure.is_told {
        let error = serde_json::json!({ "error": failure.object() });
        // The exit code says it too.
        drop(print(&format!("{error}\n")));
    }
    failure.code
}

/// What the command-line parser has to say: help on the standard output, complaints on the other.
pub(crate) fn usage(error: &clap::Error) -> u8 {
    // Nothing can be done about an output that is closed.
    drop(error.print());
    if error.use_stderr() { 2 } else { 0 }
}

/// What to say besides when the command is interrupted: how to go on.
static AFTER_INTERRUPTION: OnceLock<&str> = OnceLock::new();

/// From now on, this is said as well when the command is interrupted.
pub(crate) fn when_interrupted(advice: &'static str) {
    // Only one command runs in a process.
    let _ = AFTER_INTERRUPTION.set(advice);
}

/// What to do in place of ending when the command is interrupted.
static INSTEAD: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on, the first interruption does this, and the command ends by itself; the second one ends it.
pub(crate) fn on_interruption(instead: impl Fn() + Send + Sync + 'static) {
    // Only one command runs in a process.
    let _ = INSTEAD.set(Box::new(instead));
}

/// Ctrl-C. What is written anywhere is written under another name first, so nothing is left half done.
pub(crate) fn interrupted() {
    if let Some(instead) = INSTEAD.get()
        && !INTERRUPTED.swap(true, Ordering::Relaxed)
    {
        return instead();
    }
    let advice = AFTER_INTERRUPTION.get().map(|advice| format!(": {advice}")).unwrap_or_default();
    eprint_line(&format!("\nhither: interrupted{advice}"));
    std::process::exit(130);
}
