//! Leaves: the parts of a branch's entry.

use crate::error::{FormatError, Result};
use crate::root::interpretation::column_type::{LeafKind, dimensions, from_class, from_code};
use crate::root::object::class_members::{Field, members, visit_members};
use crate::root::object::streamer_info::StreamerInfos;
use crate::root::object::{Buffer, Pointer};
use std::ops::ControlFlow;

/// Maximum number of values of one item of a leaf; ROOT's baskets are limited to 2 GiB.
const MAX_VALUES: usize = 1 << 31;

/// A leaf as described in the file.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) kind: LeafKind,
    /// Fixed dimensions of one item.
    pub(crate) shape: Vec<usize>,
    /// For jagged leaves: the position of the leaf that counts the items.
    pub(crate) counter: Option<usize>,
}

impl Leaf {
    /// Number of values in one item.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Reads the leaf of class `class` whose header begins at `body`.
pub(crate) fn read_leaf(
    buffer: &Buffer<'_>,
    streamers: &StreamerInfos<'_>,
    class: &[u8],
    body: usize,
) -> Result<Leaf> {
    let mut cursor = buffer.cursor(body);
    if class != b"TLeaf" {
        buffer.header(&mut cursor)?;
    }
    let header = buffer.header(&mut cursor)?;
    let mut name: &[u8] = &[];
    let mut title: &[u8] = &[];
    let mut length = 1;
    let mut unsigned = false;
    let mut counter = None;
    let members = members("TLeaf", header.version, streamers)?;
    visit_members(buffer, &mut cursor, header.version, &members, |member, field| {
        match (member, field) {
            ("TNamed", Field::Object(at)) => {
                (name, title) = buffer.named(&mut buffer.cursor(at))?;
            }
            ("fLen", field) => length = field.unsigned(),
            ("fIsUnsigned", field) => unsigned = field.signed() != 0,
            ("fLeafCount", Field::Pointer(pointer)) => {
                counter = match pointer {
                    Pointer::Null => None,
                    Pointer::Reference(position) | Pointer::Object { position, .. } => {
                        Some(position)
                    }
                };
                return Ok(ControlFlow::Break(()));
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    cursor.seek(header.end)?;
    let mut kind = if class == b"TLeafElement" {
        let _id = cursor.i32()?;
        from_code(cursor.i32()?)
    } else {
        from_class(class, unsigned)
    };
    let name = String::from_utf8_lossy(name).into_owned();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length == 0 || length > MAX_VALUES {
        // Occurs in members of collections, whose length is stored elsewhere.
        kind = LeafKind::Other(None);
    }
    let title = String::from_utf8_lossy(title).into_owned();
    let mut shape = dimensions(&title);
    let product = shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n));
    if product != Some(length) {
        shape = if length == 1 { Vec::new() } else { vec![length] };
    }
    Ok(Leaf { name, title, kind, shape, counter })
}

/// The name of the leaf at `position`.
pub(crate) fn leaf_name_at(
    buffer: &Buffer<'_>,
    streamers: &StreamerInfos<'_>,
    position: usize,
) -> Result<String> {
    match buffer.pointer_at(position)? {
        Pointer::Object { class, body, .. } => {
            read_leaf(buffer, streamers, class, body).map(|leaf| leaf.name)
        }
        _ => Err(FormatError::corrupt(buffer.what, "a counter that is not a leaf")),
    }
}
