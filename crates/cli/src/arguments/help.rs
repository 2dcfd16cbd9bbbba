//! The help of the command and of its verbs. The command lists its verbs in groups. Each verb shows
//! its own options and names the common options that it uses; `hither help options` describes
//! those.

use crate::arguments::used_options::used;
use crate::exit;
use clap::{Arg, Command};

/// The headings of the list of verbs, with the names of their verbs.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Read and analyse", &["draw", "tree", "cat"]),
    ("Copy and synchronise", &["cp", "sync", "check"]),
    (
        "Files and directories",
        &["ls", "find", "du", "stat", "checksum", "mkdir", "mv", "rm", "chmod", "locate", "stage"],
    ),
    ("Servers", &["serve", "federate", "lots"]),
    ("Performance", &["explain", "profile", "trace", "simulate", "tune"]),
    ("Setup", &["root-setup", "completions", "options"]),
];

/// The groups of the verbs of `command`: each a heading with its verbs.
pub(crate) fn groups(
    command: &Command,
) -> impl Iterator<Item = (&'static str, impl Iterator<Item = &Command>)> {
    GROUPS.iter().map(move |(heading, names)| {
        (*heading, names.iter().filter_map(move |name| command.find_subcommand(name)))
    })
}

/// `command` with the help of itself and of all its verbs.
pub(super) fn with_help(command: Command) -> Command {
    let common: Vec<Arg> =
        command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    let help = format!("{}\n\n{}", describe_common(&common), exit::describe_codes());
    let template = template(&command);
    command
        .help_template(template)
        .mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg })
        .after_help(help)
        .mut_subcommands(|verb| with_common("", verb, &common))
}

/// The help of `command`: clap's template with groups, because clap supports only one list of
/// subcommands.
fn template(command: &Command) -> String {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    let line = |verb: &Command| {
        let name = verb.get_name();
        let padding = " ".repeat(width.saturating_sub(name.len()));
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {literal}{name}{literal:#}{padding}  {about}\n")
    };
    let sections = groups(command).map(|(heading, verbs)| {
        let lines: Vec<String> = verbs.map(line).collect();
        format!("{header}{heading}:{header:#}\n{}\n", lines.concat())
    });
    let sections: Vec<String> = sections.collect();
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\
         See 'hither help COMMAND' for one command.\n\n\
         {header}Options:{header:#}\n{{options}}{{after-help}}",
        sections.concat()
    )
}

/// `verb` with the common options that it and its own verbs use; `above` is the verb that it is of.
fn with_common(above: &str, verb: Command, common: &[Arg]) -> Command {
    if verb.get_name() == "options" {
        return verb.args(common.iter().cloned().map(|arg| arg.global(false)));
    }
    let path = format!("{above} {}", verb.get_name()).trim_start().to_owned();
    let used = used(common, &path);
    let names = (!used.is_empty()).then(|| describe_common(&used));
    let example = verb.get_after_help().map(ToString::to_string);
    let help: Vec<String> = names.into_iter().chain(example).collect();
    verb.after_help(help.join("\n\n")).mut_subcommands(|verb| with_common(&path, verb, common))
}

fn describe_common(options: &[Arg]) -> String {
    format!("Common options (see hither help options):\n{}", names(options))
}

/// The names of options, wrapped for a terminal.
fn names(options: &[Arg]) -> String {
    let mut lines = vec![String::new()];
    for option in options {
        let long = option.get_long().unwrap_or_default();
        let short = option.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
        let takes_value = option.get_action().takes_values();
        let value = option.get_value_names().filter(|_| takes_value);
        let value = value.and_then(|names| names.first().map(|name| format!(" {name}")));
        let word = format!("  {short}--{long}{}", value.unwrap_or_default());
        match lines.last_mut() {
            Some(line) if line.len() + word.len() <= 80 => line.push_str(&word),
            _ => lines.push(word),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, parser};
    use clap::CommandFactory;

    fn help(words: &[&str]) -> String {
        let words = ["hither"].iter().chain(words);
        parser().try_get_matches_from(words).expect_err("help").to_string()
    }

    #[test]
    fn every_verb_is_in_one_group_and_every_group_has_verbs() {
        let command = Arguments::command();
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let mut verbs: Vec<_> = verbs.map(Command::get_name).collect();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        verbs.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, verbs);
        assert!(GROUPS.iter().all(|(_, names)| !names.is_empty()));
    }

    #[test]
    fn help_lists_the_verbs_under_the_headings_of_their_groups() {
        let whole = help(&["--help"]);
        for part in [
            "Usage: hither <COMMAND>\n\nRead and analyse:\n  draw         Draw a histogram of an expression\n",
            "  cat          Write files to standard output\n\nCopy and synchronise:\n  cp           Copy",
            "\n\nSetup:\n  root-setup   Build and register the plug-in for ROOT\n  completions  Print",
            "for one command.\n\nOptions:\n  -h, --help     Print help\n  -V, --version  Print version\n\nCommon options",
        ] {
            assert!(whole.contains(part), "{part:?} in\n{whole}");
        }
        for words in [&["-h"][..], &["help"], &[]] {
            assert_eq!(help(words), whole, "{words:?}");
        }
    }

    #[test]
    fn help_of_a_verb_names_the_common_options_that_it_uses() {
        for (verb, uses, ignores) in [
            ("draw", vec!["--bins <N>", "--replica URL", "--config FILE"], vec!["--insecure  Acc"]),
            ("serve", vec!["--listen <ADDR:PORT>", "--config FILE"], vec!["--replica", "--user"]),
            ("completions", vec!["<SHELL>"], vec!["--json"]),
            ("sync", vec!["--config FILE"], vec!["--replica", "--trace"]),
            ("options", vec!["--replica <URL>", "--anonymous", "Print JSON"], vec!["--bins"]),
        ] {
            let text = help(&["help", verb]);
            assert!(uses.iter().all(|it| text.contains(it)), "{text}");
            assert!(!ignores.iter().any(|it| text.contains(it)), "{text}");
        }
    }
}
