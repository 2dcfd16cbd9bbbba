//! Directory listings: one name a line, or pairs of lines, the second of which is the status.
//!
//! A listing with statuses begins with the entry `.` and the status `0 0 0 0`. Without that
//! beginning the server did not support the option, and all lines are names. Frames of xrootd end
//! between entries, but the decoder accepts any split. It keeps only one entry between pieces, and
//! bounds its length.
//!
//! The protocol has no escape for a line feed in a name. With statuses, the lines up to the next
//! status are one name. If a line of a name has the form of a status, the following lines are
//! misread; the listing fails when a name of several lines begins with a status, or at its end when
//! a name has none. Without statuses each line is a name, and the server has no file with that
//! name.

use crate::wire::{StatInfo, WireError};
use bytes::Bytes;
use std::borrow::Cow;

/// Maximum length of a line. A name has at most 255 bytes on any file system; some servers list
/// paths.
const MAX_LINE_BYTES: usize = 16 * 1024;
/// The beginning of a listing with statuses.
const MARK: (&[u8], &[u8]) = (b".", b"0 0 0 0");

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirlistEntry {
    /// The name, without directory. Invalid UTF-8 is replaced.
    pub name: String,
    /// The name is UTF-8: nothing in it was replaced.
    pub is_utf8: bool,
    /// Its status, if requested.
    pub status: Option<StatInfo>,
}

/// Decodes a listing as it arrives.
#[derive(Debug, Default)]
pub struct Dirlist {
    /// Statuses were requested.
    with_status: bool,
    /// Statuses are present; unknown before the first lines.
    in_pairs: Option<bool>,
    /// An incomplete line. Invariant: at most [`MAX_LINE_BYTES`].
    line: Vec<u8>,
    /// A name whose status is still to arrive. Invariant: at most [`MAX_LINE_BYTES`].
    name: Option<Vec<u8>>,
}

impl Dirlist {
    /// Creates the decoder of a listing with or without requested statuses.
    #[must_use]
    pub fn new(with_status: bool) -> Self {
        Self { with_status, ..Self::default() }
    }

    /// Feeds the next bytes; returns the entries that they complete.
    ///
    /// # Errors
    /// A line or a name has more than 16 KiB, a name contains `/`, or a status is malformed.
    pub fn feed(&mut self, piece: &Bytes) -> Result<Vec<DirlistEntry>, WireError> {
        let mut entries = Vec::new();
        let mut rest = &piece[..];
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | 0)) {
            let (line, behind) = rest.split_at(at);
            self.keep(line)?;
            let is_end = behind.first() == Some(&0);
            entries.extend(self.end_of_line(is_end)?);
            rest = behind.get(1..).unwrap_or_default();
        }
        self.keep(rest)?;
        Ok(entries)
    }

    /// Ends the listing; returns the remaining entries.
    ///
    /// # Errors
    /// A name lacks its status, and the errors of [`feed`](Self::feed).
    pub fn finish(&mut self) -> Result<Vec<DirlistEntry>, WireError> {
        let mut entries = self.end_of_line(true)?;
        match self.name.take() {
            Some(name) if self.in_pairs == Some(true) => {
                return Err(WireError::text(
                    "the last name of a listing",
                    &name,
                    "its status after it",
                ));
            }
            Some(name) => entries.extend(entry(&name, None)?),
            None => {}
        }
        Ok(entries)
    }

    fn keep(&mut self, piece: &[u8]) -> Result<(), WireError> {
        append(&mut self.line, piece)
    }

    /// Ends a line; `is_end` if the end of the listing ended it. Only a line of a name may be
    /// empty.
    fn end_of_line(&mut self, is_end: bool) -> Result<Vec<DirlistEntry>, WireError> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() && (is_end || self.in_pairs != Some(true)) {
            return Ok(Vec::new());
        }
        if !self.with_status || self.in_pairs == Some(false) {
            return Ok(Vec::from_iter(entry(&line, None)?));
        }
        let Some(mut name) = self.name.take() else {
            self.name = Some(line);
            return Ok(Vec::new());
        };
        if self.in_pairs.is_none() {
            let marked = (&name[..], &line[..]) == MARK;
            self.in_pairs = Some(marked);
            if !marked {
                let both = [entry(&name, None)?, entry(&line, None)?];
                return Ok(both.into_iter().flatten().collect());
            }
            return Ok(Vec::new());
        }
        match StatInfo::parse(&line) {
            Ok(status) => Ok(Vec::from_iter(entry(&name, Some(status))?)),
            Err(error) if StatInfo::parse(&name).is_ok() => Err(error),
            Err(_) => {
                append(&mut name, b"\n")?;
                append(&mut name, &line)?;
                self.name = Some(name);
                Ok(Vec::new())
            }
        }
    }
}

fn append(line: &mut Vec<u8>, piece: &[u8]) -> Result<(), WireError> {
    let length = line.len() + piece.len();
    if length > MAX_LINE_BYTES {
        return Err(WireError::TooLarge {
            what: "a line of a listing in bytes",
            seen: length as u64,
            limit: MAX_LINE_BYTES as u64,
        });
    }
    line.extend_from_slice(piece);
    Ok(())
}

/// Creates an entry; returns `None` for `.` and `..`.
fn entry(name: &[u8], status: Option<StatInfo>) -> Result<Option<DirlistEntry>, WireError> {
    if matches!(name, b"." | b"..") {
        return Ok(None);
    }
    if name.contains(&b'/') {
        return Err(WireError::text("a name in a listing", name, "a name without \"/\""));
    }
    let name = String::from_utf8_lossy(name);
    let is_utf8 = matches!(name, Cow::Borrowed(_));
    Ok(Some(DirlistEntry { name: name.into_owned(), is_utf8, status }))
}

impl DirlistEntry {
    /// Encodes a listing as text terminated by a NUL, as [`Dirlist`] decodes it.
    #[must_use]
    pub fn to_text(entries: &[Self], with_status: bool) -> String {
        let mut lines = Vec::new();
        if with_status {
            lines.push(".\n0 0 0 0".to_owned());
        }
        for Self { name, status, .. } in entries {
            lines.push(name.clone());
            if with_status {
                lines.push(status.clone().unwrap_or_default().to_text());
            }
        }
        lines.join("\n") + "\0"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8], with_status: bool) -> Result<Vec<DirlistEntry>, WireError> {
        let mut listing = Dirlist::new(with_status);
        let mut entries = Vec::new();
        for byte in text {
            entries.extend(listing.feed(&Bytes::copy_from_slice(&[*byte]))?);
        }
        entries.extend(listing.finish()?);
        Ok(entries)
    }

    fn names(entries: &[DirlistEntry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn names_alone() {
        assert_eq!(names(&all(b"a\nb b\nc\0", false).unwrap()), ["a", "b b", "c"]);
        assert_eq!(all(b"\0", false).unwrap(), []);
        assert_eq!(all(b"", true).unwrap(), []);
    }

    #[test]
    fn names_with_statuses() {
        let text = b".\n0 0 0 0\nf\n1 2 16 3\nd\n4 5 51 6\0";
        let entries = all(text, true).unwrap();
        assert_eq!(names(&entries), ["f", "d"]);
        assert_eq!(entries[0].status.as_ref().unwrap().size, 2);
        assert!(entries[1].status.as_ref().unwrap().is_directory());
    }

    #[test]
    fn a_server_that_knows_no_statuses_lists_names() {
        assert_eq!(names(&all(b"one\ntwo\nthree\0", true).unwrap()), ["one", "two", "three"]);
        assert_eq!(names(&all(b"one\0", true).unwrap()), ["one"]);
    }

    #[test]
    fn the_lines_up_to_a_status_are_one_name() {
        let text = b".\n0 0 0 0\na\nb\n1 2 16 3\na\n\n4 5 16 6\n\nf\n7 8 16 9\n1 1 1 1\n2 2 16 2\0";
        let entries = all(text, true).unwrap();
        assert_eq!(names(&entries), ["a\nb", "a\n", "\nf", "1 1 1 1"]);
        let sizes: Vec<_> = entries.iter().map(|it| it.status.as_ref().unwrap().size).collect();
        assert_eq!(sizes, [2, 5, 8, 2]);
    }

    #[test]
    fn a_name_with_a_line_like_a_status_fails_the_listing() {
        assert!(all(b".\n0 0 0 0\na\n0 0 0 0\n1 2 16 3\nf\n4 5 16 6\0", true).is_err());
        assert!(all(b".\n0 0 0 0\na\n0 0 0 0\n1 2 16 3\0", true).is_err());
        let lines =
            [&b".\n0 0 0 0\n"[..], &[&[b'a'; 1023][..], b"\n"].concat().repeat(17)].concat();
        assert!(all(&lines, true).is_err());
    }

    #[test]
    fn what_leads_elsewhere_or_is_cut_off_is_refused() {
        assert!(all(b"a/../b\n", false).is_err());
        assert!(all(b".\n0 0 0 0\nf\0", true).is_err());
        assert!(all(b".\n0 0 0 0\nf\nno status\0", true).is_err());
        assert!(all(&[b'a'; MAX_LINE_BYTES + 1], false).is_err());
        assert_eq!(all(b".\n..\nf\n", false).unwrap().len(), 1);
    }
}
