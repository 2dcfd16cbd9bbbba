//! A mistake in an expression, with its position in the text.

use hither_core::{Error, ErrorKind};
use std::ops::Range;

/// A message and the bytes of the text that it is about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SyntaxError {
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
}

/// Number of characters shown before and after the start of the mistake: the line fits a terminal
/// of 80 columns.
const EXCERPT_CHARS: usize = 36;

impl SyntaxError {
    /// The error with an excerpt of `text` and a caret under the mistake.
    pub(crate) fn into_error(self, text: &str) -> Error {
        let before = text.get(..self.span.start).unwrap_or(text);
        let column = before.chars().count();
        let length = text.get(self.span).map_or(1, |part| part.chars().count().max(1));
        let skip = column.saturating_sub(EXCERPT_CHARS);
        let line: String = text
            .chars()
            .skip(skip)
            .take(2 * EXCERPT_CHARS)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let caret =
            "^".repeat(length.min((2 * EXCERPT_CHARS + skip).saturating_sub(column).max(1)));
        let what = format!("{} (at character {})", self.message, column + 1);
        Error::new(ErrorKind::Invalid, what)
            .with_excerpt(format!("{line}\n{}{caret}", " ".repeat(column - skip)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_marks_the_mistake() {
        let error = SyntaxError { span: 4..5, message: "unexpected `)`".into() };
        assert_eq!(
            error.into_error("x + )").to_string(),
            "unexpected `)` (at character 5)\n  x + )\n      ^"
        );
    }

    #[test]
    fn a_long_expression_is_cut_around_the_mistake() {
        let text = format!("{}!", "x+".repeat(400));
        let error = SyntaxError { span: 800..801, message: "odd".into() };
        let shown = error.into_error(&text).to_string();
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(shown.ends_with('^') && shown.contains("at character 801"), "{shown}");
    }
}
