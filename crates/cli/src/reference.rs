//! Pages of `docs/reference` that are generated from the command.
//!
//! The tests compare them with the files. With `HITHER_WRITE_REFERENCE=1` they write the files.

use crate::arguments::Arguments;
use crate::arguments::help::groups;
use crate::exit::{CODES, code_and_kind};
use clap::{Arg, Command, CommandFactory};
use hither::{ClientOptions, ConfigFile, ErrorKind};
use std::fmt::Write;
use std::path::Path;

const NOTE: &str =
    "<!-- Generated: HITHER_WRITE_REFERENCE=1 cargo test -p hither-cli reference -->";

fn check(page: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    if std::env::var_os("HITHER_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "docs/reference/{page} is out of date: write it as {NOTE}");
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

fn sentence(text: &str) -> String {
    if text.is_empty() || text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

fn about(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string);
    let mut text = help.unwrap_or_default();
    let defaults: Vec<_> = arg.get_default_values().iter().map(|it| it.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        write!(text, " [default: {}]", defaults.join(", ")).unwrap();
    }
    let values: Vec<_> =
        arg.get_possible_values().iter().map(|it| it.get_name().to_owned()).collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        write!(text, " [possible values: {}]", values.join(", ")).unwrap();
    }
    sentence(text.trim())
}

fn name(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let value = values.iter().map(|it| it.to_string()).collect::<Vec<_>>().join(" ");
    let Some(long) = arg.get_long() else { return format!("`{value}`") };
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let value = if arg.get_action().takes_values() { format!(" {value}") } else { String::new() };
    format!("{short}`--{long}{value}`")
}

fn table<'a>(out: &mut String, args: impl Iterator<Item = &'a Arg>) {
    let rows: Vec<_> = args
        .filter(|arg| !arg.is_hide_set())
        .map(|arg| format!("| {} | {} |\n", cell(&name(arg)), cell(&about(arg))))
        .collect();
    if !rows.is_empty() {
        write!(out, "| argument | |\n|---|---|\n{}\n", rows.concat()).unwrap();
    }
}

fn command(out: &mut String, path: &str, command: &Command) {
    let own =
        |arg: &&Arg| !arg.is_global_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    write!(out, "### `{path}`\n\n{}\n\n", sentence(&about)).unwrap();
    table(out, command.get_arguments().filter(own));
    if let Some(after) = command.get_after_help() {
        write!(out, "```text\n{after}\n```\n\n").unwrap();
    }
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        self::command(out, &format!("{path} {}", verb.get_name()), verb);
    }
}

#[test]
fn command_line() {
    let whole = Arguments::command();
    let mut out = format!("# Command line\n\n{NOTE}\n\n## Options of all commands\n\n");
    table(&mut out, whole.get_arguments().filter(|arg| arg.is_global_set()));
    for (heading, verbs) in groups(&whole) {
        write!(out, "## {heading}\n\n").unwrap();
        for verb in verbs {
            command(&mut out, &format!("hither {}", verb.get_name()), verb);
        }
    }
    check("command-line.md", &format!("{}\n", out.trim_end()));
}

#[test]
fn exit_codes() {
    let kinds = [
        ErrorKind::Invalid,
        ErrorKind::NotFound,
        ErrorKind::Unauthenticated,
        ErrorKind::PermissionDenied,
        ErrorKind::AlreadyExists,
        ErrorKind::NoSpace,
        ErrorKind::Unavailable,
        ErrorKind::Protocol,
        ErrorKind::TooLarge,
        ErrorKind::Timeout,
        ErrorKind::Corrupt,
        ErrorKind::Unsupported,
        ErrorKind::Changed,
        ErrorKind::Cancelled,
        ErrorKind::Local,
    ]
    .map(code_and_kind);
    let mut out = format!(
        "# Exit codes\n\n{NOTE}\n\nWith `--json`, `error.exit_code` and `error.kind` have the same information.\n\n\
         | code | meaning | `error.kind` |\n|---|---|---|\n"
    );
    for (code, meaning) in CODES {
        let mut of_code: Vec<_> =
            kinds.iter().filter(|it| it.0 == code).map(|it| format!("`{}`", it.1)).collect();
        if code == 2 {
            of_code.push("`usage`".to_owned());
        }
        writeln!(out, "| {code} | {meaning} | {} |", of_code.join(", ")).unwrap();
    }
    check("exit-codes.md", &out);
}

#[test]
fn client_configuration() {
    let mut out = format!(
        "# Client configuration\n\n{NOTE}\n\nThe command and the Python package read `hither/config.toml` in \
         `$XDG_CONFIG_HOME` (default: `~/.config`), or the file of `--config`. Options come first, then environment \
         variables, then this file. Unknown keys are errors.\n\n| key | example | default | meaning |\n|---|---|---|---|\n"
    );
    for key in ConfigFile::KEYS {
        let example = cell(key.example);
        let default = cell(key.default);
        writeln!(out, "| `{}` | `{example}` | {default} | {} |", key.name, cell(key.meaning))
            .unwrap();
    }
    out += "\n## Environment variables\n\n";
    out += "`HITHER_MAX_CONNECTIONS`, `HITHER_STORE`, `HITHER_STALENESS` and `HITHER_SOURCE_ADDRESS` set the keys of these names, `HITHER_TRACE` the \
            option `--trace`, `HITHER_PASSWORD` the password of `--user`. `HITHER_LOG` is a filter of the log, as in \
            `hither_transport=debug,info`.\n\nVariables of other programs are read too: ";
    let others = ClientOptions::VARIABLES.iter().filter(|name| !name.starts_with("HITHER_"));
    let others: Vec<_> = others.map(|name| format!("`{name}`")).collect();
    writeln!(out, "{}.", others.join(", ")).unwrap();
    for name in ClientOptions::VARIABLES.iter().chain(&["HITHER_PASSWORD", "HITHER_LOG"]) {
        assert!(out.contains(&format!("`{name}`")), "{name} is not described");
    }
    check("client-configuration.md", &out);
}
