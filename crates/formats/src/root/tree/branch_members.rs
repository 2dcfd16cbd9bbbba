//! The members of a branch as stored in the file.

use crate::root::object::class_members::Field;

/// The members of a branch that this crate uses.
#[derive(Default)]
pub(crate) struct BranchMembers<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) title: &'a [u8],
    pub(crate) write_basket: u64,
    pub(crate) entries: u64,
    pub(crate) compressed: u64,
    pub(crate) uncompressed: u64,
    pub(crate) branches: Option<usize>,
    pub(crate) leaves: Option<usize>,
    pub(crate) baskets: Option<usize>,
    pub(crate) sizes: &'a [u8],
    pub(crate) starts: (usize, &'a [u8]),
    pub(crate) seeks: (usize, &'a [u8]),
    pub(crate) other_file: bool,
    pub(crate) class_name: String,
    pub(crate) checksum: u32,
    pub(crate) class_version: i32,
    pub(crate) id: i32,
    pub(crate) kind: i32,
}

impl<'a> BranchMembers<'a> {
    pub(crate) fn set(&mut self, member: &str, field: Field<'a>) {
        match (member, field) {
            ("fWriteBasket", field) => self.write_basket = field.unsigned(),
            ("fEntries", field) => self.entries = field.unsigned(),
            ("fTotBytes", field) => self.uncompressed = field.unsigned(),
            ("fZipBytes", field) => self.compressed = field.unsigned(),
            ("fBranches", Field::Object(at)) => self.branches = Some(at),
            ("fLeaves", Field::Object(at)) => self.leaves = Some(at),
            ("fBaskets", Field::Object(at)) => self.baskets = Some(at),
            ("fBasketBytes", Field::Array { bytes, .. }) => self.sizes = bytes,
            ("fBasketEntry", Field::Array { size, bytes }) => self.starts = (size, bytes),
            ("fBasketSeek", Field::Array { size, bytes }) => self.seeks = (size, bytes),
            ("fClassName", field) => self.class_name = field.text(),
            ("fCheckSum", field) => self.checksum = u32::try_from(field.unsigned()).unwrap_or(0),
            ("fClassVersion", field) => self.class_version = field.int(),
            ("fID", field) => self.id = field.int(),
            ("fType", field) => self.kind = field.int(),
            _ => {}
        }
    }
}

/// The reason why a whole branch cannot be decoded; `None` if it can.
pub(crate) fn refuse(
    class: &[u8],
    raw: &BranchMembers<'_>,
    group: bool,
    leaves: usize,
) -> Option<String> {
    let collection = matches!(raw.kind, 3 | 4);
    if group && !collection {
        return Some("it is a group of branches; name one of them".to_owned());
    }
    if raw.other_file {
        return Some("its data are in another file".to_owned());
    }
    if !matches!(class, b"TBranch" | b"TBranchElement") {
        return Some(format!("a branch of class {} cannot be decoded", class.escape_ascii()));
    }
    match leaves {
        0 => Some("it has no leaves".to_owned()),
        1 => None,
        _ if class == b"TBranchElement" => Some("it has several leaves".to_owned()),
        _ => None,
    }
}
