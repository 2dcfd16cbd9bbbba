"""tools/check reports what its rules forbid, and nothing else."""

import importlib.machinery
import importlib.util
import sys
import tomllib
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

from rules import documents, flakiness, limits, structure  # noqa: E402
from rules import rust as rust_rules  # noqa: E402

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


@pytest.mark.parametrize("crate", ["simulate", "testkit", "wan"])
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


@pytest.mark.parametrize(
    ("oldest", "pinned", "findings"),
    [("1.95", "1.95.0", 0), ("1.95.1", "1.95.1", 0), ("1.9", "1.95.0", 1), ("1.95", "1.96.0", 1), ("1.95", "1.95.1", 1)],
)
def test_the_oldest_compiler_is_the_pinned_one(oldest, pinned, findings):
    manifest = f'[workspace.package]\nrust-version = "{oldest}"\n'
    toolchain = f'[toolchain]\nchannel = "{pinned}"\n'
    assert len(list(check.check_compiler(manifest, toolchain))) == findings


def test_inline_tests_are_not_production():
    source = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\nfn c() {}\n"
    production, tests = rust_rules.split_tests(source)
    assert [number for number, _ in production] == [1, 2, 8]
    assert [number for number, _ in tests] == [3, 4, 5, 6, 7]


def test_cfg_test_on_a_function_is_production():
    production, tests = rust_rules.split_tests("#[cfg(test)]\nfn only_for_tests() {}\n")
    assert (len(production), len(tests)) == (2, 0)


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
    assert len(rust("crates/read/tests/it/main.rs", "thread::sleep(x);")) == 1


def test_sleep_beside_tests_in_virtual_time_is_fine_but_not_of_threads():
    folder = Path("crates/read/tests/it/rig.rs")
    assert list(check.check_rust(folder, "tokio::time::sleep(rtt).await;", virtual_time=True)) == []
    assert len(list(check.check_rust(folder, "std::thread::sleep(rtt);", virtual_time=True))) == 1


def test_rust_tests_read_no_clock_unless_time_is_virtual():
    for line in ("assert!(start.elapsed() < BOUND);", "if Instant::now() > deadline {"):
        assert len(rust("crates/read/tests/it/main.rs", line)) == 1, line
        assert list(check.check_rust(Path("crates/read/tests/it/main.rs"), line, virtual_time=True)) == []
        assert rust("crates/core/examples/speed.rs", line) == rust("crates/core/src/a.rs", line) == []
    assert rust("crates/read/tests/it/main.rs", "outages.failed(Instant::now());") == []


def test_rust_tests_are_not_tried_again():
    for line in (
        "// The best of five, as",
        "// the minimum of 3 runs",
        "const ATTEMPTS: u32 = 3;",
        "for n in 0..ATTEMPTS {",
        "// any of three tries",
        "let least = (0..3).map(|_| round_trips()).min();",
        "assert!((0..RUNS).any(|_| is_fast()));",
    ):
        assert len(rust("crates/read/tests/it/main.rs", line)) == 1, line
        assert rust("crates/core/src/a.rs", line) == []
    for line in ("// the best of them; attempts, retries", "let names = (0..3).map(|_| name()).collect();"):
        assert rust("crates/read/tests/it/main.rs", line) == []


def python_test(line, path="tests/e2e/query/test_draw.py"):
    return list(flakiness.check_python_tests(Path(path), line))


@pytest.mark.parametrize(
    "line",
    [
        "time.sleep(1)",
        "threading.Event().wait(0.1)",
        "with pytest.raises(subprocess.TimeoutExpired):",
        "deadline = time.monotonic() + 3",
        "took = time.perf_counter() - before",
        "from time import monotonic_ns",
        'assert told["seconds"] < 30',
        'assert told.json["request_ms"] <= LIMIT',
        'assert abs(found["request_ms"] / 50 - 1) < 0.1',
        "ATTEMPTS = 3",
        "# A busy machine sends late: the best of three counts.",
        "for attempt in range(3):",
        "# A busy machine sends late: the minimum of three counts.",
        "assert min(trips(url) for _ in range(3)) == 2",
        "assert any(trips(url) == 2 for _ in range(3))",
        "assert min(all_runs) < 2",
        'fsspec = pytest.importorskip("fsspec")',
        '@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")',
        "@pytest.mark.flaky(reruns=3)",
        "@pytest.mark.xfail",
        '@pytest.mark.xfail(reason="dates (of files)", strict=False)',
        '@pytest.mark.xfail(\n    reason="dates",\n)',
        'pytest.xfail("not here")',
    ],
)
def test_what_a_busy_machine_can_fail_is_found(line):
    assert len(python_test(line)) == 1
    assert len(python_test(line, "tests/e2e/served.py")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "# time.sleep(1) would be wrong here",
        "wait_until(lambda: process.poll() is not None, 'the end')",
        "assert asked.wait(PATIENCE)",
        "old = time.time() - 86400",
        'assert case["seconds"] < measured["seconds"]',
        'assert abs(job["work_seconds"] - (READS - 1) * 0.01) < 1e-6',
        "for number in range(3):",
        "last = min(int(last) + 1, size)",
        "ids = [ask() for _ in range(3)]",
        '@pytest.mark.xfail(reason="dates (of files)", strict=True)',
        '@pytest.mark.xfail(\n    reason="dates",\n    strict=True,\n)',
    ],
)
def test_what_no_machine_can_fail_is_fine(line):
    assert python_test(line) == []


def test_names_that_say_nothing_are_found():
    for path in ("crates/core/src/utils.rs", "crates/core/src/helpers/plan.rs", "bench/common.py"):
        assert len(list(check.check_name(Path(path)))) == 1
    assert len(list(check.check_name(Path("crates/core/src/plan/mod.rs")))) == 1
    assert list(check.check_name(Path("crates/core/src/plan.rs"))) == []


def test_notes_about_work_to_do_are_found():
    assert len(list(check.check_text(Path("crates/core/src/a.rs"), "// TO" + "DO: later\n"))) == 1


def words(path, source):
    return [finding.message for finding in check.check_words(Path(path), source)]


def test_replaced_words_are_found_in_code_and_documents():
    for path in ("crates/core/src/a.rs", "bench/a.py", "docs/a.md"):
        for line in ("# three flights", "# the courtesy of a job", "# a lane each", "# the server is told", "# so many bytes"):
            assert len(words(path, line)) == 1, line
        for line in ("# for whoever asks", "# it has ended by now", "# the answer is no list", "# dates are no proof"):
            assert len(words(path, line)) == 1, line
        for line in ("# the asker's name", "# an untold size", "# a server that heeds it", "# a baffled client"):
            assert len(words(path, line)) == 1, line
    assert words("crates/core/src/a.rs", "// requests in flight, in-flight bytes, in_flight.len()") == []
    assert words("docs/a.md", "There is no list, it is no longer asked for, and it is no slower.") == []


def test_limits_have_one_spelling():
    assert len(words("crates/core/src/a.rs", "const MOST_" + "READS: usize = 1;")) == 1
    assert len(words("crates/core/src/a.rs", "const LONGEST_" + "NAME: usize = 1;")) == 1
    assert words("crates/core/src/a.rs", "const MAX_READS: usize = 1;") == []


def test_a_let_binds_one_value():
    assert len(rust("crates/core/src/a.rs", "    let (a, mut b) = (1, f(2));")) == 1
    assert rust("crates/core/src/a.rs", "    let (a, b) = pair();") == []


def test_doc_comments_begin_with_a_subject_or_a_verb():
    for line in ("/// Whether it is open.", "//! What a plan is.", "    /// How many there are.", '    """Who asks."""'):
        assert len(words("crates/core/src/a.rs", line)) == 1, line
    assert words("crates/core/src/a.rs", "/// Returns true if it is open.") == []
    assert words("crates/core/src/a.rs", "/// The plan, and\n/// what it costs.") == []
    assert words("crates/core/src/a.rs", "/// True. It depends on\n/// Whether or not.") == []
    assert len(words("crates/core/src/a.rs", "//! Bets.\n//!\n//! What is fetched is a bet.")) == 1


def test_comments_fit_into_a_hundred_columns():
    assert len(words("crates/core/src/a.rs", "// " + "x" * 98)) == 1
    assert words("crates/core/src/a.rs", "// " + "x" * 97) == []
    assert words("crates/core/src/a.rs", "let x = 1; // " + "x" * 98) == []


def crate(folder, files):
    source = folder / "crates" / "a" / "src"
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return source


def test_imports_are_followed_through_re_exports_to_the_file_that_defines(tmp_path):
    source = crate(
        tmp_path,
        {
            "lib.rs": "mod a;\nmod b;\npub use b::{Deep, Other as Name};\n",
            "a.rs": "use crate::{Deep, Name};\nfn f() { crate::b::g(); }\n",
            "b.rs": "mod deep;\npub use deep::Deep;\npub struct Other;\nfn g() { deep::h(); }\n",
            "b/deep.rs": "pub struct Deep;\nuse super::Other;\n#[cfg(test)]\nmod tests {\n    use crate::a::f;\n}\n",
        },
    )
    graph = structure.import_graph(source)
    assert graph[("a",)] == {("b", "deep"), ("b",)}
    assert graph[("b",)] == {("b", "deep")}
    assert graph[("b", "deep")] == {("b",)}
    assert structure.cycles(graph) == [[("b",), ("b", "deep")]]


DEFAULT = {"largest_file": 5, "long_files": 0, "largest_circle": 2, "largest_folder": 3}


def numbers(root):
    files = [path.relative_to(root) for path in sorted(root.rglob("*.rs"))]
    return limits.measure(root, files, DEFAULT["largest_file"])


def over(root, **allowed):
    """The names of the numbers of crate `a` that exceed their limits."""
    found = list(limits.check_limits(numbers(root), {"default": DEFAULT, "a": allowed}))
    return [name for name, it in numbers(root)["a"].items() for finding in found if finding.message.endswith(it.what)]


def circle(count):
    files = {f"m{n}/x.rs": f"use crate::m{(n + 1) % count}::x::X;\npub struct X;\n" for n in range(count)}
    return {"lib.rs": "".join(f"mod m{n};\n" for n in range(count)), **files}


def test_lines_of_production_code_are_limited_by_file_and_in_number(tmp_path):
    inline = "#[cfg(test)]\nmod tests {\n" + "    // line\n" * 9 + "}\n"
    crate(tmp_path, {"a.rs": "// line\n" * 5 + inline, "tests.rs": "// line\n" * 9})
    assert over(tmp_path) == []
    crate(tmp_path, {"a.rs": "// line\n" * 6 + inline})
    assert over(tmp_path) == ["largest_file", "long_files"]
    assert over(tmp_path, largest_file=6, long_files=1) == []
    crate(tmp_path, {"b.rs": "// line\n" * 6})
    assert over(tmp_path, largest_file=6, long_files=1) == ["long_files"]


def test_circles_are_limited(tmp_path):
    crate(tmp_path, circle(3))
    assert over(tmp_path) == ["largest_circle"]
    assert over(tmp_path, largest_circle=3) == []


def test_folders_are_limited_without_what_lies_below_them(tmp_path):
    crate(tmp_path, {f"{folder}{n}.rs": "" for folder in ("", "x/") for n in range(3)})
    assert over(tmp_path) == []
    crate(tmp_path, {"x/3.rs": ""})
    assert over(tmp_path) == ["largest_folder"]
    assert over(tmp_path, largest_folder=4) == []


def test_limits_above_their_numbers_are_found_and_lowered_and_never_raised(tmp_path):
    crate(tmp_path, {"a.rs": "// line\n" * 7})
    ours = numbers(tmp_path)
    for name in ("largest_file", "largest_folder", "largest_circle"):
        before = {"default": DEFAULT, "a": {"largest_file": 7, "long_files": 1, name: 9}}
        [finding] = limits.check_limits(ours, before)
        assert "tools/check --lower-limits" in finding.message
        after = limits.lowered(ours, before)
        assert after == {"default": DEFAULT, "a": {"largest_file": 7, "long_files": 1}}
        assert list(limits.check_limits(ours, after)) == []
    assert limits.lowered(ours, {"default": DEFAULT, "a": {"largest_file": 6, "long_files": 1}})["a"]["largest_file"] == 6
    assert limits.lowered(ours, {"default": DEFAULT, "gone": {"largest_file": 9}}) == {"default": DEFAULT}


def test_limits_are_written_as_they_are_read():
    text = (TOOL.parent / "limits.toml").read_text()
    assert limits.rewritten(text, tomllib.loads(text)) == text


def test_files_links_and_tests_that_a_document_names_exist(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_that_is_here():\n    pass\n")

    def found(path, text):
        return [finding.message for finding in documents.check_document(tmp_path, Path(path), text)]

    assert found("README.md", "[a](docs/a.md#part), `docs/a.md`, [b](https://example.org/b)") == []
    assert len(found("README.md", "[b](docs/b.md)")) == 1
    assert len(found("README.md", "`docs/b.md`")) == 1
    assert found("README.md", "```\n`docs/b.md`\n```") == []
    assert found("docs/invariants.md", "`test_that_is_here`") == []
    assert len(found("docs/invariants.md", "`test_that_is_gone`")) == 1


def test_files_that_the_front_page_of_a_crate_names_exist(tmp_path):
    (tmp_path / "crates" / "a" / "src").mkdir(parents=True)
    (tmp_path / "crates" / "a" / "src" / "b.rs").write_text("")

    def found(text):
        path = Path("crates/a/src/lib.rs")
        return [finding.message for finding in documents.check_front_page(tmp_path, path, text)]

    begin = "//! # Where to start reading\n//!\n"
    assert len(found("//! A crate.")) == 1
    assert found(begin + "//! `src/b.rs`, `crates/a/src/b.rs`\n\n// `src/c.rs`") == []
    assert found(begin + "//! It is\n//! `src/c.rs`.") == ["`src/c.rs` does not exist"]
    assert found(begin + "//! `crates/a/src/c.rs`") == ["`crates/a/src/c.rs` does not exist"]


def test_lines_of_documents_fit_into_120_columns():
    def found(text, path="docs/a.md"):
        return [finding.message for finding in documents.check_columns(Path(path), text)]

    words = "word " * 24
    link = f"[{words}](https://example.org/{'x' * 90})"
    assert len(words) == 120
    assert found(words) == []
    assert found(f"{words}.") == ["121 columns, at most 120: break the line"]
    assert len(found(f"```sh\n{words}.\n```")) == 1
    for alone in (f"| {words} |", link, f"- {link}", f"[a]: {link[-110:-1]}/{'y' * 20}", f"https://example.org/{'x' * 110}"):
        assert len(alone) > 120
        assert found(alone) == [], alone
    assert len(found(f"See {link}")) == 1
    assert len(found(f"{link} and more")) == 1
    assert found(f"# A\n\n<!-- Generated: by a test -->\n\n{words}.") == []


def test_two_test_modules_of_one_name_are_found():
    files = [Path("tests/a/test_reads.py"), Path("tests/b/test_reads.py"), Path("tests/b/test_writes.py")]
    [finding] = structure.check_test_names(files)
    assert str(finding).startswith("tests/b/test_reads.py:1")
    assert "tests/a/test_reads.py" in finding.message


def test_no_module_imports_a_conftest():
    [finding] = check.check_text(Path("tests/a/test_b.py"), "import json\nfrom conftest import Site\n")
    assert str(finding).startswith("tests/a/test_b.py:2")
    assert list(check.check_text(Path("tests/a/test_b.py"), "from a_conftest import Site\n")) == []
