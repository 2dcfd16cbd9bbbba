//! Names of branches with characters that mean something else in expressions.

use crate::support::rig::client;
use hither::{ArraysRequest, DrawRequest, ScanProgress};
use hither_formats::Values;
use hither_testkit::root_writer::samples::floats;
use hither_testkit::root_writer::{Branch, Style, Tree, write};

/// Each name, and the value of the branch in its only entry.
const NAMES: [(&str, f32); 7] = [
    ("a", 1.0),
    ("b", 2.0),
    ("a/b", 3.0),
    ("a:b", 4.0),
    ("track.", 5.0),
    ("a-b", 6.0),
    ("group./x.", 7.0),
];

fn file() -> Vec<u8> {
    let branch = |name, value| Branch { name, ..floats("E", &[&[value]], false) };
    let mut branches: Vec<_> =
        NAMES.iter().filter(|it| it.1 < 7.0).map(|&(name, value)| branch(name, value)).collect();
    let inner = vec![branch("x.", 7.0)];
    branches.push(Branch { name: "group.", branches: inner, ..Branch::default() });
    write(Style::default(), &[Tree { path: "T", cycle: 1, branches }])
}

#[test]
fn a_branch_is_read_by_its_name_before_the_name_is_an_expression() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names.root");
    std::fs::write(&path, file()).unwrap();
    let client = client(1, None);
    let tree = client.open_tree(path.to_str().unwrap(), Some("T")).unwrap();
    let progress = ScanProgress::default();
    let columns: Vec<_> = NAMES.iter().map(|(name, _)| (*name).to_owned()).collect();
    for cut in NAMES.map(|(name, _)| name) {
        let mut request = ArraysRequest::new(columns.clone());
        request.cut = Some(cut.to_owned());
        let read = client.block_on(tree.arrays(&request, &progress)).unwrap();
        let values: Vec<_> = read.columns.into_iter().map(|column| column.values).collect();
        assert_eq!(values, NAMES.map(|(_, value)| Values::F32(vec![value])), "cut {cut}");
    }
    for (name, value) in NAMES {
        let drawing =
            client.draw_tree(&tree, &DrawRequest::new(name, Some(name)), &progress).unwrap();
        assert_eq!(drawing.histogram.mean, f64::from(value), "{name}");
    }
    let computed = ArraysRequest::new(vec!["b/a".to_owned(), "`a/b`*2".to_owned()]);
    let read = client.block_on(tree.arrays(&computed, &progress)).unwrap();
    let values: Vec<_> = read.columns.into_iter().map(|column| column.values).collect();
    assert_eq!(values, [Values::F64(vec![2.0]), Values::F64(vec![6.0])]);
}
