//! `hither tree`: what is in a file.

use super::{human, print};
use crate::exit::Failure;
use hither::{Client, Target, TreeListing};
use serde_json::json;
use std::fmt::Write;

pub(super) fn run(client: &Client, target: &str, json: bool) -> Result<(), Failure> {
    let target = Target::parse(target);
    let trees = client.list_trees(&target.url, target.tree.as_deref())?;
    if json {
        let object = json!({ "url": target.shown(), "trees": trees });
        print(&format!("{object}\n"))?;
        return Ok(());
    }
    let mut text = String::new();
    if trees.is_empty() {
        text.push_str("no trees in this file\n");
    }
    for tree in &trees {
        describe(tree, &mut text);
    }
    Ok(print(&text)?)
}

fn describe(tree: &TreeListing, text: &mut String) {
    let compressed: u64 = tree.branches.iter().map(|branch| branch.compressed_bytes).sum();
    let width =
        tree.branches.iter().map(|b| b.name.chars().count()).max().unwrap_or(0).clamp(6, 48);
    let types =
        tree.branches.iter().map(|b| b.type_name.chars().count()).max().unwrap_or(0).clamp(4, 40);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{}: {} entries, {} branches, {}",
        tree.path,
        tree.entries,
        tree.branches.len(),
        human(compressed)
    );
    if !tree.title.is_empty() && tree.title != tree.path {
        let _ = writeln!(text, "  {}", tree.title);
    }
    let _ = writeln!(
        text,
        "  {:width$}  {:types$}  {:>8}  {:>11}  {:>11}",
        "branch", "type", "baskets", "stored", "unpacked"
    );
    for branch in &tree.branches {
        let _ = writeln!(
            text,
            "  {:width$}  {:types$}  {:>8}  {:>11}  {:>11}{}",
            branch.name,
            branch.type_name,
            branch.baskets,
            human(branch.compressed_bytes),
            human(branch.uncompressed_bytes),
            if branch.unsupported.is_some() { "  cannot be read yet" } else { "" }
        );
    }
}
