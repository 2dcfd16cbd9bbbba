//! Escaping of text from servers, files and other users in output for people.
//!
//! Names, reasons and headers may have characters that move the cursor of a terminal, change its
//! title, begin a line that looks like one of the program, or reorder the text around them. These
//! are written as in JSON (`\n`, `\u001b`), so that escaping text that is JSON changes no value.

use std::borrow::Cow;
use std::fmt::Write;

/// A name or a value in one line.
#[must_use]
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// Lines, without escaping what ends them or aligns their columns.
#[must_use]
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes the characters that are not safe to print, except for those that `keeps` names.
fn escape(text: &str, keeps: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if !moves_text(c) || keeps(c) => escaped.push(c),
            '\n' => escaped.push_str(r"\n"),
            '\r' => escaped.push_str(r"\r"),
            '\t' => escaped.push_str(r"\t"),
            c => {
                // Writing to a String cannot fail; all these characters have at most 16 bits.
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
        }
    }
    escaped.into()
}

/// Returns true for control characters, and for those that end a line or set the direction of the
/// text around them (Unicode, UAX #9 and #14).
fn moves_text(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_text_is_escaped() {
        for (text, name, lines) in [
            ("a b~é\u{200d}😀\\n", "a b~é\u{200d}😀\\n", "a b~é\u{200d}😀\\n"),
            ("a\nb\tc\r", r"a\nb\tc\r", "a\nb\tc\\r"),
            ("\u{1b}]0;x\u{7}\u{9b}\u{7f}", r"\u001b]0;x\u0007\u009b\u007f", ""),
            ("\u{202e}a\u{2028}", r"\u202ea\u2028", ""),
            ("a\n  ^\nb", r"a\n  ^\nb", "a\n  ^\nb"),
        ] {
            assert_eq!(escape_controls(text), name);
            assert_eq!(escape_lines(text), if lines.is_empty() { name } else { lines });
        }
    }
}
