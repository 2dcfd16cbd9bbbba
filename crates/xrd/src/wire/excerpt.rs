//! Bytes of a message, shown in an error.

/// Most bytes that are shown.
const SHOWN: usize = 60;

/// The first bytes, with everything escaped that is not printable.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let shown = bytes.get(..SHOWN).unwrap_or(bytes);
    let mut text = shown.escape_ascii().to_string();
    if shown.len() < bytes.len() {
        text.push('…');
    }
    text
}
