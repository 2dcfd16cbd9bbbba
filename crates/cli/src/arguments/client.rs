//! The options of a client on the command line, from the table of options.

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::{Error, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use hither::{ClientOption, ClientOptions, OptionShape, OptionValue};
use std::ffi::OsString;

/// The options of a client.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientArgs {
    pub(crate) options: ClientOptions,
    /// The flags that are on the command line.
    pub(crate) given: Vec<&'static str>,
}

/// The client options that the command line supports.
fn table() -> impl Iterator<Item = (&'static ClientOption, &'static str)> {
    ClientOptions::TABLE.iter().filter_map(|option| Some((option, option.flag?)))
}

/// The help of an option, with its default.
fn help(option: &ClientOption) -> String {
    let default = option.default.filter(|_| option.shape != OptionShape::Switch);
    match option.flag_origin.or(default) {
        Some(default) => format!("{} [default: {default}]", option.help),
        None => option.help.to_owned(),
    }
}

fn argument(option: &'static ClientOption, flag: &'static str) -> Arg {
    let mut argument = Arg::new(option.name)
        .long(flag)
        .help(help(option))
        .help_heading(option.heading)
        .global(true)
        .conflicts_with_all(option.conflicts);
    if let Some(other) = option.requires {
        argument = argument.requires(other);
    }
    if option.shape == OptionShape::Switch {
        return argument.action(ArgAction::SetTrue);
    }
    let action = match option.shape {
        OptionShape::Repeated => ArgAction::Append,
        _ => ArgAction::Set,
    };
    let parser = OsStringValueParser::new().try_map(|text: OsString| {
        let value = OptionValue::Text(text);
        option.read(&mut ClientOptions::default(), &value).map(|()| value)
    });
    let hint = match option.value_name {
        "FILE" | "DIR" => ValueHint::AnyPath,
        _ => ValueHint::Unknown,
    };
    argument.action(action).value_name(option.value_name).value_hint(hint).value_parser(parser)
}

impl Args for ClientArgs {
    fn augment_args(command: Command) -> Command {
        command.args(table().map(|(option, flag)| argument(option, flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ClientArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut arguments = Self::default();
        arguments.update_from_arg_matches(matches)?;
        Ok(arguments)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for (option, flag) in table() {
            let values: Vec<_> = if option.shape == OptionShape::Switch {
                vec![OptionValue::Truth(matches.get_flag(option.name))]
            } else {
                matches.get_many(option.name).into_iter().flatten().cloned().collect()
            };
            if matches.value_source(option.name) == Some(ValueSource::CommandLine) {
                self.given.push(flag);
            }
            for value in &values {
                option
                    .read(&mut self.options, value)
                    .map_err(|expected| Error::raw(ErrorKind::ValueValidation, expected))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parser;

    #[test]
    fn flags_refuse_what_an_option_refuses_with_the_same_sentence() {
        let mut refused = 0;
        for (option, flag) in table().filter(|(option, _)| option.shape != OptionShape::Switch) {
            for text in ["?", "0", "1025", "-1", "1e9", "maybe", "100000000T"] {
                let words = ["hither".to_owned(), "options".to_owned(), format!("--{flag}={text}")];
                let sentence = option.read(&mut ClientOptions::default(), &OptionValue::text(text));
                let required = option.requires.map(|name| format!("--{name}=x"));
                let parsed = parser().try_get_matches_from(words.into_iter().chain(required));
                match (sentence, parsed) {
                    (Ok(()), parsed) => drop(parsed.unwrap()),
                    (Err(sentence), parsed) => {
                        let error = parsed.unwrap_err().to_string();
                        assert!(error.contains(&format!(": {sentence}\n")), "{error}: {sentence}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 20, "{refused}");
    }

    #[test]
    fn flags_set_their_options() {
        let words = "hither stat http://host/file --max-connections 7 --no-store --source-address eth0,eth1 \
                     --header X-A:1 --header X-B:2 --cert a --key b";
        let matches = parser().try_get_matches_from(words.split_whitespace()).unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        let options = ClientArgs::from_arg_matches(matches).unwrap().options;
        assert_eq!(options.max_connections.map(u16::from), Some(7));
        assert!(options.no_store && !options.insecure);
        assert_eq!(options.source_addresses.len(), 2);
        assert_eq!(options.headers.len(), 2);
        assert_eq!(options.key, Some("b".into()));
        let given = ClientArgs::from_arg_matches(matches).unwrap().given;
        assert!(given.contains(&"no-store") && !given.contains(&"insecure"), "{given:?}");
        assert_eq!(given.len(), 6);
    }
}
