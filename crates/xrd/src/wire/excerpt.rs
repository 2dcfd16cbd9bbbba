//! Excerpts of messages in errors.

/// Maximum length of an excerpt.
const SHOWN: usize = 60;

/// The first bytes, with non-printable ones escaped.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let shown = bytes.get(..SHOWN).unwrap_or(bytes);
    let mut text = shown.escape_ascii().to_string();
    if shown.len() < bytes.len() {
        text.push('…');
    }
    text
}
