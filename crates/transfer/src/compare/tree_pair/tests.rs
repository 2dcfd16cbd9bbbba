use super::*;
use crate::compare::tree_pair::alike::SPELLED;
use crate::copy::tests::memory::{Behaviour, MemoryServer};
use crate::filter::FilterOptions;

/// The names in the trees `from` of `source` and `to` of `target`, with what was found, by path.
async fn found(source: &MemoryServer, target: &MemoryServer, filter: &Filter) -> Vec<String> {
    let pair = TreePair::open(source.path("from"), target.path("to")).await.unwrap();
    let (sender, mut receiver) = mpsc::channel(100);
    pair.walk(filter, sender).await;
    let mut found = Vec::new();
    while let Some(name) = receiver.recv().await {
        let what = match name.what {
            Found::Both(..) => "both".to_owned(),
            Found::File(side, _) => format!("file {side:?}"),
            Found::Directory(side) => format!("directory {side:?}"),
            Found::Conflict(error) => format!("conflict: {error}"),
            Found::Kept => "kept".to_owned(),
            Found::LeftOut(why) => format!("left out: {why}"),
            Found::Unknown(error) => format!("unknown: {:?}", error.kind()),
            Found::Hidden(why) => format!("hidden: {why}"),
        };
        found.push(format!("{} {what}", name.path));
    }
    found.sort_unstable();
    found
}

fn server(behaviour: Behaviour, files: &[&str]) -> MemoryServer {
    let files: Vec<_> = files.iter().map(|path| (*path, &b"content"[..])).collect();
    MemoryServer::new(behaviour, &files)
}

#[tokio::test]
async fn each_name_is_found_once_by_its_kind_in_both_trees() {
    let source = server(Behaviour::default(), &["from/a", "from/both/b", "from/c", "from/new/n"]);
    let target = server(Behaviour::default(), &["to/a", "to/both/x", "to/c/d", "to/old/o"]);
    let conflict = "c is a file in the source and a directory at the destination";
    assert_eq!(
        found(&source, &target, &Filter::default()).await,
        [
            "a both".to_owned(),
            "both/b file Source".to_owned(),
            "both/x file Target".to_owned(),
            format!("c conflict: {conflict}: remove one of them"),
            "new directory Source".to_owned(),
            "new/n file Source".to_owned(),
            "old directory Target".to_owned(),
            "old/o file Target".to_owned(),
        ]
    );
    // A directory is listed where it is.
    let sorted = |mut requests: Vec<String>| {
        requests.sort_unstable();
        requests
    };
    let expected = ["list from", "list from/both", "list from/new", "stat from"];
    assert_eq!(sorted(source.requests()), expected);
    let expected = ["list to", "list to/both", "list to/old", "stat to"];
    assert_eq!(sorted(target.requests()), expected);
}

#[tokio::test]
async fn an_excluded_name_is_kept_in_a_directory_that_only_the_target_has() {
    let source = server(Behaviour::default(), &["from/a.log", "from/b"]);
    let target = server(Behaviour::default(), &["to/b.log", "to/old/o", "to/old/o.log"]);
    let rules = FilterOptions { exclude: vec!["*.log".to_owned()], ..FilterOptions::default() };
    let filter = Filter::new(&rules).unwrap();
    let expected = ["b file Source", "old directory Target", "old/o file Target", "old/o.log kept"];
    assert_eq!(found(&source, &target, &filter).await, expected);
}

#[tokio::test]
async fn a_directory_that_cannot_be_listed_shows_no_name_of_the_other_tree() {
    let source = server(Behaviour::default(), &["from/d/a", "from/e"]);
    let target = server(Behaviour::default(), &["to/d/b", "to/e"]);
    source.fail("list from/d", ErrorKind::Unavailable);
    let found = found(&source, &target, &Filter::default()).await;
    assert_eq!(found, ["d unknown: Unavailable", "e both"]);
}

#[tokio::test]
async fn a_name_that_the_target_lists_in_another_case_is_its_file_of_that_name() {
    let source = server(Behaviour::default(), &["from/A"]);
    for (ignores_case, expected) in [
        (false, ["A file Source".to_owned(), "a file Target".to_owned()]),
        (true, ["A both".to_owned(), format!("a left out: {SPELLED}")]),
    ] {
        let target = server(Behaviour { ignores_case, ..Behaviour::default() }, &["to/a"]);
        assert_eq!(found(&source, &target, &Filter::default()).await, expected);
    }
}

#[tokio::test]
async fn trees_are_two_separate_directories() {
    let server = server(Behaviour::default(), &["tree/d/f", "tree2/f"]);
    for (source, target, expected) in [
        ("tree", "tree", Some(ErrorKind::Invalid)),
        ("tree", "tree/d", Some(ErrorKind::Invalid)),
        ("tree/d", "tree", Some(ErrorKind::Invalid)),
        ("tree/d/f", "tree2", Some(ErrorKind::Invalid)),
        ("tree", "tree2/f", Some(ErrorKind::Invalid)),
        ("none", "tree", Some(ErrorKind::NotFound)),
        ("tree", "tree2", None),
    ] {
        let pair = TreePair::open(server.path(source), server.path(target)).await;
        assert_eq!(pair.err().map(|error| error.kind()), expected, "{source} {target}");
    }
    let pair = TreePair::open(server.path("tree"), server.path("none")).await.unwrap();
    assert!(!pair.has_target);
}
