//! `hither root-setup`: compiles the plug-in for ROOT, and registers it in `.rootrc`.
//!
//! A class that derives from ROOT's `TFile` is compatible only with the ROOT that it was compiled
//! against, so the plug-in ships as source: this program contains the files of `root/`.
//! [`installation`] finds a ROOT, [`build`] compiles for it into a separate folder in the user's
//! data folder, [`registration`] writes the lines by which ROOT finds it. ROOT's own files are not
//! changed.

mod build;
mod installation;
mod library;
mod registration;

use crate::arguments::RootSetup;
use crate::environment::variable;
use crate::exit::CommandError;
use crate::output::print;
use build::{LOADER, build};
use installation::RootInstallation;
use library::HitherLibrary;
use serde_json::json;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn run(request: &RootSetup, json: bool) -> Result<(), CommandError> {
    let folder = data_folder()?;
    let rootrc = match &request.rootrc {
        Some(path) => path.clone(),
        None => home()?.join(".rootrc"),
    };
    if request.remove {
        return remove(&folder, &rootrc, json);
    }
    let root = RootInstallation::find(request.root_config.as_deref())?;
    let library = HitherLibrary::find(request.libhither.as_deref())?;
    let built = build(&root, &library, &folder)?;
    registration::write(&rootrc, &folder.join(LOADER))?;
    if json {
        let object = json!({
            "removed": false, "root": root.version, "root_libraries": root.libraries,
            "libhither": library.path, "build": built, "rootrc": rootrc,
        });
        return Ok(print(&format!("{object}\n"))?);
    }
    Ok(print(&format!(
        "built for ROOT {} ({}), with {}\nin {}\nregistered in {}: TFile::Open of http(s), dav(s), root(s) and s3 URLs is hither's\n",
        root.version,
        root.libraries.display(),
        library.path.display(),
        built.display(),
        rootrc.display(),
    ))?)
}

fn remove(folder: &Path, rootrc: &Path, json: bool) -> Result<(), CommandError> {
    registration::remove(rootrc)?;
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(failed("cannot remove", folder, error));
        }
        _ => {}
    }
    if json {
        return Ok(print(&format!("{}\n", json!({ "removed": true, "rootrc": rootrc })))?);
    }
    let text =
        format!("removed {} and the registration in {}\n", folder.display(), rootrc.display());
    Ok(print(&text)?)
}

fn home() -> Result<PathBuf, CommandError> {
    variable("HOME").map(PathBuf::from).ok_or_else(|| {
        CommandError::usage("HOME is not set: name the file with --rootrc, and set XDG_DATA_HOME")
    })
}

/// The folder of all builds.
fn data_folder() -> Result<PathBuf, CommandError> {
    let data = match variable("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute())
    {
        Some(data) => data,
        None => home()?.join(".local/share"),
    };
    Ok(data.join("hither/root"))
}

fn failed(what: &str, path: &Path, error: std::io::Error) -> CommandError {
    CommandError::local(format!("{what} {}", path.display()), error)
}

/// Runs a program that must succeed, and returns its output.
fn output_of(command: &mut Command) -> Result<String, CommandError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .output()
        .map_err(|error| CommandError::local(format!("cannot run {name}"), error))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned());
    }
    let output = String::from_utf8_lossy(&done.stderr);
    Err(CommandError::of_program(format!("{name} failed: {}", done.status), &output))
}
