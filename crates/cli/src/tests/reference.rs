//! Pages of `docs/reference` that are generated from the command.
//!
//! The tests compare them with the files. With `HITHER_WRITE_REFERENCE=1` they write the files.

use crate::arguments::Arguments;
use crate::arguments::help::groups;
use crate::exit::{CODES, code_and_kind};
use clap::{Arg, Command, CommandFactory};
use hither::{ClientOptions, ErrorKind, OptionShape};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const NOTE: &str =
    "<!-- Generated: HITHER_WRITE_REFERENCE=1 cargo test -p hither-cli reference -->";

fn path(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)
}

fn check(page: &str, text: &str) {
    let path = path(page);
    if std::env::var_os("HITHER_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{page} is out of date: write it as {NOTE}");
}

/// `text` in lines of at most `columns`, the second and later ones indented.
fn wrapped(text: &str, columns: usize, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= columns => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join(&format!("\n{indent}"))
}

/// A TOML value in the notation of C and of the command line.
fn in_words(example: &str) -> String {
    let bare = example.trim_matches(['[', ']', '{', '}', ' ']);
    let bare = bare.replace('\'', "").replace(", ", ",").replace(" = ", ": ");
    if bare.is_empty() { bare } else { format!("`{bare}`") }
}

/// `text` escaped for a cell of a table.
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
    check("docs/reference/command-line.md", &format!("{}\n", out.trim_end()));
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
    check("docs/reference/exit-codes.md", &out);
}

#[test]
fn client_configuration() {
    let mut out = format!(
        "# Client configuration\n\n{NOTE}\n\nThe command and the Python package read `hither/config.toml` in \
         `$XDG_CONFIG_HOME` (default: `~/.config`), or the file of `--config`. Options come first, then environment \
         variables, then this file. Unknown keys are errors.\n\n| key | example | default | meaning |\n|---|---|---|---|\n"
    );
    for option in ClientOptions::TABLE {
        let Some(key) = option.key else { continue };
        let example = cell(option.example);
        let default = cell(option.default.unwrap_or(option.origin));
        writeln!(out, "| `{key}` | `{example}` | {default} | {} |", cell(option.meaning)).unwrap();
    }
    out += "\n## Environment variables\n\n";
    let variables = |has_key: bool| {
        let options = ClientOptions::TABLE.iter().filter(move |it| it.key.is_some() == has_key);
        options.filter_map(|option| Some((option, format!("`{}`", option.variable?))))
    };
    let of_keys: Vec<_> = variables(true).map(|(_, variable)| variable).collect();
    let (last, first) = of_keys.split_last().unwrap();
    write!(out, "{} and {last} set the keys of these names", first.join(", ")).unwrap();
    for (option, variable) in variables(false) {
        match option.flag {
            Some(flag) => write!(out, ", {variable} the option `--{flag}`").unwrap(),
            None => write!(out, ", {variable} the {} of `--user`", option.name).unwrap(),
        }
    }
    out += ". `HITHER_LOG` is a filter of the log, as in `hither_transport=debug,info`.\n\n\
            Variables of other programs are read too: ";
    let others = ClientOptions::variables().filter(|name| !name.starts_with("HITHER_"));
    let others: Vec<_> = others.map(|name| format!("`{name}`")).collect();
    write!(
        out,
        "{}.\n\n## Names of options\n\nAn option has these names on the command line, in this file, in the \
         environment, in Python and in C; where one is absent, it cannot be set there.\n\n\
         | command line | key | variable | Python | C |\n|---|---|---|---|---|\n",
        others.join(", ")
    )
    .unwrap();
    for option in ClientOptions::TABLE {
        let flag = option.flag.map(|flag| format!("--{flag}"));
        let others = [option.key, option.variable, option.python, option.c];
        let names = std::iter::once(flag).chain(others.map(|name| name.map(str::to_owned)));
        let cells: Vec<_> =
            names.map(|name| name.map_or_else(String::new, |name| format!("`{name}`"))).collect();
        writeln!(out, "| {} |", cells.join(" | ")).unwrap();
    }
    check("docs/reference/client-configuration.md", &out);
}

/// Generates the types of the options in Python, with their documentation.
#[test]
fn python_options() {
    let mut out = r#""""Options of a client.

Generated: HITHER_WRITE_REFERENCE=1 cargo test -p hither-cli reference
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence


class ClientOptions(TypedDict, total=False):
    """Options of :class:`hither.Client`; None stands for the default.

    Examples
    --------
    >>> options: hither.ClientOptions = {"max_connections": 16, "anonymous": True}
    >>> hither.Client(**options)
    <hither.Client max_connections=16, anonymous=True>

    """

"#
    .to_owned();
    for option in ClientOptions::TABLE {
        let Some(name) = option.python else { continue };
        let of_shape = match option.shape {
            OptionShape::Once => "str | None",
            OptionShape::Repeated => "Sequence[str]",
            OptionShape::Switch => "bool",
        };
        let mut text = option.meaning.to_owned();
        if let Some(default) = option.default.filter(|_| option.shape == OptionShape::Once) {
            text = format!("{}; {default} by default.", text.trim_end_matches('.'));
        }
        if !option.python_note.is_empty() {
            text = format!("{text} {}", option.python_note);
        }
        writeln!(out, "    {name}: {}", option.python_type.unwrap_or(of_shape)).unwrap();
        writeln!(out, "    \"\"\"{}\"\"\"", wrapped(&text, 92, "    ")).unwrap();
    }
    check("python/hither/_options/__init__.py", &out);
}

/// Generates the client options in the guide for C.
#[test]
fn options_in_c() {
    let mut table = "| option of a client | example | meaning |\n|---|---|---|\n".to_owned();
    for option in ClientOptions::TABLE {
        let Some(name) = option.c else { continue };
        let example = match option.shape {
            OptionShape::Switch => "true".to_owned(),
            _ => in_words(option.example),
        };
        let meaning = match option.shape {
            OptionShape::Repeated => {
                format!("{}; may be repeated.", option.meaning.trim_end_matches('.'))
            }
            _ => option.meaning.to_owned(),
        };
        writeln!(table, "| `{name}` | {example} | {} |", cell(&meaning)).unwrap();
    }
    let guide = std::fs::read_to_string(path("docs/guides/c.md")).unwrap();
    let (before, rest) = guide.split_once("| option of a client |").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    check("docs/guides/c.md", &format!("{before}{table}\n{after}"));
}
