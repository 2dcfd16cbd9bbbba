//! Programs in C, C++ and Python that use the library.

use crate::installed::{
    c_compilers, compile, compile_and_run, cpp_compilers, is_installed, libraries, pkg_config, run,
};
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer};
use std::path::Path;
use std::process::Command;

/// The file that the programs expect.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((7 * at + at / 256) % 251).unwrap()).collect()
}

/// A server of the file that answers 404 to the first request for a path with this text.
fn peer_without(path: &'static str) -> MockHttpServer {
    let peer = MockHttpServer::start(content(200_000)).unwrap();
    peer.with_fault(FaultTrigger::FirstFor(path), Fault::Status { status: 404, retry_after: None })
}

fn client() -> hither::Client {
    let mut config = hither::ClientConfig::default();
    config.transport.max_connections = 1;
    hither::Client::new(config).unwrap()
}

#[test]
fn the_examples_of_the_guide_run() {
    let peer = MockHttpServer::start(content(1_000_100)).unwrap();
    for compiler in c_compilers() {
        let output = compile_and_run(compiler, "examples/read.c", &[peer.url()]);
        let begin = "1000100 bytes\n100000 bytes in 1000 pieces\nequal\n{";
        assert!(output.starts_with(begin), "{compiler:?}: {output}");
    }
    for compiler in cpp_compilers() {
        let output = compile_and_run(compiler, "examples/read.cpp", &[peer.url()]);
        assert!(output.starts_with("1000100 bytes\n200 and 50 bytes\n{"), "{compiler:?}: {output}");
        let folder = tempfile::tempdir().unwrap();
        let program =
            compile(compiler, "examples/read.cpp", &pkg_config(&["--cflags", "--libs"]), &folder);
        let done = Command::new(program).env("LD_LIBRARY_PATH", libraries()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!((done.status.code(), &*said), (Some(2), "usage: read URL\n"), "{compiler:?}");
    }
}

#[test]
fn the_guide_shows_the_examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(root.join("../../docs/guides/c.md")).unwrap();
    for (name, language) in [("read.c", "c"), ("read.cpp", "cpp")] {
        let example = std::fs::read_to_string(root.join("examples").join(name)).unwrap();
        assert!(guide.contains(&format!("```{language}\n{example}```")), "{name}");
    }
}

#[test]
fn calls_in_c_return_what_the_header_documents() {
    for compiler in c_compilers() {
        let peer = peer_without("/missing");
        let folder = tempfile::tempdir().unwrap();
        let arguments = [peer.url().into(), folder.path().as_os_str().to_owned()];
        let output = compile_and_run(compiler, "tests/programs/calls.c", &arguments);
        assert_eq!(output, "all calls are as expected\n", "{compiler:?}");
    }
}

#[test]
fn calls_in_cpp_return_or_throw_what_the_header_documents() {
    for compiler in cpp_compilers() {
        let peer = peer_without("/missing");
        let folder = tempfile::tempdir().unwrap();
        let arguments = [peer.url().into(), folder.path().as_os_str().to_owned()];
        let output = compile_and_run(compiler, "tests/programs/calls.cpp", &arguments);
        assert_eq!(output, "0 failures\n", "{compiler:?}");
    }
}

#[test]
#[ignore = "takes a minute and needs valgrind: make soak runs it"]
fn calls_in_c_leave_no_memory_and_touch_no_other() {
    let flags = pkg_config(&["--cflags", "--libs"]);
    let sanitizers = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    // Memory of threads that the end of the program interrupts is not a leak.
    let leaks = ["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];
    let valgrind = ["valgrind", "--error-exitcode=9", "--leak-check=full", leaks[0], leaks[1]];
    // One compiler: the sanitizers of clang are in a separate package.
    for compiler in c_compilers().into_iter().take(1) {
        for (checks, runner) in [(&sanitizers[..], &["env"][..]), (&["-g"], &valgrind)] {
            let flags: Vec<_> =
                flags.iter().cloned().chain(checks.iter().map(ToString::to_string)).collect();
            let folder = tempfile::tempdir().unwrap();
            let program = compile(compiler, "tests/programs/calls.c", &flags, &folder);
            let peer = peer_without("/missing");
            let mut command = Command::new(runner[0]);
            command.args(&runner[1..]).arg(program).arg(peer.url());
            run(command.arg(folder.path()).env("LD_LIBRARY_PATH", libraries()));
        }
    }
}

#[test]
fn ten_thousand_pieces_cost_the_requests_of_the_rust_path() {
    let data = content(10_000_000);
    let ranges: Vec<_> = (0..10_000_u64).map(|at| 1000 * at..1000 * at + 64).collect();
    let peer = MockHttpServer::start(data.clone()).unwrap();
    let client = client();
    let found = client.open(&peer.url()).unwrap().read_ranges(&client, &ranges).unwrap();
    let sum: u64 = found.iter().flatten().map(|byte| u64::from(*byte)).sum();
    let requests = |peer: &MockHttpServer| -> Vec<_> {
        peer.log().into_iter().map(|it| (it.method, it.ranges, it.payload_bytes)).collect()
    };
    assert!(requests(&peer).len() < 200, "{}", requests(&peer).len());
    for compiler in c_compilers() {
        let other = MockHttpServer::start(data.clone()).unwrap();
        let output = compile_and_run(compiler, "tests/programs/pieces.c", &[other.url()]);
        assert_eq!(output, format!("{sum}\n"), "{compiler:?}");
        assert_eq!(requests(&other), requests(&peer), "{compiler:?}");
        assert_eq!(other.round_trips(), peer.round_trips(), "{compiler:?}");
    }
}

#[test]
fn a_program_links_the_static_library() {
    let peer = MockHttpServer::start(content(10_000_000)).unwrap();
    let flags = pkg_config(&["--cflags", "--libs", "--static"]);
    // The folder of the library also contains the shared one, which -lhither would link.
    let archive = libraries().join("libhither.a").display().to_string();
    let flags: Vec<_> = flags
        .into_iter()
        .map(|flag| if flag == "-lhither" { archive.clone() } else { flag })
        .collect();
    for compiler in c_compilers().into_iter().take(1) {
        let folder = tempfile::tempdir().unwrap();
        let program = compile(compiler, "tests/programs/pieces.c", &flags, &folder);
        run(Command::new(program).arg(peer.url()));
    }
}

#[test]
fn python_loads_the_library() {
    let peer = MockHttpServer::start(content(10_000)).unwrap();
    if is_installed("python3") {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/read.py");
        let library = libraries().join("libhither.so.1");
        let output = run(Command::new("python3").arg(script).arg(library).arg(peer.url()));
        let data = &content(10_000)[1000..1004];
        assert_eq!(output, format!("4 {data:?} \n"));
    }
}

#[test]
fn cmake_finds_the_package() {
    if !is_installed("cmake") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/read.cpp");
    let project = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(example CXX)\nset(CMAKE_CXX_STANDARD 17)\n\
         find_package(Hither REQUIRED)\nadd_executable(example {})\n\
         target_link_libraries(example Hither::hither)\n",
        example.display()
    );
    std::fs::write(folder.path().join("CMakeLists.txt"), project).unwrap();
    let build = folder.path().join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(folder.path()).arg("-B").arg(&build);
    run(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", libraries().parent().unwrap().display())));
    run(Command::new("cmake").arg("--build").arg(&build));
    let peer = MockHttpServer::start(content(1_000_100)).unwrap();
    let output = run(Command::new(build.join("example")).arg(peer.url()));
    assert!(output.starts_with("1000100 bytes\n"), "{output}");
}

#[test]
fn symbols_are_those_of_the_header_and_have_a_version() {
    let mut command = Command::new("readelf");
    let output = run(command.args(["--dyn-syms", "-W"]).arg(libraries().join("libhither.so.1")));
    let defined = output.lines().filter(|line| !line.contains(" UND "));
    let names = defined.filter_map(|line| line.split_whitespace().nth(7));
    let mut exported: Vec<_> =
        names.filter(|name| !name.starts_with("hither_1") && *name != "Name").collect();
    let header = pkg_config(&["--variable=includedir"]).concat();
    let header = std::fs::read_to_string(Path::new(&header).join("hither.h")).unwrap();
    let mut declared: Vec<_> = header
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '(')
        .filter_map(|word| word.strip_prefix("hither_").filter(|_| word.contains('(')))
        .filter_map(|word| word.split_once('('))
        .map(|(name, _)| format!("hither_{name}@@hither_1"))
        .collect();
    exported.sort_unstable();
    declared.sort_unstable();
    declared.dedup();
    assert_eq!(exported, declared);
}
