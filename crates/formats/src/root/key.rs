//! Keys: the records before every object in a file, and the contents of a directory.

use super::codec::Decompressor;
use super::cursor::Cursor;
use crate::error::{FormatError, Result};
use std::ops::Range;

/// A `TKey`: name, class and range of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Key {
    /// The object's name.
    pub name: String,
    /// The object's title.
    pub title: String,
    /// Its C++ class.
    pub class: String,
    /// Version of the object under this name; the highest is the newest.
    pub cycle: u16,
    /// Offset of the key in the file; the object follows it.
    pub seek: u64,
    /// Bytes of the key and of the object as stored, together.
    pub nbytes: u32,
    /// Bytes of the uncompressed object.
    pub objlen: u32,
    /// Bytes of the key alone.
    pub keylen: u16,
}

impl Key {
    /// The range of key and object in the file.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.seek..self.seek.saturating_add(u64::from(self.nbytes))
    }

    /// Reads a key; moves the cursor behind its strings.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let head = KeyHead::read(cursor)?;
        let class = cursor.string()?;
        let name = cursor.string()?;
        let title = cursor.string()?;
        Ok(Self {
            name,
            title,
            class,
            cycle: head.cycle,
            seek: head.seek,
            nbytes: head.nbytes,
            objlen: head.objlen,
            keylen: head.keylen,
        })
    }
}

/// The fixed part of a key, without its strings.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyHead {
    pub(super) nbytes: u32,
    pub(super) objlen: u32,
    pub(super) keylen: u16,
    pub(super) cycle: u16,
    pub(super) seek: u64,
}

impl KeyHead {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let nbytes = cursor.i32()?;
        let version = cursor.i16()?;
        let objlen = cursor.i32()?;
        let _datime = cursor.u32()?;
        let keylen = cursor.i16()?;
        let cycle = cursor.i16()?;
        let large = version > 1000;
        // An invalid offset becomes one beyond the end of any file. The directory's offset, which
        // is skipped, may contain a process number.
        let seek = cursor.offset(large).unwrap_or(u64::MAX);
        cursor.skip(if large { 8 } else { 4 })?;
        let wrong = |name: &str, value: i64| {
            Err(FormatError::corrupt(
                "key",
                format!("{name} is {value}, expected a positive number"),
            ))
        };
        let Ok(nbytes) = u32::try_from(nbytes) else {
            return wrong("size", nbytes.into());
        };
        let Ok(objlen) = u32::try_from(objlen) else {
            return wrong("object size", objlen.into());
        };
        let Ok(keylen) = u16::try_from(keylen) else {
            return wrong("key size", keylen.into());
        };
        Ok(Self { nbytes, objlen, keylen, cycle: cycle.unsigned_abs(), seek })
    }
}

/// An object's uncompressed bytes, and the size of the key before it: positions inside the object
/// count from the key.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) bytes: Vec<u8>,
    pub(super) origin: usize,
}

/// Decompresses the object whose key and payload are `stored`.
pub(super) fn read_object(
    stored: &[u8],
    decoder: &mut Decompressor,
    what: &'static str,
) -> Result<Object> {
    let head = KeyHead::read(&mut Cursor::new(stored, what))?;
    let nbytes = head.nbytes as usize;
    let origin = usize::from(head.keylen);
    if nbytes > stored.len() {
        return Err(FormatError::Truncated {
            what: what.to_owned(),
            needed: nbytes as u64,
            available: stored.len() as u64,
        });
    }
    let payload = stored.get(origin..nbytes).ok_or_else(|| {
        FormatError::corrupt(what, format!("key of {origin} bytes in an object of {nbytes}"))
    })?;
    let bytes = decoder.unpack(payload, head.objlen as usize)?;
    Ok(Object { bytes, origin })
}
