//! Errors of configuration files, which may hold secrets: no line and no value is repeated.

use super::{Error, ErrorKind};
use std::ops::Range;

/// The error of text that is not the TOML that was expected: the place, which begins at `span`, and
/// the parser's `message` without the value that it found there.
#[must_use]
pub fn invalid_toml(text: &str, span: Option<Range<usize>>, message: &str) -> Error {
    let place = span.and_then(|span| text.get(..span.start)).map_or_else(String::new, |before| {
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("line {line}, column {column}: ")
    });
    Error::new(ErrorKind::Invalid, format!("{place}{}", without_value(message.trim_end())))
}

/// A message of serde without the value that was found.
fn without_value(message: &str) -> String {
    let found = ["string ", "unknown variant "].into_iter().find_map(|word| {
        let (before, rest) = message.split_once(word)?;
        let (_, expected) =
            rest.split_once(", expected ").filter(|_| rest.starts_with(['"', '`']))?;
        // A value may have these words, too.
        let expected = expected.rsplit(", expected ").next().unwrap_or_default();
        Some(format!("{before}{}, expected {expected}", word.trim_end()))
    });
    found.unwrap_or_else(|| message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_and_values_are_not() {
        for (message, shown) in [
            (
                r#"invalid type: string "hush, expected hush", expected u16"#,
                "invalid type: string, expected u16",
            ),
            ("unknown variant `hush`, expected `a` or `b`", "unknown variant, expected `a` or `b`"),
            ("unknown field `x`, expected `y`", "unknown field `x`, expected `y`"),
            (
                "invalid type: integer `1`, expected a string",
                "invalid type: integer `1`, expected a string",
            ),
        ] {
            let error = invalid_toml("a = 1\nü = 'hush'", Some(11..12), message);
            assert_eq!(error.to_string(), format!("line 2, column 5: {shown}"));
        }
        assert_eq!(invalid_toml("", None, "no").to_string(), "no");
    }
}
