//! The header is that of the code, and unsafe code is where it is said to be.

use std::path::Path;

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
