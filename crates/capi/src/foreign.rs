//! Pointers of a C program as texts and slices: the only file of the crate with unsafe blocks.
//!
//! These functions are safe for the rest of the crate because of the requirements that the header
//! states for a program: a pointer is NULL or points to as much memory as its type or its length
//! states, and no thread changes that memory during the call. NULL, texts that are not UTF-8 and
//! impossible lengths are errors.

use hither::{Error, ErrorKind};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ops::Range;

/// A range of a file and the memory for its bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Number of bytes.
    pub length: usize,
    /// Memory for `length` bytes. Hints do not use it.
    pub buffer: *mut c_void,
}

// SAFETY: a piece is an address and two numbers. Only `Piece::fill` writes to its memory, on the
// thread of the program that called the library for that.
unsafe impl Send for Piece {}

/// A pointer of a program, which the library only returns.
#[derive(Debug)]
pub(crate) struct UserData(pub(crate) *mut c_void);

// SAFETY: the library never dereferences the pointer.
unsafe impl Send for UserData {}

impl Piece {
    /// The range in the file.
    pub(crate) fn range(&self) -> Result<Range<u64>, Error> {
        let end = self.offset.checked_add(self.length as u64).ok_or_else(|| {
            invalid(format!("a piece of {} bytes at {} is too long", self.length, self.offset))
        })?;
        Ok(self.offset..end)
    }

    /// Checks that there is memory for the bytes.
    pub(crate) fn check(&self) -> Result<(), Error> {
        buffer("the buffer of a piece", self.buffer, self.length).map(drop)
    }

    /// Copies bytes into the memory, and returns the number of bytes.
    pub(crate) fn fill(&self, bytes: &[u8]) -> Result<usize, Error> {
        let target = buffer("the buffer of a piece", self.buffer, self.length)?;
        let target = target.get_mut(..bytes.len()).ok_or_else(|| {
            let what = format!("a piece of {} bytes got {}", self.length, bytes.len());
            Error::new(ErrorKind::Protocol, what)
        })?;
        target.copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

pub(crate) fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, what)
}

/// Returns the handle, or an error if the pointer is NULL.
pub(crate) fn handle<T>(what: &str, handle: Option<T>) -> Result<T, Error> {
    handle.ok_or_else(|| is_null(what))
}

fn is_null(what: &str) -> Error {
    invalid(format!("{what} is NULL"))
}

/// The text at a pointer.
pub(crate) fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str, Error> {
    if text.is_null() {
        return Err(is_null(what));
    }
    // SAFETY: not NULL, so it points to a text that ends with NUL and does not change during the
    // call.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| invalid(format!("{what} is not UTF-8")))
}

/// The keys and values of a list that ends with NULL; a NULL list is empty.
pub(crate) fn pairs<'a>(list: *const *const c_char) -> Result<Vec<(&'a str, &'a str)>, Error> {
    let mut pairs = Vec::new();
    let mut next = list;
    loop {
        let key = item(next);
        if key.is_null() {
            return Ok(pairs);
        }
        let key = text("the name of an option", key)?;
        let value = next.wrapping_add(1);
        pairs.push((key, text(&format!("the value of option {key}"), item(value))?));
        next = value.wrapping_add(1);
    }
}

/// Reads the pointer at a position of an array that ends with NULL.
fn item(place: *const *const c_char) -> *const c_char {
    if place.is_null() {
        return std::ptr::null();
    }
    // SAFETY: not NULL, and not beyond the end: `pairs` continues with the next element only if
    // this one is not NULL.
    unsafe { *place }
}

/// The bytes of memory to read from.
pub(crate) fn bytes<'a>(
    what: &str,
    start: *const c_void,
    length: usize,
) -> Result<&'a [u8], Error> {
    items(what, start.cast(), length)
}

/// The elements of an array to read from.
pub(crate) fn items<'a, T>(what: &str, start: *const T, count: usize) -> Result<&'a [T], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    check_array::<T>(what, start.is_null(), count)?;
    // SAFETY: not NULL, so it points to `count` elements that no thread changes during the call;
    // their size was checked.
    Ok(unsafe { std::slice::from_raw_parts(start, count) })
}

/// The bytes of memory to write to.
pub(crate) fn buffer<'a>(
    what: &str,
    start: *mut c_void,
    length: usize,
) -> Result<&'a mut [u8], Error> {
    elements(what, start.cast(), length)
}

/// The elements of an array to write to.
pub(crate) fn elements<'a, T>(
    what: &str,
    start: *mut T,
    count: usize,
) -> Result<&'a mut [T], Error> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_array::<T>(what, start.is_null(), count)?;
    // SAFETY: not NULL, so it points to `count` elements that only this call uses; their size was
    // checked. Elements are bytes or plain numbers and addresses, for which every content is valid.
    Ok(unsafe { std::slice::from_raw_parts_mut(start, count) })
}

/// Checks that an array can exist.
fn check_array<T>(what: &str, is_null_pointer: bool, count: usize) -> Result<(), Error> {
    if is_null_pointer {
        return Err(is_null(what));
    }
    let bytes = count.checked_mul(size_of::<T>()).filter(|it| isize::try_from(*it).is_ok());
    bytes.map(drop).ok_or_else(|| invalid(format!("{what} is too long: {count} elements")))
}

/// Converts a text for C; removes the NULs that it may contain.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Frees a text that the library returned. NULL does nothing.
#[unsafe(no_mangle)]
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "no Rust program calls it")]
pub extern "C" fn hither_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: every text that a program may free was created by `CString::into_raw`.
        drop(unsafe { CString::from_raw(text) });
    }
}
