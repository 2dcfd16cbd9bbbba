//! `hither completions` and `hither man`: completion scripts and man pages, generated from the
//! arguments.

use crate::arguments::Arguments;
use crate::exit::{CommandError, describe_codes};
use crate::output::print;
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;

/// Prints the completion script of a shell.
pub(super) fn run(shell: Shell) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "hither", &mut script);
    print(&String::from_utf8_lossy(&script))
        .map_err(|error| CommandError::local("cannot write to the standard output", error))
}

/// Writes man pages for the command and each verb into an existing directory.
pub(super) fn man(directory: &Path) -> Result<(), CommandError> {
    let command = Arguments::command().after_help(describe_codes());
    clap_mangen::generate_to(command, directory).map_err(|error| {
        CommandError::local(format!("cannot write man pages to {}", directory.display()), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_man_page_but_the_hidden_one() {
        let directory = tempfile::tempdir().expect("a directory");
        man(directory.path()).expect("pages");
        for verb in ["", "-draw", "-serve", "-trace-show"] {
            let page = directory.path().join(format!("hither{verb}.1"));
            let text = std::fs::read_to_string(&page).expect("a page");
            assert!(text.contains(".SH SYNOPSIS"), "{}", page.display());
        }
        assert!(!directory.path().join("hither-man.1").exists());
        let page = std::fs::read_to_string(directory.path().join("hither.1")).expect("a page");
        assert!(page.contains("130 interrupted"), "{page}");
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let failure = man(Path::new("/nowhere/at/all")).expect_err("no directory");
        assert!(
            failure.object()["message"].as_str().is_some_and(|m| m.contains("/nowhere/at/all"))
        );
    }
}
