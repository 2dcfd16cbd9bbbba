//! The serialized form of entries that are not plain numbers.
//!
//! # Origin of types
//!
//! The C++ name of a collection of numbers or strings determines its form. For a class, the
//! descriptions in the file (`streamer_info`) list its bases and its members, in order. Both nest;
//! a [`StreamedType`] is that tree, built once when a tree is opened. It contains no references to
//! parents, so that reading terminates: a class that contains itself, or a type that is nested too
//! deeply, is [`StreamedType::Unknown`], which is an error only when it is read.
//!
//! # Framing of values
//!
//! Objects begin with a byte count and the version of their class ([`StreamedType::Object`]). A
//! collection or a `std::string` that is a member has such a head, too ([`StreamedType::Headed`]),
//! but one inside another collection has none. If a branch holds one member of all objects of a
//! collection, or a collection is written member by member, there is one head before the values of
//! all objects ([`StreamedType::Rest`]).
//!
//! # Columns
//!
//! Each number or string at the end of a path through the members is a separate column:
//! `jets.fP.fX` is one column of a `vector<TLorentzVector>`. [`columns`] lists them. Reading one
//! column parses the bytes of the others, too.
//!
//! Sources: `TStreamerInfoReadBuffer.cxx`, `TGenCollectionStreamer.cxx`, `TCollectionProxyFactory`
//! of ROOT.

use crate::ElementType;
use crate::root::interpretation::number_encoding::NumberEncoding;
use std::collections::HashSet;
use std::sync::Arc;

/// The serialized form of a value.
#[derive(Debug, Clone)]
pub(crate) enum StreamedType {
    /// Contiguous numbers, in a fixed array with these dimensions.
    Numbers { packed: NumberEncoding, dims: Vec<usize> },
    /// A string after its length: one byte, or 255 and four bytes; `wide`: always four bytes.
    Text { wide: bool },
    /// The string of a `TLeafC`: as `Text`, but an empty string may have no bytes at all, as old
    /// versions of ROOT wrote it (`TLeafC::ReadBasket`).
    LeafText,
    /// A fixed array of values.
    Fixed { dims: Vec<usize>, item: Arc<Self> },
    /// A count and that many values. May have a head.
    List(ListKind, Arc<Self>),
    /// Two values: an item of a map.
    Pair(Arc<[StreamedMember; 2]>),
    /// A marker byte and as many numbers as another member of the object states.
    Counted { packed: NumberEncoding, counter: usize },
    /// A head, then the value.
    Headed(Arc<Self>),
    /// Values up to the end of the entry.
    Rest(Arc<Self>),
    /// An object: a head, then its members.
    Object(Arc<StreamedClass>),
    /// The bits of a `TObject`: four bytes, and two more if the object is referenced.
    Bits,
    /// A `TObject`.
    TObject,
    /// An unknown form, with the reason.
    Unknown(Arc<str>),
}

/// The kind of a collection, as far as it shows in arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// A sequence.
    Plain,
    /// `std::set`.
    Set,
    /// `std::bitset`.
    Bitset,
}

/// A class, in the versions that the file describes.
#[derive(Debug)]
pub(crate) struct StreamedClass {
    pub(crate) name: String,
    /// At least one. The first is the version of the branch, if the branch states it.
    pub(crate) layouts: Vec<ClassLayout>,
}

/// One version of a class.
#[derive(Debug)]
pub(crate) struct ClassLayout {
    pub(crate) version: i32,
    pub(crate) checksum: u32,
    pub(crate) members: Vec<StreamedMember>,
}

/// A member or base of a class.
#[derive(Debug, Clone)]
pub(crate) struct StreamedMember {
    pub(crate) name: Arc<str>,
    pub(crate) base: bool,
    pub(crate) shape: StreamedType,
}

/// One level of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Any number of values.
    List,
    /// A fixed number of values.
    Fixed(usize),
}

/// A column of a streamed type.
#[derive(Debug, Clone)]
pub(crate) struct StreamedColumn {
    /// Names of the members and bases on the path to it.
    pub(crate) path: Arc<[Arc<str>]>,
    /// The names of the members on that path, joined with dots.
    pub(crate) name: String,
    pub(crate) levels: Vec<Level>,
    pub(crate) element: ElementType,
}

/// A column, or the name of one that cannot be decoded and the reason.
pub(crate) type Found = Result<StreamedColumn, (String, Arc<str>)>;

/// Members of a `TObject` that are columns.
pub(crate) const T_OBJECT_MEMBERS: [&str; 2] = ["fUniqueID", "fBits"];
/// Maximum number of columns of one branch.
const MAX_COLUMNS: usize = 400;
/// Maximum number of types that are visited to find them.
const MAX_VISITS: usize = 20_000;

impl StreamedType {
    pub(crate) fn numbers(packed: NumberEncoding) -> Self {
        Self::Numbers { packed, dims: Vec::new() }
    }

    pub(crate) fn unknown(why: impl Into<Arc<str>>) -> Self {
        Self::Unknown(why.into())
    }

    /// Minimum number of bytes of a value.
    pub(crate) fn least(&self) -> usize {
        let times = |dims: &[usize], bytes: usize| {
            dims.iter().fold(bytes, |bytes, &n| bytes.saturating_mul(n))
        };
        match self {
            Self::Numbers { packed, dims } => times(dims, packed.size()),
            Self::Text { wide: false } | Self::Counted { .. } => 1,
            Self::Text { wide: true } | Self::List(..) | Self::Bits => 4,
            Self::Fixed { dims, item } => times(dims, item.least()),
            Self::Pair(members) => {
                members.iter().fold(0, |sum, member| sum.saturating_add(member.shape.least()))
            }
            Self::Headed(_) | Self::Object(_) => 6,
            Self::TObject => 10,
            Self::LeafText | Self::Rest(_) | Self::Unknown(_) => 0,
        }
    }

    /// Returns true if only the end of an entry marks the end of a value.
    pub(crate) fn runs_to_the_end(&self) -> bool {
        match self {
            Self::Rest(_) => true,
            Self::Headed(item) => item.runs_to_the_end(),
            _ => false,
        }
    }
}

/// The columns of a streamed type, in order; `None` if there are too many.
pub(crate) fn columns(shape: &StreamedType) -> Option<Vec<Found>> {
    let mut found = Vec::new();
    let mut finder = Finder { path: Vec::new(), names: Vec::new(), levels: Vec::new(), visits: 0 };
    let all = finder.visit(shape, &mut found);
    // Bases come first: a member hides base members of the same name, as in C++.
    let mut names = HashSet::new();
    found.reverse();
    found.retain(|column| match column {
        Ok(leaf) => names.insert(leaf.name.clone()),
        Err((name, _)) => names.insert(name.clone()),
    });
    found.reverse();
    all.then_some(found)
}

struct Finder {
    path: Vec<Arc<str>>,
    names: Vec<Arc<str>>,
    levels: Vec<Level>,
    visits: usize,
}

impl Finder {
    /// Returns false once there are too many columns.
    fn visit(&mut self, shape: &StreamedType, found: &mut Vec<Found>) -> bool {
        self.visits += 1;
        if found.len() > MAX_COLUMNS || self.visits > MAX_VISITS {
            return false;
        }
        let before = self.levels.len();
        let fixed = |dims: &[usize]| dims.iter().map(|&n| Level::Fixed(n)).collect::<Vec<_>>();
        let fine = match shape {
            StreamedType::Numbers { packed, dims } => {
                self.levels.extend(fixed(dims));
                found.push(Ok(self.leaf(packed.element())));
                true
            }
            StreamedType::Counted { packed, .. } => {
                self.levels.push(Level::List);
                found.push(Ok(self.leaf(packed.element())));
                true
            }
            StreamedType::Text { .. } | StreamedType::LeafText => {
                found.push(Ok(self.leaf(ElementType::Text)));
                true
            }
            StreamedType::Bits => {
                found.push(Ok(self.leaf(ElementType::U32)));
                true
            }
            StreamedType::Fixed { dims, item } => {
                self.levels.extend(fixed(dims));
                self.visit(item, found)
            }
            StreamedType::List(_, item) | StreamedType::Rest(item) => {
                self.levels.push(Level::List);
                self.visit(item, found)
            }
            StreamedType::Headed(item) => self.visit(item, found),
            StreamedType::Pair(members) => members.iter().all(|member| self.member(member, found)),
            StreamedType::Object(class) => {
                let layout = class.layouts.first();
                let members = layout.map_or(&[][..], |layout| layout.members.as_slice());
                members.iter().all(|member| self.member(member, found))
            }
            StreamedType::TObject => {
                for name in T_OBJECT_MEMBERS {
                    let shape = StreamedType::numbers(NumberEncoding::Plain(ElementType::U32));
                    let member = StreamedMember { name: name.into(), base: false, shape };
                    self.member(&member, found);
                }
                true
            }
            StreamedType::Unknown(why) => {
                found.push(Err((self.names.join("."), Arc::clone(why))));
                true
            }
        };
        self.levels.truncate(before);
        fine
    }

    fn member(&mut self, member: &StreamedMember, found: &mut Vec<Found>) -> bool {
        self.path.push(Arc::clone(&member.name));
        if !member.base {
            self.names.push(Arc::clone(&member.name));
        }
        let fine = self.visit(&member.shape, found);
        if !member.base {
            self.names.pop();
        }
        self.path.pop();
        fine
    }

    fn leaf(&self, element: ElementType) -> StreamedColumn {
        StreamedColumn {
            path: self.path.clone().into(),
            name: self.names.join("."),
            levels: self.levels.clone(),
            element,
        }
    }
}
