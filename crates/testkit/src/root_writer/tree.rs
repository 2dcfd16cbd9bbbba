//! The serialised object of a tree.

use super::file::{BASKET_HEADER, Key};
use super::write_buffer::{Named, Out};
use super::{Basket, Branch, Element, Leaf, Tree};
use std::collections::HashMap;

/// A writer of the object of a tree.
struct TreeWriter<'a> {
    out: Out,
    named: Named,
    leaves: HashMap<&'static str, usize>,
    /// The positions of each branch's baskets, in the order in which branches are written.
    places: std::slice::Iter<'a, Vec<(usize, usize)>>,
}

impl TreeWriter<'_> {
    /// A pointer to a new object of `class`.
    fn pointer(&mut self, class: &'static str, body: impl FnOnce(&mut Self)) -> usize {
        let start = self.named.begin(&mut self.out, class);
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

    fn leaf(&mut self, element: Option<Element>, leaf: &Leaf) {
        let counter = leaf.counter.map_or(0, |name| self.leaves[name] + self.named.origin + 2);
        let class = if element.is_some() { "TLeafElement" } else { leaf.class };
        let at = self.pointer(class, |writer| {
            writer.out.object(1, |out| {
                out.object(2, |out| {
                    out.named(leaf.name, leaf.title);
                    out.i32(usize::try_from(leaf.len).unwrap()).i32(4).i32(0).put(&[0]);
                    out.put(&[u8::from(leaf.unsigned)]).u32(u32::try_from(counter).unwrap());
                });
                match element {
                    Some(element) => out.signed(element.id).signed(element.code),
                    None => out.put(&[0; 16]),
                };
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
        let Some(element) = branch.element else {
            self.pointer("TBranch", |writer| writer.plain_branch(branch));
            return;
        };
        self.pointer("TBranchElement", |writer| {
            let start = writer.out.0.len();
            writer.out.u32(0).i16(10);
            writer.plain_branch(branch);
            writer.out.text(element.class_name).text("").text("").u32(0);
            writer.out.i16(element.class_version).signed(element.id).signed(element.kind);
            writer.out.signed(element.code).i32(0).u32(0).u32(0).close(start);
        });
    }

    /// Writes a `TBranch`, including its byte count.
    fn plain_branch(&mut self, branch: &Branch) {
        let places = self.places.next().unwrap();
        let slots = branch.baskets.len() + 2;
        {
            let writer = self;
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
            writer.array(&branch.leaves, |writer, leaf| writer.leaf(branch.element, leaf));
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
        }
    }
}

/// The object of a tree with baskets at these positions.
pub(super) fn tree_object(tree: &Tree, origin: usize, places: &[Vec<(usize, usize)>]) -> Vec<u8> {
    let name = tree.path.rsplit('/').next().unwrap();
    let entries = tree.branches.first().map_or(0, Branch::entries);
    let mut writer = TreeWriter {
        out: Out::default(),
        named: Named::new(origin),
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
