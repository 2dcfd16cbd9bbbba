"""Examples in the package's docstrings print the shown output, with a real server."""

import doctest
import importlib
import inspect
import pkgutil
import shutil
import sys
from pathlib import Path

import pytest
from serving import Loopback, servers, talkfile

import hither

MODULES = ["hither", "hither.exceptions", "hither.fsspec", "hither.uproot"]
# The server in the examples, which is that of the README.
WRITTEN = "http://127.0.0.1:8080"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def is_own(value: object) -> bool:
    return (getattr(value, "__module__", None) or "").partition(".")[0] == "hither"


def documented():
    """Return the docstrings of modules, classes, functions, methods and properties, by name."""
    found = {}
    for info in pkgutil.walk_packages(hither.__path__, "hither."):
        if info.name == "hither.__main__":
            continue
        module = importlib.import_module(info.name)
        found[info.name] = module.__doc__
        for name, value in vars(module).items():
            if is_own(value) and (inspect.isclass(value) or inspect.isroutine(value)):
                found[f"{value.__module__}.{name}"] = value.__doc__
                for member, it in vars(value).items() if inspect.isclass(value) else ():
                    if inspect.isroutine(it) or inspect.isdatadescriptor(it):
                        found[f"{value.__module__}.{name}.{member}"] = it.__doc__
    found["hither"] = hither.__doc__
    return {name: text for name, text in found.items() if text}


DOCUMENTED = documented()
EXAMPLES = {name: text for name, text in DOCUMENTED.items() if ">>>" in text}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """`hither serve` with the files of the examples: the talk's tree in a file and in two runs."""
    sample = talkfile.DEFAULT_OUTPUT.with_name("small.root")
    talkfile.ensure(sample, events=3000)
    folder = tmp_path_factory.mktemp("examples")
    (folder / "runs").mkdir()
    for name in ("talk.root", "runs/run1.root", "runs/run2.root"):
        shutil.copy(sample, folder / name)
    port = servers.free_port()
    flags = servers.with_config(["--write", "--listen", f"127.0.0.1:{port}"])
    command = [sys.executable, "-m", "hither", "serve", str(folder), *flags]
    with servers.running(Loopback(), command, port, tmp_path_factory.mktemp("log") / "serve.log"):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_print_what_they_show(url, name):
    text = EXAMPLES[name].replace(WRITTEN, url)
    test = doctest.DocTestParser().get_doctest(text, {"hither": hither}, name, name, 0)
    printed = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=printed.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(printed)


def test_every_example_is_run():
    sources = "".join(it.read_text() for it in Path(hither.__file__).parent.rglob("*.py"))
    run = sum(text.count(">>> ") for name, text in EXAMPLES.items() if not name.startswith("hither._core"))
    assert run == sources.count(">>> ") > 50
    assert not any("+SKIP" in text for text in EXAMPLES.values())


def public():
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            # One example in the base class shows the use of all exceptions.
            is_error = inspect.isclass(value) and issubclass(value, hither.HitherError)
            if callable(value) and (not is_error or value is hither.HitherError):
                yield f"{module.__name__}.{name}", value


@pytest.mark.parametrize(("name", "value"), [pytest.param(*it, id=it[0]) for it in public()])
def test_every_public_class_and_function_has_an_example(name, value):
    assert ">>>" in (value.__doc__ or ""), name
