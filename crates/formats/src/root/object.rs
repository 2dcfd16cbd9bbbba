//! Streamed objects: headers, references, containers.

pub(crate) mod class_members;
pub(crate) mod streamer_info;
use super::cursor::Cursor;
use crate::error::{FormatError, Result};

pub(super) const BYTE_COUNT: u32 = 0x4000_0000;
const NEW_CLASS: u32 = 0xffff_ffff;
const CLASS: u32 = 0x8000_0000;
/// Offset that ROOT adds to the positions in references (`kMapOffset`).
const BIAS: usize = 2;
/// Set in a version when the members of a collection are stored member by member.
pub(super) const MEMBERWISE: u16 = 1 << 14;
/// In a `TObject`'s bits: a process number follows.
pub(super) const IS_REFERENCED: u32 = 1 << 4;

/// The version of a class and where its members end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) version: u16,
    pub(super) end: usize,
}

/// The target of a pointer member.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pointer<'a> {
    Null,
    /// An object elsewhere in the buffer, by its position.
    Reference(usize),
    /// An object in place: its class, the position that references to it use, the start of its own
    /// header, and its end.
    Object {
        class: &'a [u8],
        position: usize,
        body: usize,
        end: usize,
    },
}

/// An uncompressed object: its bytes, and the length of the key before them; positions count from
/// the key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) origin: usize,
    pub(super) what: &'static str,
}

impl<'a> Buffer<'a> {
    pub(super) fn cursor(&self, position: usize) -> Cursor<'a> {
        Cursor::new(self.bytes, self.what).at(position)
    }

    /// Reads the byte count and version at the start of every class.
    pub(super) fn header(&self, cursor: &mut Cursor<'a>) -> Result<Header> {
        let count = cursor.u32()?;
        if count & BYTE_COUNT == 0 || count == NEW_CLASS {
            let what = format!("{} was streamed without byte counts (ROOT 1 or 2)", self.what);
            return Err(FormatError::UnsupportedFeature { what });
        }
        let count = (count & !BYTE_COUNT) as usize;
        let end = cursor.position().saturating_add(count);
        if count < 2 || count > cursor.left() {
            return Err(cursor.corrupt(format!("object of {count} bytes, {} left", cursor.left())));
        }
        let version = cursor.u16()?;
        if version & MEMBERWISE != 0 {
            let what = format!("{} was streamed member by member", self.what);
            return Err(FormatError::UnsupportedFeature { what });
        }
        Ok(Header { version, end })
    }

    /// Skips an object that begins with a byte count; returns its range.
    pub(super) fn skip_object(&self, cursor: &mut Cursor<'a>) -> Result<std::ops::Range<usize>> {
        let start = cursor.position();
        let end = self.header(cursor)?.end;
        cursor.seek(end)?;
        Ok(start..end)
    }

    /// Reads a pointer, and moves behind the object if it is in place.
    pub(super) fn pointer(&self, cursor: &mut Cursor<'a>) -> Result<Pointer<'a>> {
        let position = cursor.position();
        let first = cursor.u32()?;
        if first & BYTE_COUNT == 0 || first == NEW_CLASS {
            if first & CLASS != 0 {
                let what = format!("{} was streamed without byte counts (ROOT 1 or 2)", self.what);
                return Err(FormatError::UnsupportedFeature { what });
            }
            return self.reference(first, cursor);
        }
        let count = (first & !BYTE_COUNT) as usize;
        if count < 4 || count > cursor.left() {
            return Err(cursor.corrupt(format!("object of {count} bytes, {} left", cursor.left())));
        }
        let end = cursor.position() + count;
        let tag_position = cursor.position();
        let tag = cursor.u32()?;
        if tag & CLASS == 0 {
            let reference = self.reference(tag, cursor);
            cursor.seek(end)?;
            return reference;
        }
        let class = if tag == NEW_CLASS {
            cursor.c_string()?
        } else {
            self.class_at(tag & !CLASS, tag_position)?
        };
        let body = cursor.position();
        if body > end {
            return Err(cursor.corrupt("class name longer than its object"));
        }
        cursor.seek(end)?;
        Ok(Pointer::Object { class, position, body, end })
    }

    /// Reads the pointer at `position`, the target of a reference.
    pub(super) fn pointer_at(&self, position: usize) -> Result<Pointer<'a>> {
        let mut cursor = self.cursor(0);
        cursor.seek(position)?;
        self.pointer(&mut cursor)
    }

    fn reference(&self, tag: u32, cursor: &Cursor<'a>) -> Result<Pointer<'a>> {
        if tag == 0 {
            return Ok(Pointer::Null);
        }
        let position = (tag as usize).checked_sub(self.origin + BIAS);
        match position {
            Some(position) if position < self.bytes.len() => Ok(Pointer::Reference(position)),
            // 1 refers to the object of this key: the tree itself.
            None => Ok(Pointer::Null),
            Some(position) => {
                Err(cursor.corrupt(format!("reference to byte {position}, beyond the end")))
            }
        }
    }

    /// The class name at the position that `tag` refers to.
    fn class_at(&self, tag: u32, from: usize) -> Result<&'a [u8]> {
        let mut cursor = self.cursor(from);
        let position = (tag as usize).checked_sub(self.origin + BIAS);
        let Some(position) = position.filter(|&position| position < from) else {
            return Err(cursor.corrupt(format!("class reference {tag} points nowhere")));
        };
        cursor.seek(position)?;
        if cursor.u32()? != NEW_CLASS {
            return Err(cursor.corrupt("a class reference points here, but there is no class name"));
        }
        cursor.c_string()
    }

    /// Skips the base class `TObject`, which has no byte count.
    pub(super) fn skip_t_object(&self, cursor: &mut Cursor<'a>) -> Result<()> {
        let version = cursor.u16()?;
        if u32::from(version) << 16 & BYTE_COUNT != 0 {
            // This is the upper half of a byte count: its lower half and the version follow.
            cursor.skip(4)?;
        }
        let _unique = cursor.u32()?;
        if cursor.u32()? & IS_REFERENCED != 0 {
            cursor.skip(2)?;
        }
        Ok(())
    }

    /// Reads the base class `TNamed`: name and title.
    pub(super) fn named(&self, cursor: &mut Cursor<'a>) -> Result<(&'a [u8], &'a [u8])> {
        let header = self.header(cursor)?;
        self.skip_t_object(cursor)?;
        let names = (cursor.text()?, cursor.text()?);
        cursor.seek(header.end)?;
        Ok(names)
    }

    /// Reads a `TObjArray`: its pointers, one per slot.
    pub(super) fn obj_array(&self, cursor: &mut Cursor<'a>) -> Result<Vec<Pointer<'a>>> {
        let header = self.header(cursor)?;
        if header.version > 2 {
            self.skip_t_object(cursor)?;
        }
        if header.version > 1 {
            let _name = cursor.text()?;
        }
        let count = cursor.count()?;
        let _lower_bound = cursor.i32()?;
        if count > cursor.left() / 4 {
            return Err(
                cursor.corrupt(format!("array of {count} objects, {} bytes left", cursor.left()))
            );
        }
        let pointers = (0..count).map(|_| self.pointer(cursor)).collect::<Result<_>>()?;
        cursor.seek(header.end)?;
        Ok(pointers)
    }

    /// Reads a `TList`: its pointers, without their options.
    pub(super) fn list(&self, cursor: &mut Cursor<'a>) -> Result<Vec<Pointer<'a>>> {
        let header = self.header(cursor)?;
        self.skip_t_object(cursor)?;
        let _name = cursor.text()?;
        let count = cursor.count()?;
        if count > cursor.left() / 5 {
            return Err(
                cursor.corrupt(format!("list of {count} objects, {} bytes left", cursor.left()))
            );
        }
        let mut pointers = Vec::with_capacity(count);
        for _ in 0..count {
            pointers.push(self.pointer(cursor)?);
            let _option = cursor.text()?;
        }
        cursor.seek(header.end)?;
        Ok(pointers)
    }
}
