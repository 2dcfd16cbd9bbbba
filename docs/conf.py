"""Sphinx settings of the documentation site (`make docs`)."""

import hither

project = "hither"
author = "the hither developers"
copyright = "2026, the hither developers"  # noqa: A001
release = version = hither.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = f"hither {release}"

# Anchors for every heading down to the third level, as links between pages use them.
myst_heading_anchors = 3
# Fields named `bytes` of several classes: Sphinx takes each mention of the built-in type for one of them.
suppress_warnings = ["ref.python"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_google_docstring = False
