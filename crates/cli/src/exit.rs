//! Exit codes and error messages.

use crate::output::{eprint_line, print, write};
use hither::{Error, ErrorKind};
use hither_core::error::escaped_text;
use hither_core::text::escape_controls;
use hither_transport::redact_url;
use std::error::Error as _;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write as _;

/// Exit codes and their meanings.
pub(crate) const CODES: [(u8, &str); 14] = [
    (0, "done"),
    (1, "internal or local error"),
    (2, "wrong usage or expression"),
    (3, "no such file, tree or branch"),
    (4, "credentials missing, rejected or not sufficient"),
    (5, "server or network error"),
    (6, "timeout"),
    (7, "corrupt data or wrong format"),
    (8, "unsupported"),
    (9, "file changed while it was read"),
    (10, "target exists"),
    (11, "no space left"),
    (12, "directories differ"),
    (130, "interrupted"),
];

/// The exit codes as a sentence for the help.
pub(crate) fn describe_codes() -> String {
    let codes: Vec<_> = CODES.iter().map(|(code, meaning)| format!("{code} {meaning}")).collect();
    format!("Exit codes: {}.", codes.join(", "))
}

/// The error that ends the command.
#[derive(Debug)]
pub(crate) struct CommandError {
    code: u8,
    kind: &'static str,
    /// Text that is safe to print: what it quotes begins no line. The same holds for the causes.
    message: String,
    causes: Vec<String>,
    /// The error was already printed as JSON.
    is_printed: bool,
}

impl CommandError {
    /// An error of usage.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self {
            code: 2,
            kind: "usage",
            message: escape_controls(&message.to_string()).into_owned(),
            causes: Vec::new(),
            is_printed: false,
        }
    }

    /// The error of a comparison that found differences.
    pub(crate) fn differences(message: impl Display) -> Self {
        Self { code: 12, kind: "different", ..Self::usage(message) }
    }

    /// This error with another message.
    pub(crate) fn with_message(self, message: impl Display) -> Self {
        Self { message: Self::usage(message).message, ..self }
    }

    /// The error as JSON.
    pub(crate) fn object(&self) -> serde_json::Value {
        serde_json::json!({
            "kind": self.kind, "message": self.message, "causes": self.causes, "exit_code": self.code,
        })
    }

    /// This error, marked as printed.
    pub(crate) fn printed(self) -> Self {
        Self { is_printed: true, ..self }
    }

    /// This error with the exit code of an earlier one.
    pub(crate) fn after(self, first: &Self) -> Self {
        Self { code: first.code, ..self }
    }

    /// An error of this machine.
    pub(crate) fn local(what: impl Display, error: impl Display) -> Self {
        let causes = vec![escape_controls(&error.to_string()).into_owned()];
        Self { code: 1, kind: "local", causes, ..Self::usage(what) }
    }

    /// The error of a program that has failed, with its output.
    pub(crate) fn of_program(what: impl Display, output: &str) -> Self {
        let lines: Vec<_> = output.trim().lines().map(escape_controls).collect();
        Self { causes: vec![lines.join("\n  ")], ..Self::local(what, "") }
    }
}

/// The exit code of an error kind, and its name in JSON.
pub(crate) fn code_and_kind(kind: ErrorKind) -> (u8, &'static str) {
    match kind {
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
    }
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        let (code, kind) = code_and_kind(error.kind());
        let mut causes = Vec::new();
        let mut cause = error.source();
        while let Some(error) = cause {
            causes.push(escaped_text(error));
            cause = error.source();
        }
        Self { code, kind, message: error.to_string(), causes, is_printed: false }
    }
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        Self::local("cannot write the output", error)
    }
}

/// Prints an error and its causes as text.
pub(crate) fn print_error(failure: &CommandError) {
    let mut text = format!("hither: {}\n", failure.message);
    for cause in failure.causes.iter().filter(|cause| !failure.message.contains(cause.as_str())) {
        text += &format!("  because: {cause}\n");
    }
    // If the terminal is gone, the message is lost.
    drop(std::io::stderr().write_all(text.as_bytes()));
}

/// Prints an error as text, and with `json` also as an object on the standard output; returns the
/// exit code.
pub(crate) fn failed(failure: &CommandError, json: bool) -> u8 {
    print_error(failure);
    if json && !failure.is_printed {
        let error = serde_json::json!({ "error": failure.object() });
        // If this fails, the exit code has the same information.
        drop(print(&format!("{error}\n")));
    }
    failure.code
}

/// `message` without the secrets of the URLs among `words`, which it may quote.
fn without_secrets(message: &str, words: &[OsString]) -> String {
    let mut shown = message.to_owned();
    for word in words.iter().filter_map(|word| word.to_str()) {
        let value = word.split_once('=').filter(|_| word.starts_with('-'));
        let url = value.map_or(word, |(_, value)| value);
        if url.contains("://") {
            let redacted = redact_url(url);
            // The parser of a value may have escaped the URL.
            shown =
                shown.replace(url, &redacted).replace(&url.escape_debug().to_string(), &redacted);
        }
    }
    shown
}

/// Prints help on the standard output or errors of usage on the standard error; returns the exit
/// code. URLs among the `words` of the command line are shown without secrets.
pub(crate) fn usage(error: &clap::Error, words: &[OsString]) -> u8 {
    if error.use_stderr() {
        let whole = error.render().to_string();
        let shown = without_secrets(&whole, words);
        if shown != whole {
            shown.trim_end().lines().for_each(eprint_line);
            return 2;
        }
        // If the terminal is gone, the message is lost.
        drop(error.print());
        return 2;
    }
    match write(|_| error.print()) {
        Ok(()) => 0,
        Err(unwritten) => failed(&unwritten.into(), false),
    }
}
