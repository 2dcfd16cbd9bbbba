"""tools/check finds what it is meant to find, and nothing else."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check"


def load():
    loader = importlib.machinery.SourceFileLoader("tools_check", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tools_check", loader))
    sys.modules["tools_check"] = module
    writing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writing
    return module


check = load()

TABLE = """
text | with a bar
| crate | may depend on | must not contain |
|---|---|---|
| core | - | sockets |
| http, auth | - | sockets |
| formats | core (range and plan types) | I/O |
| server | core, http (third-party copy, keys), auth | formats |

| something | else | here |
|---|---|---|
| core | formats | x |
"""


def package(name, *dependencies):
    return {"name": name, "dependencies": [{"name": n, "kind": k} for n, k in dependencies]}


def rust(path, source):
    return [finding.message for finding in check.check_rust(Path(path), source)]


def test_table_reads_lists_remarks_and_dashes():
    table = check.dependency_table(TABLE)
    assert table == {
        "core": set(),
        "http": set(),
        "auth": set(),
        "formats": {"core"},
        "server": {"core", "http", "auth"},
    }


def test_table_of_the_repository_covers_its_crates():
    text = (TOOL.parents[1] / "ARCHITECTURE.md").read_text()
    table = check.dependency_table(text)
    assert {"core", "http", "formats", "transport", "hither", "cli"} <= set(table)


def test_dependency_outside_the_table_is_found():
    metadata = {"packages": [package("hither-core", ("hither-http", None)), package("hither-http", ("bytes", None))]}
    found = list(check.check_dependencies(metadata, {"core": set(), "http": set()}))
    assert [f.path for f in found] == ["crates/core/Cargo.toml"]
    assert "core depends on http" in found[0].message


@pytest.mark.parametrize("crate", ["simulate", "testkit"])
def test_crates_for_tests_are_free_as_dev_dependencies_only(crate):
    table = {"core": set(), "http": set(), crate: {"core"}}
    packages = [package(f"hither-{crate}", ("hither-core", None)), package("hither-core")]
    for kind, findings in (("dev", 0), (None, 1), ("build", 1)):
        metadata = {"packages": [*packages, package("hither-http", (f"hither-{crate}", kind))]}
        assert len(list(check.check_dependencies(metadata, table))) == findings


def test_other_dev_dependencies_obey_the_table():
    metadata = {"packages": [package("hither-core", ("hither-http", "dev")), package("hither-http")]}
    assert len(list(check.check_dependencies(metadata, {"core": set(), "http": set()}))) == 1


def test_crate_without_row_and_missing_table_are_found():
    metadata = {"packages": [package("hither-new")]}
    assert "no row for crate new" in next(check.check_dependencies(metadata, {"core": set()})).message
    assert "no table" in next(check.check_dependencies(metadata, {})).message


def test_runtime_in_a_pure_crate_is_found():
    metadata = {"packages": [package("hither-core", ("tokio", None), ("proptest", "dev"))]}
    assert len(list(check.check_dependencies(metadata, {"core": set()}))) == 1


def test_inline_tests_are_not_production():
    source = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\nfn c() {}\n"
    production, tests = check.split_tests(source)
    assert [number for number, _ in production] == [1, 2, 8]
    assert [number for number, _ in tests] == [3, 4, 5, 6, 7]


def test_cfg_test_on_a_function_is_production():
    production, tests = check.split_tests("#[cfg(test)]\nfn only_for_tests() {}\n")
    assert (len(production), len(tests)) == (2, 0)


def test_file_size_counts_production_only():
    body = "// line\n" * 600
    inline = "#[cfg(test)]\nmod tests {\n" + "    // line\n" * 600 + "}\n"
    assert rust("crates/core/src/plan.rs", body + inline) == []
    assert len(rust("crates/core/src/plan.rs", body + "// one more\n" + inline)) == 1


def test_lib_is_short_and_only_a_table_of_contents():
    assert rust("crates/core/src/lib.rs", "//! Docs.\nmod plan;\npub use plan::Plan;\n") == []
    assert len(rust("crates/core/src/lib.rs", "pub fn logic() {}\n")) == 1
    assert len(rust("crates/core/src/lib.rs", "//! Docs.\n" * 121)) == 1


def test_environment_and_statics_are_for_cli_and_testkit():
    for line in ('let home = std::env::var("HOME");', "static POOL: Mutex<u8> = Mutex::new(0);"):
        assert len(rust("crates/store/src/place.rs", line)) == 1
        assert rust("crates/cli/src/place.rs", line) == []
        assert rust("crates/testkit/src/place.rs", line) == []
    assert rust("crates/store/src/place.rs", "// env::var would be wrong here") == []
    assert rust("crates/store/src/place.rs", 'const CRATE: &str = env!("CARGO_PKG_NAME");') == []


def test_pure_crates_do_no_io_outside_tests():
    for line in ("use tokio::net::TcpStream;", "use std::fs;", "use std::{fs, io};", "std::net::lookup();"):
        assert len(rust("crates/http/src/answer.rs", line)) == 1
        assert rust("crates/transport/src/answer.rs", line) == []
        assert rust("crates/http/examples/answer.rs", line) == []
        assert rust("crates/http/src/answer.rs", "#[cfg(test)]\nmod tests {\n    " + line + "\n}\n") == []


def test_sleep_in_tests_is_found_unless_time_is_virtual():
    inline = "#[cfg(test)]\nmod tests {\n    ATTRIBUTE\n    async fn a() {\n        CALL\n    }\n}\n"

    def findings(attribute, call):
        return len(rust("crates/core/src/a.rs", inline.replace("ATTRIBUTE", attribute).replace("CALL", call)))

    assert findings("#[test]", "std::thread::sleep(x);") == 1
    assert findings("#[tokio::test]", "tokio::time::sleep(x).await;") == 1
    assert findings("#[tokio::test(start_paused = true)]", "tokio::time::sleep(x).await;") == 0
    assert findings("#[tokio::test(start_paused = true)]", "std::thread::sleep(x);") == 1
    assert len(rust("crates/core/tests/it/main.rs", "thread::sleep(x);")) == 1


def test_sleep_beside_tests_in_virtual_time_is_fine_but_not_of_threads():
    folder = Path("crates/core/tests/it/rig.rs")
    assert list(check.check_rust(folder, "tokio::time::sleep(rtt).await;", virtual_time=True)) == []
    assert len(list(check.check_rust(folder, "std::thread::sleep(rtt);", virtual_time=True))) == 1


def test_python_tests_do_not_sleep():
    assert len(list(check.check_text(Path("tests/e2e/query/test_draw.py"), "    time.sleep(1)\n"))) == 1
    assert list(check.check_text(Path("tests/e2e/servers.py"), "    time.sleep(0.01)\n")) == []


def test_names_that_say_nothing_are_found():
    for path in ("crates/core/src/utils.rs", "crates/core/src/helpers/plan.rs", "bench/common.py"):
        assert len(list(check.check_name(Path(path)))) == 1
    assert len(list(check.check_name(Path("crates/core/src/plan/mod.rs")))) == 1
    assert list(check.check_name(Path("crates/core/src/plan.rs"))) == []


def test_notes_about_work_to_do_are_found():
    assert len(list(check.check_text(Path("crates/core/src/a.rs"), "// TO" + "DO: later\n"))) == 1
