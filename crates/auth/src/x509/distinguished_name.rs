//! Distinguished names, compared as structures: a sequence of relative names, each a set of types
//! and values.
//!
//! The text of a name has the form of RFC 4514, but in the order of the certificate (`C=CH, O=Grid,
//! CN=Alice`, which RFC 4514 writes in reverse). Parts are separated by `,` and the members of a
//! set by `+`; a backslash escapes these characters in a value. So the organization `Grid,
//! CN=Alice` is written `O=Grid\, CN=Alice`, and is not equal to `O=Grid, CN=Alice`.

use crate::error::{AuthError, Result};
use std::fmt::{self, Write};
use std::str::FromStr;
use x509_parser::der_parser::asn1_rs::ToDer;
use x509_parser::objects::oid_registry;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// The types with a short name: those of RFC 4514, and the e-mail address that many grids use.
const SHORT_NAMES: [(&str, &str); 10] = [
    ("CN", "2.5.4.3"),
    ("L", "2.5.4.7"),
    ("ST", "2.5.4.8"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("C", "2.5.4.6"),
    ("STREET", "2.5.4.9"),
    ("DC", "0.9.2342.19200300.100.1.25"),
    ("UID", "0.9.2342.19200300.100.1.1"),
    ("Email", "1.2.840.113549.1.9.1"),
];
/// The characters that a backslash escapes in a value.
const SPECIAL: [char; 8] = ['"', '+', ',', ';', '<', '=', '>', '\\'];

/// The distinguished name of a certificate holder; see the module above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistinguishedName(Vec<Vec<Attribute>>);

/// The object identifier of a type in digits, and a value.
type Attribute = (String, AttributeValue);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum AttributeValue {
    Text(String),
    /// A value that is not text in ASCII or UTF-8, as DER.
    Der(Vec<u8>),
}

impl DistinguishedName {
    pub(crate) fn of(name: &X509Name<'_>) -> Self {
        let sets = name.iter_rdn().map(|set| {
            let mut set: Vec<Attribute> = set.iter().map(attribute).collect();
            set.sort();
            set
        });
        Self(sets.collect())
    }

    /// The name in the form of OpenSSL and Globus, `/C=CH/O=Grid/CN=Alice`. Different names may
    /// have the same form.
    pub(crate) fn oneline(&self) -> String {
        let mut out = String::new();
        for (kind, value) in self.0.iter().flatten() {
            let name = short_name(kind).unwrap_or(kind);
            let _ = write!(out, "/{name}=");
            match value {
                AttributeValue::Text(text) => {
                    for byte in text.bytes() {
                        match byte {
                            b' '..=b'~' => out.push(char::from(byte)),
                            _ => drop(write!(out, "\\x{byte:02X}")),
                        }
                    }
                }
                AttributeValue::Der(_) => drop(write!(out, "{value}")),
            }
        }
        out
    }
}

fn attribute(found: &AttributeTypeAndValue<'_>) -> Attribute {
    let value = match found.as_str() {
        Ok(text) => AttributeValue::Text(text.to_owned()),
        Err(_) => {
            let value = found.attr_value();
            AttributeValue::Der(value.to_der_vec().unwrap_or_else(|_| value.data.to_vec()))
        }
    };
    (found.attr_type().to_id_string(), value)
}

fn short_name(kind: &str) -> Option<&'static str> {
    SHORT_NAMES.iter().find(|(_, other)| *other == kind).map(|(name, _)| *name)
}

/// The identifier of a type, from its digits or its short or long name.
fn identifier(kind: &str) -> Option<String> {
    if kind.starts_with(|c: char| c.is_ascii_digit()) {
        let is_number = |arc: &str| !arc.is_empty() && arc.bytes().all(|b| b.is_ascii_digit());
        let is_fine = kind.split('.').all(is_number);
        return is_fine.then(|| kind.to_owned());
    }
    let mut short = SHORT_NAMES.iter().filter(|(name, _)| name.eq_ignore_ascii_case(kind));
    let short = short.next().map(|(_, identifier)| (*identifier).to_owned());
    short.or_else(|| {
        let mut known = oid_registry().iter();
        let known = known.find(|(_, entry)| entry.sn().eq_ignore_ascii_case(kind));
        known.map(|(identifier, _)| identifier.to_id_string())
    })
}

impl fmt::Display for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Text(text) => text,
            Self::Der(der) => {
                f.write_char('#')?;
                return der.iter().try_for_each(|byte| write!(f, "{byte:02x}"));
            }
        };
        let last = text.chars().count().saturating_sub(1);
        for (n, c) in text.chars().enumerate() {
            match c {
                '#' if n == 0 => f.write_str("\\#")?,
                ' ' if n == 0 || n == last => f.write_str("\\ ")?,
                // A "=" needs no escape, and names are easier to read without it.
                _ if SPECIAL.contains(&c) && c != '=' => write!(f, "\\{c}")?,
                _ if c.is_control() => {
                    c.encode_utf8(&mut [0; 4])
                        .bytes()
                        .try_for_each(|byte| write!(f, "\\{byte:02x}"))?;
                }
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for DistinguishedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, set) in self.0.iter().enumerate() {
            for (m, (kind, value)) in set.iter().enumerate() {
                let before = match (n, m) {
                    (0, 0) => "",
                    (_, 0) => ", ",
                    _ => "+",
                };
                write!(f, "{before}{}={value}", short_name(kind).unwrap_or(kind))?;
            }
        }
        Ok(())
    }
}

impl FromStr for DistinguishedName {
    type Err = AuthError;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).map(Self).ok_or_else(|| AuthError::Invalid {
            text: text.to_owned(),
            why: "is not a distinguished name like \"C=CH, O=Grid, CN=Alice\", with a backslash \
                  before each of , + \" ; < > \\ in a value",
        })
    }
}

fn parse(text: &str) -> Option<Vec<Vec<Attribute>>> {
    let mut sets = Vec::new();
    let mut set = Vec::new();
    let mut rest = text;
    loop {
        let (kind, after) = rest.split_once('=')?;
        let (value, after) = parse_value(after.trim_start_matches(' '))?;
        set.push((identifier(kind.trim_matches(' '))?, value));
        let separator = after.chars().next();
        if separator != Some('+') {
            set.sort();
            sets.push(std::mem::take(&mut set));
        }
        match separator {
            None => return Some(sets),
            Some(separator) => rest = after.get(separator.len_utf8()..)?,
        }
    }
}

/// Parses a value up to the next separator; returns it and the rest.
fn parse_value(text: &str) -> Option<(AttributeValue, &str)> {
    if let Some(hex) = text.strip_prefix('#') {
        let end = hex.find([',', '+']).unwrap_or(hex.len());
        let (hex, rest) = hex.split_at_checked(end)?;
        return Some((AttributeValue::Der(from_hex(hex.trim_end_matches(' '))?), rest));
    }
    let mut value = Vec::new();
    // The length without trailing blanks.
    let mut length = 0;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..)?;
        match c {
            ',' | '+' => break,
            '"' | ';' | '<' | '>' => return None,
            '\\' => {
                let escaped = after.chars().next()?;
                let taken = if SPECIAL.contains(&escaped) || matches!(escaped, ' ' | '#') {
                    value.extend_from_slice(escaped.encode_utf8(&mut [0; 4]).as_bytes());
                    1
                } else {
                    value.extend(from_hex(after.get(..2)?)?);
                    2
                };
                rest = after.get(taken..)?;
                length = value.len();
            }
            _ => {
                value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = after;
                if c != ' ' {
                    length = value.len();
                }
            }
        }
    }
    value.truncate(length);
    Some((AttributeValue::Text(String::from_utf8(value).ok()?), rest))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| u8::try_from(c.to_digit(16)?).ok()).collect();
    let digits = digits.filter(|it| !it.is_empty() && it.len().is_multiple_of(2))?;
    Some(
        digits
            .chunks_exact(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> DistinguishedName {
        text.parse().unwrap()
    }

    #[test]
    fn names_are_equal_if_their_structures_are() {
        for (one, other, equal) in [
            ("O=Grid, CN=Alice", "O=Grid,CN=Alice", true),
            ("O=Grid, CN=Alice", " o = Grid , cn = Alice ", true),
            ("O=Grid, CN=Alice", "2.5.4.10=Grid, commonName=Alice", true),
            ("O=Grid, CN=Alice", "O=Gri\\64, CN=\\41lice", true),
            ("emailAddress=a@b", "Email=a@b", true),
            ("O=Grid+CN=Alice", "CN=Alice+O=Grid", true),
            ("O=a\\20", "O=a\\ ", true),
            ("O=Grid\\, CN=Alice", "O=Grid, CN=Alice", false),
            ("O=Grid\\2c CN=Alice", "O=Grid, CN=Alice", false),
            ("O=Grid\\+CN=Alice", "O=Grid+CN=Alice", false),
            ("O=Grid+CN=Alice", "O=Grid, CN=Alice", false),
            ("CN=Alice, O=Grid", "O=Grid, CN=Alice", false),
            ("O=Grid, CN=alice", "O=Grid, CN=Alice", false),
            ("O=Grid, CN=Alice, CN=1", "O=Grid, CN=Alice", false),
            ("O=a\\ ", "O=a", false),
            ("O=#0c0161", "O=a", false),
            ("O=\\#0c0161", "O=#0c0161", false),
        ] {
            assert_eq!(name(one) == name(other), equal, "{one} and {other}");
        }
    }

    #[test]
    fn a_text_that_is_no_name_is_an_error() {
        for text in [
            "",
            "Alice",
            "CN=a,",
            "CN=a, b",
            "=a",
            "XY=a",
            "CN=a\"b\"",
            "CN=a;O=b",
            "CN=\\",
            "CN=\\g1",
            "CN=\\ff",
            "O=#",
            "O=#0",
            "O=#0g",
            "2.5.x=a",
            "CN=a<b",
            "CN=a+b",
        ] {
            let error = text.parse::<DistinguishedName>().unwrap_err();
            assert!(error.to_string().contains("distinguished name"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_name_is_read_as_it_is_written(sets in prop::collection::vec(
            prop::collection::vec((0..SHORT_NAMES.len(), any::<String>()), 1..3), 1..5)) {
            let written = sets.into_iter().map(|set| {
                let mut set: Vec<Attribute> = set.into_iter().map(|(kind, value)| {
                    (SHORT_NAMES[kind].1.to_owned(), AttributeValue::Text(value))
                }).collect();
                set.sort();
                set
            });
            let written = DistinguishedName(written.collect());
            prop_assert_eq!(written.to_string().parse::<DistinguishedName>().unwrap(), written);
        }

        #[test]
        fn no_text_breaks_the_parser(text in "[ ,+=\\\\#\"CNO0-9a-fé]{0,20}") {
            let _ = text.parse::<DistinguishedName>();
        }
    }
}
