//! Compilation of the plug-in.
//!
//! A build is complete or absent: it is created in a temporary folder and then renamed.

use super::installation::{RootInstallation, in_path};
use super::library::HitherLibrary;
use super::{failed, output_of};
use crate::environment::variable;
use crate::exit::CommandError;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

macro_rules! source {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../../root/", $name)))
    };
}

/// The library that `.rootrc` names; it loads the build for the ROOT of its process.
pub(super) const LOADER: &str = "libHither.so";
/// The library of a build. `HitherLoader.cxx` has the same name.
const PLUGIN: &str = "libHitherFile.so";
const DICTIONARY: &str = "HitherDictionary.cxx";
/// Headers of classes that ROOT refers to by name, in the order in which they are compiled.
const HEADERS: [&str; 3] = ["THitherFile.h", "THitherSystem.h", "RRawFileHither.hxx"];
/// Files of the plug-in.
const SOURCES: [(&str, &str); 11] = [
    source!("HitherClient.cxx"),
    source!("HitherClient.h"),
    source!("HitherLoader.cxx"),
    source!("LinkDef.h"),
    source!("RRawFileHither.cxx"),
    source!("RRawFileHither.hxx"),
    source!("THitherFile.cxx"),
    source!("THitherFile.h"),
    source!("THitherSystem.cxx"),
    source!("THitherSystem.h"),
    ("hither.h", include_str!("../../../../capi/include/hither.h")),
];
/// Source files that are compiled into the plug-in, in addition to the dictionary.
const COMPILED: [&str; 4] =
    ["HitherClient.cxx", "RRawFileHither.cxx", "THitherFile.cxx", "THitherSystem.cxx"];

/// Builds the plug-in for `root` in `folder`, and returns the folder of the build.
///
/// # Errors
///
/// No compiler is found, or it fails.
pub(super) fn build(
    root: &RootInstallation,
    library: &HitherLibrary,
    folder: &Path,
) -> Result<PathBuf, CommandError> {
    let compiler = compiler()?;
    std::fs::create_dir_all(folder).map_err(|error| failed("cannot make", folder, error))?;
    let work = tempfile::Builder::new()
        .prefix(".build-")
        .tempdir_in(folder)
        .map_err(|error| failed("cannot make a folder in", folder, error))?;
    for (name, text) in SOURCES {
        let path = work.path().join(name);
        std::fs::write(&path, text).map_err(|error| failed("cannot write", &path, error))?;
    }
    let include = format!("-I{}", root.headers.display());
    output_of(
        Command::new(&root.rootcling)
            .current_dir(work.path())
            .args(["-f", DICTIONARY, "-inlineInputHeader", "-s", PLUGIN, &include])
            .args(HEADERS)
            .arg("LinkDef.h"),
    )?;
    let compile = |standard: &[String], sources: &[&str], library: &str, links: &[String]| {
        output_of(
            Command::new(&compiler)
                .current_dir(work.path())
                .args(standard)
                .args(["-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-I.", &include])
                .args(sources)
                .args(["-o", library])
                .args(links),
        )
    };
    let roots = [
        format!("-L{}", root.libraries.display()),
        format!("-Wl,-rpath,{}", root.libraries.display()),
        "-lCore".to_owned(),
        "-lRIO".to_owned(),
    ];
    let links: Vec<String> = library.link_arguments().into_iter().chain(roots).collect();
    let sources: Vec<&str> = COMPILED.into_iter().chain([DICTIONARY]).collect();
    compile(&root.flags, &sources, PLUGIN, &links)?;
    compile(&["-std=c++17".to_owned()], &["HitherLoader.cxx"], LOADER, &["-ldl".to_owned()])?;
    let loader = folder.join(LOADER);
    std::fs::rename(work.path().join(LOADER), &loader)
        .map_err(|error| failed("cannot write", &loader, error))?;
    let target = folder.join(build_name(&root.libraries.join("libCore.so"))?);
    if target.exists() {
        std::fs::remove_dir_all(&target)
            .map_err(|error| failed("cannot replace", &target, error))?;
    }
    std::fs::rename(work.path(), &target)
        .map_err(|error| failed("cannot write", &target, error))?;
    // The folder has been renamed.
    drop(work.keep());
    Ok(target)
}

/// The C++ compiler: `CXX`, otherwise one in PATH.
fn compiler() -> Result<PathBuf, CommandError> {
    let named = variable("CXX").map(PathBuf::from);
    named.or_else(|| ["c++", "g++", "clang++"].into_iter().find_map(in_path)).ok_or_else(|| {
        CommandError::usage(
            "no compiler for C++ was found: install one (Debian: apt-get install g++), or name it in CXX",
        )
    })
}

/// The name of the build for the ROOT with this libCore: the 64-bit FNV-1a hash of path, size and
/// date, as `HitherLoader.cxx` computes it.
fn build_name(core: &Path) -> Result<String, CommandError> {
    let core = core.canonicalize().map_err(|error| failed("cannot find", core, error))?;
    let known = core.metadata().map_err(|error| failed("cannot read", &core, error))?;
    let modified = known.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let seconds = modified.unwrap_or_default().as_secs();
    let text = format!("{}\n{}\n{seconds}", core.display(), known.len());
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Ok(format!("{hash:016x}"))
}
