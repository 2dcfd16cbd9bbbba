//! Reading a tree's object: the tree, its branches and their branches, leaves and basket tables.
//!
//! Branches are written inside each other, and may refer to objects written elsewhere in the same buffer: a branch
//! that counts for another can be written at the first mention, a counting leaf likewise. References are followed on
//! demand. A hostile buffer could make many references lead to the same long stretch, so every position is read at
//! most once as a branch, and all bytes read and names made are paid from a budget that grows with the buffer.

use super::basket::Embedded;
use super::baskets::{Baskets, Tables};
use super::branch::{Branch, contents};
use super::element::LeafKind;
use super::layout::{Field, Member, members, walk};
use super::leaf::{Leaf, leaf_name_at, read_leaf};
use super::object::{Buffer, Pointer};
use super::streamer::StreamerSource;
use super::tree::Parts;
use crate::error::{FormatError, Result};
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Branches inside branches that are followed.
const DEEPEST: usize = 40;
/// How often each byte of the buffer may be read, on average; honest trees stay below their depth.
const REREADS: usize = 64;
/// Bytes of names and leaves that any tree may have, however short its buffer is.
const FREE_BYTES: usize = 1 << 20;

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

struct Reader<'a> {
    buffer: Buffer<'a>,
    shared: &'a Bytes,
    streamers: &'a StreamerSource<'a>,
    file_end: u64,
    budget: usize,
    layouts: HashMap<(&'a [u8], u16), Cow<'static, [Member]>>,
    visited: HashSet<usize>,
    branches: Vec<Branch>,
    /// Path of the column whose leaf was written at a position.
    leaf_paths: HashMap<usize, String>,
    /// Columns, and where the leaf is that counts their items.
    counters: Vec<(usize, usize)>,
}

/// Members of a branch, as far as they are of use.
#[derive(Default)]
struct Raw<'a> {
    name: &'a [u8],
    title: &'a [u8],
    write_basket: u64,
    entries: u64,
    compressed: u64,
    uncompressed: u64,
    branches: Option<usize>,
    leaves: Option<usize>,
    baskets: Option<usize>,
    sizes: &'a [u8],
    starts: (usize, &'a [u8]),
    seeks: (usize, &'a [u8]),
    other_file: bool,
    class_name: String,
    checksum: u32,
    class_version: i32,
    id: i32,
    kind: i32,
}

/// Reads the tree at the beginning of a buffer.
pub(super) fn read_tree<'a>(
    buffer: Buffer<'a>,
    shared: &'a Bytes,
    class: &str,
    file_end: u64,
    streamers: &'a StreamerSource<'a>,
) -> Result<Parts> {
    let mut reader = Reader {
        buffer,
        shared,
        streamers,
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
    let (mut name, mut title): (&[u8], &[u8]) = (&[], &[]);
    let (mut entries, mut branches) = (0, None);
    let layout = members("TTree", version, streamers)?;
    walk(&buffer, &mut cursor, version, &layout, |member, field| {
        match (member, field) {
            ("TNamed", Field::Object(at)) => {
                (name, title) = buffer.named(&mut buffer.cursor(at))?;
            }
            ("fEntries", field) => entries = field.unsigned(),
            ("fBranches", Field::Object(at)) => {
                branches = Some(at);
                return Ok(ControlFlow::Break(()));
            }
            _ => {}
        }
        Ok(GO_ON)
    })?;
    if let Some(at) = branches {
        reader.read_branches("", at, 0)?;
    }
    reader.resolve_counters();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok(Parts { name: text(name), title: text(title), entries, branches: reader.branches })
}

impl<'a> Reader<'a> {
    fn pay(&mut self, bytes: usize) -> Result<()> {
        self.budget = self.budget.checked_sub(bytes).ok_or_else(|| {
            FormatError::corrupt(self.buffer.what, "its objects refer to each other without end")
        })?;
        Ok(())
    }

    /// Reads the branches in the array at `at`, whose path begins with `parent`.
    fn read_branches(&mut self, parent: &str, at: usize, depth: usize) -> Result<()> {
        if depth >= DEEPEST {
            let why = format!("branches nested more than {DEEPEST} deep");
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
                self.read_branch(parent, class, body, depth)?;
            }
        }
        Ok(())
    }

    fn read_branch(
        &mut self,
        parent: &str,
        class: &'a [u8],
        body: usize,
        depth: usize,
    ) -> Result<()> {
        let mut raw = Raw { class_version: -1, id: -1, ..Raw::default() };
        self.read_members(class, body, 0, &mut raw)?;
        let name = String::from_utf8_lossy(raw.name);
        let path = if parent.is_empty() { name.into_owned() } else { format!("{parent}/{name}") };
        self.pay(path.len())?;
        self.add_columns(&path, parent, class, &raw)?;
        match raw.branches {
            Some(at) => self.read_branches(&path, at, depth + 1),
            None => Ok(()),
        }
    }

    /// Reads the members of a branch, those of its base class first.
    fn read_members(
        &mut self,
        class: &'a [u8],
        body: usize,
        depth: usize,
        raw: &mut Raw<'a>,
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
        walk(&buffer, &mut cursor, version, &layout, |member, field| {
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

    fn add_columns(&mut self, path: &str, parent: &str, class: &[u8], raw: &Raw<'a>) -> Result<()> {
        let baskets = self.read_baskets(raw);
        let group = match raw.branches {
            Some(at) => !self.buffer.obj_array(&mut self.buffer.cursor(at))?.is_empty(),
            None => false,
        };
        let leaves = self.read_leaves(raw)?;
        let refused = refuse(class, raw, group, leaves.len());
        let columns = match refused {
            Some(why) => vec![Err(why)],
            None => contents(&leaves.iter().map(|(_, leaf)| leaf.clone()).collect::<Vec<_>>()),
        };
        let readable = columns.iter().all(Result::is_ok);
        let type_name = if readable { String::new() } else { self.type_name(parent, raw, &leaves) };
        let (baskets, damage) = match baskets {
            Ok(baskets) => (Arc::new(baskets), None),
            Err(error) => (Arc::new(Baskets::default()), Some(error)),
        };
        let several = columns.len() > 1;
        let title = String::from_utf8_lossy(raw.title);
        for (index, content) in columns.into_iter().enumerate() {
            let leaf = leaves.get(index);
            let leaf_name = leaf.map_or("", |(_, leaf)| leaf.name.as_str());
            let column = if several { format!("{path}.{leaf_name}") } else { path.to_owned() };
            self.pay(2 * column.len() + title.len() + leaf_name.len())?;
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
            });
        }
        Ok(())
    }

    fn read_leaves(&mut self, raw: &Raw<'a>) -> Result<Vec<(usize, Leaf)>> {
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

    fn read_baskets(&self, raw: &Raw<'a>) -> Result<Baskets> {
        let mut embedded = Vec::new();
        if let Some(at) = raw.baskets {
            let pointers = self.buffer.obj_array(&mut self.buffer.cursor(at))?;
            for (index, pointer) in pointers.into_iter().enumerate() {
                if let Pointer::Object { class: b"TBasket", body, .. } = pointer {
                    embedded.push((index, Embedded::read(self.shared, body)?));
                }
            }
        }
        Baskets::new(Tables {
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

    /// The C++ type of a branch that cannot be decoded, as far as it is known.
    fn type_name(&self, parent: &str, raw: &Raw<'a>, leaves: &[(usize, Leaf)]) -> String {
        if let [(_, Leaf { kind: LeafKind::Other(Some(name)), .. })] = leaves {
            return (*name).to_owned();
        }
        let member = usize::try_from(raw.id).ok().filter(|_| !parent.is_empty() || raw.kind == 0);
        let element = member.and_then(|id| {
            let (class, version) = (&raw.class_name, raw.class_version);
            self.streamers.look_up(class, version, raw.checksum)?.elements.get(id)
        });
        match element {
            Some(element) => element.type_name.clone(),
            None if raw.class_name.is_empty() => "unknown".to_owned(),
            None => raw.class_name.clone(),
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

impl<'a> Raw<'a> {
    fn set(&mut self, member: &str, field: Field<'a>) {
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
fn refuse(class: &[u8], raw: &Raw<'_>, group: bool, leaves: usize) -> Option<String> {
    if group {
        return Some("it is a group of branches; name one of them".to_owned());
    }
    if raw.other_file {
        return Some("its data are in another file".to_owned());
    }
    match (class, raw.kind) {
        (b"TBranch", _) | (b"TBranchElement", 0) => {}
        (b"TBranchElement", 3 | 31) => {
            return Some("arrays of objects (TClonesArray) cannot be decoded".to_owned());
        }
        (b"TBranchElement", 4 | 41) => {
            return Some("collections of objects cannot be decoded".to_owned());
        }
        (b"TBranchElement", _) => {
            return Some("objects that were not split cannot be decoded".to_owned());
        }
        (other, _) => {
            return Some(format!("a branch of class {} cannot be decoded", other.escape_ascii()));
        }
    }
    (leaves == 0).then(|| "it has no leaves".to_owned())
}
