//! The status of a file, as text: `id size flags mtime`, and from newer servers `ctime atime mode
//! owner group`.

use crate::wire::{WireError, before_nul, stat_flags};

/// The status of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatInfo {
    /// An opaque id of the file. On servers that build it from device and inode, it changes when
    /// another file takes the name.
    pub id: String,
    /// The size in bytes.
    pub size: u64,
    /// [`stat_flags`].
    pub flags: u32,
    /// The last modification, in seconds since 1970.
    pub modified: i64,
}

impl StatInfo {
    /// Decodes the text; everything after a NUL is ignored.
    ///
    /// # Errors
    /// There are fewer than four words, or invalid numbers.
    pub fn parse(text: &[u8]) -> Result<Self, WireError> {
        let bytes = before_nul(text);
        let malformed =
            || WireError::text("the status of a file", bytes, "\"id size flags mtime\"");
        let text = std::str::from_utf8(bytes).map_err(|_| malformed())?.trim();
        let mut words = text.split(' ');
        let mut word = || words.next().ok_or_else(malformed);
        let id = word()?.to_owned();
        let size = word()?.parse().map_err(|_| malformed())?;
        let flags = word()?.parse().map_err(|_| malformed())?;
        let modified = word()?.parse().map_err(|_| malformed())?;
        Ok(Self { id, size, flags, modified })
    }

    /// Encodes the text, without a NUL. An empty id becomes 0.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Self { id, size, flags, modified } = self;
        let id = if id.is_empty() { "0" } else { id };
        format!("{id} {size} {flags} {modified}")
    }

    /// Returns true for a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.flags & stat_flags::DIRECTORY != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_forms_are_understood() {
        let old = StatInfo::parse(b"140736414641184 23 16 1700000000\0").unwrap();
        assert_eq!((old.size, old.flags, old.modified), (23, 16, 1_700_000_000));
        let text = "5 0 51 1700000000 1700000001 1700000002 0755 root root";
        let new = StatInfo::parse(text.as_bytes()).unwrap();
        assert!(new.is_directory());
        assert!(text.starts_with(&new.to_text()));
    }

    #[test]
    fn what_is_no_status_is_refused_with_what_was_seen() {
        for bad in [&b""[..], b"1 2 3", b"1 -2 3 4", b"1 2 x 4", b"\xff 1 2 3"] {
            let error = StatInfo::parse(bad).unwrap_err().to_string();
            assert!(error.starts_with("the status of a file is \""), "{error}");
        }
    }
}
