//! Errors of configuration files, which may hold secrets: no line and no value is repeated.

use super::{Error, ErrorKind};
use std::ops::Range;

/// The error of text that is not the TOML that was expected: the place, which begins at `span`,
/// with the key there, and the parser's `message` without the value that it found.
#[must_use]
pub fn invalid_toml(text: &str, span: Option<Range<usize>>, message: &str) -> Error {
    let message = message.trim_end();
    let (before, after) = span.map_or((None, ""), |span| {
        (text.get(..span.start), text.get(span.end..).unwrap_or_default())
    });
    let place = before.map_or_else(String::new, |before| {
        let line = before.matches('\n').count() + 1;
        let own = before.rsplit('\n').next().unwrap_or_default();
        let column = own.chars().count() + 1;
        format!("line {line}, column {column}: {}", key(own))
    });
    // The unexpected token is a key.
    let is_key = after.trim_start_matches([' ', '\t']).starts_with('=');
    let shown = if is_key { message.to_owned() } else { without_value(message) };
    Error::new(ErrorKind::Invalid, format!("{place}{shown}"))
}

/// The key whose value follows `text`, with a colon, if it has one.
fn key(text: &str) -> String {
    let key = text.trim_end().strip_suffix('=').and_then(|text| text.rsplit(['{', ',']).next());
    let key = key.unwrap_or_default().trim();
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if key.is_empty() || !key.chars().all(is_bare) { String::new() } else { format!("{key}: ") }
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
    fn errors_state_positions_and_no_values() {
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
            let error = invalid_toml("a = 1\nb.c = 'hush'", Some(12..18), message);
            assert_eq!(error.to_string(), format!("line 2, column 7: b.c: {shown}"));
        }
        let text = "ü = {a = 'x,hush', b = 5}\nhush = 1";
        let error = |span| invalid_toml(text, Some(span), "no").to_string();
        assert_eq!(error(24..25), "line 1, column 24: b: no");
        assert_eq!(error(5..25), "line 1, column 5: no");
        let error = invalid_toml(text, Some(27..31), "unknown variant `hush`, expected `a`");
        assert_eq!(error.to_string(), "line 2, column 1: unknown variant `hush`, expected `a`");
        assert_eq!(invalid_toml("", None, "no").to_string(), "no");
    }
}
