//! A syntax error, shown below its position.

use hither_core::{Error, ErrorKind};
use std::ops::Range;

/// An error and its position in the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SyntaxError {
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
}

/// The number of characters shown on either side of the error: both fit into a terminal of 80
/// columns.
const SHOWN: usize = 36;

impl SyntaxError {
    /// Makes an error with an excerpt of `text` and a caret below the position.
    pub(crate) fn into_error(self, text: &str) -> Error {
        let before = text.get(..self.span.start).unwrap_or(text);
        let column = before.chars().count();
        let length = text.get(self.span).map_or(1, |part| part.chars().count().max(1));
        let skip = column.saturating_sub(SHOWN);
        let line: String = text
            .chars()
            .skip(skip)
            .take(2 * SHOWN)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let caret = "^".repeat(length.min((2 * SHOWN + skip).saturating_sub(column).max(1)));
        Error::new(
            ErrorKind::Invalid,
            format!(
                "{} (at character {})\n  {line}\n  {}{caret}",
                self.message,
                column + 1,
                " ".repeat(column - skip),
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_is_below_the_error() {
        let error = SyntaxError { span: 4..5, message: "unexpected `)`".into() };
        assert_eq!(
            error.into_error("x + )").to_string(),
            "unexpected `)` (at character 5)\n  x + )\n      ^"
        );
    }

    #[test]
    fn a_long_expression_is_shown_around_the_error() {
        let text = format!("{}!", "x+".repeat(400));
        let error = SyntaxError { span: 800..801, message: "odd".into() };
        let shown = error.into_error(&text).to_string();
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(shown.ends_with('^') && shown.contains("at character 801"), "{shown}");
    }
}
