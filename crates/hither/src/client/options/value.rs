//! Values of options, as their callers have them, and a reader for each kind of option.
//!
//! A reader that refuses a value returns what was expected, without the value, which may be secret.

use crate::client::mirrors::Mirror;
use crate::client::options::units::{byte_size, duration, seconds};
use hither_auth::Secret;
use hither_transport::{PageChecksums, SourceAddress};
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The numbers of connections that a client may be given.
const CONNECTIONS: RangeInclusive<u16> = 1..=1024;

/// The value of an option: text of a command line or a variable, or a value of a configuration file
/// or a program.
#[derive(Clone)]
pub enum OptionValue {
    /// Text.
    Text(OsString),
    /// A number, in decimal digits.
    Number(String),
    /// True or false.
    Truth(bool),
    /// A list of values.
    List(Vec<Self>),
    /// Values with names.
    Table(Vec<(String, Self)>),
}

impl OptionValue {
    /// Text.
    #[must_use]
    pub fn text(text: impl Into<OsString>) -> Self {
        Self::Text(text.into())
    }

    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => text.to_str(),
            _ => None,
        }
    }

    /// The digits of a number, or text.
    fn digits(&self) -> Option<&str> {
        match self {
            Self::Number(digits) => Some(digits),
            other => other.as_text(),
        }
    }
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Number(digits) => f.write_str(digits),
            Self::Truth(truth) => write!(f, "{truth}"),
            Self::List(_) => f.write_str("a list"),
            Self::Table(_) => f.write_str("a table"),
        }
    }
}

/// Shows no value, which may be secret.
impl fmt::Debug for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OptionValue(...)")
    }
}

/// A value of a configuration file.
impl From<toml::Value> for OptionValue {
    fn from(value: toml::Value) -> Self {
        match value {
            toml::Value::String(text) => Self::text(text),
            toml::Value::Integer(number) => Self::Number(number.to_string()),
            toml::Value::Float(number) => Self::Number(number.to_string()),
            toml::Value::Boolean(truth) => Self::Truth(truth),
            toml::Value::Datetime(time) => Self::text(time.to_string()),
            toml::Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            toml::Value::Table(entries) => {
                let entries = entries.into_iter().map(|(name, value)| (name, value.into()));
                Self::Table(entries.collect())
            }
        }
    }
}

pub(super) fn connections(value: &OptionValue) -> Result<Option<NonZeroU16>, String> {
    let number = value.digits().and_then(|digits| digits.parse::<NonZeroU16>().ok());
    required(number.filter(|number| CONNECTIONS.contains(&number.get())), || {
        let (least, most) = CONNECTIONS.into_inner();
        format!("expected at least {least} and at most {most} connections")
    })
}

pub(super) fn threads(value: &OptionValue) -> Result<Option<usize>, String> {
    let number = value.digits().and_then(|digits| digits.parse().ok());
    required(number, || "expected a number of threads".to_owned())
}

pub(super) fn time_limit(value: &OptionValue) -> Result<Option<Duration>, String> {
    seconds(value.digits().unwrap_or_default()).map(Duration::from_secs_f64).map(Some)
}

pub(super) fn age(value: &OptionValue) -> Result<Option<Duration>, String> {
    if let OptionValue::Number(digits) = value
        && let Ok(Ok(age)) = digits.parse().map(Duration::try_from_secs_f64)
    {
        return Ok(Some(age));
    }
    duration(value.as_text().unwrap_or_default()).map(Some)
}

pub(super) fn size(value: &OptionValue) -> Result<Option<u64>, String> {
    byte_size(value.digits().unwrap_or_default()).map(Some)
}

pub(super) fn path(value: &OptionValue) -> Result<Option<PathBuf>, String> {
    let path = match value {
        OptionValue::Text(path) if !path.is_empty() => Some(PathBuf::from(path)),
        _ => None,
    };
    required(path, || "expected a path".to_owned())
}

/// A folder; the empty path stands for none, and nothing for the default.
pub(super) fn folder_or_none(value: &OptionValue) -> Result<Option<PathBuf>, String> {
    match value {
        OptionValue::Text(path) => Ok(Some(PathBuf::from(path))),
        OptionValue::Truth(false) => Ok(Some(PathBuf::new())),
        OptionValue::Truth(true) => Ok(None),
        _ => Err("expected a path".to_owned()),
    }
}

pub(super) fn word(value: &OptionValue) -> Result<Option<String>, String> {
    required(value.as_text().map(str::to_owned), || "expected text".to_owned())
}

pub(super) fn secret(value: &OptionValue) -> Result<Option<Secret>, String> {
    required(value.as_text().map(Secret::new), || "expected text".to_owned())
}

pub(super) fn truth(value: &OptionValue) -> Result<bool, String> {
    match value {
        OptionValue::Truth(truth) => Ok(*truth),
        other => match other.as_text() {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            _ => Err("expected true or false".to_owned()),
        },
    }
}

pub(super) fn page_checksums(value: &OptionValue) -> Result<Option<PageChecksums>, String> {
    let mode = value.as_text().and_then(|name| name.parse().ok());
    required(mode, || "expected never, long or always".to_owned())
}

pub(super) fn words(value: &OptionValue) -> Result<Vec<String>, String> {
    word(value).map(Vec::from_iter)
}

/// Source addresses, separated by commas.
pub(super) fn sources(value: &OptionValue) -> Result<Vec<SourceAddress>, String> {
    let sources = value.as_text().unwrap_or_default().split(',').map(str::parse);
    let expected = "expected IP addresses or names of interfaces, as in eth1";
    sources.collect::<Result<_, _>>().map_err(|_| expected.to_owned())
}

/// A header field, `NAME: VALUE`, or a table of header fields.
pub(super) fn headers(value: &OptionValue) -> Result<Vec<(String, Secret)>, String> {
    let fields: Option<Vec<_>> = match value {
        OptionValue::Table(fields) => fields
            .iter()
            .map(|(name, value)| Some((name.clone(), Secret::new(value.as_text()?))))
            .collect(),
        other => other
            .as_text()
            .and_then(|text| text.split_once(':'))
            .map(|(name, value)| vec![(name.trim().to_owned(), Secret::new(value.trim()))]),
    };
    fields.ok_or_else(|| "expected a header field, NAME: VALUE".to_owned())
}

/// A rule with the keys `prefix` and `elsewhere`, or a table of prefixes, each with its replicas.
pub(super) fn mirrors(value: &OptionValue) -> Result<Vec<Mirror>, String> {
    let expected = || "expected a prefix and a list of prefixes elsewhere".to_owned();
    let OptionValue::Table(entries) = value else { return Err(expected()) };
    let rule = |prefix: &str, elsewhere: &OptionValue| {
        let OptionValue::List(elsewhere) = elsewhere else { return None };
        let elsewhere = elsewhere.iter().map(|it| it.as_text().map(str::to_owned));
        Some(Mirror { prefix: prefix.to_owned(), elsewhere: elsewhere.collect::<Option<_>>()? })
    };
    let get = |key: &str| entries.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    let rules: Option<Vec<Mirror>> = match get("prefix").and_then(OptionValue::as_text) {
        Some(prefix) if entries.len() == 2 => {
            get("elsewhere").and_then(|elsewhere| rule(prefix, elsewhere)).map(|rule| vec![rule])
        }
        _ => entries.iter().map(|(prefix, elsewhere)| rule(prefix, elsewhere)).collect(),
    };
    rules.ok_or_else(expected)
}

fn required<T>(value: Option<T>, expected: impl Fn() -> String) -> Result<Option<T>, String> {
    value.map(Some).ok_or_else(expected)
}
