//! The members of a branch as they are in the file.

use super::layout::Field;

/// Members of a branch, as far as they are of use.
#[derive(Default)]
pub(super) struct BranchMembers<'a> {
    pub(super) name: &'a [u8],
    pub(super) title: &'a [u8],
    pub(super) write_basket: u64,
    pub(super) entries: u64,
    pub(super) compressed: u64,
    pub(super) uncompressed: u64,
    pub(super) branches: Option<usize>,
    pub(super) leaves: Option<usize>,
    pub(super) baskets: Option<usize>,
    pub(super) sizes: &'a [u8],
    pub(super) starts: (usize, &'a [u8]),
    pub(super) seeks: (usize, &'a [u8]),
    pub(super) other_file: bool,
    pub(super) class_name: String,
    pub(super) checksum: u32,
    pub(super) class_version: i32,
    pub(super) id: i32,
    pub(super) kind: i32,
}

impl<'a> BranchMembers<'a> {
    pub(super) fn set(&mut self, member: &str, field: Field<'a>) {
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

/// Why a branch as a whole cannot be decoded, if so.
pub(super) fn refuse(
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
