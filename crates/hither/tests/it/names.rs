//! Names of branches with characters that mean something else in expressions.

use crate::support::rig::client;
use hither::{ArraysRequest, DrawRequest, ScanProgress, TreeUrl};
use hither_formats::Values;
use hither_testkit::root_writer::samples::{classes, floats, jagged, objects};
use hither_testkit::root_writer::{Branch, Style, Tree, write, write_with_classes};

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
        let target = TreeUrl { url: path.to_str().unwrap().to_owned(), tree: Some("T".to_owned()) };
        let request = DrawRequest::new(name, Some(name));
        let drawing = client.draw(&target, &request, &progress).unwrap();
        assert_eq!(drawing.histogram.mean, f64::from(value), "{name}");
    }
    let computed = ArraysRequest::new(vec!["b/a".to_owned(), "`a/b`*2".to_owned()]);
    let read = client.block_on(tree.arrays(&computed, &progress)).unwrap();
    let values: Vec<_> = read.columns.into_iter().map(|column| column.values).collect();
    assert_eq!(values, [Values::F64(vec![2.0]), Values::F64(vec![6.0])]);
}

#[test]
fn the_size_of_a_collection_is_its_number_of_items() {
    let [n, x] = jagged(&[2, 0, 3], 2, 2, false);
    let plain = write(Style::default(), &[Tree { path: "T", cycle: 1, branches: vec![n, x] }]);
    let split = write_with_classes(Style::default(), &[objects("T")], &classes());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sizes.root");
    let client = client(1, None);
    let values = |column: &str, cut: Option<&str>| {
        let mut request = ArraysRequest::new(vec![column.to_owned()]);
        request.cut = cut.map(str::to_owned);
        let tree = client.open_tree(path.to_str().unwrap(), Some("T")).unwrap();
        let read = client.block_on(tree.arrays(&request, &ScanProgress::default()));
        read.map(|it| it.columns[0].values.clone()).map_err(|error| error.to_string())
    };
    std::fs::write(&path, plain).unwrap();
    assert_eq!(values("@x.size()", None), Ok(Values::F64(vec![2.0, 0.0, 3.0])));
    assert_eq!(values("@x.size()*n", Some("@x.size()>2")), Ok(Values::F64(vec![9.0])));
    assert!(values("@n.size()", None).unwrap_err().contains("`n` is not a collection"));
    assert!(values("@x.size()[0]", None).unwrap_err().contains("takes no index"));
    std::fs::write(&path, split).unwrap();
    for name in ["v", "vv", "vs", "hits", "map"] {
        let first = if name == "vv" { 3.0 } else { 2.0 };
        let size = values(&format!("@{name}.size()"), None);
        assert_eq!(size, Ok(Values::F64(vec![first, 0.0])), "{name}");
    }
    assert_eq!(values("@split.size()", None), Ok(Values::I32(vec![2, 0])));
}
