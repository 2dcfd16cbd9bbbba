//! Sample trees.

use super::{Basket, Branch, Class, Element, Leaf, Member, Tree};

/// A leaf of single floats.
pub const FLOATS: Leaf =
    Leaf { class: "TLeafF", name: "x", title: "x", len: 1, unsigned: false, counter: None };

/// The bytes of the values in a file.
#[must_use]
pub fn big_endian_f32(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

/// The bytes of the values in a file.
#[must_use]
pub fn big_endian_i32(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

/// A branch of single floats, with a basket per slice; the last basket is embedded if `embedded`.
#[must_use]
pub fn floats(name: &'static str, baskets: &[&[f32]], embedded: bool) -> Branch {
    let mut baskets: Vec<Basket> = baskets
        .iter()
        .map(|values| Basket { entries: values.len(), data: big_endian_f32(values), table: None })
        .collect();
    let embedded = if embedded { baskets.pop() } else { None };
    let leaves = vec![Leaf { name, title: name, ..FLOATS }];
    Branch { name, leaves, baskets, embedded, ..Branch::default() }
}

/// A counter `n` and a jagged branch `x[n][k]/I` with these counts per entry, in baskets of
/// `per_basket` entries.
#[must_use]
pub fn jagged(counts: &[usize], k: usize, per_basket: usize, embedded: bool) -> [Branch; 2] {
    let title = if k == 1 { "x[n]" } else { "x[n][2]" };
    let mut n = Vec::new();
    let mut x = Vec::new();
    let mut next = 0_i32;
    for chunk in counts.chunks(per_basket) {
        let as_i32: Vec<i32> = chunk.iter().map(|&c| i32::try_from(c).unwrap()).collect();
        n.push(Basket { entries: chunk.len(), data: big_endian_i32(&as_i32), table: None });
        let mut data = Vec::new();
        let mut table = Vec::new();
        for &count in chunk {
            table.push(data.len());
            for _ in 0..count * k {
                data.extend(next.to_be_bytes());
                next += 1;
            }
        }
        x.push(Basket { entries: chunk.len(), data, table: Some(table) });
    }
    let mut last_n = None;
    let mut last_x = None;
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

/// A small tree with branches of several kinds.
#[must_use]
pub fn mixed(path: &'static str, cycle: i16) -> Tree {
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

/// `body` with its header: byte count and version.
#[must_use]
pub fn headed(version: u16, body: &[u8]) -> Vec<u8> {
    let count = u32::try_from(body.len() + 2).unwrap() | 0x4000_0000;
    [&count.to_be_bytes()[..], &version.to_be_bytes(), body].concat()
}

/// `body` after a count.
#[must_use]
pub fn counted(n: i32, body: &[u8]) -> Vec<u8> {
    [&n.to_be_bytes()[..], body].concat()
}

/// A branch with an element, in one basket, with the bytes of each entry.
#[must_use]
pub fn element(name: &'static str, element: Element, entries: &[Vec<u8>]) -> Branch {
    let mut table = Vec::new();
    let mut data = Vec::new();
    for entry in entries {
        table.push(data.len());
        data.extend(entry);
    }
    let leaf = Leaf { class: "TLeafElement", name, title: name, len: 1, ..Leaf::default() };
    Branch {
        name,
        leaves: vec![leaf],
        element: Some(element),
        baskets: vec![Basket { entries: entries.len(), data, table: Some(table) }],
        ..Branch::default()
    }
}

/// A branch of a variable with the type `class_name`.
#[must_use]
pub fn variable(name: &'static str, class_name: &'static str, entries: &[Vec<u8>]) -> Branch {
    let id = Element { class_name, class_version: 0, id: -1, kind: 0, code: -1 };
    element(name, id, entries)
}

/// The classes of [`objects`]: `Hit` has a `TObject`, a float, two ints and a vector; `Pad` has a
/// count and an array of that many floats.
#[must_use]
pub fn classes() -> Vec<Class> {
    let member = |name, type_name, code| Member { name, type_name, code, ..Member::default() };
    let hit = vec![
        member("TObject", "BASE", 66),
        member("fE", "float", 5),
        Member { length: 2, ..member("fCell", "int", 23) },
        member("fTimes", "vector<double>", 500),
    ];
    let pad = vec![
        member("fN", "int", 6),
        Member { count: "fN", ..member("fQ", "float*", 45) },
        Member { title: "[0,10,8] charge", ..member("fSum", "Double32_t", 9) },
    ];
    vec![
        Class { name: "Hit", version: 2, checksum: 77, members: hit },
        Class { name: "Pad", version: 1, checksum: 78, members: pad },
    ]
}

/// The bytes of a `Hit`.
#[must_use]
pub fn hit(energy: f32, cell: [i32; 2], times: &[f64]) -> Vec<u8> {
    let n = i32::try_from(times.len()).unwrap();
    let times: Vec<u8> = times.iter().flat_map(|time| time.to_be_bytes()).collect();
    let object = [&1_i16.to_be_bytes()[..], &5_u32.to_be_bytes(), &0x0300_0000_u32.to_be_bytes()];
    let body = [
        &object.concat()[..],
        &energy.to_be_bytes(),
        &big_endian_i32(&cell),
        &headed(9, &counted(n, &times)),
    ];
    headed(2, &body.concat())
}

/// A tree of two entries with vectors, strings, objects and a split collection; readers need
/// [`classes`].
#[must_use]
pub fn objects(path: &'static str) -> Tree {
    let floats = |values: &[f32]| {
        headed(9, &counted(i32::try_from(values.len()).unwrap(), &big_endian_f32(values)))
    };
    let inner =
        [counted(1, &big_endian_i32(&[7])), counted(0, &[]), counted(2, &big_endian_i32(&[8, 9]))];
    let hits = [hit(0.5, [1, 2], &[1.0, 2.0]), hit(1.5, [3, 4], &[])];
    let pad = |n: i32, values: &[f32], sum: u32| {
        let marker = u8::from(n > 0);
        let body = [&n.to_be_bytes()[..], &[marker], &big_endian_f32(values), &sum.to_be_bytes()];
        headed(1, &body.concat())
    };
    let text = Leaf { class: "TLeafC", name: "name", title: "name/C", len: 1, ..Leaf::default() };
    let name = Branch {
        name: "name",
        leaves: vec![text],
        baskets: vec![Basket { entries: 2, data: b"\x02ab\x00".to_vec(), table: Some(vec![0, 3]) }],
        ..Branch::default()
    };
    // An empty string without its length byte.
    let bare = Branch {
        name: "bare",
        baskets: vec![Basket { entries: 2, data: b"\x02ab".to_vec(), table: Some(vec![0, 3]) }],
        ..name.clone()
    };
    let member = |id, kind, code| Element { class_name: "Hit", class_version: 2, id, kind, code };
    let count = |n: i32| n.to_be_bytes().to_vec();
    let collection = Branch {
        branches: vec![
            element("split.fE", member(1, 41, 5), &[big_endian_f32(&[0.25, 0.75]), Vec::new()]),
            element(
                "split.fTimes",
                member(3, 41, 500),
                &[
                    headed(9, &[counted(1, &2.5_f64.to_be_bytes()), counted(0, &[])].concat()),
                    Vec::new(),
                ],
            ),
        ],
        ..element(
            "split",
            Element { class_name: "vector<Hit>", class_version: 0, id: -1, kind: 4, code: -1 },
            &[count(2), count(0)],
        )
    };
    // Memberwise: without a version of its own, so with a checksum; then all keys, then all values.
    let map = [
        &[0_u8, 0, 0, 0, 0, 1][..],
        &2_i32.to_be_bytes(),
        &headed(9, b"\x01a\x02bc"),
        &1.5_f64.to_be_bytes(),
        &2.5_f64.to_be_bytes(),
    ];
    let branches = vec![
        variable("v", "vector<float>", &[floats(&[1.0, 2.0]), floats(&[])]),
        variable(
            "vv",
            "vector<vector<int> >",
            &[headed(9, &counted(3, &inner.concat())), headed(9, &counted(0, &[]))],
        ),
        variable("s", "string", &[b"\x03one".to_vec(), b"\x00".to_vec()]),
        variable(
            "vs",
            "vector<string>",
            &[headed(9, &counted(2, b"\x01x\x02yz")), headed(9, &counted(0, &[]))],
        ),
        variable(
            "hits",
            "vector<Hit>",
            &[headed(9, &counted(2, &hits.concat())), headed(9, &counted(0, &[]))],
        ),
        variable("pad", "Pad", &[pad(2, &[0.5, 1.5], 128), pad(0, &[], 0)]),
        variable(
            "map",
            "map<string,double>",
            &[headed(9 | 1 << 14, &map.concat()), headed(9, &counted(0, &[]))],
        ),
        name,
        bare,
        collection,
    ];
    Tree { path, cycle: 1, branches }
}
