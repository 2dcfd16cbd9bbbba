//! A buffer of big-endian values, with ROOT's object framing.

use std::collections::HashMap;

#[derive(Default)]
pub(super) struct Out(pub(super) Vec<u8>);

impl Out {
    pub(super) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
    pub(super) fn i16(&mut self, value: i16) -> &mut Self {
        self.put(&value.to_be_bytes())
    }
    pub(super) fn i32(&mut self, value: usize) -> &mut Self {
        self.put(&i32::try_from(value).unwrap().to_be_bytes())
    }
    pub(super) fn signed(&mut self, value: i32) -> &mut Self {
        self.put(&value.to_be_bytes())
    }
    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_be_bytes())
    }
    pub(super) fn i64(&mut self, value: usize) -> &mut Self {
        self.put(&i64::try_from(value).unwrap().to_be_bytes())
    }
    pub(super) fn offset(&mut self, large: bool, value: usize) -> &mut Self {
        if large { self.i64(value) } else { self.i32(value) }
    }
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        if text.len() < 255 {
            self.put(&[u8::try_from(text.len()).unwrap()]);
        } else {
            self.put(&[255]).i32(text.len());
        }
        self.put(text.as_bytes())
    }
    /// Writes a byte count, a version, and the output of `body`.
    pub(super) fn object(&mut self, version: i16, body: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.0.len();
        self.u32(0).i16(version);
        body(self);
        self.close(start)
    }
    pub(super) fn close(&mut self, start: usize) -> &mut Self {
        let count = u32::try_from(self.0.len() - start - 4).unwrap() | 0x4000_0000;
        self.0[start..start + 4].copy_from_slice(&count.to_be_bytes());
        self
    }
    pub(super) fn t_object(&mut self) -> &mut Self {
        self.i16(1).u32(0).u32(0x0300_0000)
    }
    pub(super) fn named(&mut self, name: &str, title: &str) -> &mut Self {
        self.object(1, |out| {
            out.t_object().text(name).text(title);
        })
    }
}

/// The classes whose names are already in a buffer: later objects refer to their positions.
pub(super) struct Named {
    /// Size of the key before the buffer: positions count from its start.
    pub(super) origin: usize,
    places: HashMap<&'static str, usize>,
}

impl Named {
    pub(super) fn new(origin: usize) -> Self {
        Self { origin, places: HashMap::new() }
    }

    /// Begins a pointer to a new object of `class`. Returns the position for the matching `close`.
    pub(super) fn begin(&mut self, out: &mut Out, class: &'static str) -> usize {
        let start = out.0.len();
        out.u32(0);
        match self.places.get(class) {
            Some(at) => {
                let tag = u32::try_from(at + self.origin + 2).unwrap() | 0x8000_0000;
                out.u32(tag);
            }
            None => {
                self.places.insert(class, out.0.len());
                out.u32(0xffff_ffff).put(class.as_bytes()).put(&[0]);
            }
        }
        start
    }
}
