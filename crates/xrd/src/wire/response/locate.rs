//! The response to a locate, as text: `Sr[::1]:1094 Mw10.0.0.1:1095`.

use crate::wire::{WireError, before_nul};

/// Maximum number of locations that are read.
const MAX_LOCATIONS: usize = 10_000;

/// The kind of a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocateEntryKind {
    /// A server that has the file.
    Server,
    /// A server that is still staging it.
    PendingServer,
    /// A manager of servers that have it.
    Manager,
    /// A manager of servers that are still staging it.
    PendingManager,
}

/// A location of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocateEntry {
    /// Its kind.
    pub kind: LocateEntryKind,
    /// The file may be written there.
    pub writable: bool,
    /// Host and port, as sent.
    pub address: String,
}

/// Decodes the response to a locate.
///
/// # Errors
/// A word does not begin with a known kind.
pub fn parse_locate(text: &[u8]) -> Result<Vec<LocateEntry>, WireError> {
    let text = String::from_utf8_lossy(before_nul(text));
    text.split_ascii_whitespace().take(MAX_LOCATIONS).map(location).collect()
}

fn location(word: &str) -> Result<LocateEntry, WireError> {
    let malformed = || {
        WireError::text("a location", word.as_bytes(), "S, s, M or m, then r or w, then an address")
    };
    let mut letters = word.chars();
    let kind = match letters.next() {
        Some('S') => LocateEntryKind::Server,
        Some('s') => LocateEntryKind::PendingServer,
        Some('M') => LocateEntryKind::Manager,
        Some('m') => LocateEntryKind::PendingManager,
        _ => return Err(malformed()),
    };
    let writable = match letters.next() {
        Some('w') => true,
        Some('r') => false,
        _ => return Err(malformed()),
    };
    let address = letters.as_str();
    if address.is_empty() {
        return Err(malformed());
    }
    Ok(LocateEntry { kind, writable, address: address.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_managers_are_distinguished() {
        let text = b"Sr[::127.0.0.1]:1094 mwhost.example:1213\0";
        let found = parse_locate(text).unwrap();
        assert_eq!(found[0].address, "[::127.0.0.1]:1094");
        assert_eq!((found[1].kind, found[1].writable), (LocateEntryKind::PendingManager, true));
        assert!(
            parse_locate(b"Xr1").is_err()
                && parse_locate(b"Sr").is_err()
                && parse_locate(b"S").is_err()
        );
    }
}
