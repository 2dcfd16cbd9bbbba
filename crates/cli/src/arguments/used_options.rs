//! The common options that a verb uses. Others are left out of its help, and refused.

use crate::exit::CommandError;
use clap::{Arg, ArgMatches};

/// Common options that only some of the verbs with a client use, with these verbs.
const OF_VERBS: [(&str, &[&str]); 2] = [
    (
        "replica",
        &["draw", "explain draw", "explain cp", "explain cat", "tree", "cat", "cp", "trace replay"],
    ),
    ("trace", &["draw", "explain draw", "explain cat", "tree", "cat", "checksum", "trace replay"]),
];

/// Options about what may be kept, which hold where nothing is kept, too.
const OF_THE_STORE: [&str; 2] = ["store", "no-store"];

/// The common options of a verb without a client; none for one with a client.
fn without_client(verb: &str) -> Option<&'static [&'static str]> {
    match verb {
        "serve" => Some(&["json", "verbose", "config"]),
        "explain serve" | "profile" | "profile storage" | "root-setup" | "trace import"
        | "trace show" | "tune" | "tune sweep" => Some(&["json", "verbose"]),
        "completions" | "man" => Some(&[]),
        _ => None,
    }
}

/// The verbs that use a common option, if not all with a client do.
fn verbs_of(option: &str) -> Option<&'static [&'static str]> {
    OF_VERBS.into_iter().find(|(name, _)| *name == option).map(|(_, verbs)| verbs)
}

/// Returns true if `verb`, as in `trace show`, uses a common option. A verb that has verbs of its
/// own uses what one of them uses.
pub(super) fn is_used(option: &str, verb: &str) -> bool {
    let is_of = |it: &&str| {
        it.strip_prefix(verb).is_some_and(|rest| matches!(rest.chars().next(), None | Some(' ')))
    };
    match without_client(verb) {
        Some(options) => options.contains(&option),
        None => verbs_of(option).is_none_or(|verbs| verbs.iter().any(is_of)),
    }
}

/// The common options among `all` that `verb` uses.
pub(super) fn used(all: &[Arg], verb: &str) -> Vec<Arg> {
    let is_used = |it: &&Arg| is_used(it.get_long().unwrap_or_default(), verb);
    all.iter().filter(is_used).cloned().collect()
}

/// Fails if one of the options of a client that are on the command line has no effect.
pub(crate) fn refuse_unused(matches: &ArgMatches, given: &[&str]) -> Result<(), CommandError> {
    let levels = std::iter::successors(matches.subcommand(), |(_, matches)| matches.subcommand());
    let verb = levels.map(|(name, _)| name).collect::<Vec<_>>().join(" ");
    let is_refused = |option: &&&str| !is_used(option, &verb) && !OF_THE_STORE.contains(option);
    let Some(option) = given.iter().find(is_refused) else { return Ok(()) };
    let of = verbs_of(option).map(|verbs| format!(": it is for {}", verbs.join(", ")));
    let of = of.unwrap_or_default();
    Err(CommandError::usage(format!("--{option} has no effect on hither {verb}{of}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, parser};
    use clap::{Command, CommandFactory, FromArgMatches};

    fn refusal(words: &[&str]) -> Option<String> {
        let matches = parser().try_get_matches_from(words).unwrap();
        let arguments = Arguments::from_arg_matches(&matches).unwrap();
        refuse_unused(&matches, &arguments.common.client.given)
            .err()
            .map(|error| error.object()["message"].as_str().unwrap().to_owned())
    }

    #[test]
    fn options_without_an_effect_are_refused_wherever_they_stand() {
        for (words, message) in [
            (
                &["hither", "--trace", "t", "cp", "a", "b"][..],
                "--trace has no effect on hither cp: it",
            ),
            (
                &["hither", "sync", "a", "--replica", "u", "b"],
                "--replica has no effect on hither sync",
            ),
            (&["hither", "profile", "storage", "d", "--insecure"], "hither profile storage"),
            (&["hither", "serve", "d", "--max-connections", "3"], "hither serve"),
        ] {
            assert!(refusal(words).unwrap().contains(message), "{words:?}");
        }
        for words in [
            &["hither", "cat", "u", "--trace", "t", "--replica", "v"][..],
            &["hither", "explain", "cp", "--replica", "v", "a", "b"],
            &["hither", "serve", "d", "--config", "f"],
            &["hither", "explain", "serve", "l", "--no-store"],
            &["hither", "lots", "show", "u", "--token-file", "f"],
        ] {
            assert_eq!(refusal(words), None, "{words:?}");
        }
    }

    #[test]
    fn the_verbs_of_an_option_exist() {
        let command = Arguments::command();
        for (_, verbs) in OF_VERBS {
            for verb in verbs {
                let find = |at: &Command, name: &str| at.find_subcommand(name).cloned();
                let found = verb.split(' ').try_fold(command.clone(), |at, name| find(&at, name));
                assert!(found.is_some_and(|it| !it.has_subcommands()), "{verb}");
            }
        }
    }
}
