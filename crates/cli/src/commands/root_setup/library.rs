//! The libhither that the plug-in contains or loads.

use super::installation::in_path;
use super::output_of;
use crate::exit::CommandError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of libraries, relative to the folder of this program.
const FOLDERS: [&str; 5] =
    [".", "../lib", "../lib64", "../lib/x86_64-linux-gnu", "../lib/aarch64-linux-gnu"];
/// Names of the library, the static one first: a plug-in with it needs no other file. `cargo build
/// -p hither-capi` creates the second.
const NAMES: [&str; 3] = ["libhither.a", "libhither_capi.a", "libhither.so.1"];
/// System libraries that the static library needs, from `rustc --print native-static-libs`.
const NATIVE: [&str; 7] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

/// A libhither.
#[derive(Debug)]
pub(super) struct HitherLibrary {
    pub(super) path: PathBuf,
}

impl HitherLibrary {
    /// Uses `named`, otherwise the library next to this program, otherwise that of pkg-config.
    ///
    /// # Errors
    ///
    /// No library is found.
    pub(super) fn find(named: Option<&Path>) -> Result<Self, CommandError> {
        if let Some(path) = named {
            let path = path.canonicalize().map_err(|error| {
                CommandError::local(format!("there is no library {}", path.display()), error)
            })?;
            return Ok(Self { path });
        }
        let program = std::env::current_exe().and_then(|program| program.canonicalize()).ok();
        let beside = program.as_deref().and_then(Path::parent);
        let folders = FOLDERS.iter().filter_map(|folder| Some(beside?.join(folder)));
        let found = folders.chain(of_pkg_config()).find_map(|folder| {
            let files = NAMES.iter().map(|name| folder.join(name));
            files.into_iter().find_map(|file| file.canonicalize().ok())
        });
        found.map(|path| Self { path }).ok_or_else(|| {
            CommandError::usage(
                "libhither was not found beside this program or by pkg-config: install it (guide \"From C and C++\"), or name libhither.a with --libhither",
            )
        })
    }

    /// The arguments that link it. Its symbols are hidden, so that a process may contain another
    /// copy of it, such as that of the Python module.
    pub(super) fn link_arguments(&self) -> Vec<String> {
        let path = self.path.display().to_string();
        let is_static = self.path.extension().is_some_and(|extension| extension == "a");
        let more: Vec<String> = if is_static {
            let hidden = ["-Wl,--exclude-libs,ALL", "-Wl,--gc-sections"];
            hidden.into_iter().chain(NATIVE).map(str::to_owned).collect()
        } else {
            let folder = self.path.parent().unwrap_or_else(|| Path::new("/")).display().to_string();
            vec![format!("-Wl,-rpath,{folder}")]
        };
        std::iter::once(path).chain(more).collect()
    }
}

fn of_pkg_config() -> Option<PathBuf> {
    let pkg_config = in_path("pkg-config")?;
    output_of(Command::new(pkg_config).args(["--variable=libdir", "hither"]))
        .ok()
        .map(PathBuf::from)
}
