//! A ROOT file: header, baskets, trees, directories, key lists, class descriptions.

use super::streamer_info::class_list;
use super::tree::tree_object;
use super::write_buffer::Out;
use super::{Basket, Branch, Class, Style, Tree, pack};

/// Size of a basket's header after its key's strings.
pub(super) const BASKET_HEADER: usize = 2 + 4 * 4 + 1;

pub(super) fn key_len(large: bool, strings: [&str; 3]) -> usize {
    let fixed = if large { 34 } else { 26 };
    fixed + strings.iter().map(|s| s.len() + 1).sum::<usize>()
}

pub(super) struct Key<'a> {
    pub(super) strings: [&'a str; 3],
    /// Size of the key without its strings.
    pub(super) more: usize,
    pub(super) objlen: usize,
    pub(super) payload: usize,
    pub(super) cycle: i16,
    pub(super) seek: usize,
}

impl Key<'_> {
    pub(super) fn len(&self, large: bool) -> usize {
        key_len(large, self.strings) + self.more
    }
    pub(super) fn write(&self, large: bool, out: &mut Out) {
        let len = self.len(large);
        out.i32(len + self.payload).i16(if large { 1004 } else { 4 }).i32(self.objlen).u32(0);
        out.i16(i16::try_from(len).unwrap()).i16(self.cycle);
        out.offset(large, self.seek).offset(large, 100);
        self.strings.iter().for_each(|s| {
            out.text(s);
        });
    }
}

/// Writes one basket to the file and returns its position.
fn write_basket(style: Style, out: &mut Out, branch: &Branch, basket: &Basket) -> (usize, usize) {
    let seek = out.0.len();
    let strings = ["TBasket", branch.name, "T"];
    let mut key = Key { strings, more: BASKET_HEADER, objlen: 0, payload: 0, cycle: 0, seek };
    let len = key.len(style.large);
    let mut plain = Out(basket.data.clone());
    if let Some(table) = &basket.table {
        plain.i32(table.len() + 1);
        table.iter().for_each(|start| {
            plain.i32(start + len);
        });
        plain.i32(0);
    }
    let packed = pack(style, &plain.0);
    (key.objlen, key.payload) = (plain.0.len(), packed.len());
    key.write(style.large, out);
    out.i16(3).i32(32000).i32(basket.entries + 1).i32(basket.entries);
    out.i32(basket.data.len() + len).put(&[0]).put(&packed);
    (seek, out.0.len() - seek)
}

fn directory_record(style: Style, keys: (usize, usize)) -> Out {
    let mut out = Out::default();
    out.i16(if style.large { 1005 } else { 5 }).put(&[0; 8]).i32(keys.1).i32(0);
    out.offset(style.large, 100).offset(style.large, 0).offset(style.large, keys.0);
    out
}

/// Writes a list of keys and returns its position.
fn write_keys(style: Style, out: &mut Out, keys: &[Key<'_>]) -> (usize, usize) {
    let seek = out.0.len();
    let mut list = Out::default();
    list.i32(keys.len());
    for key in keys {
        key.write(style.large, &mut list);
    }
    let n = list.0.len();
    let head = Key { strings: ["TFile", "f", ""], more: 0, objlen: n, payload: n, cycle: 1, seek };
    head.write(style.large, out);
    out.put(&list.0);
    (seek, out.0.len() - seek)
}

fn all_branches<'a>(branches: &'a [Branch], visit: &mut impl FnMut(&'a Branch)) {
    for branch in branches {
        visit(branch);
        all_branches(&branch.branches, visit);
    }
}

/// Writes a whole file.
#[must_use]
pub fn write(style: Style, trees: &[Tree]) -> Vec<u8> {
    write_with_classes(style, trees, &[])
}

/// Writes a whole file, with class descriptions.
#[must_use]
pub fn write_with_classes(style: Style, trees: &[Tree], classes: &[Class]) -> Vec<u8> {
    let mut out = Out(vec![0; 100]);
    let name = key_len(style.large, ["TFile", "test.root", ""]);
    let record_at = 100 + name;
    out.put(&vec![0; name]);
    out.put(&vec![0; directory_record(style, (0, 0)).0.len()]);
    out.put(&[0xAB; 37]); // a gap
    let described = class_list(key_len(style.large, ["TList", "StreamerInfo", ""]), classes);
    let mut written: Vec<(&str, Key<'_>)> = Vec::new();
    for tree in trees {
        let mut places = Vec::new();
        all_branches(&tree.branches, &mut |branch| {
            let baskets = branch.baskets.iter();
            places.push(baskets.map(|b| write_basket(style, &mut out, branch, b)).collect());
        });
        let (directory, name) = tree.path.rsplit_once('/').unwrap_or(("", tree.path));
        let seek = out.0.len();
        let strings = ["TTree", name, "a tree"];
        let mut key = Key { strings, more: 0, objlen: 0, payload: 0, cycle: tree.cycle, seek };
        let object = tree_object(tree, key.len(style.large), &places);
        let packed = pack(style, &object);
        (key.objlen, key.payload) = (object.len(), packed.len());
        key.write(style.large, &mut out);
        out.put(&packed);
        written.push((directory, key));
    }
    let mut top = Vec::new();
    let mut directories: Vec<(&str, Vec<Key<'_>>)> = Vec::new();
    for (directory, key) in written {
        match directories.iter_mut().find(|(name, _)| *name == directory) {
            _ if directory.is_empty() => top.push(key),
            Some((_, keys)) => keys.push(key),
            None => directories.push((directory, vec![key])),
        }
    }
    for (name, keys) in &directories {
        let place = write_keys(style, &mut out, keys);
        let record = directory_record(style, place).0;
        let seek = out.0.len();
        let n = record.len();
        let strings = ["TDirectory", name, ""];
        let key = Key { strings, more: 0, objlen: n, payload: n, cycle: 1, seek };
        key.write(style.large, &mut out);
        out.put(&record);
        top.push(key);
    }
    let keys = write_keys(style, &mut out, &top);
    let record = directory_record(style, keys).0;
    out.0[record_at..record_at + record.len()].copy_from_slice(&record);
    let seek = out.0.len();
    let n = described.len();
    if !classes.is_empty() {
        let strings = ["TList", "StreamerInfo", ""];
        let payload = pack(style, &described);
        let key = Key { strings, more: 0, objlen: n, payload: payload.len(), cycle: 1, seek };
        key.write(style.large, &mut out);
        out.put(&payload);
    }
    let end = out.0.len();
    let described = if classes.is_empty() { (0, 0) } else { (seek, end - seek) };
    let mut head = Out::default();
    head.put(b"root").i32(if style.large { 1_062_206 } else { 62_206 }).i32(100);
    head.offset(style.large, end).offset(style.large, 0).i32(0).i32(0).i32(name);
    head.put(&[if style.large { 8 } else { 4 }])
        .i32(101)
        .offset(style.large, described.0)
        .i32(described.1);
    head.i16(1).put(b"0123456789abcdef");
    out.0[..head.0.len()].copy_from_slice(&head.0);
    out.0
}
