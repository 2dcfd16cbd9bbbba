//! Which members a version of a class has, in the order in which they are streamed.
//!
//! The versions of `TTree`, `TBranch` and their relatives that ROOT has written since 2003 are built in, down to the
//! last member that is of use here; what follows is skipped by its byte count. For other versions the file's own
//! descriptions are translated into the same form.

use super::cursor::Cursor;
use super::object::{Buffer, Pointer};
use super::streamer::{ClassInfo, StreamerSource};
use crate::error::{FormatError, Result};
use std::borrow::Cow;
use std::ops::ControlFlow;

/// How a member is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// A `TString`.
    Text,
    /// An object in place, with a byte count; base classes too.
    Object,
    /// The base class `TObject`.
    TObject,
    /// A pointer to an object.
    Pointer,
    /// A `TArray`: a count, then elements of so many bytes.
    TArray(usize),
    /// A marker byte, then as many elements as another member says, of so many bytes each; of eight bytes each where
    /// the marker is 2.
    Counted(usize),
    /// Not understood: an error if a reader gets here.
    Unknown,
}

/// A member of a class.
#[derive(Debug, Clone)]
pub(super) struct Member {
    name: Cow<'static, str>,
    kind: Kind,
    /// First version of the class that has it.
    since: u16,
    /// Length of a fixed array; 1 for single values.
    repeat: usize,
    /// For [`Kind::Counted`]: the member with the count.
    count: Cow<'static, str>,
}

const fn member(name: &'static str, kind: Kind) -> Member {
    since(0, name, kind)
}

const fn since(since: u16, name: &'static str, kind: Kind) -> Member {
    Member {
        name: Cow::Borrowed(name),
        kind,
        since,
        repeat: 1,
        count: Cow::Borrowed("fMaxBaskets"),
    }
}

const fn clusters(name: &'static str) -> Member {
    let count = Cow::Borrowed("fNClusterRange");
    Member { name: Cow::Borrowed(name), kind: Kind::Counted(8), since: 19, repeat: 1, count }
}

/// `TTree` 16 to 20 (ROOT 5.12 to 6).
static TREE: [Member; 27] = [
    member("TNamed", Kind::Object),
    member("TAttLine", Kind::Object),
    member("TAttFill", Kind::Object),
    member("TAttMarker", Kind::Object),
    member("fEntries", Kind::I64),
    member("fTotBytes", Kind::I64),
    member("fZipBytes", Kind::I64),
    member("fSavedBytes", Kind::I64),
    since(18, "fFlushedBytes", Kind::I64),
    member("fWeight", Kind::F64),
    member("fTimerInterval", Kind::I32),
    member("fScanField", Kind::I32),
    member("fUpdate", Kind::I32),
    since(17, "fDefaultEntryOffsetLen", Kind::I32),
    since(19, "fNClusterRange", Kind::I32),
    member("fMaxEntries", Kind::I64),
    member("fMaxEntryLoop", Kind::I64),
    member("fMaxVirtualSize", Kind::I64),
    member("fAutoSave", Kind::I64),
    since(18, "fAutoFlush", Kind::I64),
    member("fEstimate", Kind::I64),
    clusters("fClusterRangeEnd"),
    clusters("fClusterSize"),
    since(20, "fIOFeatures", Kind::Object),
    member("fBranches", Kind::Object),
    member("fLeaves", Kind::Object),
    member("fAliases", Kind::Pointer),
];

/// `TBranch` 10 to 13 (ROOT 5.12 to 6).
static BRANCH: [Member; 22] = [
    member("TNamed", Kind::Object),
    member("TAttFill", Kind::Object),
    member("fCompress", Kind::I32),
    member("fBasketSize", Kind::I32),
    member("fEntryOffsetLen", Kind::I32),
    member("fWriteBasket", Kind::I32),
    member("fEntryNumber", Kind::I64),
    since(13, "fIOFeatures", Kind::Object),
    member("fOffset", Kind::I32),
    member("fMaxBaskets", Kind::U32),
    member("fSplitLevel", Kind::I32),
    member("fEntries", Kind::I64),
    since(11, "fFirstEntry", Kind::I64),
    member("fTotBytes", Kind::I64),
    member("fZipBytes", Kind::I64),
    member("fBranches", Kind::Object),
    member("fLeaves", Kind::Object),
    member("fBaskets", Kind::Object),
    member("fBasketBytes", Kind::Counted(4)),
    member("fBasketEntry", Kind::Counted(8)),
    member("fBasketSeek", Kind::Counted(8)),
    member("fFileName", Kind::Text),
];

/// `TBranch` 6 to 9 (ROOT 3 to 5.10), which its streamer wrote by hand.
static OLD_BRANCH: [Member; 20] = [
    member("TNamed", Kind::Object),
    since(8, "TAttFill", Kind::Object),
    member("fCompress", Kind::I32),
    member("fBasketSize", Kind::I32),
    member("fEntryOffsetLen", Kind::I32),
    member("fWriteBasket", Kind::I32),
    member("fEntryNumber", Kind::I32),
    member("fOffset", Kind::I32),
    member("fMaxBaskets", Kind::I32),
    since(7, "fSplitLevel", Kind::I32),
    member("fEntries", Kind::F64),
    member("fTotBytes", Kind::F64),
    member("fZipBytes", Kind::F64),
    member("fBranches", Kind::Object),
    member("fLeaves", Kind::Object),
    member("fBaskets", Kind::Object),
    member("fBasketBytes", Kind::Counted(4)),
    member("fBasketEntry", Kind::Counted(4)),
    member("fBasketSeek", Kind::Counted(4)),
    member("fFileName", Kind::Text),
];

/// `TBranchElement` 8 and 9.
static ELEMENT: [Member; 9] = [
    member("TBranch", Kind::Object),
    member("fClassName", Kind::Text),
    member("fParentName", Kind::Text),
    member("fClonesName", Kind::Text),
    member("fCheckSum", Kind::U32),
    member("fClassVersion", Kind::I32),
    member("fID", Kind::I32),
    member("fType", Kind::I32),
    member("fStreamerType", Kind::I32),
];

/// `TBranchElement` 10.
static ELEMENT_10: [Member; 9] = [
    member("TBranch", Kind::Object),
    member("fClassName", Kind::Text),
    member("fParentName", Kind::Text),
    member("fClonesName", Kind::Text),
    member("fCheckSum", Kind::U32),
    member("fClassVersion", Kind::I16),
    member("fID", Kind::I32),
    member("fType", Kind::I32),
    member("fStreamerType", Kind::I32),
];

/// `TBranchObject` 1.
static BRANCH_OBJECT: [Member; 2] =
    [member("TBranch", Kind::Object), member("fClassName", Kind::Text)];

/// `TLeaf` 2.
static LEAF: [Member; 7] = [
    member("TNamed", Kind::Object),
    member("fLen", Kind::I32),
    member("fLenType", Kind::I32),
    member("fOffset", Kind::I32),
    member("fIsRange", Kind::U8),
    member("fIsUnsigned", Kind::U8),
    member("fLeafCount", Kind::Pointer),
];

/// The members of a version of a class.
pub(super) fn members(
    class: &str,
    version: u16,
    streamers: &StreamerSource<'_>,
) -> Result<Cow<'static, [Member]>> {
    let known: Option<&'static [Member]> = match (class, version) {
        ("TTree", 16..=20) => Some(&TREE),
        ("TBranch", 10..=13) => Some(&BRANCH),
        ("TBranch", 6..=9) => Some(&OLD_BRANCH),
        ("TBranchElement", 8..=9) => Some(&ELEMENT),
        ("TBranchElement", 10) => Some(&ELEMENT_10),
        ("TBranchObject", 1) => Some(&BRANCH_OBJECT),
        ("TLeaf", 2) => Some(&LEAF),
        _ => None,
    };
    if let Some(known) = known {
        return Ok(Cow::Borrowed(known));
    }
    streamers.require(class, version).map(|info| Cow::Owned(translate(info))).ok_or_else(|| {
        let what = format!("version {version} of {class}, which the file does not describe");
        FormatError::UnsupportedFeature { what }
    })
}

fn translate(info: &ClassInfo) -> Vec<Member> {
    let elements = info.elements.iter();
    elements
        .map(|element| {
            let length = usize::try_from(element.array_length).unwrap_or(0).max(1);
            let (kind, repeat) = match element.code {
                0 if element.name == "TObject" => (Kind::TObject, 1),
                0 => (Kind::Object, 1),
                code @ 1..=19 => (number(code), 1),
                code @ 21..=39 => (number(code - 20), length),
                code @ 41..=59 => (size(number(code - 40)).map_or(Kind::Unknown, Kind::Counted), 1),
                62 if element.type_name == "TArrayD" => (Kind::TArray(8), 1),
                62 if element.type_name == "TArrayI" => (Kind::TArray(4), 1),
                61 | 62 | 63 | 67 | 68 | 500 => (Kind::Object, length),
                64 | 69 => (Kind::Pointer, length),
                65 => (Kind::Text, length),
                66 => (Kind::TObject, 1),
                _ => (Kind::Unknown, 1),
            };
            let name = Cow::Owned(element.name.clone());
            let count = Cow::Owned(element.count_name.clone());
            Member { name, kind, since: 0, repeat, count }
        })
        .collect()
}

/// `TStreamerInfo`'s codes for numbers.
fn number(code: i32) -> Kind {
    match code {
        1 => Kind::I8,
        2 => Kind::I16,
        3 | 6 => Kind::I32,
        4 | 16 => Kind::I64,
        5 | 9 => Kind::F32,
        8 => Kind::F64,
        11 | 18 => Kind::U8,
        12 => Kind::U16,
        13 | 15 => Kind::U32,
        14 | 17 => Kind::U64,
        _ => Kind::Unknown,
    }
}

fn size(kind: Kind) -> Option<usize> {
    match kind {
        Kind::I8 | Kind::U8 => Some(1),
        Kind::I16 | Kind::U16 => Some(2),
        Kind::I32 | Kind::U32 | Kind::F32 => Some(4),
        Kind::I64 | Kind::U64 | Kind::F64 => Some(8),
        _ => None,
    }
}

/// The value of a member, or where it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field<'a> {
    Int(i64),
    Real(f64),
    Text(&'a [u8]),
    /// Elements of `size` bytes each, big-endian.
    Array {
        size: usize,
        bytes: &'a [u8],
    },
    /// An object in place, from its byte count on.
    Object(usize),
    Pointer(Pointer<'a>),
}

impl Field<'_> {
    /// A whole number; 0 for everything else, and for negative ones.
    pub(super) fn unsigned(self) -> u64 {
        u64::try_from(self.signed()).unwrap_or(0)
    }

    #[expect(clippy::cast_possible_truncation, reason = "saturates, which later checks refuse")]
    pub(super) fn signed(self) -> i64 {
        match self {
            Self::Int(value) => value,
            Self::Real(value) => value as i64,
            _ => 0,
        }
    }

    pub(super) fn int(self) -> i32 {
        i32::try_from(self.signed()).unwrap_or(0)
    }

    pub(super) fn text(self) -> String {
        match self {
            Self::Text(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        }
    }
}

/// Reads the members of a class one by one and shows them to `visit`, until that has seen enough.
pub(super) fn walk<'a>(
    buffer: &Buffer<'a>,
    cursor: &mut Cursor<'a>,
    version: u16,
    members: &[Member],
    mut visit: impl FnMut(&str, Field<'a>) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut counts: Vec<(&str, i64)> = Vec::new();
    for member in members.iter().filter(|member| member.since <= version) {
        for _ in 0..member.repeat {
            let field = read(buffer, cursor, member, &counts)?;
            if let Some(Field::Int(value)) = field {
                counts.push((&member.name, value));
            }
            if let Some(field) = field
                && visit(&member.name, field)?.is_break()
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn read<'a>(
    buffer: &Buffer<'a>,
    cursor: &mut Cursor<'a>,
    member: &Member,
    counts: &[(&str, i64)],
) -> Result<Option<Field<'a>>> {
    Ok(Some(match member.kind {
        Kind::I8 => Field::Int(i64::from(cursor.u8()?.cast_signed())),
        Kind::U8 => Field::Int(i64::from(cursor.u8()?)),
        Kind::I16 => Field::Int(i64::from(cursor.i16()?)),
        Kind::U16 => Field::Int(i64::from(cursor.u16()?)),
        Kind::I32 => Field::Int(i64::from(cursor.i32()?)),
        Kind::U32 => Field::Int(i64::from(cursor.u32()?)),
        Kind::I64 => Field::Int(cursor.i64()?),
        Kind::U64 => Field::Int(cursor.u64()?.cast_signed()),
        Kind::F32 => Field::Real(f64::from(cursor.f32()?)),
        Kind::F64 => Field::Real(cursor.f64()?),
        Kind::Text => Field::Text(cursor.text()?),
        Kind::Object => Field::Object(buffer.skip_object(cursor)?.start),
        Kind::Pointer => Field::Pointer(buffer.pointer(cursor)?),
        Kind::TObject => {
            buffer.skip_t_object(cursor)?;
            return Ok(None);
        }
        Kind::TArray(size) => {
            let count = cursor.count()?;
            Field::Array { size, bytes: cursor.take(count.saturating_mul(size))? }
        }
        Kind::Counted(narrow) => {
            let count = counts.iter().rev().find(|(name, _)| *name == member.count);
            let count = count.map_or(0, |&(_, count)| usize::try_from(count).unwrap_or(usize::MAX));
            let marker = cursor.u8()?;
            let size = if marker == 2 { 8 } else { narrow };
            let bytes = if marker == 0 { 0 } else { count.saturating_mul(size) };
            Field::Array { size, bytes: cursor.take(bytes)? }
        }
        Kind::Unknown => {
            let what = format!("member {} of a class in {}", member.name, buffer.what);
            return Err(FormatError::UnsupportedFeature { what });
        }
    }))
}
