//! Reads a tree's object: the tree, its nested branches, leaves and basket tables.
//!
//! Branches are written inside each other, and may refer to objects written elsewhere in the same
//! buffer: a branch that counts the items of another may be written at its first mention, and so
//! may its leaf. The reader follows references on demand. A hostile buffer could contain many
//! references to the same long range, so each position is read at most once as a branch, and all
//! bytes and names that are read are deducted from a budget proportional to the buffer.

use crate::error::{FormatError, Result};
use crate::root::basket::ColumnDecoding;
use crate::root::basket::EmbeddedBasket;
use crate::root::interpretation::column_type::LeafKind;
use crate::root::interpretation::record_type::{RecordType, of_columns};
use crate::root::interpretation::type_builder::TypeBuilder;
use crate::root::interpretation::{
    BranchColumn, ElementBranch, Interpretation, count, of_element, of_leaves, refused,
};
use crate::root::object::class_members::{ClassMember, Field, members, visit_members};
use crate::root::object::streamer_info::StreamerInfos;
use crate::root::object::{Buffer, Pointer};
use crate::root::tree::Parts;
use crate::root::tree::basket_table::{BasketTable, Tables};
use crate::root::tree::branch::Branch;
use crate::root::tree::branch_members::{BranchMembers, refuse};
use crate::root::tree::clusters::{Clusters, RawClusters};
use crate::root::tree::leaf::{Leaf, leaf_name_at, read_leaf};
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximum depth of nested branches.
const MAX_DEPTH: usize = 40;
/// Maximum number of reads of each byte of the buffer, on average; valid trees need fewer than
/// their depth.
const REREADS: usize = 64;
/// Bytes of names and leaves that every tree may have, however short its buffer is.
const FREE_BYTES: usize = 1 << 20;

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

struct Reader<'a> {
    buffer: Buffer<'a>,
    shared: &'a Bytes,
    streamers: &'a StreamerInfos<'a>,
    describer: TypeBuilder<'a>,
    file_end: u64,
    budget: usize,
    layouts: HashMap<(&'a [u8], u16), Cow<'static, [ClassMember]>>,
    visited: HashSet<usize>,
    branches: Vec<Branch>,
    /// The path of a column, by the position of its leaf.
    leaf_paths: HashMap<usize, String>,
    /// Jagged columns, and the position of the leaf that counts their items.
    counters: Vec<(usize, usize)>,
}

/// Reads the tree at the start of a buffer.
pub(crate) fn read_tree<'a>(
    buffer: Buffer<'a>,
    shared: &'a Bytes,
    class: &str,
    file_end: u64,
    streamers: &'a StreamerInfos<'a>,
) -> Result<Parts> {
    let mut reader = Reader {
        buffer,
        shared,
        streamers,
        describer: TypeBuilder::new(streamers),
        file_end,
        budget: buffer.bytes.len().saturating_mul(REREADS).saturating_add(FREE_BYTES),
        layouts: HashMap::new(),
        visited: HashSet::new(),
        branches: Vec::new(),
        leaf_paths: HashMap::new(),
        counters: Vec::new(),
    };
    let mut cursor = buffer.cursor(0);
    if class != "TTree" {
        buffer.header(&mut cursor)?;
    }
    let version = buffer.header(&mut cursor)?.version;
    let mut name: &[u8] = &[];
    let mut title: &[u8] = &[];
    let mut entries = 0;
    let mut branches = None;
    let mut clusters = RawClusters::default();
    let layout = members("TTree", version, streamers)?;
    visit_members(&buffer, &mut cursor, version, &layout, |member, field| {
        match (member, field) {
            ("TNamed", Field::Object(at)) => {
                (name, title) = buffer.named(&mut buffer.cursor(at))?;
            }
            ("fEntries", field) => entries = field.unsigned(),
            ("fBranches", Field::Object(at)) => {
                branches = Some(at);
                return Ok(ControlFlow::Break(()));
            }
            (member, field) => clusters.set(member, field),
        }
        Ok(GO_ON)
    })?;
    if let Some(at) = branches {
        reader.read_branches("", at, 0)?;
    }
    reader.resolve_counters();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok(Parts {
        name: text(name),
        title: text(title),
        entries,
        clusters: Clusters::new(&clusters, entries),
        branches: reader.branches,
    })
}

/// The record of the columns of the branch at `path`; `None` if the branch is one plain column.
fn record_of(parts: &[BranchColumn], path: &str) -> Option<RecordType> {
    let is_column = parts.iter().all(|part| part.suffix.is_empty());
    let stem = if is_column { path } else { path.strip_suffix('.').unwrap_or(path) };
    let shape = parts.iter().find_map(|part| match &part.content {
        Ok(Interpretation { plan: ColumnDecoding::Shaped { shape, .. }, .. }) => Some(shape),
        _ => None,
    });
    match shape {
        Some(shape) => RecordType::of_shape(shape, stem)
            .filter(|record| !matches!(record, RecordType::Column(_))),
        None if is_column => None,
        None => Some(of_columns(
            parts
                .iter()
                .map(|part| (part.suffix.clone(), format!("{stem}.{}", part.suffix)))
                .collect(),
        )),
    }
}

impl<'a> Reader<'a> {
    fn pay(&mut self, bytes: usize) -> Result<()> {
        self.budget = self.budget.checked_sub(bytes).ok_or_else(|| {
            FormatError::corrupt(self.buffer.what, "its objects refer to each other without end")
        })?;
        Ok(())
    }

    /// Reads the branches in the array at `at`, whose paths begin with `parent`. Returns their
    /// names and types.
    fn read_branches(
        &mut self,
        parent: &str,
        at: usize,
        depth: usize,
    ) -> Result<Vec<(String, RecordType)>> {
        let mut read = Vec::new();
        if depth >= MAX_DEPTH {
            let why = format!("branches nested more than {MAX_DEPTH} deep");
            return Err(FormatError::corrupt(self.buffer.what, why));
        }
        for mut pointer in self.buffer.obj_array(&mut self.buffer.cursor(at))? {
            if let Pointer::Reference(position) = pointer {
                pointer = self.buffer.pointer_at(position)?;
            }
            if let Pointer::Object { class, position, body, end } = pointer
                && self.visited.insert(position)
            {
                self.pay(end - position)?;
                read.push(self.read_branch(parent, class, body, depth)?);
            }
        }
        Ok(read)
    }

    fn read_branch(
        &mut self,
        parent: &str,
        class: &'a [u8],
        body: usize,
        depth: usize,
    ) -> Result<(String, RecordType)> {
        let mut raw = BranchMembers { class_version: -1, id: -1, ..BranchMembers::default() };
        self.read_members(class, body, 0, &mut raw)?;
        let name = String::from_utf8_lossy(raw.name);
        let path = if parent.is_empty() { name.to_string() } else { format!("{parent}/{name}") };
        self.pay(path.len())?;
        let first = self.branches.len();
        let own = self.add_columns(&path, parent, class, &raw)?;
        let fields = match raw.branches {
            Some(at) => self.read_branches(&path, at, depth + 1)?,
            None => Vec::new(),
        };
        let record = match own {
            Some(own) if fields.is_empty() => own,
            // uproot reads a `TClonesArray` as its count.
            _ if fields.is_empty() || self.type_name(parent, &raw, &[]) == "TClonesArray" => {
                RecordType::Column(path)
            }
            _ => RecordType::Record { class: None, fields },
        };
        if !matches!(record, RecordType::Column(_))
            && let Some(branch) = self.branches.get_mut(first)
        {
            branch.record = Some(record.clone());
        }
        Ok((name.into_owned(), record))
    }

    /// Reads the members of a branch, starting with its base class.
    fn read_members(
        &mut self,
        class: &'a [u8],
        body: usize,
        depth: usize,
        raw: &mut BranchMembers<'a>,
    ) -> Result<()> {
        let buffer = self.buffer;
        let mut cursor = buffer.cursor(body);
        let version = buffer.header(&mut cursor)?.version;
        if class == b"TBranchClones" {
            (raw.name, raw.title) = buffer.named(&mut cursor)?;
            return Ok(());
        }
        let layout = match self.layouts.get(&(class, version)) {
            Some(layout) => layout.clone(),
            None => {
                let layout = members(&String::from_utf8_lossy(class), version, self.streamers)?;
                self.layouts.insert((class, version), layout.clone());
                layout
            }
        };
        let mut base = None;
        visit_members(&buffer, &mut cursor, version, &layout, |member, field| {
            match (member, field) {
                ("TBranch", Field::Object(at)) => base = Some(at),
                ("TNamed", Field::Object(at)) => {
                    (raw.name, raw.title) = buffer.named(&mut buffer.cursor(at))?;
                }
                ("fStreamerType", _) | ("fFileName", _) => {
                    raw.other_file |= matches!(field, Field::Text(name) if !name.is_empty());
                    return Ok(ControlFlow::Break(()));
                }
                (member, field) => raw.set(member, field),
            }
            Ok(GO_ON)
        })?;
        match base {
            Some(at) if depth < 2 => self.read_members(b"TBranch", at, depth + 1, raw),
            _ => Ok(()),
        }
    }

    fn add_columns(
        &mut self,
        path: &str,
        parent: &str,
        class: &[u8],
        raw: &BranchMembers<'a>,
    ) -> Result<Option<RecordType>> {
        let baskets = self.read_baskets(raw);
        let group = match raw.branches {
            Some(at) => !self.buffer.obj_array(&mut self.buffer.cursor(at))?.is_empty(),
            None => false,
        };
        let leaves = self.read_leaves(raw)?;
        let bare: Vec<Leaf> = leaves.iter().map(|(_, leaf)| leaf.clone()).collect();
        let (parts, type_name) = match refuse(class, raw, group, leaves.len()) {
            Some(why) => (vec![refused(why)], self.type_name(parent, raw, &leaves)),
            None => self.parts(parent, class, raw, &bare),
        };
        let record = record_of(&parts, path);
        let listed = parts.iter().any(|part| !part.suffix.is_empty());
        let counted = group && raw.kind == 4 && type_name != "TClonesArray";
        if listed || counted {
            self.push_group(path, parent, raw, &type_name, counted)?;
        }
        let (baskets, damage) = match baskets {
            Ok(baskets) => (Arc::new(baskets), None),
            Err(error) => (Arc::new(BasketTable::default()), Some(error)),
        };
        let title = String::from_utf8_lossy(raw.title);
        for part in parts {
            let leaf = leaves.get(part.leaf);
            let leaf_name = match (leaf, part.suffix.as_str()) {
                (Some((_, leaf)), "") => leaf.name.as_str(),
                (_, suffix) => suffix,
            };
            let column = match part.suffix.as_str() {
                "" if counted => format!("@{path}.size()"),
                "" => path.to_owned(),
                suffix => format!("{}.{suffix}", path.strip_suffix('.').unwrap_or(path)),
            };
            self.pay(2 * column.len() + title.len() + leaf_name.len() + size_of::<Branch>())?;
            let content = part.content;
            let unsupported = |why| FormatError::Unsupported {
                branch: column.clone(),
                type_name: type_name.clone(),
                why,
            };
            let type_name = match (&damage, &content) {
                (Some(_), Ok(content)) => content.column.name(),
                _ => type_name.clone(),
            };
            let content = match &damage {
                Some(FormatError::Corrupt { what, why }) => Err(FormatError::Corrupt {
                    what: format!("{what} of branch `{column}`"),
                    why: why.clone(),
                }),
                Some(error) => Err(error.clone()),
                None => content.map_err(unsupported),
            };
            if let Some((position, leaf)) = leaf {
                self.leaf_paths.entry(*position).or_insert_with(|| column.clone());
                if let Some(counter) = leaf.counter {
                    self.counters.push((self.branches.len(), counter));
                }
            }
            self.branches.push(Branch {
                path: column,
                own: if parent.is_empty() { 0 } else { parent.len() + 1 },
                leaf: leaf_name.to_owned(),
                title: title.to_string(),
                type_name,
                content,
                baskets: Arc::clone(&baskets),
                record: None,
            });
        }
        Ok(record)
    }

    /// Adds a branch whose values are in the columns of other branches.
    fn push_group(
        &mut self,
        path: &str,
        parent: &str,
        raw: &BranchMembers<'a>,
        type_name: &str,
        counted: bool,
    ) -> Result<()> {
        let title = String::from_utf8_lossy(raw.title).into_owned();
        self.pay(2 * path.len() + title.len() + type_name.len() + size_of::<Branch>())?;
        let own = if parent.is_empty() { 0 } else { parent.len() + 1 };
        let why = if counted {
            format!("it is a record of its branches; name one of them, or write `@{path}.size()`")
        } else {
            "it is a record of several columns; name one of them".to_owned()
        };
        let type_name = type_name.to_owned();
        let content =
            FormatError::Unsupported { branch: path.to_owned(), type_name: type_name.clone(), why };
        self.branches.push(Branch {
            path: path.to_owned(),
            own,
            leaf: String::new(),
            title,
            type_name,
            content: Err(content),
            baskets: Arc::default(),
            record: None,
        });
        Ok(())
    }

    /// The columns of a branch that can be decoded as a whole, and the name of its type if known.
    fn parts(
        &mut self,
        parent: &str,
        class: &[u8],
        raw: &BranchMembers<'a>,
        leaves: &[Leaf],
    ) -> (Vec<BranchColumn>, String) {
        let (b"TBranchElement", [leaf]) = (class, leaves) else {
            return (of_leaves(leaves, None), "unknown".to_owned());
        };
        if matches!(raw.kind, 3 | 4) {
            return (vec![count()], raw.class_name.clone());
        }
        let name = String::from_utf8_lossy(raw.name);
        let branch = ElementBranch {
            name: &name,
            top: parent.is_empty(),
            class_name: &raw.class_name,
            class_version: raw.class_version,
            checksum: raw.checksum,
            id: raw.id,
            kind: raw.kind,
        };
        let (parts, type_name) = of_element(&branch, leaf, &mut self.describer, self.streamers);
        if type_name.is_empty() {
            return (parts, self.type_name(parent, raw, &[(0, leaf.clone())]));
        }
        (parts, type_name)
    }

    fn read_leaves(&mut self, raw: &BranchMembers<'a>) -> Result<Vec<(usize, Leaf)>> {
        let Some(at) = raw.leaves else { return Ok(Vec::new()) };
        let mut leaves = Vec::new();
        for mut pointer in self.buffer.obj_array(&mut self.buffer.cursor(at))? {
            if let Pointer::Reference(position) = pointer {
                pointer = self.buffer.pointer_at(position)?;
            }
            if let Pointer::Object { class, position, body, end } = pointer {
                self.pay(end - position + size_of::<Branch>())?;
                leaves.push((position, read_leaf(&self.buffer, self.streamers, class, body)?));
            }
        }
        Ok(leaves)
    }

    fn read_baskets(&self, raw: &BranchMembers<'a>) -> Result<BasketTable> {
        let mut embedded = Vec::new();
        if let Some(at) = raw.baskets {
            let pointers = self.buffer.obj_array(&mut self.buffer.cursor(at))?;
            for (index, pointer) in pointers.into_iter().enumerate() {
                if let Pointer::Object { class: b"TBasket", body, .. } = pointer {
                    embedded.push((index, EmbeddedBasket::read(self.shared, body)?));
                }
            }
        }
        BasketTable::new(Tables {
            write_basket: usize::try_from(raw.write_basket).unwrap_or(usize::MAX),
            entries: raw.entries,
            sizes: raw.sizes,
            starts: raw.starts,
            seeks: raw.seeks,
            embedded,
            compressed: raw.compressed,
            uncompressed: raw.uncompressed,
            file_end: self.file_end,
        })
    }

    /// The C++ type of a branch that cannot be decoded, as far as known.
    fn type_name(&self, parent: &str, raw: &BranchMembers<'a>, leaves: &[(usize, Leaf)]) -> String {
        if let [(_, Leaf { kind: LeafKind::Other(Some(name)), .. })] = leaves {
            return (*name).to_owned();
        }
        let member = usize::try_from(raw.id).ok().filter(|_| !parent.is_empty() || raw.kind == 0);
        let element = member.and_then(|id| {
            let class = &raw.class_name;
            let version = raw.class_version;
            self.streamers.look_up(class, version, raw.checksum)?.elements.get(id)
        });
        match element {
            Some(element) if !element.type_name.is_empty() => element.type_name.clone(),
            _ if raw.class_name.is_empty() => "unknown".to_owned(),
            _ => raw.class_name.clone(),
        }
    }

    fn resolve_counters(&mut self) {
        for (index, position) in std::mem::take(&mut self.counters) {
            let path = self.leaf_paths.get(&position).cloned();
            let path = path.or_else(|| leaf_name_at(&self.buffer, self.streamers, position).ok());
            if let Some(branch) = self.branches.get_mut(index)
                && let Ok(content) = &mut branch.content
            {
                content.column.counter = path;
            }
        }
    }
}
