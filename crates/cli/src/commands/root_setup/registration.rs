//! The lines of `.rootrc` by which ROOT finds the plug-in.
//!
//! ROOT's plug-in manager uses the first handler whose expression matches. Handlers of `.rootrc`
//! come before those of ROOT's own folder, but a handler of that folder replaces one with the same
//! expression. Our expressions are therefore written differently from ROOT's (`^https?:` instead of
//! `^http[s]?:`).

use super::failed;
use crate::exit::CommandError;
use std::io::ErrorKind;
use std::path::Path;

const BEGIN: &str =
    "# hither root-setup: begin (`hither root-setup --remove` takes these lines out)";
const END: &str = "# hither root-setup: end";

/// ROOT's interface, the expressions, our class and its constructor.
///
/// `.rootrc` cannot name the interface of RNTuple, because it contains colons: the plug-in
/// registers that handler when it is loaded.
const HANDLERS: [(&str, &[&str], &str, &str); 2] = [
    (
        "TFile",
        &["^https?:", "^davs?:", "^roots?:", "^xroot?:", "^s3:"],
        "THitherFile",
        "THitherFile(const char*,Option_t*,const char*,Int_t,Int_t)",
    ),
    (
        "TSystem",
        &["^https?:", "^davs?:", "^roots?:", "^xroot?:", "^s3:"],
        "THitherSystem",
        "THitherSystem(const char*,Bool_t)",
    ),
];

/// Writes the lines into `rootrc`, and replaces earlier ones.
///
/// # Errors
///
/// The file cannot be written, or a path cannot be represented in it.
pub(super) fn write(rootrc: &Path, loader: &Path) -> Result<(), CommandError> {
    let path = loader.to_str().filter(|path| !path.contains([' ', ';', '"', '\t', '$']));
    let Some(path) = path else {
        return Err(CommandError::usage(format!(
            "{}: ROOT reads no path with spaces, $, ; or quotes from .rootrc; set XDG_DATA_HOME to another folder",
            loader.display()
        )));
    };
    let mut text = without_lines(&read(rootrc)?);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(BEGIN);
    text.push('\n');
    for (interface, expressions, class, constructor) in HANDLERS {
        let handlers =
            expressions.iter().map(|it| format!("{it} {class} {path} \"{constructor}\""));
        let handlers = handlers.collect::<Vec<_>>().join("; ");
        text.push_str(&format!("+Plugin.{interface}: {handlers}\n"));
    }
    text.push_str(END);
    text.push('\n');
    std::fs::write(rootrc, text).map_err(|error| failed("cannot write", rootrc, error))
}

/// Removes the lines from `rootrc`; removes the file if it contains nothing else.
///
/// # Errors
///
/// The file cannot be written.
pub(super) fn remove(rootrc: &Path) -> Result<(), CommandError> {
    let before = read(rootrc)?;
    let after = without_lines(&before);
    if before == after {
        return Ok(());
    }
    let done = if after.trim().is_empty() {
        std::fs::remove_file(rootrc)
    } else {
        std::fs::write(rootrc, after)
    };
    done.map_err(|error| failed("cannot write", rootrc, error))
}

/// The text of the file; empty if there is none.
fn read(rootrc: &Path) -> Result<String, CommandError> {
    match std::fs::read_to_string(rootrc) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(failed("cannot read", rootrc, error)),
    }
}

fn without_lines(text: &str) -> String {
    let mut inside = false;
    let kept = text.split_inclusive('\n').filter(|line| {
        let was_inside = inside;
        inside = (inside || line.trim_end() == BEGIN) && line.trim_end() != END;
        !(inside || was_inside)
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_replaced_and_removed_and_others_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let rootrc = folder.path().join(".rootrc");
        std::fs::write(&rootrc, "Rint.History: none\n# end").expect("written");
        for loader in ["/a/libHither.so", "/b/libHither.so"] {
            write(&rootrc, Path::new(loader)).expect("registered");
        }
        let text = read(&rootrc).expect("a text");
        assert!(text.starts_with("Rint.History: none\n# end\n"), "{text}");
        assert!(!text.contains("/a/"), "{text}");
        assert_eq!(text.matches("/b/libHither.so").count(), 10, "{text}");
        remove(&rootrc).expect("removed");
        assert_eq!(read(&rootrc).expect("a text"), "Rint.History: none\n# end\n");
    }

    #[test]
    fn a_file_with_nothing_else_is_removed_and_a_missing_one_is_no_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let rootrc = folder.path().join(".rootrc");
        write(&rootrc, Path::new("/a/libHither.so")).expect("registered");
        remove(&rootrc).expect("removed");
        assert!(!rootrc.exists());
        remove(&rootrc).expect("nothing to remove");
    }

    #[test]
    fn a_path_that_root_cannot_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let rootrc = folder.path().join(".rootrc");
        let error = write(&rootrc, Path::new("/a b/libHither.so")).expect_err("a space");
        assert!(error.object()["message"].as_str().is_some_and(|it| it.contains("XDG_DATA_HOME")));
    }
}
