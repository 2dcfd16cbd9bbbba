//! A row of the table of options, and the code that sets an option from a value.

use super::table::ClientOptions;
use super::value::OptionValue;
use hither_core::error::{Error, ErrorKind};
use serde::Serialize;

/// A row of the table of options.
#[derive(Debug, Clone, Copy, Serialize)]
#[non_exhaustive]
pub struct ClientOption {
    /// The field of [`ClientOptions`].
    pub name: &'static str,
    /// The meaning, in sentences that begin with a noun.
    pub meaning: &'static str,
    /// The number of values that the option has.
    pub shape: OptionShape,
    /// The option of the command line, without the dashes before it.
    pub flag: Option<&'static str>,
    /// The key of the configuration file, with that of its table.
    pub key: Option<&'static str>,
    /// The environment variable.
    pub variable: Option<&'static str>,
    /// The keyword of Python.
    pub python: Option<&'static str>,
    /// The name in C.
    pub c: Option<&'static str>,
    /// The help of the command line, in the imperative.
    pub help: &'static str,
    /// The name of the value in the help.
    pub value_name: &'static str,
    /// The heading in the help.
    pub heading: &'static str,
    /// Names of the options that conflict with this one on a command line.
    pub conflicts: &'static [&'static str],
    /// The name of the option that a command line with this one needs.
    pub requires: Option<&'static str>,
    /// A value in TOML.
    pub example: &'static str,
    /// The default.
    pub default: Option<&'static str>,
    /// The origin of the value if the option is absent, for one that has no default.
    pub origin: &'static str,
    /// The same for the help of the command line.
    pub flag_origin: Option<&'static str>,
    /// The type in Python, where it is not that of the shape for text.
    pub python_type: Option<&'static str>,
    /// A further sentence about the option in Python.
    pub python_note: &'static str,
    /// The value may be secret: it is never shown.
    pub is_secret: bool,
    #[serde(skip)]
    pub(super) read: fn(&mut ClientOptions, &OptionValue) -> Result<(), String>,
}

/// The number of values of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum OptionShape {
    /// One value.
    Once,
    /// Any number of values.
    Repeated,
    /// True or false; false if absent.
    Switch,
}

/// The type of a field of [`ClientOptions`].
pub(super) trait OptionField: Sized {
    const SHAPE: OptionShape;

    /// Sets the field to the result of `read` for a value; a repeated option gets further values.
    fn add(
        &mut self,
        value: &OptionValue,
        read: fn(&OptionValue) -> Result<Self, String>,
    ) -> Result<(), String> {
        *self = read(value)?;
        Ok(())
    }
}

impl<T> OptionField for Option<T> {
    const SHAPE: OptionShape = OptionShape::Once;
}

impl OptionField for bool {
    const SHAPE: OptionShape = OptionShape::Switch;
}

impl<T> OptionField for Vec<T> {
    const SHAPE: OptionShape = OptionShape::Repeated;

    fn add(
        &mut self,
        value: &OptionValue,
        read: fn(&OptionValue) -> Result<Self, String>,
    ) -> Result<(), String> {
        match value {
            OptionValue::List(values) => values.iter().try_for_each(|value| self.add(value, read)),
            value => read(value).map(|values| self.extend(values)),
        }
    }
}

impl ClientOption {
    /// A row about the field `name`, which the command line, Python and C have under that name.
    pub(super) const fn new(
        name: &'static str,
        meaning: &'static str,
        shape: OptionShape,
        read: fn(&mut ClientOptions, &OptionValue) -> Result<(), String>,
    ) -> Self {
        Self {
            name,
            meaning,
            shape,
            flag: Some(name),
            key: None,
            variable: None,
            python: Some(name),
            c: Some(name),
            help: "",
            value_name: "",
            heading: "Common options",
            conflicts: &[],
            requires: None,
            example: "",
            default: None,
            origin: "none",
            flag_origin: None,
            python_type: None,
            python_note: "",
            is_secret: false,
            read,
        }
    }

    /// Sets the option of `options`. A repeated option gets further values.
    ///
    /// # Errors
    ///
    /// A sentence about what was expected, without the value.
    pub fn read(&self, options: &mut ClientOptions, value: &OptionValue) -> Result<(), String> {
        (self.read)(options, value)
    }

    /// Sets the option of `options` from a value that has a type: a repeated option gets a list or
    /// a table.
    ///
    /// # Errors
    ///
    /// As those of [`Self::read`].
    pub fn read_typed(
        &self,
        options: &mut ClientOptions,
        value: &OptionValue,
    ) -> Result<(), String> {
        match (self.shape, value) {
            (OptionShape::Repeated, OptionValue::Text(_)) => {
                Err("expected a list or a table".to_owned())
            }
            _ => self.read(options, value),
        }
    }

    /// The error for a value of the option that the caller knows as `name`. It shows the value
    /// unless it may be secret.
    #[must_use]
    pub fn refused(&self, name: &str, value: &OptionValue, expected: &str) -> Error {
        let what = if self.is_secret {
            format!("{name}: {expected}")
        } else {
            format!("{name} is {value}, {expected}")
        };
        Error::new(ErrorKind::Invalid, what)
    }
}
