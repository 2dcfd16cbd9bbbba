//! Splits text into tokens, each with its position.

use crate::syntax::error::SyntaxError;
use std::ops::Range;

/// The kind of a token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// A finite, non-negative number.
    Number(f64),
    /// A name as it can be written without quotes: `x`, `event.x`, `TMath::Abs`, `Sum$`.
    Name(String),
    /// A name in back-quotes: always a branch.
    Quoted(String),
    /// An operator or a bracket.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// A token and its position in the text, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Range<usize>,
}

/// All operators and brackets; longer ones before their prefixes.
const SYMBOLS: [&str; 26] = [
    "**", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%", "^", "<", ">",
    "!", "&", "|", "?", ":", "(", ")", "[", "]",
];

/// Splits `text` into tokens; the last is [`Kind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, SyntaxError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            at += blank;
            continue;
        }
        let (kind, length) = token(rest)
            .map_err(|(message, length)| SyntaxError { span: at..at + length, message })?;
        found.push(Token { kind, span: at..at + length });
        at += length;
    }
    found.push(Token { kind: Kind::End, span: text.len()..text.len() });
    Ok(found)
}

/// The first token of `rest`, and its length in bytes.
fn token(rest: &str) -> Result<(Kind, usize), (String, usize)> {
    let first = rest.chars().next().unwrap_or(' ');
    let second = rest.chars().nth(1).unwrap_or(' ');
    if first.is_ascii_digit() || (first == '.' && second.is_ascii_digit()) {
        return number(rest);
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let length = name_length(rest);
        let name = rest.get(..length).unwrap_or_default().to_owned();
        return Ok((Kind::Name(name), length));
    }
    if first == '`' {
        return quoted(rest);
    }
    if rest.starts_with(',') {
        return Ok((Kind::Symbol(","), 1));
    }
    if first == '"' || first == '\'' {
        return Err(("strings cannot be compared yet, expected a number".to_owned(), 1));
    }
    if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        return Ok((Kind::Symbol(symbol), symbol.len()));
    }
    let message = match first {
        '=' => "a single `=` is not an operator, write `==` to compare".to_owned(),
        '~' => "there is no operator `~`, write `!` for not".to_owned(),
        other => format!(
            "unexpected character `{}`, put branch names with odd characters in back-quotes",
            other.escape_debug()
        ),
    };
    Err((message, first.len_utf8()))
}

/// The length of the name at the start of `rest`: letters, digits and underscores, joined by `.` or
/// `::`, with an optional final `$`.
pub(crate) fn name_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let part = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let mut at = 0;
    loop {
        while part(bytes.get(at)) {
            at += 1;
        }
        if bytes.get(at) == Some(&b'.') && part(bytes.get(at + 1)) {
            at += 1;
        } else if bytes.get(at) == Some(&b':')
            && bytes.get(at + 1) == Some(&b':')
            && part(bytes.get(at + 2))
        {
            at += 2;
        } else {
            break;
        }
    }
    at + usize::from(bytes.get(at) == Some(&b'$'))
}

fn quoted(rest: &str) -> Result<(Kind, usize), (String, usize)> {
    let inside = rest.get(1..).unwrap_or_default();
    match inside.find('`') {
        Some(0) => Err(("empty name, expected a branch between the back-quotes".to_owned(), 2)),
        Some(end) => Ok((Kind::Quoted(inside.get(..end).unwrap_or_default().to_owned()), end + 2)),
        None => Err(("the back-quote is not closed, expected another one".to_owned(), 1)),
    }
}

fn number(rest: &str) -> Result<(Kind, usize), (String, usize)> {
    let bytes = rest.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    if rest.starts_with("0x") || rest.starts_with("0X") {
        let digits = rest.get(2..).unwrap_or_default();
        let length = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        let value =
            u64::from_str_radix(digits.get(..length).unwrap_or_default(), 16).map_err(|_| {
                ("expected a hexadecimal number of up to 64 bits".to_owned(), length + 2)
            })?;
        #[expect(clippy::cast_precision_loss, reason = "all arithmetic is in double precision")]
        return Ok((Kind::Number(value as f64), length + 2));
    }
    let mut at = 0;
    while digit(at) {
        at += 1;
    }
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        while digit(at) {
            at += 1;
        }
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        if digit(at + 1 + sign) {
            at += 1 + sign;
            while digit(at) {
                at += 1;
            }
        }
    }
    let text = rest.get(..at).unwrap_or_default();
    if bytes.get(at).is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_') {
        let length = at + name_length(rest.get(at..).unwrap_or_default());
        return Err(("not a number; a name cannot start with a digit".to_owned(), length));
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((Kind::Number(value), at)),
        _ => Err(("the number does not fit double precision".to_owned(), at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn numbers_are_parsed_in_every_spelling_of_root() {
        for (text, value) in [
            ("5", 5.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1.e-2", 0.01),
            ("2E+2", 200.0),
            ("0xfF", 255.0),
        ] {
            assert_eq!(kinds(text), [Kind::Number(value), Kind::End], "{text}");
        }
    }

    #[test]
    fn names_keep_dots_scopes_and_dollars() {
        assert_eq!(
            kinds("a.b_1 TMath::Abs Sum$ `odd name`"),
            [
                Kind::Name("a.b_1".into()),
                Kind::Name("TMath::Abs".into()),
                Kind::Name("Sum$".into()),
                Kind::Quoted("odd name".into()),
                Kind::End
            ]
        );
    }

    #[test]
    fn the_longer_operator_wins() {
        assert_eq!(
            kinds("<=<<<"),
            [Kind::Symbol("<="), Kind::Symbol("<<"), Kind::Symbol("<"), Kind::End]
        );
    }

    #[test]
    fn an_invalid_token_is_an_error_at_its_position() {
        for (text, span) in [
            ("x = 1", 2..3),
            ("1e999", 0..5),
            ("x+`y", 2..3),
            ("2x", 0..2),
            ("é", 0..2),
            ("0x", 0..2),
        ] {
            assert_eq!(tokens(text).unwrap_err().span, span, "{text}");
        }
    }
}
