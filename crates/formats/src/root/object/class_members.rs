//! The members of a version of a class, in the order in which they are streamed.
//!
//! The versions of `TTree`, `TBranch` and their relatives that ROOT has written since 2003 are
//! built in, up to the last member that this crate uses; the rest is skipped by its byte count. For
//! other versions the file's own descriptions are translated into the same form.

use crate::ElementType;
use crate::error::{FormatError, Result};
use crate::root::cursor::Cursor;
use crate::root::interpretation::type_builder;
use crate::root::object::streamer_info::{StreamerInfo, StreamerInfos};
use crate::root::object::{Buffer, Pointer};
use std::borrow::Cow;
use std::ops::ControlFlow;

/// The storage of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberKind {
    /// A number.
    Number(ElementType),
    /// A `TString`.
    Text,
    /// An object in place, with a byte count; also for base classes.
    Object,
    /// The base class `TObject`.
    TObject,
    /// A pointer to an object.
    Pointer,
    /// A `TArray`: a count, then elements of this size in bytes.
    TArray(usize),
    /// A marker byte, then as many elements as another member states, of this size in bytes, or of
    /// eight bytes if the marker is 2.
    Counted(usize),
    /// An unknown storage: an error when a reader gets to this member.
    Unknown,
}

/// A member of a class.
#[derive(Debug, Clone)]
pub(crate) struct ClassMember {
    name: Cow<'static, str>,
    kind: MemberKind,
    /// First version of the class with this member.
    since: u16,
    /// Length of a fixed array; 1 for a single value.
    repeat: usize,
    /// For [`MemberKind::Counted`]: the member that holds the count.
    count: Cow<'static, str>,
}

const F64: MemberKind = MemberKind::Number(ElementType::F64);
const I16: MemberKind = MemberKind::Number(ElementType::I16);
const I32: MemberKind = MemberKind::Number(ElementType::I32);
const I64: MemberKind = MemberKind::Number(ElementType::I64);
const U8: MemberKind = MemberKind::Number(ElementType::U8);
const U32: MemberKind = MemberKind::Number(ElementType::U32);

const fn member(name: &'static str, kind: MemberKind) -> ClassMember {
    since(0, name, kind)
}

const fn since(since: u16, name: &'static str, kind: MemberKind) -> ClassMember {
    ClassMember {
        name: Cow::Borrowed(name),
        kind,
        since,
        repeat: 1,
        count: Cow::Borrowed("fMaxBaskets"),
    }
}

const fn clusters(name: &'static str) -> ClassMember {
    let count = Cow::Borrowed("fNClusterRange");
    ClassMember {
        name: Cow::Borrowed(name),
        kind: MemberKind::Counted(8),
        since: 19,
        repeat: 1,
        count,
    }
}

/// `TTree` 16 to 20 (ROOT 5.12 to 6).
static TREE: [ClassMember; 27] = [
    member("TNamed", MemberKind::Object),
    member("TAttLine", MemberKind::Object),
    member("TAttFill", MemberKind::Object),
    member("TAttMarker", MemberKind::Object),
    member("fEntries", I64),
    member("fTotBytes", I64),
    member("fZipBytes", I64),
    member("fSavedBytes", I64),
    since(18, "fFlushedBytes", I64),
    member("fWeight", F64),
    member("fTimerInterval", I32),
    member("fScanField", I32),
    member("fUpdate", I32),
    since(17, "fDefaultEntryOffsetLen", I32),
    since(19, "fNClusterRange", I32),
    member("fMaxEntries", I64),
    member("fMaxEntryLoop", I64),
    member("fMaxVirtualSize", I64),
    member("fAutoSave", I64),
    since(18, "fAutoFlush", I64),
    member("fEstimate", I64),
    clusters("fClusterRangeEnd"),
    clusters("fClusterSize"),
    since(20, "fIOFeatures", MemberKind::Object),
    member("fBranches", MemberKind::Object),
    member("fLeaves", MemberKind::Object),
    member("fAliases", MemberKind::Pointer),
];

/// `TBranch` 10 to 13 (ROOT 5.12 to 6).
static BRANCH: [ClassMember; 22] = [
    member("TNamed", MemberKind::Object),
    member("TAttFill", MemberKind::Object),
    member("fCompress", I32),
    member("fBasketSize", I32),
    member("fEntryOffsetLen", I32),
    member("fWriteBasket", I32),
    member("fEntryNumber", I64),
    since(13, "fIOFeatures", MemberKind::Object),
    member("fOffset", I32),
    member("fMaxBaskets", U32),
    member("fSplitLevel", I32),
    member("fEntries", I64),
    since(11, "fFirstEntry", I64),
    member("fTotBytes", I64),
    member("fZipBytes", I64),
    member("fBranches", MemberKind::Object),
    member("fLeaves", MemberKind::Object),
    member("fBaskets", MemberKind::Object),
    member("fBasketBytes", MemberKind::Counted(4)),
    member("fBasketEntry", MemberKind::Counted(8)),
    member("fBasketSeek", MemberKind::Counted(8)),
    member("fFileName", MemberKind::Text),
];

/// `TBranch` 6 to 9 (ROOT 3 to 5.10), whose streamer was written by hand.
static OLD_BRANCH: [ClassMember; 20] = [
    member("TNamed", MemberKind::Object),
    since(8, "TAttFill", MemberKind::Object),
    member("fCompress", I32),
    member("fBasketSize", I32),
    member("fEntryOffsetLen", I32),
    member("fWriteBasket", I32),
    member("fEntryNumber", I32),
    member("fOffset", I32),
    member("fMaxBaskets", I32),
    since(7, "fSplitLevel", I32),
    member("fEntries", F64),
    member("fTotBytes", F64),
    member("fZipBytes", F64),
    member("fBranches", MemberKind::Object),
    member("fLeaves", MemberKind::Object),
    member("fBaskets", MemberKind::Object),
    member("fBasketBytes", MemberKind::Counted(4)),
    member("fBasketEntry", MemberKind::Counted(4)),
    member("fBasketSeek", MemberKind::Counted(4)),
    member("fFileName", MemberKind::Text),
];

static ELEMENT: [ClassMember; 9] = element(I32);
static ELEMENT_10: [ClassMember; 9] = element(I16);

/// The members of a `TBranchElement`; its versions store `fClassVersion` differently.
const fn element(class_version: MemberKind) -> [ClassMember; 9] {
    [
        member("TBranch", MemberKind::Object),
        member("fClassName", MemberKind::Text),
        member("fParentName", MemberKind::Text),
        member("fClonesName", MemberKind::Text),
        member("fCheckSum", U32),
        member("fClassVersion", class_version),
        member("fID", I32),
        member("fType", I32),
        member("fStreamerType", I32),
    ]
}

/// `TBranchObject` 1.
static BRANCH_OBJECT: [ClassMember; 2] =
    [member("TBranch", MemberKind::Object), member("fClassName", MemberKind::Text)];

/// `TLeaf` 2.
static LEAF: [ClassMember; 7] = [
    member("TNamed", MemberKind::Object),
    member("fLen", I32),
    member("fLenType", I32),
    member("fOffset", I32),
    member("fIsRange", U8),
    member("fIsUnsigned", U8),
    member("fLeafCount", MemberKind::Pointer),
];

/// The members of a version of a class.
pub(crate) fn members(
    class: &str,
    version: u16,
    streamers: &StreamerInfos<'_>,
) -> Result<Cow<'static, [ClassMember]>> {
    let known: Option<&'static [ClassMember]> = match (class, version) {
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

fn translate(info: &StreamerInfo) -> Vec<ClassMember> {
    let elements = info.elements.iter();
    elements
        .map(|element| {
            let length = usize::try_from(element.array_length).unwrap_or(0).max(1);
            let (kind, repeat) = match element.code {
                0 if element.name == "TObject" => (MemberKind::TObject, 1),
                0 => (MemberKind::Object, 1),
                code @ 1..=19 => (number(code), 1),
                code @ 21..=39 => (number(code - 20), length),
                code @ 41..=59 => match number(code - 40) {
                    MemberKind::Number(element) => (MemberKind::Counted(element.size()), 1),
                    other => (other, 1),
                },
                62 if element.type_name == "TArrayD" => (MemberKind::TArray(8), 1),
                62 if element.type_name == "TArrayI" => (MemberKind::TArray(4), 1),
                61 | 62 | 63 | 67 | 68 | 500 => (MemberKind::Object, length),
                64 | 69 => (MemberKind::Pointer, length),
                65 => (MemberKind::Text, length),
                66 => (MemberKind::TObject, 1),
                _ => (MemberKind::Unknown, 1),
            };
            let name = Cow::Owned(element.name.clone());
            let count = Cow::Owned(element.count_name.clone());
            ClassMember { name, kind, since: 0, repeat, count }
        })
        .collect()
}

/// A number by the type code of `TStreamerInfo`. A `Double32_t` is stored in single precision.
fn number(code: i32) -> MemberKind {
    let element = if code == 9 { Some(ElementType::F32) } else { type_builder::number(code) };
    element.map_or(MemberKind::Unknown, MemberKind::Number)
}

/// The value of a member, or its position.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Field<'a> {
    Int(i64),
    Real(f64),
    Text(&'a [u8]),
    /// Elements of `size` bytes each, big-endian.
    Array {
        size: usize,
        bytes: &'a [u8],
    },
    /// Position of the byte count of an object in place.
    Object(usize),
    Pointer(Pointer<'a>),
}

impl Field<'_> {
    /// The value as an unsigned integer; 0 if it is negative or not a number.
    pub(crate) fn unsigned(self) -> u64 {
        u64::try_from(self.signed()).unwrap_or(0)
    }

    #[expect(clippy::cast_possible_truncation, reason = "saturates, which later checks refuse")]
    pub(crate) fn signed(self) -> i64 {
        match self {
            Self::Int(value) => value,
            Self::Real(value) => value as i64,
            _ => 0,
        }
    }

    pub(crate) fn int(self) -> i32 {
        i32::try_from(self.signed()).unwrap_or(0)
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::Text(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        }
    }
}

/// Reads the members of a class one by one and passes them to `visit`, until that breaks.
pub(crate) fn visit_members<'a>(
    buffer: &Buffer<'a>,
    cursor: &mut Cursor<'a>,
    version: u16,
    members: &[ClassMember],
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
    member: &ClassMember,
    counts: &[(&str, i64)],
) -> Result<Option<Field<'a>>> {
    Ok(Some(match member.kind {
        MemberKind::Number(ElementType::F32) => Field::Real(f64::from(cursor.f32()?)),
        MemberKind::Number(ElementType::F64) => Field::Real(cursor.f64()?),
        MemberKind::Number(element) => Field::Int(cursor.int(element)?.unwrap_or(0)),
        MemberKind::Text => Field::Text(cursor.text()?),
        MemberKind::Object => Field::Object(buffer.skip_object(cursor)?.start),
        MemberKind::Pointer => Field::Pointer(buffer.pointer(cursor)?),
        MemberKind::TObject => {
            buffer.skip_t_object(cursor)?;
            return Ok(None);
        }
        MemberKind::TArray(size) => {
            let count = cursor.count()?;
            Field::Array { size, bytes: cursor.take(count.saturating_mul(size))? }
        }
        MemberKind::Counted(narrow) => {
            let count = counts.iter().rev().find(|(name, _)| *name == member.count);
            let count = count.map_or(0, |&(_, count)| usize::try_from(count).unwrap_or(usize::MAX));
            let marker = cursor.u8()?;
            let size = if marker == 2 { 8 } else { narrow };
            let bytes = if marker == 0 { 0 } else { count.saturating_mul(size) };
            Field::Array { size, bytes: cursor.take(bytes)? }
        }
        MemberKind::Unknown => {
            let what = format!("member {} of a class in {}", member.name, buffer.what);
            return Err(FormatError::UnsupportedFeature { what });
        }
    }))
}
