//! The interpretation of a branch: its columns, how each is decoded, and the name of its type.
//!
//! A branch with one leaf of numbers is one column; each leaf of a branch with several is a
//! separate column. Branches of classes and collections state the name of a C++ type, or a member
//! of a class that the file describes; each number or string in that type is a column.

pub(crate) mod column_type;
pub(crate) mod cpp_type;
pub(crate) mod entry_reader;
pub(crate) mod number_encoding;
pub(crate) mod record_type;
pub(crate) mod streamed_type;
pub(crate) mod type_builder;
use super::basket::{ColumnDecoding, Placement};
use crate::ElementType;
use crate::root::interpretation::column_type::{ColumnType, LeafKind};
use crate::root::interpretation::cpp_type::{CppType, normal};
use crate::root::interpretation::entry_reader::fixed;
use crate::root::interpretation::number_encoding::NumberEncoding;
use crate::root::interpretation::streamed_type::{Found, Level, StreamedType, columns};
use crate::root::interpretation::type_builder::TypeBuilder;
use crate::root::object::streamer_info::{StreamerElement, StreamerInfo, StreamerInfos};
use crate::root::tree::leaf::Leaf;
use std::sync::Arc;

/// Maximum depth of base classes that are searched for a member.
const MAX_DEPTH: usize = 8;

/// A column type, and how to decode it.
#[derive(Debug, Clone)]
pub(crate) struct Interpretation {
    pub(super) column: ColumnType,
    pub(super) plan: ColumnDecoding,
    /// The C++ type, if the type of the column does not show it.
    pub(super) type_name: Option<String>,
}

/// A column of a branch.
#[derive(Debug, Clone)]
pub(super) struct BranchColumn {
    /// The suffix after the name of the branch and a dot; empty for the only column of a branch.
    pub(super) suffix: String,
    /// Index of its leaf.
    pub(super) leaf: usize,
    /// The interpretation, or the reason why the column cannot be decoded.
    pub(super) content: Result<Interpretation, String>,
}

/// Description of a `TBranchElement` from its members.
#[derive(Debug, Clone, Default)]
pub(super) struct ElementBranch<'a> {
    /// The branch's name.
    pub(super) name: &'a str,
    /// True if it has no parent branch.
    pub(super) top: bool,
    /// The class of the variable or, for a member, the class that has the member.
    pub(super) class_name: &'a str,
    pub(super) class_version: i32,
    pub(super) checksum: u32,
    /// Index of the member; negative for a whole variable.
    pub(super) id: i32,
    /// 0, or the kind of the collection that it belongs to.
    pub(super) kind: i32,
}

impl ElementBranch<'_> {
    /// Returns true if it holds a member of all objects of a collection.
    fn in_collection(&self) -> bool {
        matches!(self.kind, 31 | 41)
    }

    /// The name of the member, without its prefix and dimensions.
    fn member(&self) -> &str {
        let name = self.name.split('[').next().unwrap_or_default();
        name.trim_end_matches('.').rsplit('.').next().unwrap_or_default()
    }
}

/// The columns of a branch of numbers and strings, from its leaves.
///
/// The encoding of truncated numbers is stated in the `comment` of their member or, if there is
/// none, in the title of the leaf.
pub(super) fn of_leaves(leaves: &[Leaf], comment: Option<&str>) -> Vec<BranchColumn> {
    let lone = leaves.len() == 1;
    let all = |why: &str| {
        let part = |(index, leaf): (usize, &Leaf)| BranchColumn {
            suffix: if lone { String::new() } else { leaf.name.clone() },
            leaf: index,
            content: Err(why.to_owned()),
        };
        leaves.iter().enumerate().map(part).collect()
    };
    let mut record = 0_usize;
    let mut placed = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        let title = comment.unwrap_or(&leaf.title);
        let (packed, marker) = match leaf.kind {
            LeafKind::Number(element) => (NumberEncoding::Plain(element), 0),
            LeafKind::MarkedNumber(element) => (NumberEncoding::Plain(element), 1),
            LeafKind::Truncated { double, marked } => {
                (NumberEncoding::truncated(double, title), usize::from(marked))
            }
            LeafKind::Text if lone && leaf.counter.is_none() => return vec![text()],
            LeafKind::Bits | LeafKind::Text | LeafKind::Other(_) if lone => {
                return all("its leaf is of no known type");
            }
            LeafKind::Bits | LeafKind::Text | LeafKind::Other(_) => {
                return all(&format!("its leaf `{}` is not a number", leaf.name));
            }
        };
        if !lone && (leaf.counter.is_some() || marker > 0) {
            let why = format!("its leaf `{}` has no fixed length, among several leaves", leaf.name);
            return all(&why);
        }
        placed.push((packed, marker, record));
        record = record.saturating_add(leaf.len().saturating_mul(packed.size()));
    }
    let parts = leaves.iter().zip(placed).enumerate();
    parts
        .map(|(index, (leaf, (packed, marker, offset)))| {
            let jagged = leaf.counter.is_some() || marker > 0;
            let placement =
                Placement { packed, item_len: leaf.len(), jagged, marker, record, offset };
            BranchColumn {
                suffix: if lone { String::new() } else { leaf.name.clone() },
                leaf: index,
                content: Ok(numbers(&leaf.shape, placement)),
            }
        })
        .collect()
}

fn numbers(shape: &[usize], placement: Placement) -> Interpretation {
    let column = ColumnType {
        element: placement.packed.element(),
        item_shape: shape.to_vec(),
        jagged: placement.jagged,
        counter: None,
        inner: Vec::new(),
    };
    Interpretation { column, plan: ColumnDecoding::Numbers(placement), type_name: None }
}

/// The string of a `TLeafC`.
fn text() -> BranchColumn {
    of_shape(&StreamedType::LeafText, "char*").pop().unwrap_or_else(|| refused("it has no columns"))
}

/// The number of items of a split collection.
pub(super) fn count() -> BranchColumn {
    let packed = NumberEncoding::Plain(ElementType::I32);
    let placement =
        Placement { packed, item_len: 1, jagged: false, marker: 0, record: 4, offset: 0 };
    BranchColumn { suffix: String::new(), leaf: 0, content: Ok(numbers(&[], placement)) }
}

/// A branch that cannot be decoded.
pub(super) fn refused(why: impl Into<String>) -> BranchColumn {
    BranchColumn { suffix: String::new(), leaf: 0, content: Err(why.into()) }
}

/// The columns of a `TBranchElement` with one leaf, and the name of its type.
pub(super) fn of_element(
    branch: &ElementBranch<'_>,
    leaf: &Leaf,
    describer: &mut TypeBuilder<'_>,
    streamers: &StreamerInfos<'_>,
) -> (Vec<BranchColumn>, String) {
    let parts = |comment| {
        let mut parts = of_leaves(std::slice::from_ref(leaf), comment);
        // Their number is that of the collection's items, even if the leaf names no counter.
        for content in parts.iter_mut().filter_map(|part| part.content.as_mut().ok()) {
            if let (true, ColumnDecoding::Numbers(placement)) =
                (branch.in_collection(), &mut content.plan)
            {
                placement.jagged = true;
                content.column.jagged = true;
            }
        }
        parts
    };
    let marked =
        matches!(leaf.kind, LeafKind::MarkedNumber(_) | LeafKind::Truncated { marked: true, .. });
    match leaf.kind {
        _ if marked && branch.in_collection() => {
            return (vec![refused("its lengths are in another branch")], String::new());
        }
        LeafKind::Number(_) | LeafKind::MarkedNumber(_) => {
            return (parts(None), String::new());
        }
        LeafKind::Truncated { double, .. } => {
            let element = element_of(branch, streamers);
            let comment = element.map_or("", |element| element.title.as_str());
            let name = if double { "Double32_t" } else { "Float16_t" };
            return (parts(Some(comment)), name.to_owned());
        }
        LeafKind::Bits => {
            let (shape, name) = if branch.in_collection() {
                (in_all(StreamedType::Bits), "uint32_t[]")
            } else {
                (StreamedType::Bits, "uint32_t")
            };
            return (of_shape(&shape, name), name.to_owned());
        }
        LeafKind::Text | LeafKind::Other(_) => {}
    }
    let variable = branch.id < 0 || (branch.top && !branch.in_collection());
    let (shape, name) = if variable {
        let cpp = CppType::parse(branch.class_name);
        (describer.variable(branch.class_name), cpp.to_string())
    } else {
        match element_of(branch, streamers) {
            Some(element) => (describer.member(element), name_of(element)),
            None => match describer.undescribed(branch.class_name, branch.member()) {
                Some((shape, cpp)) => (shape, cpp.to_string()),
                None => {
                    let why = "the file does not describe the class that it is a member of";
                    return (vec![refused(why)], String::new());
                }
            },
        }
    };
    if branch.in_collection() {
        let name = format!("{name}[]");
        return (of_shape(&in_all(shape), &name), name);
    }
    (of_shape(&shape, &name), name)
}

/// The type of a branch that holds a member of all objects of a collection. If the member has a
/// head, there is one for all values.
fn in_all(shape: StreamedType) -> StreamedType {
    match shape {
        StreamedType::Headed(content) => {
            StreamedType::Headed(Arc::new(StreamedType::Rest(content)))
        }
        StreamedType::Unknown(why) => StreamedType::Unknown(why),
        other => StreamedType::Rest(Arc::new(other)),
    }
}

fn name_of(element: &StreamerElement) -> String {
    let dims = element.dims.iter().map(|n| format!("[{n}]")).collect::<String>();
    format!("{}{dims}", CppType::parse(&element.type_name))
}

fn of_shape(shape: &StreamedType, type_name: &str) -> Vec<BranchColumn> {
    let Some(found) = columns(shape) else { return vec![refused("it has too many members")] };
    if found.is_empty() {
        return vec![refused("its class stores nothing")];
    }
    let shared = Arc::new(shape.clone());
    let part = |column: Found| match column {
        Err((suffix, why)) => BranchColumn { suffix, leaf: 0, content: Err(why.to_string()) },
        Ok(leaf) => {
            let mut levels = leaf.levels.split(|level| *level == Level::List).map(fixed);
            // The fixed dimensions before the first list are the item shape only if there is no
            // list.
            let before = levels.next().unwrap_or_default();
            let lists = leaf.levels.contains(&Level::List);
            let (jagged, item_shape) = match (lists, before.is_empty()) {
                (true, true) => (true, levels.next().unwrap_or_default()),
                _ => (false, before),
            };
            let column = ColumnType {
                element: leaf.element,
                item_shape,
                jagged,
                counter: None,
                inner: levels.collect(),
            };
            let suffix = leaf.name.clone();
            let type_name = suffix.is_empty().then(|| type_name.to_owned());
            let plan = ColumnDecoding::Shaped { shape: Arc::clone(&shared), leaf: Arc::new(leaf) };
            BranchColumn {
                suffix,
                leaf: 0,
                content: Ok(Interpretation { column, plan, type_name }),
            }
        }
    };
    found.into_iter().map(part).collect()
}

/// The description of the member that a branch holds.
fn element_of<'s>(
    branch: &ElementBranch<'_>,
    streamers: &'s StreamerInfos<'_>,
) -> Option<&'s StreamerElement> {
    let class = normal(branch.class_name);
    let infos = streamers.versions(&class);
    let info = infos.iter().find(|info| branch.checksum != 0 && info.checksum == branch.checksum);
    let info = info.or_else(|| infos.iter().find(|info| info.version == branch.class_version));
    let info = info.or_else(|| infos.first())?;
    let wanted = branch.member();
    let id = usize::try_from(branch.id).ok();
    let at = id.and_then(|id| info.elements.get(id)).filter(|element| element.name == wanted);
    at.or_else(|| member_of(info, wanted, streamers, 0))
}

/// The member `wanted` of a class or its bases.
fn member_of<'s>(
    info: &'s StreamerInfo,
    wanted: &str,
    streamers: &'s StreamerInfos<'_>,
    depth: usize,
) -> Option<&'s StreamerElement> {
    let own = info.elements.iter().find(|element| element.code != 0 && element.name == wanted);
    if own.is_some() || depth >= MAX_DEPTH {
        return own;
    }
    info.elements.iter().filter(|element| element.code == 0).find_map(|base| {
        let infos = streamers.versions(&normal(&base.name));
        infos.first().and_then(|info| member_of(info, wanted, streamers, depth + 1))
    })
}
