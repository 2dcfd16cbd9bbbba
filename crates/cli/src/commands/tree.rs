//! `hither tree`: lists the trees of a file, or the branches that programs read of them.

use crate::arguments::Tree;
use crate::exit::CommandError;
use crate::output::standard_streams::standard_input;
use crate::output::{human_bytes, print, print_notices};
use crate::per_argument::tree_target;
use hither::{
    Client, Error, ErrorKind, FileListing, LearnedExport, LearnedListing, LearnedSet, TreeListing,
    TreeUrl,
};
use hither_core::error::counted;
use hither_core::text::escape_controls;
use serde_json::json;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;

/// Maximum size of an imported export, in bytes.
const MAX_IMPORTED_BYTES: u64 = 16 << 20;

pub(super) fn run(client: &Client, request: &Tree, json: bool) -> Result<(), CommandError> {
    if let Some(path) = &request.import {
        return import(client, path, json);
    }
    let target = tree_target(client, request.target.as_deref().unwrap_or_default())?;
    if request.learned || request.export.is_some() {
        let listings = client
            .learned(&target.url, target.tree.as_deref())
            .map_err(|error| client.block_on(client.explain_read(&target.url, error)))?;
        return match &request.export {
            Some(path) => export(&listings, path),
            None => show(&target, &listings, json),
        };
    }
    let FileListing { trees, ntuples } = client
        .list_trees(&target.url, target.tree.as_deref())
        .map_err(|error| client.block_on(client.explain_read(&target.url, error)))?;
    let read_from_python = |path: &String| format!("RNTuple {path}: read it from Python");
    if trees.is_empty() && !ntuples.is_empty() {
        let ntuples: Vec<_> = ntuples.iter().map(read_from_python).collect();
        let what = format!("{}: no trees in this file; {}", target.shown(), ntuples.join("; "));
        return Err(Error::new(ErrorKind::Unsupported, what).into());
    }
    if json {
        let object = json!({ "url": target.shown(), "trees": trees, "ntuples": ntuples });
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
    for path in &ntuples {
        text.push_str(&escape_controls(&read_from_python(path)));
        text.push('\n');
    }
    Ok(print(&text)?)
}

fn show(target: &TreeUrl, listings: &[LearnedListing], json: bool) -> Result<(), CommandError> {
    if json {
        let object = json!({ "url": target.shown(), "trees": listings });
        return Ok(print(&format!("{object}\n"))?);
    }
    let mut text = String::new();
    for LearnedListing { path, learned } in listings {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{}: {} learned, schema {}",
            escape_controls(path),
            sets_of_branches(&learned.sets),
            learned.schema
        );
        for LearnedSet { steady, now_and_then } in &learned.sets {
            let _ = writeln!(text, "  {}", escape_controls(&steady.join(" ")));
            if !now_and_then.is_empty() {
                let names = now_and_then.join(" ");
                let _ = writeln!(text, "    now and then {}", escape_controls(&names));
            }
        }
    }
    Ok(print(&text)?)
}

fn sets_of_branches(sets: &[LearnedSet]) -> String {
    match sets.len() {
        0 => "nothing".to_owned(),
        1 => "1 set of branches".to_owned(),
        n => format!("{n} sets of branches"),
    }
}

fn export(listings: &[LearnedListing], path: &Path) -> Result<(), CommandError> {
    if listings.iter().all(|listing| listing.learned.sets.is_empty()) {
        let what = "nothing was learned of these trees yet, so the export has no branches: a \
                    program has to read them first, with a store";
        print_notices(&[what.to_owned()]);
    }
    let export = LearnedExport::new(listings);
    let text = serde_json::to_string_pretty(&export)
        .map_err(|error| CommandError::local("cannot write the learned sets", error))?;
    if path == Path::new("-") {
        return Ok(print(&format!("{text}\n"))?);
    }
    std::fs::write(path, format!("{text}\n"))
        .map_err(|error| CommandError::local(format!("cannot write {}", path.display()), error))
}

fn import(client: &Client, path: &Path, json: bool) -> Result<(), CommandError> {
    let unread = |error| CommandError::local(format!("cannot read {}", path.display()), error);
    let mut text = Vec::new();
    let limit = MAX_IMPORTED_BYTES + 1;
    let read = if path == Path::new("-") {
        standard_input().and_then(|input| input.take(limit).read_to_end(&mut text))
    } else {
        std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut text))
    };
    if read.map_err(unread)? as u64 > MAX_IMPORTED_BYTES {
        let what = format!("{} is too large for learned sets: more than 16 MiB", path.display());
        return Err(Error::new(ErrorKind::Corrupt, what).into());
    }
    let export: LearnedExport = serde_json::from_slice(&text).map_err(|error| {
        let what = format!("{} has no learned sets: {error}", path.display());
        Error::new(ErrorKind::Corrupt, what)
    })?;
    client.import_learned(&export)?;
    let sets: usize = export.trees().iter().map(|tree| tree.sets.len()).sum();
    let trees = export.trees().len();
    let text = if json {
        format!("{}\n", json!({ "trees": trees, "sets": sets }))
    } else {
        format!("{} of branches for {}\n", counted(sets, "set"), counted(trees, "schema"))
    };
    Ok(print(&text)?)
}

fn describe(tree: &TreeListing, text: &mut String) {
    let branches = match tree.branches.len() {
        1 => "1 branch".to_owned(),
        number => format!("{number} branches"),
    };
    let compressed: u64 = tree.branches.iter().map(|branch| branch.compressed_bytes).sum();
    let width =
        tree.branches.iter().map(|b| b.name.chars().count()).max().unwrap_or(0).clamp(6, 48);
    let types =
        tree.branches.iter().map(|b| b.type_name.chars().count()).max().unwrap_or(0).clamp(4, 40);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{}: {}, {}, {}",
        escape_controls(&tree.path),
        counted(tree.entries, "entry"),
        branches,
        human_bytes(compressed)
    );
    if !tree.title.is_empty() && tree.title != tree.path {
        let _ = writeln!(text, "  {}", escape_controls(&tree.title));
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
            escape_controls(&branch.name),
            escape_controls(&branch.type_name),
            branch.baskets,
            human_bytes(branch.compressed_bytes),
            human_bytes(branch.uncompressed_bytes),
            if branch.unsupported.is_some() { "  unsupported" } else { "" }
        );
    }
}
