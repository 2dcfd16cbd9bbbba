//! The ROOT for which the plug-in is built.

use super::output_of;
use crate::environment::variable;
use crate::exit::CommandError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints the root-config of the package `ROOT` without importing it, which takes a second.
const PACKAGE: &str = "import importlib.util as u; s = u.find_spec('ROOT'); print(s.submodule_search_locations[0] + '/bin/root-config' if s else '')";

/// Version, folders and compiler flags of a ROOT.
#[derive(Debug)]
pub(super) struct RootInstallation {
    pub(super) version: String,
    pub(super) headers: PathBuf,
    pub(super) libraries: PathBuf,
    pub(super) rootcling: PathBuf,
    /// Flags for compiling programs against this ROOT, such as the C++ standard.
    pub(super) flags: Vec<String>,
}

impl RootInstallation {
    /// Uses `root_config`, otherwise the one in PATH, otherwise that of the Python package.
    ///
    /// # Errors
    ///
    /// No ROOT is found, or it lacks headers or rootcling.
    pub(super) fn find(root_config: Option<&Path>) -> Result<Self, CommandError> {
        let named = root_config.map(Path::to_owned);
        let Some(script) = named.or_else(|| in_path("root-config")).or_else(of_package) else {
            return Err(CommandError::usage(
                "no ROOT was found: there is no root-config in PATH, and python3 has no package ROOT; name one with --root-config",
            ));
        };
        let ask = |what: &str| output_of(Command::new(&script).arg(what));
        let script_folder = real(script.parent().unwrap_or_else(|| Path::new("")));
        // The Python package states folders of the machine on which it was built.
        let beside = script_folder.parent().unwrap_or_else(|| Path::new("/")).to_owned();
        let first_with = |file: &str, folders: Vec<PathBuf>| {
            let found = folders.iter().find(|folder| folder.join(file).is_file()).cloned();
            found.ok_or_else(|| {
                let tried: Vec<_> = folders.iter().map(|it| it.display().to_string()).collect();
                CommandError::usage(format!(
                    "the ROOT of {} has no {file} in {}: install its development files, or name another one with --root-config",
                    script.display(),
                    tried.join(" or "),
                ))
            })
        };
        let headers = first_with("TFile.h", vec![ask("--incdir")?.into(), beside.join("include")])?;
        let libraries =
            first_with("libCore.so", vec![ask("--libdir")?.into(), beside.join("lib")])?;
        let programs = first_with("rootcling", vec![script_folder, ask("--bindir")?.into()])?;
        let is_wanted = |flag: &&str| !flag.starts_with("-I");
        Ok(Self {
            version: ask("--version")?,
            headers: real(&headers),
            libraries: real(&libraries),
            rootcling: programs.join("rootcling"),
            flags: ask("--cflags")?
                .split_whitespace()
                .filter(is_wanted)
                .map(str::to_owned)
                .collect(),
        })
    }
}

/// A program in PATH.
pub(super) fn in_path(name: &str) -> Option<PathBuf> {
    let path = variable("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn of_package() -> Option<PathBuf> {
    let found = output_of(Command::new("python3").args(["-c", PACKAGE])).ok()?;
    Some(PathBuf::from(found)).filter(|script| script.is_file())
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
