"""The tutorial runs from its first cell to its last, with a real server, and plots."""

import base64
import io
import os
import sys
from pathlib import Path

import pytest
from needs import python_package

nbclient = python_package("nbclient")
nbformat = python_package("nbformat")
python_package("ipykernel")
image = python_package("matplotlib.image")

from samples import REPOSITORY  # noqa: E402
from serving import serving, talkfile  # noqa: E402

NOTEBOOK = REPOSITORY / "docs" / "guides" / "tutorial.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    path = talkfile.DEFAULT_OUTPUT.with_name("small.root")
    talkfile.ensure(path, events=3000)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    folder = tmp_path_factory.mktemp("tutorial")
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), "IPYTHONDIR": str(folder), "PYTHONWARNINGS": "ignore"}
    with serving("nginx", path.resolve().parent) as url:
        environment["HITHER_TUTORIAL_URL"] = f"{url}/{path.name}"
        client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3")
        manager = client.create_kernel_manager()
        # The interpreter of the tests, independent of registered kernels.
        manager.kernel_spec.argv[0] = sys.executable
        # A port would be chosen now and bound later, when another program may have it.
        manager.transport, manager.ip = "ipc", str(folder / "kernel")
        client.execute(cwd=str(NOTEBOOK.parent), env=environment)
    kept = os.environ.get("HITHER_TUTORIAL_EXECUTED")
    if kept:
        nbformat.write(notebook, Path(kept))
    return notebook


def outputs(notebook, kind):
    return [
        output["data"][kind]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if kind in output.get("data", {})
    ]


def printed(notebook):
    streams = [
        output for cell in notebook.cells for output in cell.get("outputs", []) if output.get("name") == "stdout"
    ]
    return "".join(stream.text for stream in streams)


def test_the_tutorial_runs_and_prints_the_expected_text(executed):
    cells = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    text = printed(executed)
    assert "3000 entries of 152 branches" in text
    assert "did you mean `rawtr`?" in text
    assert "round trips" in text
    assert "b'root'" in text


def test_the_tutorial_draws_a_distribution(executed):
    (picture,) = outputs(executed, "image/png")
    pixels = image.imread(io.BytesIO(base64.b64decode(picture)))
    assert pixels.shape[0] > 200
    colours = {tuple(pixel) for row in (pixels[:, :, :3] * 7).round() for pixel in row}
    assert len(colours) > 3, "axes without a histogram"


def test_the_tutorial_shows_where_the_time_went(executed):
    (shown,) = [html for html in outputs(executed, "text/html") if "<svg" in html]
    assert "find the tree" in shown
    assert "round trips" in shown


def test_the_tutorial_is_kept_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
