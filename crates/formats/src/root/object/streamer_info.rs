//! Class descriptions stored in the file (`TStreamerInfo`): for versions of classes that are not
//! built in, and for the C++ types of class members.

use crate::SparseBytes;
use crate::error::Result;
use crate::root::codec::Decompressor;
use crate::root::interpretation::cpp_type::normal;
use crate::root::key::read_object;
use crate::root::object::{Buffer, Pointer};
use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::ops::Range;

/// Type codes of `TStreamerInfo`.
const U_CHAR: i32 = 11;
const BOOL: i32 = 18;

/// One member or base class of a class.
#[derive(Debug, Clone)]
pub(crate) struct StreamerElement {
    pub(crate) name: String,
    /// Type code of `TStreamerInfo`.
    pub(crate) code: i32,
    /// The comment after the member.
    pub(crate) title: String,
    /// Number of values in a fixed array.
    pub(crate) array_length: i32,
    /// Its dimensions.
    pub(crate) dims: Vec<usize>,
    pub(crate) type_name: String,
    /// The member that holds the length of a variable array.
    pub(crate) count_name: String,
}

/// One version of a class.
#[derive(Debug, Clone)]
pub(crate) struct StreamerInfo {
    pub(crate) name: String,
    pub(crate) version: i32,
    pub(crate) checksum: u32,
    pub(crate) elements: Vec<StreamerElement>,
}

/// The class descriptions of a file, decoded on first use.
#[derive(Debug)]
pub(crate) struct StreamerInfos<'a> {
    range: Range<u64>,
    bytes: &'a SparseBytes,
    classes: OnceCell<Vec<StreamerInfo>>,
    by_name: OnceCell<HashMap<String, Vec<usize>>>,
    missed: Cell<bool>,
}

impl<'a> StreamerInfos<'a> {
    pub(crate) fn new(range: Range<u64>, bytes: &'a SparseBytes) -> Self {
        Self {
            range,
            bytes,
            classes: OnceCell::new(),
            by_name: OnceCell::new(),
            missed: Cell::new(false),
        }
    }

    /// Returns true if a description was needed before its bytes were fetched.
    pub(crate) fn missed(&self) -> bool {
        self.missed.get()
    }

    /// The description of a version of a class; records a miss if its bytes are not fetched yet.
    pub(crate) fn require(&self, class: &str, version: u16) -> Option<&StreamerInfo> {
        if !self.range.is_empty() && self.bytes.get(self.range.clone()).is_none() {
            self.missed.set(true);
            return None;
        }
        let version = i32::from(version);
        self.classes().iter().find(|info| info.name == class && info.version == version)
    }

    /// All versions of a class by its normalized name (`cpp_type::normal`); empty, with a miss
    /// recorded, if the bytes of the descriptions are not fetched yet.
    pub(crate) fn versions(&self, class: &str) -> Vec<&StreamerInfo> {
        if !self.range.is_empty() && self.bytes.get(self.range.clone()).is_none() {
            self.missed.set(true);
            return Vec::new();
        }
        self.by_name()
            .get(class)
            .into_iter()
            .flatten()
            .filter_map(|&i| self.classes().get(i))
            .collect()
    }

    fn by_name(&self) -> &HashMap<String, Vec<usize>> {
        self.by_name.get_or_init(|| {
            let mut all: HashMap<String, Vec<usize>> = HashMap::new();
            for (index, info) in self.classes().iter().enumerate() {
                all.entry(normal(&info.name)).or_default().push(index);
            }
            all
        })
    }

    /// The description of a class by its checksum or version, if its bytes are fetched.
    pub(crate) fn look_up(
        &self,
        class: &str,
        version: i32,
        checksum: u32,
    ) -> Option<&StreamerInfo> {
        let mut same = self.classes().iter().filter(|info| info.name == class);
        let exact = same.clone().find(|info| info.checksum == checksum);
        exact.or_else(|| same.clone().find(|info| info.version == version)).or_else(|| same.next())
    }

    fn classes(&self) -> &[StreamerInfo] {
        self.classes.get_or_init(|| {
            let Some(stored) = self.bytes.get(self.range.clone()) else { return Vec::new() };
            // The names of types are optional: they are missing if the descriptions are corrupt.
            read_classes(&stored).unwrap_or_default()
        })
    }
}

fn read_classes(stored: &[u8]) -> Result<Vec<StreamerInfo>> {
    if stored.is_empty() {
        return Ok(Vec::new());
    }
    let object = read_object(stored, &mut Decompressor::new(), "class descriptions")?;
    let buffer = Buffer { bytes: &object.bytes, origin: object.origin, what: "class descriptions" };
    let mut classes = Vec::new();
    for pointer in buffer.list(&mut buffer.cursor(0))? {
        if let Pointer::Object { class: b"TStreamerInfo", body, .. } = pointer {
            classes.push(read_class(&buffer, body)?);
        }
    }
    Ok(classes)
}

fn read_class(buffer: &Buffer<'_>, at: usize) -> Result<StreamerInfo> {
    let mut cursor = buffer.cursor(at);
    buffer.header(&mut cursor)?;
    let (name, _) = buffer.named(&mut cursor)?;
    let checksum = cursor.u32()?;
    let version = cursor.i32()?;
    let mut elements = Vec::new();
    if let Pointer::Object { class: b"TObjArray", body, .. } = buffer.pointer(&mut cursor)? {
        for pointer in buffer.obj_array(&mut buffer.cursor(body))? {
            if let Pointer::Object { class, body, .. } = pointer {
                elements.push(read_element(buffer, class, body)?);
            }
        }
    }
    let name = String::from_utf8_lossy(name).into_owned();
    Ok(StreamerInfo { name, version, checksum, elements })
}

fn read_element(buffer: &Buffer<'_>, class: &[u8], at: usize) -> Result<StreamerElement> {
    let mut cursor = buffer.cursor(at);
    if class != b"TStreamerElement" {
        buffer.header(&mut cursor)?;
    }
    let header = buffer.header(&mut cursor)?;
    let (name, title) = buffer.named(&mut cursor)?;
    let mut code = cursor.i32()?;
    let _size = cursor.i32()?;
    let array_length = cursor.i32()?;
    // Writers leave it uninitialized if there is no array.
    let dimensions = usize::try_from(cursor.i32()?).unwrap_or(0);
    let bounds = if header.version == 1 { cursor.count()? } else { 5 };
    let (bounds, _) = cursor.take(bounds.saturating_mul(4))?.as_chunks::<4>();
    let mut dims: Vec<usize> =
        bounds.iter().take(dimensions).map(|raw| u32::from_be_bytes(*raw) as usize).collect();
    let length = usize::try_from(array_length).unwrap_or(0);
    if dims.iter().try_fold(1_usize, |product, &n| product.checked_mul(n)) != Some(length.max(1)) {
        dims = if length > 0 { vec![length] } else { Vec::new() };
    }
    let type_name = cursor.string()?;
    // Before ROOT 3, bool had no code of its own.
    if code == U_CHAR && matches!(type_name.as_str(), "Bool_t" | "bool") {
        code = BOOL;
    }
    cursor.seek(header.end)?;
    let mut count_name = String::new();
    if class == b"TStreamerBasicPointer" || class == b"TStreamerLoop" {
        let _version = cursor.i32()?;
        count_name = cursor.string()?;
    }
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let name = text(name);
    let title = text(title);
    Ok(StreamerElement { name, code, title, array_length, dims, type_name, count_name })
}
