//! Sanitizing of text from tokens and servers in messages: made safe for a terminal and a log, and
//! truncated.

/// Maximum length of quoted text, in characters.
const MAX_QUOTE: usize = 200;

pub(crate) fn quoted(text: &str) -> String {
    format!("`{}`", cleaned(text))
}

/// Replaces control characters and truncates long text.
pub(crate) fn cleaned(text: &str) -> String {
    let mut characters = text.chars().map(|c| if is_printable(c) { c } else { '\u{fffd}' });
    let mut cleaned: String = characters.by_ref().take(MAX_QUOTE).collect();
    if characters.next().is_some() {
        cleaned.push('…');
    }
    cleaned
}

/// Returns false for control characters, and for characters that change the direction of the text
/// around them.
pub(crate) fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Formats a number of seconds with a suitable unit.
pub(crate) fn span(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{} s", seconds.max(0)),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}
