//! Directories: a record with the range of their list of keys, and that list.

use super::cursor::Cursor;
use super::key::{Key, KeyHead};
use crate::error::{FormatError, Result};
use std::ops::Range;

/// Maximum bytes of a directory's record: version, two times, two sizes, three offsets.
pub(super) const RECORD: u64 = 2 + 8 + 8 + 24;

/// The range of a directory's list of keys, from its record.
pub(super) fn keys_range(record: &[u8], end: u64) -> Result<Range<u64>> {
    let mut cursor = Cursor::new(record, "directory");
    let version = cursor.i16()?;
    cursor.skip(8)?;
    let nbytes = cursor.count()? as u64;
    let _name_bytes = cursor.i32()?;
    let large = version > 1000;
    let _own = cursor.offset(large)?;
    let _parent = cursor.offset(large)?;
    let seek = cursor.offset(large)?;
    if seek == 0 && nbytes == 0 {
        return Ok(0..0);
    }
    match seek.checked_add(nbytes) {
        Some(stop) if stop <= end && seek > 0 => Ok(seek..stop),
        _ => Err(FormatError::corrupt(
            "directory",
            format!(
                "its key list of {nbytes} bytes at {seek} lies outside the file of {end} bytes"
            ),
        )),
    }
}

/// Decodes a stored list of keys. Objects must lie within the file, which ends at `end`.
pub(super) fn read_keys(stored: &[u8], end: u64) -> Result<Vec<Key>> {
    if stored.is_empty() {
        return Ok(Vec::new());
    }
    let mut cursor = Cursor::new(stored, "key list");
    let head = KeyHead::read(&mut cursor)?;
    cursor.seek(usize::from(head.keylen))?;
    let count = cursor.count()?;
    // The shortest key has 26 bytes and three empty strings.
    let mut keys = Vec::with_capacity(count.min(cursor.left() / 29 + 1));
    for _ in 0..count {
        let key = Key::read(&mut cursor)?;
        if key.seek.saturating_add(u64::from(key.nbytes)) > end {
            return Err(FormatError::corrupt(
                "key list",
                format!("`{}` at {} lies outside the file of {end} bytes", key.name, key.seek),
            ));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// Returns true if objects of this class are directories.
pub(super) fn is_directory(class: &str) -> bool {
    matches!(class, "TDirectory" | "TDirectoryFile")
}

/// Returns true if objects of this class are trees.
pub(super) fn is_tree(class: &str) -> bool {
    matches!(class, "TTree" | "TNtuple" | "TNtupleD")
}

/// Returns true if objects of this class are RNTuples.
pub(super) fn is_ntuple(class: &str) -> bool {
    matches!(class, "ROOT::RNTuple" | "ROOT::Experimental::RNTuple")
}

/// The newest key (highest cycle) of each name that `wanted` accepts, in order of first appearance.
pub(super) fn newest<'a>(keys: &'a [Key], wanted: impl Fn(&Key) -> bool) -> Vec<&'a Key> {
    let mut index = std::collections::HashMap::new();
    let mut newest: Vec<&'a Key> = Vec::new();
    for key in keys.iter().filter(|key| wanted(key)) {
        let at = *index.entry(key.name.as_str()).or_insert(newest.len());
        match newest.get_mut(at) {
            Some(best) if best.cycle < key.cycle => *best = key,
            Some(_) => {}
            None => newest.push(key),
        }
    }
    newest
}
