//! The `hither` command: arguments, progress, output.
fn main() {}
