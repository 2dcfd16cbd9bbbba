//! A minimal writer of ROOT files, for tests: trees of plain branches, in the layouts of TTree 20 and TBranch 13.

use std::collections::HashMap;

/// Bytes of a basket's header behind its key's strings.
const BASKET_HEADER: usize = 2 + 4 * 4 + 1;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Leaf {
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) len: i32,
    pub(crate) unsigned: bool,
    pub(crate) counter: Option<&'static str>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Basket {
    pub(crate) entries: usize,
    /// Big-endian values.
    pub(crate) data: Vec<u8>,
    /// Where each entry begins in the data, for columns of variable length.
    pub(crate) table: Option<Vec<usize>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Branch {
    pub(crate) name: &'static str,
    pub(crate) leaves: Vec<Leaf>,
    pub(crate) baskets: Vec<Basket>,
    /// The last basket, inside the tree.
    pub(crate) embedded: Option<Basket>,
    /// Branches below.
    pub(crate) branches: Vec<Self>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    /// `T`, or `dir/T`.
    pub(crate) path: &'static str,
    pub(crate) cycle: i16,
    pub(crate) branches: Vec<Branch>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    /// 64-bit offsets everywhere.
    pub(crate) large: bool,
    /// `ZL`, `XZ`, `L4`, `ZS` or `CS`; none for uncompressed payloads.
    pub(crate) codec: Option<[u8; 2]>,
    /// Bytes of plain payload per compressed block.
    pub(crate) block: Option<usize>,
}

impl Branch {
    pub(crate) fn entries(&self) -> usize {
        self.baskets.iter().chain(&self.embedded).map(|basket| basket.entries).sum()
    }
}

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
    fn i16(&mut self, value: i16) -> &mut Self {
        self.put(&value.to_be_bytes())
    }
    fn i32(&mut self, value: usize) -> &mut Self {
        self.put(&i32::try_from(value).unwrap().to_be_bytes())
    }
    fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_be_bytes())
    }
    fn i64(&mut self, value: usize) -> &mut Self {
        self.put(&i64::try_from(value).unwrap().to_be_bytes())
    }
    fn offset(&mut self, large: bool, value: usize) -> &mut Self {
        if large { self.i64(value) } else { self.i32(value) }
    }
    fn text(&mut self, text: &str) -> &mut Self {
        if text.len() < 255 {
            self.put(&[u8::try_from(text.len()).unwrap()]);
        } else {
            self.put(&[255]).i32(text.len());
        }
        self.put(text.as_bytes())
    }
    /// A byte count, a version, and what `body` writes.
    fn object(&mut self, version: i16, body: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.0.len();
        self.u32(0).i16(version);
        body(self);
        self.close(start)
    }
    fn close(&mut self, start: usize) -> &mut Self {
        let count = u32::try_from(self.0.len() - start - 4).unwrap() | 0x4000_0000;
        self.0[start..start + 4].copy_from_slice(&count.to_be_bytes());
        self
    }
    fn t_object(&mut self) -> &mut Self {
        self.i16(1).u32(0).u32(0x0300_0000)
    }
    fn named(&mut self, name: &str, title: &str) -> &mut Self {
        self.object(1, |out| {
            out.t_object().text(name).text(title);
        })
    }
}

fn key_len(large: bool, strings: [&str; 3]) -> usize {
    let fixed = if large { 34 } else { 26 };
    fixed + strings.iter().map(|s| s.len() + 1).sum::<usize>()
}

struct Key<'a> {
    strings: [&'a str; 3],
    /// Bytes of the key beyond its strings.
    more: usize,
    objlen: usize,
    payload: usize,
    cycle: i16,
    seek: usize,
}

impl Key<'_> {
    fn len(&self, large: bool) -> usize {
        key_len(large, self.strings) + self.more
    }
    fn write(&self, large: bool, out: &mut Out) {
        let len = self.len(large);
        out.i32(len + self.payload).i16(if large { 1004 } else { 4 }).i32(self.objlen).u32(0);
        out.i16(i16::try_from(len).unwrap()).i16(self.cycle);
        out.offset(large, self.seek).offset(large, 100);
        self.strings.iter().for_each(|s| {
            out.text(s);
        });
    }
}

pub(crate) fn pack(style: Style, plain: &[u8]) -> Vec<u8> {
    let Some(codec) = style.codec else { return plain.to_vec() };
    let mut packed = Vec::new();
    for piece in plain.chunks(style.block.unwrap_or(0xff_ffff)) {
        let body = match &codec {
            b"ZL" | b"CS" => {
                let level = libdeflater::CompressionLvl::fastest();
                let mut packer = libdeflater::Compressor::new(level);
                let mut out = vec![0; packer.zlib_compress_bound(piece.len())];
                let n = if &codec == b"ZL" {
                    packer.zlib_compress(piece, &mut out).unwrap()
                } else {
                    packer.deflate_compress(piece, &mut out).unwrap()
                };
                out.truncate(n);
                out
            }
            b"XZ" => liblzma::encode_all(piece, 1).unwrap(),
            b"L4" => {
                let body = lz4_flex::block::compress(piece);
                [&xxhash_rust::xxh64::xxh64(&body, 0).to_be_bytes()[..], &body].concat()
            }
            _ => zstd::bulk::compress(piece, 1).unwrap(),
        };
        packed.extend(codec);
        packed.push(8);
        packed.extend(&body.len().to_le_bytes()[..3]);
        packed.extend(&piece.len().to_le_bytes()[..3]);
        packed.extend(body);
    }
    // The format tells compressed from plain by the size.
    if packed.len() < plain.len() { packed } else { plain.to_vec() }
}

/// Writes one basket to the file and says where it is.
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

/// Writes a tree's object.
struct TreeWriter<'a> {
    out: Out,
    /// Bytes of the key before the object: positions count from there.
    origin: usize,
    classes: HashMap<&'static str, usize>,
    leaves: HashMap<&'static str, usize>,
    /// Where the baskets of each branch are, in the order of writing.
    places: std::slice::Iter<'a, Vec<(usize, usize)>>,
}

impl TreeWriter<'_> {
    /// A pointer to a new object of `class`.
    fn pointer(&mut self, class: &'static str, body: impl FnOnce(&mut Self)) -> usize {
        let start = self.out.0.len();
        self.out.u32(0);
        match self.classes.get(class) {
            Some(at) => {
                let tag = u32::try_from(at + self.origin + 2).unwrap() | 0x8000_0000;
                self.out.u32(tag);
            }
            None => {
                self.classes.insert(class, self.out.0.len());
                self.out.u32(0xffff_ffff).put(class.as_bytes()).put(&[0]);
            }
        }
        body(self);
        self.out.close(start);
        start
    }

    fn array<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        let start = self.out.0.len();
        self.out.u32(0).i16(3).t_object().text("").i32(items.len()).i32(0);
        for item in items {
            each(self, item);
        }
        self.out.close(start);
    }

    fn leaf(&mut self, leaf: &Leaf) {
        let counter = leaf.counter.map_or(0, |name| self.leaves[name] + self.origin + 2);
        let at = self.pointer(leaf.class, |writer| {
            writer.out.object(1, |out| {
                out.object(2, |out| {
                    out.named(leaf.name, leaf.title);
                    out.i32(usize::try_from(leaf.len).unwrap()).i32(4).i32(0).put(&[0]);
                    out.put(&[u8::from(leaf.unsigned)]).u32(u32::try_from(counter).unwrap());
                });
                out.put(&[0; 16]);
            });
        });
        self.leaves.insert(leaf.name, at);
    }

    fn embedded(&mut self, branch: &Branch, basket: &Basket) {
        self.pointer("TBasket", |writer| {
            let strings = ["TBasket", branch.name, "T"];
            let key =
                Key { strings, more: BASKET_HEADER, objlen: 0, payload: 0, cycle: 0, seek: 0 };
            let len = key.len(false);
            let out = &mut writer.out;
            key.write(false, out);
            out.i16(3).i32(32000).i32(1000).i32(basket.entries).i32(basket.data.len() + len);
            match &basket.table {
                Some(table) => {
                    out.put(&[11]).i32(table.len());
                    table.iter().for_each(|start| {
                        out.i32(start + len);
                    });
                }
                None => {
                    out.put(&[12]);
                }
            }
            out.put(&vec![0xEE; len]).put(&basket.data);
        });
    }

    fn branch(&mut self, branch: &Branch) {
        let places = self.places.next().unwrap();
        let slots = branch.baskets.len() + 2;
        self.pointer("TBranch", |writer| {
            let start = writer.out.0.len();
            writer
                .out
                .u32(0)
                .i16(13)
                .named(branch.name, branch.leaves.first().map_or("", |l| l.title));
            writer.out.object(2, |out| {
                out.i16(0).i16(1001);
            });
            let table = branch.leaves.iter().any(|leaf| leaf.counter.is_some());
            writer.out.i32(101).i32(32000).i32(if table { 1000 } else { 0 });
            writer.out.i32(branch.baskets.len()).i64(branch.entries());
            writer.out.object(0, |out| {
                out.put(&[0; 5]);
            });
            writer.out.i32(0).i32(slots).i32(0).i64(branch.entries()).i64(0).i64(1).i64(1);
            writer.array(&branch.branches, Self::branch);
            writer.array(&branch.leaves, Self::leaf);
            let held = branch.baskets.len() + usize::from(branch.embedded.is_some());
            writer.array(&(0..held).collect::<Vec<_>>(), |writer, &index| match &branch.embedded {
                Some(basket) if index == branch.baskets.len() => writer.embedded(branch, basket),
                _ => {
                    writer.out.u32(0);
                }
            });
            let out = &mut writer.out;
            out.put(&[1]);
            (0..slots).for_each(|i| {
                out.i32(places.get(i).map_or(0, |place| place.1));
            });
            out.put(&[1]);
            let mut first = 0;
            for i in 0..slots {
                out.i64(first);
                first += branch.baskets.get(i).map_or(0, |basket| basket.entries);
            }
            out.put(&[1]);
            (0..slots).for_each(|i| {
                out.i64(places.get(i).map_or(0, |place| place.0));
            });
            out.text("").close(start);
        });
    }
}

fn tree_object(tree: &Tree, origin: usize, places: &[Vec<(usize, usize)>]) -> Vec<u8> {
    let name = tree.path.rsplit('/').next().unwrap();
    let entries = tree.branches.first().map_or(0, Branch::entries);
    let mut writer = TreeWriter {
        out: Out::default(),
        origin,
        classes: HashMap::new(),
        leaves: HashMap::new(),
        places: places.iter(),
    };
    writer.out.u32(0).i16(20).named(name, "a tree");
    for version in [2, 2, 2] {
        writer.out.object(version, |out| {
            out.put(&[0; 6]);
        });
    }
    writer.out.i64(entries).i64(0).i64(0).i64(0).i64(0).put(&[0; 8]);
    writer.out.i32(0).i32(25).i32(0).i32(1000).i32(0);
    for _ in 0..6 {
        writer.out.i64(0);
    }
    writer.out.put(&[0, 0]);
    writer.out.object(0, |out| {
        out.put(&[0; 5]);
    });
    writer.array(&tree.branches, TreeWriter::branch);
    writer.out.close(0);
    writer.out.0
}

fn directory_record(style: Style, keys: (usize, usize)) -> Out {
    let mut out = Out::default();
    out.i16(if style.large { 1005 } else { 5 }).put(&[0; 8]).i32(keys.1).i32(0);
    out.offset(style.large, 100).offset(style.large, 0).offset(style.large, keys.0);
    out
}

/// Writes a list of keys and says where it is.
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

/// A whole file.
pub(crate) fn write(style: Style, trees: &[Tree]) -> Vec<u8> {
    let mut out = Out(vec![0; 100]);
    let name = key_len(style.large, ["TFile", "test.root", ""]);
    let record_at = 100 + name;
    out.put(&vec![0; name]);
    out.put(&vec![0; directory_record(style, (0, 0)).0.len()]);
    out.put(&[0xAB; 37]); // a gap
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
        let (seek, n) = (out.0.len(), record.len());
        let strings = ["TDirectory", name, ""];
        let key = Key { strings, more: 0, objlen: n, payload: n, cycle: 1, seek };
        key.write(style.large, &mut out);
        out.put(&record);
        top.push(key);
    }
    let keys = write_keys(style, &mut out, &top);
    let record = directory_record(style, keys).0;
    out.0[record_at..record_at + record.len()].copy_from_slice(&record);
    let end = out.0.len();
    let mut head = Out::default();
    head.put(b"root").i32(if style.large { 1_062_206 } else { 62_206 }).i32(100);
    head.offset(style.large, end).offset(style.large, 0).i32(0).i32(0).i32(name);
    head.put(&[if style.large { 8 } else { 4 }]).i32(101).offset(style.large, 0).i32(0);
    head.i16(1).put(b"0123456789abcdef");
    out.0[..head.0.len()].copy_from_slice(&head.0);
    out.0
}
