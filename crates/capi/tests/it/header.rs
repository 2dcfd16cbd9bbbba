//! The header matches the code, and only one file has unsafe code.

use crate::installed::run;
use std::path::Path;
use std::process::Command;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn the_header_is_up_to_date() {
    let made = cbindgen::Builder::new()
        .with_crate(CRATE)
        .with_config(cbindgen::Config::from_root_or_default(CRATE))
        .generate()
        .unwrap();
    let path = Path::new(CRATE).join("include/hither.h");
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).unwrap();
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{}: run UPDATE_HEADER=1 cargo test -p hither-capi", path.display());
}

#[test]
fn only_one_file_has_unsafe_blocks() {
    for file in std::fs::read_dir(Path::new(CRATE).join("src")).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let is_foreign = path.file_name().is_some_and(|name| name == "foreign.rs");
        let has_blocks = text.contains("unsafe {") || text.contains("unsafe impl");
        assert_eq!(has_blocks, is_foreign, "{}", path.display());
    }
}

/// A program in C that defines the functions of the header instead of declaring them.
fn as_definitions(header: &str) -> String {
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let code: Vec<_> = header.lines().filter(|line| !is_comment(line)).collect();
    let is_function = |code: &str| code.ends_with(')') && !code.contains("typedef");
    let statements = code.join("\n");
    statements
        .split(";\n")
        .map(|code| {
            let end = if is_function(code) { " { __builtin_trap(); }\n" } else { ";\n" };
            format!("{code}{end}")
        })
        .collect()
}

/// The interface is read from a C library generated from the header: the debug information of Rust
/// contains the types of the handles, which may change.
#[test]
#[ignore = "needs abigail-tools: make soak runs it"]
fn programs_of_the_first_version_fit_the_header() {
    let known = Path::new(CRATE).join("tests/hither_1.abi");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let header = std::fs::read_to_string(Path::new(CRATE).join("include/hither.h")).unwrap();
    std::fs::write(at("hither.c"), as_definitions(&header)).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.args(["-g", "-shared", "-fPIC", "-fno-eliminate-unused-debug-types", "-o"]);
    run(compiler.arg(at("hither.so")).arg(at("hither.c")));
    if std::env::var_os("UPDATE_ABI").is_some() {
        let mut describe = Command::new("abidw");
        describe.args(["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--out-file"]);
        run(describe.arg(&known).arg(at("hither.so")));
    }
    // Functions and values of enumerations may be added.
    let mut compare = Command::new("abidiff");
    compare.args(["--no-added-syms", "--no-architecture"]);
    run(compare.arg(known).arg(at("hither.so")));
}
