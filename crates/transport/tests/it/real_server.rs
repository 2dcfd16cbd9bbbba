//! Real servers of a directory, started by the scripts of the benchmarks.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that is stopped when this value is dropped.
pub(crate) struct Served {
    child: Child,
    pub(crate) port: u16,
}

impl Served {
    /// Starts `server` on the directory `root`. If it is not installed, prints that and returns
    /// none; in CI this is a failure.
    pub(crate) fn start(server: &str, root: &Path) -> Option<Self> {
        let mut child = Command::new("python3")
            .args(["-m", "bench.harness.serve_for_tests", server])
            .arg(root)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut told).unwrap();
        match told.trim().parse() {
            Ok(port) => Some(Self { child, port }),
            Err(_) => {
                child.wait().unwrap();
                assert!(std::env::var_os("CI").is_none(), "CI must have {server}: {told}");
                // Printed directly, so that it is not captured as output of the test.
                let mut terminal = std::io::stderr();
                writeln!(terminal, "skipped: {}", told.trim()).unwrap();
                None
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The server ends at the end of its input.
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}
