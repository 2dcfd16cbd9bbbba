//! The help of the command and of its verbs: each verb shows its own options and names those of the
//! common ones that it uses; `hither help options` describes them.

use crate::exit;
use clap::{Arg, Command};

/// `command` with the help of itself and of all its verbs.
pub(super) fn with_help(command: Command) -> Command {
    let common: Vec<Arg> =
        command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    let help = format!("{}\n\n{}", describe_common(&common), exit::describe_codes());
    command
        .mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg })
        .after_help(help)
        .mut_subcommands(|verb| with_common(verb, &common))
}

fn with_common(verb: Command, common: &[Arg]) -> Command {
    if verb.get_name() == "options" {
        return verb.args(common.iter().cloned().map(|arg| arg.global(false)));
    }
    let used: Vec<Arg> = match verb.get_name() {
        "serve" => named(common, &["json", "verbose", "config"]),
        "show" | "import" | "profile" | "storage" | "tune" | "sweep" | "root-setup" => {
            named(common, &["json", "verbose"])
        }
        "completions" | "man" => Vec::new(),
        _ => common.to_vec(),
    };
    let names = (!used.is_empty()).then(|| describe_common(&used));
    let example = verb.get_after_help().map(ToString::to_string);
    let help: Vec<String> = names.into_iter().chain(example).collect();
    verb.after_help(help.join("\n\n")).mut_subcommands(|verb| with_common(verb, common))
}

fn named(options: &[Arg], names: &[&str]) -> Vec<Arg> {
    options.iter().filter(|option| names.contains(&option.get_id().as_str())).cloned().collect()
}

fn describe_common(options: &[Arg]) -> String {
    format!("Common options (see hither help options):\n{}", names(options))
}

/// The names of options, in lines of a terminal.
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
    use crate::arguments::parser;

    #[test]
    fn help_of_a_verb_names_the_common_options_that_it_uses() {
        for (verb, uses, ignores) in [
            ("draw", vec!["--bins <N>", "--replica URL", "--config FILE"], vec!["--insecure  Acc"]),
            ("serve", vec!["--listen <ADDR:PORT>", "--config FILE"], vec!["--replica", "--user"]),
            ("completions", vec!["<SHELL>"], vec!["--json"]),
            ("options", vec!["--replica <URL>", "--anonymous", "Print JSON"], vec!["--bins"]),
        ] {
            let help = parser().try_get_matches_from(["hither", "help", verb]);
            let text = help.unwrap_err().to_string();
            assert!(uses.iter().all(|it| text.contains(it)), "{text}");
            assert!(!ignores.iter().any(|it| text.contains(it)), "{text}");
        }
    }
}
