//! The tokenizer: text to tokens, each with its position.

use crate::syntax::error::SyntaxError;
use std::ops::Range;

/// The kind of a token, and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenKind {
    /// A finite, non-negative number.
    Number(f64),
    /// A name without back-quotes: `x`, `event.x`, `TMath::Abs`, `Sum$`.
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
pub(crate) struct SyntaxToken {
    pub(crate) kind: TokenKind,
    pub(crate) span: Range<usize>,
}

/// All operators and brackets; the longer of two with the same start comes first.
const SYMBOLS: [&str; 26] = [
    "**", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%", "^", "<", ">",
    "!", "&", "|", "?", ":", "(", ")", "[", "]",
];

/// Splits `text` into tokens; the last one is [`TokenKind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<SyntaxToken>, SyntaxError> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while let Some(rest) = text.get(start..).filter(|rest| !rest.is_empty()) {
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            start += blank;
            continue;
        }
        let (kind, length) = token(rest)
            .map_err(|(message, length)| SyntaxError { span: start..start + length, message })?;
        tokens.push(SyntaxToken { kind, span: start..start + length });
        start += length;
    }
    tokens.push(SyntaxToken { kind: TokenKind::End, span: text.len()..text.len() });
    Ok(tokens)
}

/// The token at the start of `rest`, and its length in bytes.
fn token(rest: &str) -> Result<(TokenKind, usize), (String, usize)> {
    let first = rest.chars().next().unwrap_or(' ');
    let second = rest.chars().nth(1).unwrap_or(' ');
    if first.is_ascii_digit() || (first == '.' && second.is_ascii_digit()) {
        return number(rest);
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let length = name_length(rest);
        let name = rest.get(..length).unwrap_or_default().to_owned();
        return Ok((TokenKind::Name(name), length));
    }
    if first == '`' {
        return quoted(rest);
    }
    if first == '@' {
        return size(rest);
    }
    if rest.starts_with(',') {
        return Ok((TokenKind::Symbol(","), 1));
    }
    if first == '"' || first == '\'' {
        return Err(("strings are not supported, expected a number".to_owned(), 1));
    }
    if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        return Ok((TokenKind::Symbol(symbol), symbol.len()));
    }
    let message = match first {
        '=' => "a single `=` is not an operator, write `==` to compare".to_owned(),
        '~' => "there is no operator `~`, write `!` for not".to_owned(),
        other => format!(
            "unexpected character `{}`; write branch names with unusual characters in back-quotes",
            other.escape_debug()
        ),
    };
    Err((message, first.len_utf8()))
}

/// Length of the name at the start of `rest`: letters, digits and underscores, joined by `.` or
/// `::`, with an optional `$` at the end.
pub(crate) fn name_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let is_word = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let mut end = 0;
    loop {
        while is_word(bytes.get(end)) {
            end += 1;
        }
        if bytes.get(end) == Some(&b'.') && is_word(bytes.get(end + 1)) {
            end += 1;
        } else if bytes.get(end) == Some(&b':')
            && bytes.get(end + 1) == Some(&b':')
            && is_word(bytes.get(end + 2))
        {
            end += 2;
        } else {
            break;
        }
    }
    end + usize::from(bytes.get(end) == Some(&b'$'))
}

/// `@name.size()`: the name of the column with the number of items of a split collection.
fn size(rest: &str) -> Result<(TokenKind, usize), (String, usize)> {
    const CALL: &str = ".size()";
    let inside = rest.get(1..).unwrap_or_default();
    let (name, length) = if inside.starts_with('`') {
        match quoted(inside)? {
            (TokenKind::Quoted(name), length) => (name, length),
            (_, length) => (String::new(), length),
        }
    } else {
        let length = inside.find(CALL).filter(|&end| name_length(inside) == end + CALL.len() - 2);
        let length = length.unwrap_or(0);
        (inside.get(..length).unwrap_or_default().to_owned(), length)
    };
    if name.is_empty() || !inside.get(length..).is_some_and(|rest| rest.starts_with(CALL)) {
        let message = "write `@name.size()` for the number of items of a collection";
        return Err((message.to_owned(), 1));
    }
    Ok((TokenKind::Quoted(format!("@{name}{CALL}")), 1 + length + CALL.len()))
}

fn quoted(rest: &str) -> Result<(TokenKind, usize), (String, usize)> {
    let inside = rest.get(1..).unwrap_or_default();
    match inside.find('`') {
        Some(0) => Err(("empty name, expected a branch between the back-quotes".to_owned(), 2)),
        Some(end) => {
            Ok((TokenKind::Quoted(inside.get(..end).unwrap_or_default().to_owned()), end + 2))
        }
        None => {
            Err(("the back-quote is not closed, expected another one after the name".to_owned(), 1))
        }
    }
}

fn number(rest: &str) -> Result<(TokenKind, usize), (String, usize)> {
    let bytes = rest.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    if rest.starts_with("0x") || rest.starts_with("0X") {
        let digits = rest.get(2..).unwrap_or_default();
        let length = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        let value =
            u64::from_str_radix(digits.get(..length).unwrap_or_default(), 16).map_err(|_| {
                (
                    "invalid hexadecimal number, expected one to sixteen digits".to_owned(),
                    length + 2,
                )
            })?;
        #[expect(clippy::cast_precision_loss, reason = "all arithmetic is in double precision")]
        return Ok((TokenKind::Number(value as f64), length + 2));
    }
    let mut end = 0;
    while is_digit(end) {
        end += 1;
    }
    if bytes.get(end) == Some(&b'.') {
        end += 1;
        while is_digit(end) {
            end += 1;
        }
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if is_digit(end + 1 + sign) {
            end += 1 + sign;
            while is_digit(end) {
                end += 1;
            }
        }
    }
    let text = rest.get(..end).unwrap_or_default();
    if bytes.get(end).is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_') {
        let length = end + name_length(rest.get(end..).unwrap_or_default());
        return Err(("a name cannot start with a digit".to_owned(), length));
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((TokenKind::Number(value), end)),
        _ => Err(("the number is too large for double precision".to_owned(), end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn numbers_parse_in_every_notation_of_root() {
        for (text, value) in [
            ("5", 5.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1.e-2", 0.01),
            ("2E+2", 200.0),
            ("0xfF", 255.0),
        ] {
            assert_eq!(kinds(text), [TokenKind::Number(value), TokenKind::End], "{text}");
        }
    }

    #[test]
    fn names_include_dots_scopes_and_dollars() {
        assert_eq!(
            kinds("a.b_1 TMath::Abs Sum$ `odd name`"),
            [
                TokenKind::Name("a.b_1".into()),
                TokenKind::Name("TMath::Abs".into()),
                TokenKind::Name("Sum$".into()),
                TokenKind::Quoted("odd name".into()),
                TokenKind::End
            ]
        );
    }

    #[test]
    fn the_size_of_a_collection_is_one_name() {
        for (text, name) in [
            ("@jets.size()", "@jets.size()"),
            ("@a.b.size()", "@a.b.size()"),
            ("@`a/b.`.size()", "@a/b..size()"),
        ] {
            assert_eq!(kinds(text), [TokenKind::Quoted(name.into()), TokenKind::End], "{text}");
        }
        for text in ["@jets", "@.size()", "@jets.size", "@`jets`"] {
            assert!(tokens(text).unwrap_err().message.contains("@name.size()"), "{text}");
        }
    }

    #[test]
    fn the_longest_operator_that_matches_is_taken() {
        assert_eq!(
            kinds("<=<<<"),
            [
                TokenKind::Symbol("<="),
                TokenKind::Symbol("<<"),
                TokenKind::Symbol("<"),
                TokenKind::End
            ]
        );
    }

    #[test]
    fn text_that_is_no_token_is_an_error_with_its_position() {
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
