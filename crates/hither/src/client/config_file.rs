//! The configuration file of a client, in TOML.

use crate::client::options::{ClientOption, ClientOptions, OptionValue, folder};
use hither_auth::Environment;
use hither_core::error::{Error, ErrorKind, Result, invalid_toml};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The table of the keys about credentials.
const CREDENTIALS: &str = "credentials";

/// Reads the file at `path`, or else the user's own, if there is one.
///
/// # Errors
///
/// [`ErrorKind::Local`] if it cannot be read, and those of [`parse`].
pub(crate) fn read(path: Option<&Path>, environment: &Environment) -> Result<ClientOptions> {
    let is_named = path.is_some();
    let path = path.map(Path::to_owned).or_else(|| default_path(environment));
    let Some(path) = path else { return Ok(ClientOptions::default()) };
    match std::fs::read_to_string(&path) {
        Ok(text) => parse(&text).map_err(|error| error.context(path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => {
            Ok(ClientOptions::default())
        }
        Err(error) => {
            let what = format!("cannot read {}", path.display());
            Err(Error::new(ErrorKind::Local, what).with_source(error))
        }
    }
}

/// The path of the user's own configuration file.
fn default_path(environment: &Environment) -> Option<PathBuf> {
    folder(environment, "XDG_CONFIG_HOME", ".config")
        .map(|folder| folder.join("hither/config.toml"))
}

/// Reads the text of a configuration file.
///
/// # Errors
///
/// [`ErrorKind::Invalid`] with line and column, for text that is not TOML, for unknown keys and for
/// values that an option refuses. It repeats no value: it may be secret.
pub(crate) fn parse(text: &str) -> Result<ClientOptions> {
    let mut options = ClientOptions::default();
    let parsed = toml::Deserializer::parse(text)
        .and_then(|parser| Table { name: None, options: &mut options }.deserialize(parser));
    parsed.map_err(|error: toml::de::Error| invalid_toml(text, error.span(), error.message()))?;
    Ok(options)
}

/// A table of the file, which sets options.
struct Table<'a> {
    /// The name of the table; none for the whole file.
    name: Option<&'static str>,
    options: &'a mut ClientOptions,
}

impl<'de> DeserializeSeed<'de> for Table<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Table<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(option) = entries.next_key_seed(Key { table: self.name })? {
            let options = &mut *self.options;
            match option {
                Some(option) => entries.next_value_seed(Entry { option, options })?,
                None => entries.next_value_seed(Table { name: Some(CREDENTIALS), options })?,
            }
        }
        Ok(())
    }
}

/// A key of a table; none for that of the table about credentials.
struct Key {
    table: Option<&'static str>,
}

impl Key {
    /// The keys of the table.
    fn names(&self) -> impl Iterator<Item = (&'static str, &'static ClientOption)> {
        let table = self.table;
        ClientOptions::TABLE.iter().filter_map(move |option| {
            let key = option.key?;
            let (its, name) =
                key.split_once('.').map_or((None, key), |(its, name)| (Some(its), name));
            (its == table).then_some((name, option))
        })
    }
}

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<&'static ClientOption>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let key = String::deserialize(deserializer)?;
        if self.table.is_none() && key == CREDENTIALS {
            return Ok(None);
        }
        let found = self.names().find(|(name, _)| *name == key);
        found.map(|(_, option)| Some(option)).ok_or_else(|| {
            let credentials = self.table.is_none().then_some(CREDENTIALS);
            let names = self.names().map(|(name, _)| name).chain(credentials);
            let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
            let names = names.join(", ");
            D::Error::custom(format!("unknown field `{key}`, expected one of {names}"))
        })
    }
}

/// The value of a key, which sets an option.
struct Entry<'a> {
    option: &'static ClientOption,
    options: &'a mut ClientOptions,
}

impl<'de> DeserializeSeed<'de> for Entry<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let value = OptionValue::from(toml::Value::deserialize(deserializer)?);
        self.option.read_typed(self.options, &value).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_every_key_is_valid() {
        let mut text = String::new();
        let mut table = "";
        for option in ClientOptions::TABLE {
            let Some(key) = option.key else { continue };
            let (its, name) = key.split_once('.').unwrap_or(("", key));
            if its != table {
                text += &format!("[{its}]\n");
                table = its;
            }
            text += &format!("{name} = {}\n", option.example);
        }
        parse(&text).unwrap();
        let error = parse("[credentials]\nunknown = 1\n").unwrap_err().to_string();
        assert!(error.contains("line 2, column 1: unknown field `unknown`"), "{error}");
        assert!(error.contains("`token_file`, ") && !error.contains("`store`"), "{error}");
    }

    #[test]
    fn the_listed_defaults_are_those_of_the_client() {
        let config = |text: &str| {
            let environment = Environment::new(1);
            let file = parse(text).unwrap();
            let config = ClientOptions::default().over(Default::default(), &environment, file);
            format!("{:?}", config.unwrap())
        };
        let mut compared = 0;
        for option in ClientOptions::TABLE {
            if let (Some(key), Some(default)) = (option.key, option.default) {
                let quote = if option.example.starts_with('\'') { "'" } else { "" };
                let text = format!("{key} = {quote}{default}{quote}");
                assert_eq!(config(&text), config(""), "{text}");
                compared += 1;
            }
        }
        assert_eq!(compared, 6);
    }

    #[test]
    fn a_value_that_is_refused_is_placed_and_not_repeated() {
        let error = parse("proxy = ''\nmax_connections = 4711\n").unwrap_err().to_string();
        assert_eq!(
            error,
            "line 2, column 19: max_connections: expected at least 1 and at most 1024 connections"
        );
        let mirror = parse("[[mirror]]\nprefix = 'http://a/'\nelsewhere = ['http://b/']\n");
        assert_eq!(mirror.unwrap().mirrors.len(), 1);
    }
}
