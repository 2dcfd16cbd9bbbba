//! The library as `install` copies it into a folder, and programs that are compiled against it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The first test that needs the installation creates it for all tests; each test has its own
/// process. The folder remains until the next `cargo clean`, and is replaced if the archive
/// changes.
static PREFIX: LazyLock<PathBuf> = LazyLock::new(|| {
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
    let lock = File::create(prefix.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let archive = std::env::current_exe().unwrap().with_file_name("libhither_capi.a");
    let about = archive.metadata().unwrap();
    let version = format!("{} {:?}", about.len(), about.modified().unwrap());
    let stamp = prefix.with_extension("installed");
    if fs::read_to_string(&stamp).ok().as_ref() != Some(&version) {
        let install = Path::new(CRATE).join("install");
        run(Command::new(install).arg(archive).arg(&prefix).env_remove("DESTDIR"));
        fs::write(stamp, version).unwrap();
    }
    prefix
});

/// A compiler and the flags that make every warning an error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compiler {
    pub(crate) command: &'static str,
    pub(crate) standard: &'static str,
}

/// The installed C compilers.
pub(crate) fn c_compilers() -> Vec<Compiler> {
    found(["gcc", "clang"], "-std=c99")
}

/// The installed C++ compilers.
pub(crate) fn cpp_compilers() -> Vec<Compiler> {
    found(["g++", "clang++"], "-std=c++17")
}

fn found(commands: [&'static str; 2], standard: &'static str) -> Vec<Compiler> {
    let is_there = |command: &&'static str| is_installed("pkg-config") && is_installed(command);
    commands.into_iter().filter(is_there).map(|command| Compiler { command, standard }).collect()
}

/// Returns true if a program can be run. In CI, all of them have to be installed.
pub(crate) fn is_installed(command: &str) -> bool {
    let is_there = Command::new(command).arg("--version").output().is_ok();
    assert!(is_there || std::env::var_os("CI").is_none(), "{command} is not installed");
    if !is_there {
        println!("skipped: {command} is not installed");
    }
    is_there
}

/// The folder of the library.
pub(crate) fn libraries() -> PathBuf {
    PREFIX.join("lib")
}

/// The output of pkg-config for the library.
pub(crate) fn pkg_config(flags: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(flags).arg("hither").env("PKG_CONFIG_PATH", libraries().join("pkgconfig"));
    run(&mut command).split_whitespace().map(str::to_owned).collect()
}

/// Compiles a program of this crate against the library with these flags.
pub(crate) fn compile(compiler: Compiler, source: &str, flags: &[String], to: &TempDir) -> PathBuf {
    let program = to.path().join("program");
    let mut command = Command::new(compiler.command);
    command.args([compiler.standard, "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    command.arg(Path::new(CRATE).join(source)).arg("-o").arg(&program);
    run(command.args(flags));
    program
}

/// Compiles a program against the shared library and runs it.
pub(crate) fn compile_and_run<A: AsRef<OsStr>>(
    compiler: Compiler,
    source: &str,
    arguments: &[A],
) -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(compiler, source, &pkg_config(&["--cflags", "--libs"]), &folder);
    run(Command::new(program).args(arguments).env("LD_LIBRARY_PATH", libraries()))
}

/// Runs a command that must succeed, and returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let output = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {}\n{output}\n{errors}", done.status);
    output.into_owned()
}
