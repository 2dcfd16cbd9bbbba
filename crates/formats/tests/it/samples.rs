//! Trees to write.

use crate::writer::{Basket, Branch, Leaf, Tree};

pub(crate) const FLOATS: Leaf =
    Leaf { class: "TLeafF", name: "x", title: "x", len: 1, unsigned: false, counter: None };

pub(crate) fn big_endian_f32(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

pub(crate) fn big_endian_i32(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

/// A branch of single floats, a basket per slice; the last one embedded if `embedded`.
pub(crate) fn floats(name: &'static str, baskets: &[&[f32]], embedded: bool) -> Branch {
    let mut baskets: Vec<Basket> = baskets
        .iter()
        .map(|values| Basket { entries: values.len(), data: big_endian_f32(values), table: None })
        .collect();
    let embedded = if embedded { baskets.pop() } else { None };
    let leaves = vec![Leaf { name, title: name, ..FLOATS }];
    Branch { name, leaves, baskets, embedded, branches: Vec::new() }
}

/// A counter `n` and a jagged branch `x[n][k]/I` with these counts per entry, in baskets of `per_basket` entries.
pub(crate) fn jagged(counts: &[usize], k: usize, per_basket: usize, embedded: bool) -> [Branch; 2] {
    let title = if k == 1 { "x[n]" } else { "x[n][2]" };
    let (mut n, mut x) = (Vec::new(), Vec::new());
    let mut next = 0_i32;
    for chunk in counts.chunks(per_basket) {
        let as_i32: Vec<i32> = chunk.iter().map(|&c| i32::try_from(c).unwrap()).collect();
        n.push(Basket { entries: chunk.len(), data: big_endian_i32(&as_i32), table: None });
        let (mut data, mut table) = (Vec::new(), Vec::new());
        for &count in chunk {
            table.push(data.len());
            for _ in 0..count * k {
                data.extend(next.to_be_bytes());
                next += 1;
            }
        }
        x.push(Basket { entries: chunk.len(), data, table: Some(table) });
    }
    let (mut last_n, mut last_x) = (None, None);
    if embedded {
        (last_n, last_x) = (n.pop(), x.pop());
    }
    let count = Leaf { class: "TLeafI", name: "n", title: "n", len: 1, ..Leaf::default() };
    let len = i32::try_from(k).unwrap();
    let values = Leaf { class: "TLeafI", name: "x", title, len, counter: Some("n"), ..count };
    [
        Branch {
            name: "n",
            leaves: vec![count],
            baskets: n,
            embedded: last_n,
            ..Branch::default()
        },
        Branch {
            name: "x",
            leaves: vec![values],
            baskets: x,
            embedded: last_x,
            ..Branch::default()
        },
    ]
}

/// A small tree with a bit of everything.
pub(crate) fn mixed(path: &'static str, cycle: i16) -> Tree {
    let mut branches = vec![floats("E", &[&[1.0, 2.0], &[3.0]], false)];
    branches.extend(jagged(&[2, 0, 1], 1, 2, true));
    let pair = Branch {
        name: "pair",
        leaves: vec![
            Leaf { class: "TLeafS", name: "a", title: "a", len: 1, ..Leaf::default() },
            Leaf { class: "TLeafF", name: "b", title: "b[2]", len: 2, ..Leaf::default() },
        ],
        baskets: vec![Basket {
            entries: 3,
            data: (0..3_u8)
                .flat_map(|i| {
                    let b = f32::from(i);
                    [vec![0, i], big_endian_f32(&[b, b + 0.5])].concat()
                })
                .collect(),
            table: None,
        }],
        ..Branch::default()
    };
    branches.push(pair);
    let text = Leaf { class: "TLeafC", name: "s", title: "s", len: 1, ..Leaf::default() };
    branches.push(Branch { name: "s", leaves: vec![text], ..Branch::default() });
    branches.push(Branch {
        name: "group",
        branches: vec![floats("E", &[&[7.0; 3]], false)],
        ..Branch::default()
    });
    Tree { path, cycle, branches }
}
